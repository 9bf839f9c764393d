//! Recall moments with the answer and the session's actions, for people to grade.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Options;
use crate::history::{History, short};
use crate::report::first_of;
use crate::session::{Case, Kind};

/// Writes `sample-SEED.md`. The draw depends on the moment only, so that two versions of the program are graded on the same
/// moments where both have an answer.
pub fn write(cases: &[Case], histories: &[History], options: &Options, folder: &Path) -> Result<PathBuf> {
    let mut text = format!("# Context that sessions got, seed {}\n", options.seed);
    let firsts = first_of(cases, Kind::Prompt);
    for (kind, name, count) in [
        (Kind::Start, "Starts", options.starts),
        (Kind::Prompt, "Prompts", options.moments),
        (Kind::Edit, "Edits", options.moments),
        (Kind::Failure, "Failures", options.moments),
    ] {
        let mut drawn: Vec<&Case> = cases
            .iter()
            .filter(|case| case.kind == kind && !case.text.is_empty())
            .filter(|case| kind != Kind::Start || case.number == 1)
            .collect();
        drawn.sort_by_cached_key(|case| {
            xxh3_64_with_seed(format!("{}:{}", case.session, case.number).as_bytes(), options.seed)
        });
        drawn.truncate(count);
        writeln!(text, "\n# {name}: {}", drawn.len())?;
        for (at, case) in drawn.iter().enumerate() {
            writeln!(
                text,
                "\n## {} {}: {}, session {}, moment {}",
                name,
                at + 1,
                case.project,
                case.session,
                case.number
            )?;
            if kind != Kind::Start {
                writeln!(text, "\n**Asked**\n\n{}", quoted(&case.asked))?;
            }
            writeln!(text, "\n**Answer** ({} tokens)\n\n{}", case.tokens, quoted(&case.text))?;
            if let Some(first) = firsts.get(case.session.as_str()).filter(|_| kind == Kind::Start) {
                writeln!(
                    text,
                    "\n**With the first prompt** ({} tokens)\n\n{}",
                    first.tokens,
                    quoted(&first.text)
                )?;
            }
            story(&mut text, case, histories)?;
        }
    }
    let file = folder.join(format!("sample-{}.md", options.seed));
    std::fs::write(&file, text)?;
    Ok(file)
}

fn story(text: &mut String, case: &Case, histories: &[History]) -> Result<()> {
    let Some(session) = histories.iter().find_map(|history| history.session(&case.session)) else {
        return Ok(());
    };
    let most = if case.kind == Kind::Start { 24 } else { 8 };
    writeln!(text, "\n**The session**\n")?;
    for line in session.story.iter().take(most) {
        writeln!(text, "- {line}")?;
    }
    let files = session.edited.join(", ");
    writeln!(text, "- EDITED: {}", short(&files, 900))?;
    Ok(())
}

fn quoted(text: &str) -> String {
    let mut lines: Vec<String> =
        text.lines().take(60).map(|line| format!("> {}", short(line, 900))).collect();
    if lines.is_empty() {
        lines.push("> (nothing)".into());
    }
    lines.join("\n")
}
