//! Splits a closing message into sentences, list items and table rows, each under its heading, without filler.
//!
//! The rules follow from how assistants close a turn: praise, claims that all is green, announcements and offers are useless
//! to a later reader; results and reasons are not.

use std::sync::LazyLock;

use regex::Regex;

use crate::text::{clean, one_line, pattern};

/// One statement of a message, which stands on its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Unit {
    /// The statement on one line, without markup except for code. A list is one statement, with the line that introduces it.
    pub text: String,
    /// The items, if it is a list.
    pub items: Vec<String>,
    /// True for a row of a table.
    pub is_row: bool,
    /// The heading above it, if it has content. A statement is shown with it, unless the one before has the same.
    pub heading: String,
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

impl Unit {
    /// The statement after `previous`, with its heading if that differs.
    pub fn shown(&self, previous: Option<&Self>) -> String {
        let is_known = previous.is_some_and(|previous| previous.heading == self.heading);
        if self.heading.is_empty() || is_known {
            self.text.clone()
        } else {
            format!("{}: {}", self.heading, self.text)
        }
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

/// The statements of a message, in order, without filler.
pub(super) fn units(message: &str) -> Vec<Unit> {
    let cleaned = clean(crate::text::head(message, MOST_BYTES));
    let mut reader = Reader::default();
    let mut in_code = false;
    for line in cleaned.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            reader.end_at_code();
            in_code = !in_code;
        } else if !in_code {
            reader.line(trimmed);
        }
    }
    reader.end_section();
    // Drop half of a pair ("Before: …" without "After: …"): it misleads.
    reader.units.retain(|unit| {
        unit.is_row || !label(&unit.text).is_some_and(is_before) || unit.text.to_lowercase().contains("after")
    });
    reader.units
}

#[derive(Default)]
struct Reader {
    units: Vec<Unit>,
    main_heading: String,
    heading: String,
    section: Section,
    /// True while only code follows the heading.
    is_bare: bool,
    paragraph: String,
    /// The line that introduces the current list, if the paragraph before it does.
    lead: Option<String>,
    items: Vec<String>,
    /// Column names of the current table.
    columns: Vec<String>,
}

/// Maximum number of items in a list's statement.
const SHOWN_ITEMS: usize = 4;
/// Maximum length of an item in a list's statement, in bytes.
const ITEM_BYTES: usize = 220;

impl Reader {
    fn line(&mut self, line: &str) {
        if line.is_empty() || line.chars().all(|char| "-=*_ ".contains(char)) {
            self.end_paragraph();
            self.columns.clear();
        } else if let Some(heading) = heading(line) {
            self.end_section();
            self.section = section_of(&heading);
            self.set_heading(heading.trim_end_matches(':'), line.starts_with('#'));
        } else if line.starts_with('|') {
            self.end_block();
            self.row(line);
        } else if let Some(item) = item(line) {
            self.end_paragraph();
            self.items.push(plain(item));
        } else {
            self.end_list();
            let separator = if self.paragraph.is_empty() { "" } else { " " };
            self.paragraph.push_str(separator);
            self.paragraph.push_str(line.trim_start_matches(['>', ' ']));
        }
    }

    /// Adds a bold line below a heading as its subheading, which means little without it.
    fn set_heading(&mut self, heading: &str, is_main: bool) {
        let is_subject = |text: &str| {
            !text.is_empty() && !is_neutral(text) && !is_filler(text) && section_of(text) == Section::Body
        };
        if is_main {
            self.main_heading = heading.to_owned();
        }
        self.heading = if !is_main && is_subject(&self.main_heading) && is_subject(heading) {
            format!("{}, {heading}", self.main_heading)
        } else {
            heading.to_owned()
        };
        self.is_bare = true;
    }

    /// Ends a section. A heading with nothing but code below it is a statement itself.
    fn end_section(&mut self) {
        self.end_block();
        let heading = std::mem::take(&mut self.heading);
        let is_statement = heading.split_whitespace().count() >= 4 && !is_neutral(&heading);
        if std::mem::take(&mut self.is_bare) && is_statement {
            self.push(heading, Vec::new(), false);
        }
    }

    /// Begins a code block. The line that introduces it is a statement without it.
    fn end_at_code(&mut self) {
        self.end_paragraph();
        self.end_list();
        if let Some(lead) = self.lead.take().filter(|lead| lead.split_whitespace().count() >= 5) {
            self.push(format!("{}.", lead.trim_end_matches(':')), Vec::new(), false);
        }
    }

    fn end_block(&mut self) {
        self.end_paragraph();
        self.end_list();
        self.lead = None;
    }

    /// Ends a paragraph. A sentence that points back is joined to the one before it, so that it does not point elsewhere.
    fn end_paragraph(&mut self) {
        if self.paragraph.is_empty() {
            return;
        }
        self.lead = None;
        let paragraph = std::mem::take(&mut self.paragraph);
        let mut statement = String::new();
        for sentence in sentences(&plain(&paragraph)) {
            if points_back(&sentence) {
                if !statement.is_empty() {
                    statement.push(' ');
                    statement.push_str(&sentence);
                } else if sentence.ends_with(':') {
                    statement = sentence;
                }
                continue;
            }
            self.push(std::mem::replace(&mut statement, sentence), Vec::new(), false);
        }
        if statement.ends_with(':') {
            self.lead = Some(statement);
        } else {
            self.push(statement, Vec::new(), false);
        }
    }

    /// Ends a list: one statement, with the line or the heading that introduces it. A list of offers or conditions is none.
    fn end_list(&mut self) {
        let mut items = std::mem::take(&mut self.items);
        let lead = self.lead.take();
        items.retain(|item| item.split_whitespace().count() >= 2 && !is_filler(item));
        if items.is_empty() || lead.as_deref().is_some_and(|lead| is_offer(lead) || is_hedged(lead)) {
            return;
        }
        let is_neutral = is_filler(&self.heading) || is_neutral(&self.heading);
        let lead = match lead.filter(|lead| !is_filler(lead)) {
            Some(lead) => lead,
            None if is_neutral && items.iter().all(|item| item.split_whitespace().count() >= 5) => {
                items.into_iter().for_each(|item| self.push(item, Vec::new(), false));
                return;
            }
            None if is_neutral => String::new(),
            None => format!("{}:", self.heading),
        };
        let shown: Vec<String> = items
            .iter()
            .take(SHOWN_ITEMS)
            .map(|item| super::clause(item.trim_end_matches(['.', ':', ';']), ITEM_BYTES))
            .collect();
        let text = format!("{lead} {}", shown.join("; "));
        self.push(text.trim().to_owned(), items, false);
    }

    fn row(&mut self, line: &str) {
        let cells: Vec<String> = line.trim_matches('|').split('|').map(plain).collect();
        if cells.iter().all(|cell| cell.chars().all(|char| "-: ".contains(char))) {
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
            self.push(row.join(" ").trim_end_matches([';', ':']).to_owned(), Vec::new(), true);
        }
    }

    /// The heading for a statement, so that it keeps its subject wherever it is shown.
    fn heading_of(&self, text: &str, is_row: bool) -> String {
        let is_repeated = text.to_lowercase().starts_with(&self.heading.to_lowercase());
        let says_little = is_neutral(&self.heading) || is_filler(&self.heading) || self.heading.len() > 80;
        let is_needless = is_row || is_repeated || (says_little && self.section != Section::Proposal);
        if is_needless { String::new() } else { self.heading.clone() }
    }

    fn push(&mut self, text: String, items: Vec<String>, is_row: bool) {
        let mut text = without_praise(&plain(&text));
        if text.is_empty() {
            return;
        }
        // "Before: …" means nothing without its "After: …".
        if let Some(before) =
            self.units.pop_if(|last| label(&last.text).is_some_and(is_before) && !last.is_row)
        {
            text = format!("{} {text}", before.text);
        }
        let section = match label(&text).map(section_of) {
            Some(Section::Body) | None => self.section,
            Some(section) => section,
        };
        let is_long_enough = text.chars().filter(|char| char.is_alphanumeric()).count() >= 3;
        if is_long_enough && !is_filler(&text) && !(is_offer(&text) && items.is_empty()) {
            let heading = self.heading_of(&text, is_row);
            self.is_bare = false;
            self.units.push(Unit { text, items, is_row, heading, section });
        }
    }
}

/// True for sentences whose subject is in the sentence before.
fn points_back(sentence: &str) -> bool {
    const POINTING: &str = "this|that|these|those|it|its|they|them|he|she|both|so|then|therefore|thus|otherwise|instead|also|but|and|or|however|here|there|dies|das|diese|cela|ceci";
    let first = sentence
        .split(|char: char| !char.is_alphanumeric())
        .find(|word| !word.is_empty())
        .unwrap_or_default();
    let lower = first.to_lowercase();
    crate::text::each(POINTING).any(|word| word == lower)
}

/// True for lines that offer something, ask for something, or only hold under a condition.
fn is_offer(text: &str) -> bool {
    static OFFER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^(if|when|should|would|do|want|let\ me|you\ (could|can|might|may|have)|we\ (could|might)|i\ (could|can|would|might)|options?\b|choose|pick|say\ the\ word|alternatively)\b.*[:?]$
            |\b(do\ you\ want|would\ you\ like|want\ me\ to|should\ i|they'?d\ need\ to|you'?d\ need\ to|if\ (you|someone|anyone)\ wants?)\b",
        )
    });
    OFFER.as_ref().is_some_and(|offer| offer.is_match(text))
}

/// True for an introduction of possibilities: "This could happen if:".
fn is_hedged(lead: &str) -> bool {
    static HEDGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(r"(?i)\b(could|might|may|would|if|either|options?|perhaps|possibly|likely)\b")
    });
    HEDGE.as_ref().is_some_and(|hedge| hedge.is_match(lead))
}

/// True for the first half of a pair.
fn is_before(label: &str) -> bool {
    matches!(label.to_lowercase().trim(), "before" | "old" | "previously" | "was" | "vorher" | "avant")
}

/// True for headings that do not describe their list.
fn is_neutral(heading: &str) -> bool {
    static NEUTRAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^((a\ |the\ |final\ |quick\ |overall\ |complete\ |brief\ )?(summary|changes?|results?|overview|details?|implementation|done|fixes|fixed|completed|key\ \w+|what\ \w+(\ \w+)?|updates?)(\ (of\ )?(the\ )?(changes?|made|summary|work|fix(es)?|implemented))*)?$",
        )
    });
    let bare = heading.trim_matches(|char: char| !char.is_alphanumeric());
    NEUTRAL.as_ref().is_some_and(|neutral| neutral.is_match(bare))
}

/// "You're right - the cache is stale" → "The cache is stale".
fn without_praise(text: &str) -> String {
    static PRAISE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?i)^(you'?re (absolutely )?(right|correct)|good (catch|point|question|idea|call)|great (question|idea|point|catch)|perfect|excellent|great|done|right|got it|understood|sure)\s*[,.!:;—–-]+\s+",
        )
    });
    let mut rest = text;
    while let Some(found) = PRAISE.as_ref().and_then(|praise| praise.find(rest)) {
        rest = &rest[found.end()..];
    }
    if rest.len() == text.len() { text.to_owned() } else { crate::text::capitalised(rest) }
}

/// `## Heading`, `**Heading:**` alone on its line, `Heading:` in front of a list.
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

/// The label in front of a statement: `Root cause` of `Root cause: …`.
fn label(text: &str) -> Option<&str> {
    let (label, rest) = text.split_once(": ")?;
    (label.len() <= 40 && !rest.is_empty() && !label.contains('`')).then_some(label)
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
            r"(?ix)\b(propos\w+|options?|recommend\w*|suggest\w*|alternativ\w+|possible|potential|ideas?|approach(es)?|would|could|should|vorschl\w+)\b",
        )
    });
    static ASIDE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)\b(verif\w+|test(s|ing|\ results?|\ coverage|ed)?|checks?|validation|quality\ \w+|build\ \w+|usage|how\ to\ (use|test|run|verify)|
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

/// Maximum length of filler, in characters. A longer statement has other content too.
const FILLER_CHARS: usize = 170;

/// True for statements that are useless to a later reader.
pub(super) fn is_filler(text: &str) -> bool {
    static FILLER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        pattern(
            r"(?ix)^(
              # praise and exclamations
              (perfect|great|excellent|awesome|done|fixed|good|nice|wonderful|ok(ay)?|got\ it|understood|sure|yes|no|right|exactly|correct|absolutely|
               you'?re\ (absolutely\ )?(right|correct|welcome)|(good|great|nice|excellent)\ (catch|point|question|idea|call)(\ on\b.*)?|that'?s\ (it|better|right|correct)|all\ (set|good|done|clean|green))
               ([\s,.!-]+(all\ )?(done|now|fixed|set|good|point|catch))*
              # claims of success, which only certain results may make
            | (now\ )?(all|both|the|every|everything|[0-9][0-9,]*|no|zero|lint(er|ing)?|type-?checks?|rust|go|typescript|tests?|build|code|it|formatting|unit|integration|full)\b[^.:]*?
               \b(pass(es|ed|ing)?|(is|are|lint|now)\ clean|cleanly|green|succeed(s|ed)?|successful(ly)?|compile[sd]?|builds|in\ (place|order)|look(s|ing)?\ (good|correct|clean|right)|
               (is|are)\ (now\ )?(complete|done|good|fixed|ready|working|up\ to\ date)|no\ (issues|errors|regressions|warnings|problems)|(issues|errors|warnings)\ (found|remain))\b[^.]*
              # announcements
            | (now\ )?i\ (now\ )?(fully\ |clearly\ )?(understand|see)\b.*|(the\ )?analysis\ (is\ )?(done|complete)\b.*|you'?re\ right\ to\b.*
            | (here('s|\ is|\ are)|below\ (is|are)|the\ following|summary|in\ summary|to\ summarize|let\ me|now\ (let\ me|i('ll|\ will|\ have|\ need))|i('ll|\ will|\ am\ going\ to|'m\ going\ to)|
               first,?\ (let|i)|next,?\ (let|i)|i\ (now\ )?have\ (all|enough|everything|a\ (clear|complete|full|good))|based\ on\ (my|the)\ ([^,]*\ )?(review|analysis|findings|exploration))\b.*
            | (i('ve|\ have)|we('ve|\ have)|i)\ (successfully\ |now\ )?(completed|finished|implemented|made|updated|applied|verified|summarized|created|reviewed|analyzed|compiled|done)\b
               [^.:]*\b(plan|changes|everything|all\ \w+|following|task|implementation|request(ed)?|feature|fix|summary|review)
            | (the\ )?(implementation|plan|change|fix|refactor(ing)?|work|task|migration|commit|branch|pr)s?\ (is|are|has\ been|was|were)\ (now\ )?(complete|done|in\ place|ready|finished|successful|created|pushed|committed|applied|made)\b.*
            | (changes|what)\ (made|changed|i\ (did|changed)|was\ (done|changed))
            | (all\ |the\ )?(changes|steps|tasks|items)\ (are|have\ been|were)\ (now\ )?(implemented|made|done|complete|applied|in\ place)
            | the\ commit\ (is|was)\b.*
            | (i\ )?found\ (it|the\ (root\ cause|problem|issue|bug))
            | (the\ )?(monitor|background\ task|watcher)\b.*\b(still|running|watching)\b.*
            | .*\b(still\ (running|waiting|in\ progress|going)|wait(ing)?\ for\ (it|them|the|all)|i'll\ (report|wait|check|let|update)|let\ you\ know|once\ (it|they|the\ \w+)\ (finish|complete|return)\w*)\b.*
            | not\ (yet\ )?(pushed|committed)\b.*|.*\bsay\ the\ word\b.*|you\ raise\b.*
              # noise of other changes
            | .*\b(pre-?existing|unrelated\ to|not\ (our|my|your)\ (code|changes?)|no\ test\ impact)\b.*
            | (commit(ted)?|pushed|created\ (a\ )?(commit|pr|pull\ request))\b.*
            | (waiting|still\ waiting|the\ (agents?|tests?)\ (is|are)\ (still\ )?running|running)\b.*
              # offers
            | (would|do|did|should|shall|can|could|may|want|are|is)\ (you|i|we|me|there)\b.*\?
            | (want|need)\ me\ to\b.*
            | (let\ me\ know|feel\ free|just\ (let|say|tell)|if\ you('d|\ would)?\ (like|want|need|prefer)|ready\ (to|for|when)|happy\ to|you\ can\ (now|also|test|try|run|verify)|please\ (review|let|test|confirm|check)|
               what\ would\ you\ like|which\ (one|option|approach)|how\ would\ you\ like|sound\ good|soll\ ich|möchtest\ du|souhaitez|voulez)\b.*
            )$",
        )
    });
    let bare = text.trim_matches(|char: char| !char.is_alphanumeric() && char != '?');
    // A reason after the claim makes it worth keeping.
    bare.chars().count() <= FILLER_CHARS
        && FILLER.as_ref().is_some_and(|filler| filler.is_match(bare))
        && (bare.ends_with('?') || !gives_reason(bare))
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
        units(message).into_iter().map(|unit| unit.text).collect()
    }

    #[test]
    fn filler_is_dropped_and_statements_stay() {
        for filler in [
            "Perfect!",
            "Done.",
            "All tests pass.",
            "All 1309 tests pass with no failures.",
            "Great, all done!",
            "Here's a summary of the changes:",
            "Would you like me to commit this?",
            "Let me know if you want more.",
            "The implementation is complete.",
            "Lint is clean.",
            "I've completed all the requested changes.",
            "Both tests pass.",
            "Let me now check the other file.",
            "You're absolutely right!",
            "Everything looks good.",
            "Now I have all the information I need.",
            "Committed as 1a2b3c4.",
            "Want me to go on?",
            "No issues found.",
            "Tests pass and lint is clean.",
            "Soll ich das committen?",
        ] {
            assert!(is_filler(filler), "{filler}");
        }
        for kept in [
            "Removed the retry line since the tool does not support it.",
            "The cache key now includes the branch.",
            "Fixed the race in the upload queue.",
            "All requests go through the proxy because the firewall drops others.",
            "The tests use a fake clock.",
            "Added a lock around the counter.",
            "No request is sent without a key.",
            "The build directory is wiped by --clean, which deleted the tarball.",
            "Let callers pass their own clock.",
        ] {
            assert!(!is_filler(kept), "{kept}");
        }
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
                "Added a lock.",
                "See docs.",
                "Two writers, one file e.g. `a.rs`.",
                "Name: one; State: red",
                "Next steps: test on mac"
            ]
        );
        let units = units(message);
        assert_eq!(units[2].section, Section::Reason);
        assert_eq!((units[3].is_row, units[4].section), (true, Section::Open));
    }

    #[test]
    fn lists_keep_their_introduction_and_pronouns_their_subject() {
        let message = "Only these tools are tracked:\n- `mcp__acp__Write` calls\n- edits by hand\n\nThe hook reads stdin. It never blocks.\n\n\
            ### Proposed solution\n\nEach session gets a suffix.\n\nIf you want more:\n- add the code back again\n\n### Change\n\n**Before:** returned true\n\n**After:** returns false";
        assert_eq!(
            texts(message),
            [
                "Only these tools are tracked: `mcp__acp__Write` calls; edits by hand",
                "The hook reads stdin. It never blocks.",
                "Each session gets a suffix.",
                "Before: returned true After: returns false",
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
