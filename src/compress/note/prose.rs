//! Splits a closing message into statements, in order and without filler: sentences, lists with their introduction, rows of
//! tables. Each knows the kind of section that it was written in.

use std::sync::LazyLock;

use regex::Regex;

use super::filler::{is_filler, is_hedged, is_offer, without_opener};
use crate::text::{clean, each, one_line, pattern, shorten};

/// One statement of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Statement {
    /// The text on one line, without markup except for code. A list is one statement, with the line that introduces it.
    pub text: String,
    /// The heading above it, if that has content.
    pub heading: String,
    /// The line that introduces the list, without its colon; empty if there is none.
    pub lead: String,
    /// The items, if it is a list.
    pub items: Vec<String>,
    /// True for an item of a list without an introduction.
    pub is_item: bool,
    /// True for a row of a table.
    pub is_row: bool,
    /// True if it points at something that was left out: code, an offer.
    pub is_loose: bool,
    /// True for a conclusion: "Bottom line: …", "I'd recommend …".
    pub is_verdict: bool,
    /// The section that it is in.
    pub section: Section,
}

/// The kind of section, by its heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Section {
    #[default]
    Body,
    /// "Root cause", "Why", "Problem".
    Reason,
    /// "Next steps", "Not done", "Offen".
    Open,
    /// "Proposed solution", "Options": not done yet, perhaps never.
    Proposal,
    /// "Verification", "Usage", "Files changed", "Sources": useful today, not later.
    Aside,
}

impl Statement {
    /// The statement with its heading, without which it may mean little, unless the one shown before has the same.
    pub fn shown(&self, previous: Option<&Self>) -> String {
        let is_known = previous.is_some_and(|previous| previous.heading == self.heading);
        if self.heading.is_empty() || is_known {
            self.text.clone()
        } else {
            format!("{}: {}", self.heading, self.text)
        }
    }

    /// Puts its heading below another one.
    pub fn put_below(&mut self, outer: &str) {
        let separator = if self.heading.is_empty() { "" } else { ", " };
        self.heading = format!("{outer}{separator}{}", self.heading);
    }

    /// True below "Solution" or "Fix", which is no more than a proposal where nothing was changed.
    pub fn is_below_solution(&self) -> bool {
        let last = self.heading.rsplit(", ").next().unwrap_or_default().to_lowercase();
        matches!(last.as_str(), "solution" | "the solution" | "fix")
    }

    /// Its sentences, except for those that limit each other; of a list those of the introduction.
    pub fn sentences(&self) -> Vec<String> {
        let whole = sentences(if self.items.is_empty() { &self.text } else { &self.lead });
        let is_limited = |at: usize| whole.get(at + 1).is_some_and(|next| limits(next));
        let stated = whole.iter().enumerate().filter(|(at, line)| !is_limited(*at) && !limits(line));
        stated.map(|(_, line)| line.clone()).collect()
    }

    /// Its sentences and the items of its list.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.sentences().into_iter().chain(self.items.iter().cloned())
    }

    /// True if the statement gives a reason.
    pub fn gives_reason(&self) -> bool {
        self.section == Section::Reason || gives_reason(&self.text)
    }
}

/// True if the text gives a reason, in one of the supported languages.
pub(super) fn gives_reason(text: &str) -> bool {
    static REASON: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)\b(because|due\ to|caused\ by|root\ cause|so\ that|otherwise|therefore|in\ order\ to|instead\ of|rather\ than
            |since\ \S+(\ \S+){0,3}\ (is|are|was|were|does|do|did|has|have|had|can|could|will|would|only|already|never|no|not)
            |since\ \S+\ \S*(n't|s|ed)\b
            |the\ (actual\ |real\ |underlying\ )?(problem|issue|bug|cause|reason|culprit)\ (is|was|were|here|comes|came)
            |to\ (avoid|prevent|ensure|make\ sure|keep|allow|guarantee|stop|match|support)
            |(which|that|this)\ (means|meant|causes|caused|breaks|broke|led|leads|prevents|prevented|ensures|avoids|aligns|allows|makes)
            |that'?s\ why|leading\ to|as\ a\ result|needed\ (to|for|because)|so\ (the|it|we|that|they|users?|you|a|an|both|only|there)
            |weil|damit|sonst|wegen|anstatt|statt|um\ \S+(\ \S+){0,5}\ zu|parce\ que|afin|au\ lieu|pour\ (éviter|que)|para\ (que|evitar)|porque)\b
            |因为|由于|以便|避免|所以|ため|ので|から、",
        )
    });
    REASON.as_ref().is_some_and(|reason| reason.is_match(text))
}

/// Maximum length of a message that is read, in bytes. Closings have a median of 858 characters.
const MOST_BYTES: usize = 32 * 1024;
/// Maximum length of a heading that is shown with its statements, in bytes.
const HEADING_BYTES: usize = 80;
/// The level of a heading that is only a bold line.
const BOLD_LEVEL: usize = 7;
/// Length at which a list's statement takes no further item, in bytes.
const LIST_BYTES: usize = 520;

/// The statements of a message, in order, without filler.
pub(super) fn statements(message: &str) -> Vec<Statement> {
    titled_statements(message).1
}

/// The same, with the only heading of the highest level: the title that the message's author gave it.
pub(super) fn titled_statements(message: &str) -> (Option<String>, Vec<Statement>) {
    let cleaned = clean(crate::text::head(message, MOST_BYTES));
    let mut reader = Reader::default();
    let mut in_code = false;
    for line in cleaned.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            reader.end_block();
            reader.is_introduced = true;
            reader.is_code_alone = reader.is_empty;
            in_code = !in_code;
        } else if !in_code {
            reader.line(line, trimmed);
        }
    }
    reader.end_block();
    reader.end_section();
    let title = reader.title.filter(|(level, _)| *level < BOLD_LEVEL).and_then(|(_, title)| title);
    (title, reader.statements)
}

#[derive(Default)]
struct Reader {
    statements: Vec<Statement>,
    /// The heading of the highest level, unless there are several.
    title: Option<(usize, Option<String>)>,
    section: Section,
    /// The enclosing heading that decides about its parts: its level, kind and text.
    outer: Option<(usize, Section, String)>,
    /// The enclosing heading and its level.
    main: (usize, String),
    heading: String,
    /// The heading and kind of the section around bold lines, if the last one introduces no more than the block below it.
    around: Option<(String, Section)>,
    /// True once that block was read: "**Either:**" introduces its list, not the paragraph behind it.
    is_introduced: bool,
    paragraph: String,
    /// The line that introduces the list or code that follows.
    lead: Option<String>,
    items: Vec<String>,
    /// Column names of the current table.
    columns: Vec<String>,
    /// True if nothing was left out since the last statement.
    is_adjacent: bool,
    /// True if the section has no statement, and if it has code instead.
    is_empty: bool,
    is_code_alone: bool,
}

impl Reader {
    fn line(&mut self, line: &str, trimmed: &str) {
        let is_indented = line.starts_with("  ") || line.starts_with('\t');
        if trimmed.is_empty() || trimmed.chars().all(|char| "-=*_ ".contains(char)) {
            self.end_paragraph(false);
            self.columns.clear();
        } else if let Some(heading) = heading(trimmed) {
            self.end_block();
            self.end_section();
            self.begin_section(trimmed, &heading);
        } else if trimmed.starts_with('|') {
            self.end_block();
            self.row(trimmed);
        } else if let Some(item) = item(trimmed) {
            self.end_paragraph(true);
            match self.items.last_mut().filter(|_| is_indented) {
                Some(parent) => append_item(parent, item),
                None => self.items.push(plain(item)),
            }
        } else if let Some(last) = self.items.last_mut().filter(|_| is_indented) {
            last.push(' ');
            last.push_str(&plain(trimmed));
        } else {
            self.end_list();
            let separator = if self.paragraph.is_empty() { "" } else { " " };
            self.paragraph.push_str(separator);
            self.paragraph.push_str(trimmed.trim_start_matches(['>', ' ']));
        }
    }

    /// Begins a section. Below "Proposed solution" or "Verification" every part is of that kind, and named after it.
    fn begin_section(&mut self, line: &str, heading: &str) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let level = if level == 0 { BOLD_LEVEL } else { level };
        self.is_adjacent = false;
        self.is_empty = true;
        let around = self.around.take().unwrap_or_else(|| (self.heading.clone(), self.section));
        self.around = (level == BOLD_LEVEL && heading.ends_with(':')).then_some(around);
        self.is_introduced = false;
        self.heading = without_opener(heading.trim_end_matches(':'));
        self.section = section_of(heading);
        match &self.outer {
            Some((outer, section, name)) if level > *outer && self.section == Section::Body => {
                self.section = *section;
                if *section == Section::Proposal {
                    self.heading = format!("{name}, {}", self.heading);
                }
            }
            _ if self.section == Section::Body => {
                self.outer = None;
                // "Storage" below "Auto-commit" is the storage of auto-commit.
                let whole = format!("{}, {}", self.main.1, self.heading);
                let is_part =
                    level > self.main.0 && !is_neutral(&self.main.1) && whole.len() <= HEADING_BYTES;
                if is_part {
                    self.heading = whole;
                } else {
                    self.main = (level, self.heading.clone());
                }
            }
            _ => self.outer = Some((level, self.section, self.heading.clone())),
        }
        let is_title = self.section == Section::Body && !is_neutral(&self.heading);
        match &mut self.title {
            // Of several headings of one level each names its own section.
            Some((known, title)) if *known == level => *title = None,
            Some((known, _)) if *known < level => {}
            title => *title = Some((level, is_title.then(|| self.heading.clone()))),
        }
    }

    /// Ends a section. A whole sentence above code alone is a statement.
    fn end_section(&mut self) {
        if std::mem::take(&mut self.is_code_alone) && self.heading.split_whitespace().count() >= 5 {
            self.push_text(self.heading.clone(), false);
        }
    }

    /// Ends a paragraph, which is one statement: its sentences need each other. The last one introduces what follows if it ends
    /// with a colon, or stands without a period right above a list.
    fn end_paragraph(&mut self, is_before_list: bool) {
        if self.paragraph.is_empty() {
            return;
        }
        self.end_list();
        if let Some((heading, section)) = self.around.take_if(|_| self.is_introduced) {
            (self.heading, self.section, self.outer) = (heading, section, None);
        }
        let lead = self.lead.take().filter(|lead| is_needed(lead) && !is_offer(lead));
        let paragraph = plain(&std::mem::take(&mut self.paragraph));
        let kept = sentences(&paragraph).into_iter().map(|sentence| without_opener(&sentence));
        let mut kept: Vec<String> =
            kept.filter(|sentence| sentence.ends_with(':') || !is_filler(sentence)).collect();
        let introduces = |text: &mut String| {
            text.ends_with(':') || is_before_list && !text.ends_with(['.', '!', '?', '。'])
        };
        self.lead = kept.pop_if(introduces);
        let mut text = kept.join(" ");
        if let Some(lead) = lead.filter(|_| !text.is_empty()) {
            text = format!("{lead} {text}");
        }
        match self.statements.last_mut() {
            // "This means …" and half a sentence need the statement right above them.
            Some(last) if self.is_adjacent && (points_back(&text) || continues(&text)) && !last.is_row => {
                append(last, &text);
            }
            _ => self.push_text(text, is_verdict(&paragraph)),
        }
    }

    /// Ends a list: one statement with its introduction; without one, each item that is a sentence stands alone.
    fn end_list(&mut self) {
        let mut items = std::mem::take(&mut self.items);
        items.retain(|item| item.split_whitespace().count() >= 2 && !is_filler(item));
        if items.is_empty() {
            return;
        }
        self.is_introduced = true;
        let lead = self.lead.take();
        // "This causes:" points at something that was left out.
        let is_lost = |lead: &str| !self.is_adjacent && points_back(lead);
        if lead.as_deref().is_some_and(|lead| is_offer(lead) || is_lost(lead)) {
            self.is_adjacent = false;
            return;
        }
        let lead = lead.filter(|lead| is_needed(lead));
        let is_alone = |item: &String| item.split_whitespace().count() >= 5;
        if lead.is_none() && self.section != Section::Open && items.iter().all(is_alone) {
            for text in items {
                self.push(Statement { text, is_item: true, ..Statement::default() });
            }
            return;
        }
        let lead = lead.map(|lead| lead.trim_end_matches(':').to_owned()).unwrap_or_default();
        // A list that is too long for one statement goes on in the next.
        while !items.is_empty() {
            let mut text = if lead.is_empty() { String::new() } else { format!("{lead}: ") };
            let mut length = text.len();
            let fitting = items.iter().take_while(|item| {
                length += item.len() + "; ".len();
                length <= LIST_BYTES
            });
            let rest = items.split_off(fitting.count().max(1));
            let shown: Vec<&str> = items.iter().map(|item| item.trim_end_matches(['.', ':', ';'])).collect();
            text.push_str(&shown.join("; "));
            if !rest.is_empty() {
                text.push_str(&format!("; and {} more", rest.len()));
            }
            self.push(Statement { text, lead: lead.clone(), items, ..Statement::default() });
            items = rest;
        }
    }

    /// Ends everything above code, a table or a heading. A line that introduces it is a statement if it is complete without it.
    fn end_block(&mut self) {
        self.end_paragraph(false);
        self.end_list();
        let lead = self.lead.take().map(|lead| lead.trim_end_matches(':').to_owned());
        let is_whole = |lead: &String| {
            lead.split_whitespace().count() >= 5 && !is_offer(lead) && !is_filler(lead) && !is_dangling(lead)
        };
        let has_lead = lead.is_some();
        let lead = lead.filter(is_whole);
        self.is_adjacent &= !has_lead || lead.is_some();
        if let Some(lead) = lead {
            self.push_text(format!("{lead}."), false);
        }
    }

    fn row(&mut self, line: &str) {
        let cells = line.trim_matches('|').replace(r"\|", "\u{1}");
        let cells: Vec<String> = cells.split('|').map(|cell| plain(&cell.replace('\u{1}', "|"))).collect();
        let is_rule = cells.iter().all(|cell| cell.chars().all(|char| "-: ".contains(char)));
        if is_rule && !cells.iter().all(String::is_empty) {
            return;
        }
        if self.columns.is_empty() {
            self.columns = cells;
            return;
        }
        let named = self.columns.iter().map(String::as_str).chain(std::iter::repeat(""));
        let mut pairs: Vec<(&str, &String)> =
            named.zip(&cells).filter(|(_, cell)| !cell.is_empty()).collect();
        // In a wide table the first cell names the row; of two columns each needs its own name.
        if pairs.len() > 2 {
            pairs[0].0 = "";
        }
        if pairs.len() > 1 {
            let cell = |(column, cell): &(&str, &String)| match *column {
                "" => format!("{cell}:"),
                column => format!("{column}: {cell};"),
            };
            let row: Vec<String> = pairs.iter().map(cell).collect();
            let text = row.join(" ").trim_end_matches([';', ':']).to_owned();
            self.push(Statement { text, is_row: true, ..Statement::default() });
        }
    }

    fn push_text(&mut self, text: String, is_verdict: bool) {
        self.push(Statement { text, is_verdict, ..Statement::default() });
    }

    fn push(&mut self, statement: Statement) {
        let text = without_opener(&statement.text);
        let has_content = text.chars().filter(|char| char.is_alphanumeric()).count() >= 3;
        if !has_content || is_filler(&text) {
            return;
        }
        // The first cell of a row names a thing, not a section.
        let label = text.split_once(": ").filter(|_| !statement.is_row);
        let section = match label.map(|(label, _)| section_of(label)) {
            Some(Section::Body) | None => self.section,
            Some(section) => section,
        };
        let needs_heading = !statement.is_row || section == Section::Proposal;
        let heading = if needs_heading { self.heading_of(&text) } else { String::new() };
        let is_verdict = statement.is_verdict || is_verdict(&heading);
        // The beginning of an answer points at the question.
        let is_first = self.statements.is_empty();
        let is_loose = !self.is_adjacent && !is_first && heading.is_empty() && points_back(&text);
        self.statements.push(Statement { text, heading, section, is_verdict, is_loose, ..statement });
        self.is_adjacent = true;
        (self.is_empty, self.is_code_alone) = (false, false);
    }

    /// The heading for a statement, so that it keeps its subject wherever it is shown.
    fn heading_of(&self, text: &str) -> String {
        let heading = &self.heading;
        let is_repeated = text.to_lowercase().starts_with(&heading.to_lowercase());
        let is_needless = is_repeated
            || is_neutral(heading)
            || is_filler(heading)
            || heading.len() > HEADING_BYTES
            || matches!(self.section, Section::Open | Section::Aside);
        if is_needless { String::new() } else { heading.clone() }
    }
}

/// True for an introduction without which its list or paragraph would say less, or something else.
fn is_needed(lead: &str) -> bool {
    is_hedged(lead) || !is_filler(lead)
}

/// Adds a nested item to its parent.
fn append_item(parent: &mut String, item: &str) {
    parent.push_str(if parent.ends_with(':') { " " } else { ", " });
    parent.push_str(plain(item).trim_end_matches(['.', ';']));
}

/// Adds sentences to a statement.
fn append(statement: &mut Statement, text: &str) {
    if !statement.text.ends_with(['.', '!', '?', '。']) {
        statement.text.push('.');
    }
    statement.text.push(' ');
    statement.text.push_str(text);
}

/// True for the conclusion of an answer.
fn is_verdict(text: &str) -> bool {
    static VERDICT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)^\W*(tl;?dr|bottom line|conclusion|verdict|in short|overall|(my )?(recommendation|take|assessment)|so,? (yes|no|the|it)|(but )?i('d| would)? recommend|short answer|fazit|kurz gesagt|en bref|结论|結論)\b",
        )
    });
    VERDICT.as_ref().is_some_and(|verdict| verdict.is_match(text))
}

/// True for half a sentence.
pub(super) fn is_dangling(text: &str) -> bool {
    const DANGLING: &str = "and|or|because|but|with|to|of|for|if|when|that|the|a|an|in|on|by|from|as|is|are|so|not|since|yes|has|have|had|shows|show|see|like|includes|uses|will|be|was|were|both|its|via|following|than|into|at|creates|run|this|these|where|which|while|without|their|your|only|now|either|through|been|code|between|about|until|during|per|under|over|whether|instead|means|says|reads|contains|returns|adds|takes|covers|cover|showing|getting|saying|previously";
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default().to_lowercase();
    let last = last.trim_matches(|char: char| !char.is_alphanumeric());
    each(DANGLING).any(|known| known == last) || text.ends_with(['…', ':', '-', '—'])
}

/// True for sentences whose subject is in the sentence before.
pub(super) fn points_back(sentence: &str) -> bool {
    const POINTING: &str = "this|that|these|those|it|its|they|them|he|she|both|so|then|therefore|thus|otherwise|instead|also|but|and|or|however|here|there|dies|das|diese|cela|ceci";
    let first = sentence
        .split(|char: char| !char.is_alphanumeric())
        .find(|word| !word.is_empty())
        .unwrap_or_default();
    let lower = first.to_lowercase();
    // "Here's what changed" points at what follows.
    let is_ahead = ["here's", "here’s", "here is", "here are"]
        .iter()
        .any(|start| sentence.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)));
    each(POINTING).any(|word| word == lower) && !is_ahead
}

/// True for the second half of a sentence.
fn continues(text: &str) -> bool {
    text.starts_with(['.', '…']) || text.starts_with(char::is_lowercase)
}

/// True for headings that do not describe their content.
fn is_neutral(heading: &str) -> bool {
    static NEUTRAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^((a\ |the\ |final\ |quick\ |overall\ |complete\ |brief\ )?(summary|changes?|results?|overview|details?|implementation|done|fixes|fixed|completed|findings?|key\ \w+|what\ (i\ |we\ |was\ |has\ |is\ )?(changed?|changes|did|done|new|fixed|added|implemented)|updates?)(\ (of\ )?(the\ )?(changes?|made|summary|work|fix(es)?|implemented|investigation))*)?$",
        )
    });
    let bare = heading.trim_matches(|char: char| !char.is_alphanumeric());
    NEUTRAL.as_ref().is_some_and(|neutral| neutral.is_match(bare))
}

/// `## Heading`, or `**Heading:**` alone on its line.
fn heading(line: &str) -> Option<String> {
    let is_bold = line.starts_with("**")
        && line.trim_end_matches([':', '*', ' ']).matches("**").count() == 1
        && line.trim_end_matches(':').ends_with("**");
    let is_heading = line.starts_with('#') || is_bold;
    is_heading.then(|| without_number(&plain(line.trim_start_matches('#'))).to_owned())
}

/// "1. Text" → "Text".
pub(super) fn without_number(text: &str) -> &str {
    let rest = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let numbered =
        (rest.len() < text.len()).then(|| rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")));
    numbered.flatten().unwrap_or(text)
}

/// The text of a list item: `- text`, `* text`, `3. text`.
fn item(line: &str) -> Option<&str> {
    let numbered = Some(without_number(line)).filter(|rest| rest.len() < line.len());
    let bullet = ["- [ ] ", "- [x] ", "- ", "* ", "• ", "✅ ", "✓ ", "→ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark));
    numbered.or(bullet)
}

fn section_of(heading: &str) -> Section {
    static OPEN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^((possible\ |suggested\ |recommended\ |potential\ )?next(\ steps?|\ up)?|still\ (to\ do|open|missing|needed|todo)|to-?\ ?dos?|
            remaining(\ \w+)?|not\ (yet\ )?(done|implemented|included|covered|fixed)|open(\ (items?|points?|questions?|issues?|tasks?))?|
            follow-?ups?|left\ (to\ do|over)|what'?s\ (left|next|missing)|outstanding|future\ work|known\ (issues|limitations|gaps)|
            deferred|offen(e\ \w+)?|noch\ (offen|zu\ tun)|nächste\ schritte|reste\ à\ faire|prochaines\ étapes|残り|未完了|待办|下一步)$",
        )
    });
    static REASON: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^(the\ )?(root\ )?(cause|why(\ .*)?|problem|issue|bug|reason(ing)?|rationale|motivation|background|context|
            what\ (was|went)\ wrong|what\ happened|ursache|warum|problème|原因)(\ was)?$",
        )
    });
    static PROPOSAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)\b(propos\w+|options?|recommend\w*|suggest\w*|alternativ\w+|possible|potential|ideas?|approach(es)?|would|could|should|quick\ fix|vorschl\w+)\b",
        )
    });
    static ASIDE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^(\w+\ )?(verif\w+|test(s|ing|\ results?|\ coverage|ed)?|checks?|validation|quality\ \w+|build\ \w+|usage|how\ to\ (use|test|run|verify)|
            sources?|references?|links?|files?\ (changed|modified|created|updated|touched|edited)|(modified|changed|created|new|updated)\ files?|commands?|
            statistics|stats|status|example(\ usage)?|to\ (test|verify|run|use)(\ it)?|praise)\b",
        )
    });
    let heading = heading.trim_matches(|char: char| !char.is_alphanumeric());
    let is = |regex: &LazyLock<Option<Regex>>| regex.as_ref().is_some_and(|regex| regex.is_match(heading));
    match () {
        () if is(&OPEN) => Section::Open,
        () if is(&REASON) => Section::Reason,
        () if heading.split_whitespace().count() <= 6 && is(&PROPOSAL) => Section::Proposal,
        () if heading.split_whitespace().count() <= 5 && is(&ASIDE) => Section::Aside,
        () => Section::Body,
    }
}

/// The text without markup: emphasis, links, leading signs. Code stays as it is.
pub(super) fn plain(text: &str) -> String {
    static LINK: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"!?\[([^\]]+)\]\([^)\s]+[^)]*\)"));
    let linked = LINK.as_ref().map_or(text.into(), |link| link.replace_all(text, "$1"));
    let parts: Vec<String> = linked
        .split('`')
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { part.replace("**", "") } else { part.to_owned() })
        .collect();
    let line = one_line(&parts.join("`"));
    let is_sign = |char: char| {
        matches!(char, '*' | '#' | '>' | '✅' | '⚠' | '✓' | '→' | '•' | '\u{fe0f}' | '☑' | '🎉' | '✔' | ' ')
    };
    line.trim_start_matches(is_sign).trim_end_matches(['*', ' ']).to_owned()
}

/// Splits a paragraph into sentences, but not at a period inside a name, a number or an abbreviation.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut sentence = String::new();
    let mut in_code = false;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        sentence.push(char);
        in_code ^= char == '`';
        let ends = !in_code
            && match char {
                '。' | '！' | '？' => true,
                '.' | '!' | '?' => {
                    let mut ahead = chars.clone();
                    let is_blank = ahead.next().is_none_or(char::is_whitespace);
                    let next = ahead.find(|char| !char.is_whitespace());
                    let begins = next.is_none_or(|next| !next.is_lowercase());
                    is_blank && begins && !(char == '.' && is_abbreviation(&sentence))
                }
                _ => false,
            };
        if ends {
            found.push(std::mem::take(&mut sentence).trim().to_owned());
        }
    }
    found.push(sentence.trim().to_owned());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// As many whole sentences as fit, the first one always; none without the one behind it that limits it.
pub(super) fn whole_sentences(text: &str, columns: usize) -> String {
    let all = sentences(text);
    let mut length = 0;
    let fitting = all.iter().take_while(|sentence| {
        length += sentence.len() + 1;
        length <= columns
    });
    let mut count = fitting.count().max(1).min(all.len());
    while count > 1 && all.get(count).is_some_and(|next| limits(next)) {
        count -= 1;
    }
    shorten(&all[..count].join(" "), columns + columns / 2)
}

/// True for a sentence that takes back a part of the one before it.
fn limits(sentence: &str) -> bool {
    const LIMITS: &str =
        "however|but|although|though|except|unless|only|still|yet|that said|aber|jedoch|mais";
    let lower = sentence.to_lowercase();
    each(LIMITS).any(|start| lower.strip_prefix(start).is_some_and(|rest| rest.starts_with([' ', ','])))
}

fn is_abbreviation(text: &str) -> bool {
    let last = text.trim_end_matches('.').rsplit([' ', '(']).next().unwrap_or_default().to_lowercase();
    matches!(
        last.as_str(),
        "e.g" | "i.e" | "etc" | "vs" | "z.b" | "d.h" | "bzw" | "usw" | "incl" | "approx" | "no" | "cf"
    ) || (last.len() == 1 && last.chars().all(char::is_alphabetic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &str) -> Vec<String> {
        statements(message).into_iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn reasons_are_recognised_in_several_languages() {
        for text in [
            "Kept it because CI reads it.",
            "The problem was a stale lock.",
            "Use a view instead of a copy.",
            "Done so that users see it.",
            "Das geht nicht, weil der Server fehlt.",
            "Utilise un verrou pour éviter la course.",
            "因为缓存过期",
            "Raised the limit to avoid timeouts.",
        ] {
            assert!(gives_reason(text), "{text}");
        }
        for text in ["Added a lock.", "The file has three functions.", "It ran since yesterday."] {
            assert!(!gives_reason(text), "{text}");
        }
    }

    #[test]
    fn a_message_is_read_by_its_structure() {
        let message = "Perfect! Added a **lock**. See [docs](https://x.y).\n\n## Root cause\n\nTwo writers, one file e.g. `a.rs`.\n\n```rust\nfn x() {}\n```\n\n| Name | State |\n|---|---|\n| one | red |\n\n**Next steps:**\n- [ ] test on mac\n";
        assert_eq!(
            texts(message),
            [
                "Added a lock. See docs.",
                "Two writers, one file e.g. `a.rs`.",
                "Name: one; State: red",
                "test on mac"
            ]
        );
        let statements = statements(message);
        assert_eq!(statements[1].shown(None), "Root cause: Two writers, one file e.g. `a.rs`.");
        assert_eq!(statements[1].section, Section::Reason);
        assert_eq!((statements[2].is_row, statements[3].section), (true, Section::Open));
    }

    #[test]
    fn lists_keep_their_introduction_and_pronouns_their_subject() {
        let message = "Done. The harness now creates:\n\n1. **Valid ids** from `uuidgen`\n   - one per session\n\n2. Entries with times\n\n\
            The hook reads stdin. It never blocks.\n\nIf you want more:\n- add the code back again\n\n**Parser** - `parse.rs`\n- keeps leading blanks";
        assert_eq!(
            texts(message),
            [
                "The harness now creates: Valid ids from `uuidgen`, one per session; Entries with times",
                "The hook reads stdin. It never blocks.",
                "Parser - `parse.rs`: keeps leading blanks",
            ]
        );
    }

    #[test]
    fn the_line_above_code_is_a_statement() {
        assert_eq!(
            texts("Fixed. The hook now counts only live jobs:\n```sh\njobs -r\n```\nRun:\n```sh\nx\n```"),
            ["The hook now counts only live jobs."]
        );
    }

    #[test]
    fn a_cut_text_keeps_no_sentence_without_the_one_that_limits_it() {
        let text =
            "The row is kept. The work of the first prompt is lost. However, the overlap check handles that.";
        assert_eq!(whole_sentences(text, 70), "The row is kept.");
        assert_eq!(whole_sentences(text, 200), text);
    }

    #[test]
    fn a_bold_line_introduces_one_block() {
        let message = "The claim is that files change.\n\n...which makes no sense here.\n\n**So either:**\n- the bug does not exist at all\n- another cause was found there\n\n\
            The reader keeps both files.\n\n**Cause:** one lock.";
        let found: Vec<String> = statements(message).iter().map(|statement| statement.shown(None)).collect();
        assert_eq!(
            found,
            [
                "The claim is that files change. ...which makes no sense here.",
                "Either: the bug does not exist at all",
                "Either: another cause was found there",
                "The reader keeps both files.",
                "Cause: one lock."
            ]
        );
    }

    #[test]
    fn sentences_end_where_they_end() {
        assert_eq!(
            sentences("Use v1.2. It reads `a. B` etc. and i.e. x.y files! Really? yes."),
            ["Use v1.2.", "It reads `a. B` etc. and i.e. x.y files!", "Really? yes."]
        );
        assert_eq!(sentences("修好了。测试通过。"), ["修好了。", "测试通过。"]);
    }
}
