//! Commits, pushes and pull requests, from the command line and its output.

use super::programs::unwrapped;
use super::shell::Simple;
use crate::text::{head, shorten};

/// A commit that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its short id.
    pub id: Option<String>,
    /// The first line of its message.
    pub subject: String,
    /// The rest of its message, line by line, without trailers.
    pub body: String,
}

impl Commit {
    /// The subject of the commit that this one reverts, by git's own wording.
    pub fn reverts(&self) -> Option<String> {
        let subject = self.subject.strip_prefix("Revert \"")?.strip_suffix('"')?;
        (!subject.is_empty()).then(|| subject.to_owned())
    }
}

const SUBJECT_COLUMNS: usize = 120;
const BODY_BYTES: usize = 1_200;

/// The commits that a command made: from git's own output, else, if it succeeded, from the message that it was given.
pub(crate) fn commits(commands: &[Simple], output: &str, went_well: bool) -> Vec<Commit> {
    let messages: Vec<(String, String)> =
        commands.iter().filter(|simple| runs_git(simple, "commit")).map(message).collect();
    // An amended commit without a new message is the work of an earlier turn.
    let only_amends =
        |simple: &Simple| simple.words.iter().any(|word| word == "--amend") && message(simple).0.is_empty();
    // Replayed commits are earlier work, too.
    let replays = |simple: &Simple| runs_git(simple, "rebase") || runs_git(simple, "cherry-pick");
    if commands.iter().any(only_amends) || commands.iter().any(replays) {
        return Vec::new();
    }
    let mut printed: Vec<Commit> = output.lines().filter_map(printed_commit).take(16).collect();
    // A wrapper may report success and print the failure.
    let lower = output.to_lowercase();
    let tells_failure = lower.contains("fail") || lower.contains("error");
    if printed.is_empty() && (!went_well || tells_failure) {
        return Vec::new();
    }
    if printed.is_empty() {
        let given = messages.into_iter().filter(|(subject, _)| !subject.is_empty());
        return given.map(|(subject, body)| Commit { id: None, subject, body }).collect();
    }
    for (commit, (subject, body)) in printed.iter_mut().zip(messages) {
        if commit.subject == subject {
            commit.body = body;
        }
    }
    printed
}

fn runs_git(simple: &Simple, verb: &str) -> bool {
    let words = unwrapped(&simple.words);
    words.first().is_some_and(|word| word == "git") && words.iter().any(|word| word == verb)
}

/// `[main 1a2b3c4] Subject`, `[main (root-commit) 1a2b3c4] Subject`.
fn printed_commit(line: &str) -> Option<Commit> {
    let (place, subject) = line.trim().strip_prefix('[')?.split_once("] ")?;
    let id = place.split(' ').next_back().filter(|_| place.contains(' '))?;
    let is_id = (7..=40).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| Commit {
        id: Some(id.to_owned()),
        subject: shorten(subject, SUBJECT_COLUMNS),
        body: String::new(),
    })
}

/// The message that `git commit` was given by `-m`, `-F -` or a text in a substitution.
fn message(simple: &Simple) -> (String, String) {
    let mut parts = Vec::new();
    let mut words = simple.words.iter();
    while let Some(word) = words.next() {
        let is_short = word.starts_with('-') && !word.starts_with("--") && word.ends_with('m');
        if is_short || word == "--message" {
            parts.extend(words.next().map(|text| without_substitution(text)));
        } else if let Some(text) = word.strip_prefix("--message=") {
            parts.push(without_substitution(text));
        }
    }
    if let (true, Some(text)) = (parts.is_empty(), &simple.heredoc) {
        parts.push(text);
    }
    let whole = parts.join("\n");
    let mut lines = whole.lines().filter(|line| !line.trim().is_empty() && !is_trailer(line.trim()));
    let subject = lines.next().map(|line| shorten(line.trim(), SUBJECT_COLUMNS)).unwrap_or_default();
    let body = lines.collect::<Vec<_>>().join("\n");
    (subject, head(&body, BODY_BYTES).to_owned())
}

/// The text of `$(cat <<'EOF' … EOF)`.
fn without_substitution(text: &str) -> &str {
    let Some(rest) = text.trim_start().strip_prefix("$(cat <<") else { return text };
    let body = rest.split_once('\n').map_or("", |(_, body)| body);
    body.trim_end_matches([')', '\n', ' ']).rsplit_once('\n').map_or(body, |(body, _end)| body)
}

fn is_trailer(line: &str) -> bool {
    let lower = line.to_lowercase();
    ["co-authored-by:", "signed-off-by:", "🤖 generated", "generated with "]
        .iter()
        .any(|start| lower.starts_with(start))
}

/// The address of a pull request, merge request or issue that the output names.
pub(crate) fn request_address(output: &str) -> Option<String> {
    output.split_whitespace().find_map(|word| {
        let known = ["/pull/", "/merge_requests/", "/issues/"].iter().any(|part| word.contains(part));
        (known && word.starts_with("https://")).then(|| shorten(word, 120))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::shell::split;

    #[test]
    fn gits_own_words_come_first_and_the_body_from_the_command() {
        let command = "git add -A && git commit -m \"$(cat <<'EOF'\nFix greeting typo\n\nIt said \"Helo\" (sic).\n\n🤖 Generated with [Claude Code](https://x)\n\nCo-Authored-By: Claude <x@y>\nEOF\n)\" && git push";
        let output = "[main 1a2b3c4] Fix greeting typo\n 1 file changed, 1 insertion(+), 1 deletion(-)\nTo github.com:dev/project.git\n   0011223..1a2b3c4  main -> main";
        let commits = commits(&split(command).commands, output, false);
        assert_eq!(
            commits,
            [Commit {
                id: Some("1a2b3c4".into()),
                subject: "Fix greeting typo".into(),
                body: "It said \"Helo\" (sic).".into()
            }]
        );
    }

    #[test]
    fn a_quiet_commit_is_described_by_its_message() {
        let quiet =
            commits(&split("git commit -qam 'Add retry' -m 'Uploads fail on 503.'").commands, "", true);
        assert_eq!(
            (quiet[0].subject.as_str(), quiet[0].body.as_str()),
            ("Add retry", "Uploads fail on 503.")
        );
        assert_eq!(commits(&split("git commit --amend --no-edit -q").commands, "", true), []);
        assert_eq!(commits(&split("git commit -m 'refused by a hook'").commands, "lint failed", false), []);
        let wrapped = split("rtk git add a && rtk git commit -m 'Add retry'");
        assert_eq!(commits(&wrapped.commands, "ok ✓", true).len(), 1);
        assert_eq!(commits(&wrapped.commands, "FAILED: git commit\nerror: lint", true), []);
        assert_eq!(commits(&split("git log").commands, "[not a commit] at all", true), []);
    }

    #[test]
    fn addresses_of_requests_are_recognised() {
        assert_eq!(
            request_address("Done\nhttps://github.com/a/b/pull/12\n").as_deref(),
            Some("https://github.com/a/b/pull/12")
        );
    }
}
