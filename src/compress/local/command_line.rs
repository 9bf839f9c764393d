//! What a command line says by itself, before it is known how it ended: its main part, what makes it the same command
//! as another, and the files that the shell changes by it.

use super::edits::{Edit, How};
use super::place::{Place, extension, file_name};
use super::programs::{Purpose, purpose, unwrapped};
use super::shell::Simple;
use super::text::{each, shorten};

pub(super) const LINE_COLUMNS: usize = 70;

/// The part of the line that matters most; of equals the first.
pub(super) fn main_part(parts: &[Simple]) -> Option<&Simple> {
    let mut best: Option<(&Simple, Purpose)> = None;
    for part in parts {
        let purpose = purpose(part);
        if best.is_none_or(|(_, known)| purpose > known) {
            best = Some((part, purpose));
        }
    }
    best.map(|(part, _)| part)
}

/// The command as it is told.
pub(super) fn displayed(simple: &Simple) -> String {
    let quoted = unwrapped(&simple.words).iter().map(|word| match word.contains([' ', '\n', ';', '|']) {
        true if word.contains('\'') => format!("\"{word}\""),
        true => format!("'{word}'"),
        false => word.clone(),
    });
    shorten(&quoted.collect::<Vec<_>>().join(" ").replace('`', ""), LINE_COLUMNS)
}

/// The program and the words that choose what it does.
pub(super) fn key(simple: &Simple) -> String {
    let words = unwrapped(&simple.words);
    let Some(program) = words.first() else { return String::new() };
    let program = file_name(program);
    let mut plain = words.iter().skip(1).map(String::as_str).filter(|word| !word.starts_with(['-', '+']));
    let mut parts = vec![program];
    match program {
        "cargo" | "go" | "git" | "dotnet" | "mix" | "swift" | "make" | "just" | "task" | "bundle"
        | "kubectl" | "terraform" | "gradle" | "gradlew" | "mvn" | "mvnw" | "bazel" | "rake" | "composer" => {
            parts.extend(plain.next());
        }
        "npm" | "pnpm" | "yarn" | "bun" | "deno" | "docker" | "gh" | "uv" | "poetry" => {
            let first = plain.next();
            parts.extend(first);
            if matches!(first, Some("run" | "compose" | "pr" | "pip")) {
                parts.extend(plain.next());
            }
        }
        "python" | "python3" | "node" | "ruby" | "php" | "bash" | "sh" | "deploy" => {
            parts.extend(plain.next().filter(|word| !word.contains([' ', '\n'])));
        }
        _ => {}
    }
    // `cargo nextest run` and `cargo test` answer the same question.
    let key = shorten(&parts.join(" "), 60);
    if key == "cargo nextest" { "cargo test".to_owned() } else { key }
}

/// Words that narrow a command down.
pub(super) fn arguments(simple: &Simple) -> Vec<String> {
    let words = unwrapped(&simple.words);
    let chosen: Vec<String> = key(simple).split(' ').map(str::to_owned).collect();
    let mut arguments = Vec::new();
    let mut is_value = false;
    for word in words.iter().skip(1).take(24) {
        let value_of_option = std::mem::replace(
            &mut is_value,
            matches!(word.as_str(), "-p" | "-n" | "-j" | "--jobs" | "--package"),
        );
        if !word.starts_with('-')
            && !value_of_option
            && !chosen.contains(word)
            && word != "run"
            && word != "nextest"
        {
            arguments.push(shorten(word, 100));
        }
    }
    arguments
}

/// What an installation names.
pub(super) fn packages(simple: &Simple) -> Vec<String> {
    const VERBS: &str = "install|add|i|get|pip|sync|update|upgrade|ci|mod|tidy|remove|uninstall|lock";
    let named = |word: &&String| {
        !word.starts_with(['-', '.', '/'])
            && each(VERBS).all(|verb| verb != *word)
            && extension(word) != "txt"
    };
    unwrapped(&simple.words).iter().skip(1).filter(named).map(|word| shorten(word, 60)).take(12).collect()
}

/// Files that the shell itself wrote, moved or removed.
pub(super) fn changes(parts: &[Simple], place: &Place<'_>) -> Vec<Edit> {
    let mut changes = Vec::new();
    let mut cwd = place.cwd.map(str::to_owned);
    for part in parts {
        if let [program, folder] = part.words.as_slice()
            && program == "cd"
        {
            let base = cwd.filter(|_| !folder.starts_with(['/', '~'])).map(|cwd| format!("{cwd}/"));
            cwd = Some(format!("{}{folder}", base.unwrap_or_default()));
            continue;
        }
        part_changes(part, &Place { root: place.root, cwd: cwd.as_deref() }, &mut changes);
    }
    changes.truncate(24);
    changes
}

fn part_changes(part: &Simple, place: &Place<'_>, changes: &mut Vec<Edit>) {
    let is_plain = |word: &&String| {
        !word.contains(['*', '$', '?', '{', ' ', '\n']) && place.owns(word) && !word.starts_with('-')
    };
    for (target, appended) in &part.writes {
        if is_plain(&target) && !target.starts_with("/dev/") {
            changes.push(Edit::written(place.relative(target), *appended, part.heredoc.as_deref()));
        }
    }
    let words = unwrapped(&part.words);
    let words = if words.first().is_some_and(|word| word == "git") { &words[1..] } else { words };
    let Some(program) = words.first() else { return };
    let files: Vec<&String> = words[1..].iter().filter(is_plain).collect();
    match (program.as_str(), files.as_slice()) {
        ("rm", files) => {
            let named = files.iter().filter(|file| is_file_name(file));
            changes.extend(named.map(|file| Edit::bare(place.relative(file), How::Deleted)));
        }
        ("mv", [from, to]) => {
            let into = format!("{}/{}", to.trim_end_matches('/'), file_name(from));
            let to = if is_file_name(to) { to.as_str() } else { &into };
            changes.push(Edit::bare(place.relative(to), How::MovedFrom(place.relative(from))));
        }
        ("sed" | "perl", [.., file]) if purpose(part) == Purpose::Files && is_file_name(file) => {
            changes.push(Edit::bare(place.relative(file), How::Changed));
        }
        _ => {}
    }
}

/// Rather a file than a folder, by its name.
fn is_file_name(path: &str) -> bool {
    !extension(path).is_empty() && !path.ends_with('/')
}
