//! Moments with the memory's answer and the session's actions, for people to grade.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use claude_mem::store::context::ContextMemory;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Options;
use crate::facts;
use crate::history::{History, Session, short};
use crate::report::first_of;
use crate::session::{Case, Kind};

/// Steps of a session that are printed: for a start from its beginning, for another moment before and after it.
const STEPS: usize = 28;
const BEFORE: usize = 2;
const AFTER: usize = 6;
/// Commands of a session that are listed.
const COMMANDS: usize = 12;

const HOW_TO_READ: &str = "
Grade without looking at any other grade. Write one line per item: its number and the answers.

- **Starts (A)**: for every line `L`: `y` if it had to do with what the session then did (its task, its files, a command that it
  ran, a decision that it relied on), else `n`. Then of the candidates `F`, and of the other lines, list the facts that the
  session *needed*: it used them, asked for them, or found them out again. Give for each `shown` if some line `L` says it, else
  `missing`. A candidate that only touches the same file is not needed. A session that needed nothing has none.
- **Prompts (B)**, **edits (C)**, **failures (D)**: for every item `y` if at least one line would have helped with this prompt,
  this edit or this failure, or says something that one has to know for it, else `n`. For a failure the repair must be right.

To count: relevant lines = `y` of all `L`; needed facts = `shown` of all needed; B, C and D = `y` of all items.
";

/// Writes `sample-SEED.md`. The draw depends on the moment only, so that two versions of the program are graded on the same
/// moments where both have an answer.
pub fn write(cases: &[Case], histories: &[History], options: &Options, folder: &Path) -> Result<PathBuf> {
    let mut text = format!("# Memories that sessions got, seed {}\n{HOW_TO_READ}", options.seed);
    let sample = Sample { histories, firsts: first_of(cases, Kind::Prompt) };
    for (kind, letter, name, count) in [
        (Kind::Start, 'A', "Starts", options.starts),
        (Kind::Prompt, 'B', "Prompts", options.moments),
        (Kind::Edit, 'C', "Edits", options.moments),
        (Kind::Failure, 'D', "Failures", options.moments),
    ] {
        let drawn = draw(cases, kind, count, options.seed);
        writeln!(text, "\n# {letter}. {name}: {}", drawn.len())?;
        for (at, case) in drawn.iter().enumerate() {
            writeln!(text, "\n## {letter}{}: {}, session {}", at + 1, case.project, case.session)?;
            match kind {
                Kind::Start => sample.start(&mut text, case)?,
                _ => sample.moment(&mut text, case)?,
            }
        }
    }
    let file = folder.join(format!("sample-{}.md", options.seed));
    std::fs::write(&file, text)?;
    Ok(file)
}

/// Draws by a hash of the moment. Of failures with one repair only some are drawn, so that there is room for others.
fn draw(cases: &[Case], kind: Kind, count: usize, seed: u64) -> Vec<&Case> {
    let mut drawn: Vec<&Case> = cases
        .iter()
        .filter(|case| case.kind == kind && !case.text.is_empty())
        .filter(|case| kind != Kind::Start || case.number == 1)
        .collect();
    drawn.sort_by_cached_key(|case| {
        xxh3_64_with_seed(format!("{}:{}", case.session, case.number).as_bytes(), seed)
    });
    let mut same: HashMap<String, usize> = HashMap::new();
    drawn.retain(|case| {
        let alike = same.entry(repair(case)).or_default();
        *alike += 1;
        kind != Kind::Failure || *alike <= MOST_ALIKE
    });
    drawn.truncate(count);
    drawn
}

/// Failures with the same repair that are drawn.
const MOST_ALIKE: usize = 3;

/// The answer without its age.
pub fn repair(case: &Case) -> String {
    let text: String = case.lines.iter().map(|(_, line)| line.as_str()).collect();
    text.split_once(": ").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

struct Sample<'a> {
    histories: &'a [History],
    firsts: HashMap<&'a str, &'a Case>,
}

impl Sample<'_> {
    fn session(&self, case: &Case) -> Option<(&History, &Session)> {
        let of = |history| Some((history, History::session(history, &case.session)?));
        self.histories.iter().find_map(of)
    }

    fn start(&self, text: &mut String, case: &Case) -> Result<()> {
        writeln!(text, "\n**At the start** ({} tokens)\n", case.tokens)?;
        lines(text, &case.lines, 0)?;
        if let Some(first) = self.firsts.get(case.session.as_str()) {
            writeln!(text, "\n**With the first prompt** ({} tokens)\n", first.tokens)?;
            lines(text, &first.lines, case.lines.len())?;
        }
        let Some((history, session)) = self.session(case) else { return Ok(()) };
        writeln!(text, "\n**What the session then did**\n")?;
        for step in session.story.iter().take(STEPS) {
            writeln!(text, "- {}", step.text)?;
        }
        files_and_commands(text, session)?;
        writeln!(text, "\n**Known before**: candidates for needed facts\n")?;
        let notes = facts::candidates(&history.memories, session, case.newest);
        for (at, fact) in notes.iter().map(|memory| note(memory)).chain(case.learned.clone()).enumerate() {
            writeln!(text, "- F{}: {fact}", at + 1)?;
        }
        Ok(())
    }

    fn moment(&self, text: &mut String, case: &Case) -> Result<()> {
        writeln!(text, "\n**The moment**\n\n{}", quoted(&case.asked))?;
        writeln!(text, "\n**The answer** ({} tokens)\n", case.tokens)?;
        lines(text, &case.lines, 0)?;
        let Some((_, session)) = self.session(case) else { return Ok(()) };
        let (before, after): (Vec<_>, Vec<_>) = session.story.iter().partition(|step| step.at < case.at);
        writeln!(text, "\n**Before it, and after it**\n")?;
        for step in before.iter().skip(before.len().saturating_sub(BEFORE)) {
            writeln!(text, "- {}", step.text)?;
        }
        writeln!(text, "- (here)")?;
        for step in after.iter().take(AFTER) {
            writeln!(text, "- {}", step.text)?;
        }
        Ok(())
    }
}

fn lines(text: &mut String, lines: &[(&'static str, String)], before: usize) -> Result<()> {
    if lines.is_empty() {
        writeln!(text, "- (nothing)")?;
    }
    for (at, (layer, line)) in lines.iter().enumerate() {
        let layer = if layer.is_empty() { String::new() } else { format!(" [{layer}]") };
        writeln!(text, "- L{}{layer}: {line}", before + at + 1)?;
    }
    Ok(())
}

fn files_and_commands(text: &mut String, session: &Session) -> Result<()> {
    let commands = session.commands.iter().take(COMMANDS).map(|command| format!("`{command}`"));
    writeln!(text, "- EDITED: {}", short(&session.edited.join(", "), 1200))?;
    writeln!(text, "- READ: {}", short(&session.read.join(", "), 700))?;
    writeln!(text, "- RAN: {}", commands.collect::<Vec<_>>().join(", "))?;
    Ok(())
}

fn note(memory: &ContextMemory) -> String {
    let files = short(&memory.files_modified.join(", "), 160);
    format!("#{} {}: {}. {} ({files})", memory.id, memory.kind, memory.title, short(&memory.summary, 320))
}

fn quoted(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty()).take(24);
    lines.map(|line| format!("> {}", short(line, 240))).collect::<Vec<_>>().join("\n")
}
