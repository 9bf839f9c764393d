//! The wording of a memory: whole statements, the reason among them, without filler.

use super::words::{SeenText, WordSet, near};
use crate::project::without_worktree;
use crate::store::context::ContextMemory;
use crate::text::line::one_line;

/// Room for one memory, in characters. A reason may exceed the usual one; a cut inside a statement never happens below the longest.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    usual: usize,
    longest: usize,
}

/// For a line that stands alone or leads.
pub const WIDE: Room = Room { usual: 320, longest: 620 };
/// For one of three that share the tokens of a prompt.
#[cfg(feature = "service")]
pub const NARROW: Room = Room { usual: 190, longest: 320 };
/// Longest title, in characters.
const TITLE: usize = 150;

/// A memory in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wording {
    /// Its title, unless it was shown already.
    pub title: String,
    /// Its statements, the reason whole.
    pub statements: Vec<String>,
    /// True if one of them gives a reason.
    pub has_reason: bool,
}

impl Wording {
    /// Chooses the statements of a memory, without repetitions of earlier lines.
    pub fn of(memory: &ContextMemory, seen: &SeenText, roots: &[&str], room: Room) -> Self {
        let Parts { title, summary, more } = Parts::of(memory, seen, roots, room);
        let mut choice = Choice::new(&summary, title.len(), room);
        if let Some(at) = summary.iter().position(|text| gives_reason(text)) {
            choice.take(at, room.longest + room.usual);
        }
        (0..summary.len())
            .filter(|at| gives_reason(&summary[*at]))
            .for_each(|at| choice.take(at, room.usual + room.usual / 2));
        (0..summary.len()).for_each(|at| choice.take(at, room.usual));
        choice.take_any();
        Self::with_reason(title, choice.chosen(), more, seen, room)
    }

    /// Chooses the statements of a memory that weigh most, those with a reason before others; as [`Wording::of`] if none weighs
    /// anything.
    #[cfg(feature = "service")]
    pub fn about(memory: &ContextMemory, roots: &[&str], room: Room, weight: impl Fn(&str) -> f64) -> Self {
        /// Further statements weigh at least this share of the best one.
        const NEXT: f64 = 0.4;
        const WITH_REASON: f64 = 1.4;
        let seen = SeenText::default();
        let Parts { title, mut summary, more } = Parts::of(memory, &seen, roots, room);
        summary.extend(more.iter().cloned());
        let weigh = |text: &String| weight(text) * if gives_reason(text) { WITH_REASON } else { 1.0 };
        let mut ranked: Vec<(f64, usize)> =
            summary.iter().enumerate().map(|(at, text)| (weigh(text), at)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = ranked.first().map_or(0.0, |(weight, _)| *weight);
        if best <= 0.0 {
            return Self::of(memory, &seen, roots, room);
        }
        let mut choice = Choice::new(&summary, title.len(), room);
        choice.take(ranked[0].1, room.longest + room.usual);
        for (weight, at) in ranked.into_iter().filter(|(weight, _)| *weight >= NEXT * best) {
            let is_reason = weight > 0.0 && gives_reason(&summary[at]);
            choice.take(at, if is_reason { room.usual + room.usual / 2 } else { room.usual });
        }
        Self::with_reason(title, choice.chosen(), more, &seen, room)
    }

    /// Adds a reason if there is none yet, and leaves out a title that the statements repeat.
    fn with_reason(
        title: String,
        mut statements: Vec<String>,
        more: Vec<String>,
        seen: &SeenText,
        room: Room,
    ) -> Self {
        let is_reason = |text: &String| gives_reason(text) || text.starts_with("User");
        if !statements.iter().any(|text| gives_reason(text)) {
            let reason = more.into_iter().find(|text| is_reason(text) && !statements.contains(text));
            statements.extend(reason.filter(|text| text.len() <= room.usual));
        }
        let has_reason = statements.iter().any(is_reason);
        // A statement that begins with the title, and one that was shown already, needs none.
        let words = WordSet::of(&[&title]);
        let is_said =
            seen.has(&words) || statements.iter().any(|text| words.is_within(&WordSet::of(&[text])));
        Self {
            title: if is_said && !statements.is_empty() { String::new() } else { title },
            statements,
            has_reason,
        }
    }

    /// On one line.
    pub fn text(&self) -> String {
        let mut text = self.title.clone();
        for statement in &self.statements {
            if !text.is_empty() {
                text.push_str(if text.ends_with(['.', '!', '?', ':', '。']) { " " } else { ". " });
            }
            text.push_str(statement);
        }
        text
    }
}

/// The statements of a memory that may be shown.
struct Parts {
    title: String,
    summary: Vec<String>,
    /// The user's decisions, then the details.
    more: Vec<String>,
}

impl Parts {
    fn of(memory: &ContextMemory, seen: &SeenText, roots: &[&str], room: Room) -> Self {
        let title = tidy(&memory.title, roots);
        let title = one_line(title.trim_end_matches(['.', '…', ' ']), TITLE);
        let is_new = |text: &String| {
            !text.is_empty()
                && !is_filler(text)
                && !text.ends_with(':')
                && !near(text, &title)
                && !seen.has(&WordSet::of(&[text]))
        };
        let of = |text: &str| -> Vec<String> {
            let whole = statements(&tidy(text, roots)).into_iter().map(|text| one_line(&text, room.longest));
            whole.filter(is_new).collect()
        };
        let facts = memory.facts.iter().map(|fact| one_line(&tidy(fact, roots), room.longest));
        let decisions = facts.filter(|fact| fact.starts_with("User")).filter(is_new);
        let more = decisions.chain(of(&memory.detail)).collect();
        Self { summary: of(&memory.summary), more, title }
    }
}

/// Statements that are chosen as far as there is room.
struct Choice<'a> {
    from: &'a [String],
    is_chosen: Vec<bool>,
    length: usize,
    room: Room,
}

impl<'a> Choice<'a> {
    fn new(from: &'a [String], length: usize, room: Room) -> Self {
        Self { from, is_chosen: vec![false; from.len()], length, room }
    }

    /// Takes a statement if all together stay within this length.
    fn take(&mut self, at: usize, most: usize) {
        if !self.is_chosen[at] && self.length + self.from[at].len() <= most {
            self.length += self.from[at].len() + 1;
            self.is_chosen[at] = true;
        }
    }

    /// Takes the first statement if there is none yet.
    fn take_any(&mut self) {
        if !self.is_chosen.contains(&true) && !self.from.is_empty() {
            self.take(0, self.room.longest + self.room.usual);
        }
    }

    fn chosen(self) -> Vec<String> {
        self.from
            .iter()
            .zip(self.is_chosen)
            .filter(|(_, is_so)| *is_so)
            .map(|(text, _)| text.clone())
            .collect()
    }
}

/// The text with paths as people in the project write them, and without labels of our own.
pub fn tidy(text: &str, roots: &[&str]) -> String {
    let mut text = text.to_owned();
    for root in roots.iter().filter(|root| root.len() > 1) {
        if text.contains(root) {
            text = text.replace(&format!("{root}/"), "");
        }
    }
    if text.contains("worktrees/") {
        let bare = |word: &str| {
            let start = word.find(['.', '/']).filter(|at| word[..*at].chars().all(|c| !c.is_alphanumeric()));
            let start = start.unwrap_or_default();
            format!("{}{}", &word[..start], without_worktree(&word[start..]))
        };
        text = text.split(' ').map(bare).collect::<Vec<_>>().join(" ");
    }
    let labels = ["Asked: ", "Requested: ", "RelevanceQuery: "];
    match labels.iter().find_map(|label| text.strip_prefix(label)) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}

/// The part of a prompt that has its topic: a plan from its heading on, any other prompt as a whole.
pub fn topic(prompt: &str) -> &str {
    let is_plan = prompt.starts_with("Implement the following plan");
    prompt.find("\n#").filter(|_| is_plan).map_or(prompt, |at| &prompt[at + 1..])
}

/// A prompt as a title: the heading of a plan, any other prompt as a whole.
pub fn title_of(prompt: &str) -> &str {
    let topic = topic(prompt);
    if topic.len() == prompt.len() {
        return prompt;
    }
    let heading = topic.lines().next().unwrap_or(topic).trim_start_matches(['#', ' ']);
    heading.strip_prefix("Plan:").map_or(heading, str::trim_start)
}

/// The text, or as many of its clauses as fit, marked.
pub fn clause(text: &str, limit: usize) -> String {
    let Some((end, _)) = text.char_indices().nth(limit) else { return text.to_owned() };
    let head = &text[..end];
    let cut = ["; ", ", ", " — ", " - ", " ("].iter().filter_map(|mark| head.rfind(mark)).max();
    match cut.filter(|cut| *cut > end / 2) {
        Some(cut) => format!("{}…", &head[..cut]),
        None => crate::text::line::shorten(text, limit),
    }
}

/// The sentences of a text. A period inside code, a name or a number ends none.
pub fn statements(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut begin, mut in_code) = (0, false);
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        in_code ^= char == '`';
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match char {
            '。' | '！' | '？' | '\n' => true,
            '.' | '!' | '?' if !in_code && next.is_none_or(char::is_whitespace) => {
                let rest = text[at + 1..].trim_start();
                let is_short = text[begin..at].rsplit([' ', '(']).next().is_some_and(|word| {
                    ["e.g", "i.e", "etc", "vs", "approx", "cf", "z.B", "bzw"].contains(&word)
                });
                let is_number = text[begin..at].rsplit([' ', ':']).next().is_some_and(|word| {
                    (1..=2).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
                });
                !is_short && !is_number && !rest.starts_with(char::is_lowercase)
            }
            _ => false,
        };
        if ends {
            let end = at + char.len_utf8();
            found.push(text[begin..end].trim().to_owned());
            begin = end;
        }
    }
    found.push(text[begin..].trim().to_owned());
    found.retain(|statement| !statement.is_empty());
    found
}

/// Signs of a reason, in lower case.
const REASONS: &str = "because|due to|caused by|root cause|so that|otherwise|therefore|in order to|instead of|rather than|\
    to avoid|to prevent|to ensure|to make sure|to keep|to allow|to stop|to match|which mean|which cause|this cause|\
    which break|which made|which led|this means|that's why|leading to|as a result|needed to|needed because|needed for|\
    the problem was|the problem is|the issue was|the issue is|the bug was|the bug is|the cause was|the reason|since the|\
    since it|since we|since they|since no|, so | so the | so it |without it|without this|would have|would otherwise|\
    never |must not|weil |damit |sonst |wegen |anstatt|statt |parce que|afin |au lieu|pour éviter|porque|para evitar|\
    因为|由于|以便|避免|所以|ため|ので|から、";

/// True if the text gives a reason, in one of the languages that are there.
pub fn gives_reason(text: &str) -> bool {
    let lower = text.to_lowercase();
    REASONS.split('|').any(|sign| lower.contains(sign))
}

/// True for a statement that any session could end with: checks that pass, work that is complete.
pub fn is_filler(statement: &str) -> bool {
    const SUBJECTS: &str = "test|lint|build|compil|typecheck|type check|type-check|check|format|quality|ci |pipeline|suite|coverage";
    const PRAISE: &str = "pass|succe|clean|green|no error|no issue|without error|0 error|0 fail|all good|works|working|\
        is up to date|no warnings|no regressions";
    const ALONE: &str = "done|all done|everything|all changes|the implementation is complete|implementation complete|\
        the changes are|changes are complete|the code is now|the code is cleaner|committed|pushed|the plan is|no further|nothing else|ready to|ready for|\
        let me know|i've|here's a summary|summary of|the turn ended without";
    const BOOKKEEPING: &str = "committed|unstaged|untouched|working tree|all clean|clear the conversation";
    const LONGEST_FILLER: usize = 130;
    let lower = statement.to_lowercase();
    if statement.chars().count() > LONGEST_FILLER || gives_reason(&lower) || lower.contains(" but ") {
        return false;
    }
    let has = |list: &str| list.split('|').any(|phrase| lower.contains(phrase));
    let begins = ALONE.split('|').any(|phrase| lower.starts_with(phrase));
    has(BOOKKEEPING) || (has(SUBJECTS) && has(PRAISE)) || (begins && lower.split_whitespace().count() <= 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_session_says_is_left_out_unless_it_gives_a_reason() {
        for filler in [
            "All 1309 tests pass.",
            "Lint is clean and the build succeeds.",
            "Done.",
            "All tests passing",
            "The two files are committed and the others remain unstaged.",
        ] {
            assert!(is_filler(filler), "{filler}");
        }
        for statement in [
            "The tests pass because the clock is fixed.",
            "The build works only on Linux, but the release job runs on macOS.",
            "Retry uploads three times.",
        ] {
            assert!(!is_filler(statement), "{statement}");
        }
    }

    #[test]
    fn a_reason_is_told_whole_however_long_the_rest_is() {
        let reason = "Passing the URL makes the engine clone the repository again, so that it evaluates the original files instead of the changed ones.";
        let filling = "A statement about something that was changed in one of the files here. ".repeat(9);
        let memory = ContextMemory {
            title: "Remove the parameter".into(),
            summary: format!("{filling}{reason} All 1309 tests pass."),
            ..ContextMemory::default()
        };
        let chosen_statements = Wording::of(&memory, &SeenText::default(), &[], WIDE).text();
        assert!(
            chosen_statements.contains(reason) && !chosen_statements.contains("1309"),
            "{chosen_statements}"
        );
        assert!(chosen_statements.len() < 800, "{}", chosen_statements.len());
    }

    #[test]
    fn paths_are_those_of_the_project() {
        let text = "Asked: change /w/app/src/a.ts and .worktrees/fix/src/b.ts, .claude/worktrees/x/c.ts";
        assert_eq!(tidy(text, &["/w/app"]), "change src/a.ts and src/b.ts, c.ts");
    }

    #[test]
    fn a_plan_is_called_by_its_heading() {
        let plan = "Implement the following plan:\n\n# Plan: Tidy the buttons\n\n## Context\nThey overlap.";
        assert_eq!(title_of(plan), "Tidy the buttons");
        assert_eq!(title_of("Tidy the buttons\n# of the card"), "Tidy the buttons\n# of the card");
    }

    #[test]
    fn statements_end_where_they_end() {
        assert_eq!(
            statements("Use v1.2 of `a. B` etc. and more. Really? Yes"),
            ["Use v1.2 of `a. B` etc. and more.", "Really?", "Yes"]
        );
    }
}
