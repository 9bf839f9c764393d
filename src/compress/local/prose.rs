//! Sentences of people and assistants: Markdown taken apart, and the sentences that say why, what next and what was
//! decided. The words that give them away are English, with the commonest of a few other languages; a sentence in any
//! language passes through as it is.

use super::text::{clean, each, head, one_line, shorten, tail};

/// One sentence of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentence {
    /// Its words, without Markdown; code keeps its marks.
    pub text: String,
    /// The heading that it stands under, in lower case.
    pub heading: String,
    /// Whether it is an item of a list.
    pub item: bool,
}

/// How much of a message is read: beginnings and ends carry the meaning.
const HEAD_BYTES: usize = 12 * 1024;
const TAIL_BYTES: usize = 4 * 1024;
const MOST_SENTENCES: usize = 120;
const SENTENCE_COLUMNS: usize = 400;

/// Takes a message apart.
pub(super) fn sentences(message: &str) -> Vec<Sentence> {
    let cleaned = clean(message);
    let mut reader = Reader::default();
    if cleaned.len() > HEAD_BYTES + TAIL_BYTES {
        reader.read(head(&cleaned, HEAD_BYTES));
        reader.end_block();
        reader.read(tail(&cleaned, TAIL_BYTES));
    } else {
        reader.read(&cleaned);
    }
    reader.end_block();
    reader.sentences
}

#[derive(Default)]
struct Reader {
    sentences: Vec<Sentence>,
    /// Of `#` or a line in bold: holds until the next.
    heading: String,
    /// Of a line that ends in a colon: holds for the list behind it.
    lead: String,
    block: String,
    item: bool,
    in_code: bool,
    after_blank: bool,
}

impl Reader {
    fn read(&mut self, text: &str) {
        for line in text.lines() {
            if self.sentences.len() >= MOST_SENTENCES {
                return;
            }
            self.line(line.trim());
        }
    }

    fn line(&mut self, line: &str) {
        if line.starts_with("```") || line.starts_with("~~~") {
            self.end_block();
            self.in_code = !self.in_code;
            return;
        }
        if self.in_code || line.starts_with('|') {
            return;
        }
        if line.chars().all(|char| !char.is_alphanumeric()) {
            self.end_block();
            self.after_blank = true;
            return;
        }
        if let Some(heading) = heading(line) {
            self.end_block();
            self.heading = heading;
            self.lead.clear();
            return;
        }
        let line = line.trim_start_matches("> ");
        if let Some(item) = list_item(line) {
            self.end_block();
            self.item = true;
            self.block = item.to_owned();
        } else {
            self.plain(line);
        }
        self.after_blank = false;
    }

    fn plain(&mut self, line: &str) {
        let continues = !self.block.is_empty()
            && !self.after_blank
            && !ends_sentence(&self.block)
            && line.starts_with(|first: char| first.is_lowercase() || first == '(' || first == '`');
        if continues {
            self.block.push(' ');
            self.block.push_str(line);
            return;
        }
        self.end_block();
        if self.after_blank {
            self.lead.clear();
        }
        if line.ends_with([':', '：']) {
            self.announcement(line);
            return;
        }
        self.block = line.to_owned();
    }

    /// A line whose last sentence announces what follows. Those before it stand for themselves.
    fn announcement(&mut self, line: &str) {
        let plain = without_markup(line);
        let sentences = split_sentences(&plain);
        let Some((last, before)) = sentences.split_last() else { return };
        before.iter().for_each(|text| self.push(text, false));
        let last = last.trim_end_matches([':', '：', ' ']);
        // "I've added a cache with the following changes:" says what was done; "Changes:" says nothing.
        let bare =
            each(" with the following changes| as follows| with these changes| in the following files")
                .find_map(|end| last.strip_suffix(end))
                .unwrap_or(last);
        if bare.split_whitespace().count() >= 4 && !is_filler(bare) {
            self.push(bare, false);
        }
        self.lead = last.to_lowercase();
    }

    fn push(&mut self, text: &str, item: bool) {
        let heading = if self.lead.is_empty() { self.heading.clone() } else { self.lead.clone() };
        self.sentences.push(Sentence { text: shorten(text, SENTENCE_COLUMNS), heading, item });
    }

    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        let item = std::mem::take(&mut self.item);
        let plain = without_markup(&block);
        split_sentences(&plain).into_iter().for_each(|text| self.push(text, item));
    }
}

/// `## Next steps`, or a line that is all bold.
fn heading(line: &str) -> Option<String> {
    let text = match line.strip_prefix('#') {
        Some(rest) if rest.trim_start_matches('#').starts_with(' ') => rest.trim_start_matches('#'),
        _ => {
            let inner = line.strip_prefix("**")?;
            let inner = inner.strip_suffix("**").or_else(|| inner.strip_suffix("**:"))?;
            if inner.contains("**") || inner.len() > 60 {
                return None;
            }
            inner
        }
    };
    Some(without_markup(text).trim_end_matches([':', '：', ' ']).to_lowercase())
}

fn list_item(line: &str) -> Option<&str> {
    let bullet = ["- [ ] ", "- [x] ", "- ", "* ", "• ", "+ ", "☐ ", "– "]
        .iter()
        .find_map(|start| line.strip_prefix(start));
    bullet.or_else(|| {
        let (number, rest) = line.split_once(['.', ')', '、'])?;
        let numbered =
            number.len() <= 2 && number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty();
        (numbered && (rest.starts_with(' ') || !rest.is_ascii())).then(|| rest.trim_start())
    })
}

/// Without emphasis, links and leading decoration.
fn without_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.trim_start_matches(|char: char| {
        !(char.is_alphanumeric() || "`\"'([{/.~@$<„“«「『_*&-+".contains(char))
    });
    while let Some(at) = rest.find(['*', '[']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("**") {
            rest = after;
        } else if let Some((label, after)) = link(rest) {
            out.push_str(label);
            rest = after;
        } else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    one_line(&out)
}

/// `[label](address)`.
fn link(text: &str) -> Option<(&str, &str)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = rest.split_once(')')?;
    (!label.contains(['[', '\n'])).then_some((label, after))
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end().ends_with(['.', '!', '?', '。', '！', '？', ':', '：', ';'])
}

/// Cuts between sentences, but not inside code, numbers, names of files or abbreviations.
fn split_sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut in_code = false;
    for (at, char) in text.char_indices() {
        let end = at + char.len_utf8();
        let ends = match char {
            '`' => {
                in_code = !in_code;
                false
            }
            '。' | '！' | '？' => !in_code,
            '.' | '!' | '?' => !in_code && ends_here(&text[start..end], &text[end..]),
            _ => false,
        };
        if ends {
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric));
    found
}

fn ends_here(before: &str, after: &str) -> bool {
    const ABBREVIATIONS: &str = "e.g.|i.e.|etc.|vs.|cf.|z.B.|bzw.|ca.|No.|approx.|Nr.|d.h.";
    let next = after.trim_start_matches(['"', '\'', ')', '”', '“']);
    let new_word = next.is_empty() || next.starts_with(' ');
    let begins = next.trim_start().chars().next();
    let lower = begins.is_some_and(char::is_lowercase);
    let last_word = before.rsplit(' ').next().unwrap_or_default();
    let numbered = last_word.trim_end_matches('.').bytes().all(|byte| byte.is_ascii_digit());
    let short = each(ABBREVIATIONS).any(|known| known == last_word.trim_start_matches('('));
    let item_number = numbered && before.len() < 5;
    new_word && !lower && !short && !item_number
}

/// Words that carry nothing by themselves: `Done!`, `Here's a summary`, `Let me check`.
pub(super) fn is_filler(sentence: &str) -> bool {
    const STARTS: &str = "done|all done|i found|found it|found the|perfect|great|excellent|all set|sure|good|okay|ok|yes|no problem|\
        you're right|fertig|erledigt|alles klar|完成|好的|完了|はい";
    const OPENINGS: &str = "let me |i'll |i will |here's |here is |here are |now i|now let|summary|in summary|\
        let me know|feel free";
    let lower = sentence.to_lowercase();
    let lower = lower.trim_end_matches(['.', '!', ' ', '。', '！']);
    let words = lower.split_whitespace().count();
    (words <= 4 && each(STARTS).any(|start| lower.starts_with(start)))
        || each(OPENINGS).any(|start| lower.starts_with(start))
        || lower.chars().count() < 4
}

/// Words that only say to go on.
pub(super) fn is_continuation(request: &str) -> bool {
    const WORDS: &str = "continue|go on|go ahead|proceed|yes|yes please|ok|okay|do it|next|keep going|sure|y|\
        weiter|mach weiter|ja|继续|好的|続けて|はい";
    let lower = request.trim().trim_end_matches(['.', '!', '。', '！']).to_lowercase();
    each(WORDS).any(|words| words == lower)
}

/// Sentences that tell what remains to be done.
pub(super) fn next_steps(sentences: &[Sentence]) -> Vec<&Sentence> {
    const HEADINGS: &str = "next|todo|to do|to-do|remaining|follow-up|follow up|still open|what's left|left to do|are left|outstanding|\
        open item|open question|not done|nächste|offen|noch zu|下一步|后续|待办|次のステップ|残作業|今後";
    const WORDS: &str = "you may want to|you might want to|you'll want to|you will want to|you'll need to|\
        you will need to|you still need|you need to|next step|next,|next:|next up|todo|\
        remaining|remains to|still need|still to do|left to do|follow-up|follow up|want me to|\
        would you like me|as a next|nächster schritt|als nächstes|noch offen|下一步|接下来|次のステップ|今後";
    let wanted = |sentence: &&Sentence| {
        let lower = sentence.text.to_lowercase();
        each(HEADINGS).any(|heading| {
            sentence.heading.starts_with(heading) || (sentence.heading.contains(heading) && heading.len() > 4)
        }) || each(WORDS).any(|word| contains_phrase(&lower, word))
            || (lower.starts_with("next ") && !lower.contains("next.js"))
    };
    sentences.iter().filter(wanted).collect()
}

/// Sentences that tell a decision.
pub(super) fn decisions(sentences: &[Sentence]) -> Vec<&Sentence> {
    const WORDS: &str = "decided|i chose|we chose|chose |opted|instead of|rather than|went with|settled on|\
        picked |prefer |trade-off|tradeoff|let's use|let's go with|don't use|entschieden|\
        anstatt|going with|决定|选择|而不是|採用|代わりに|することにし";
    const HEADINGS: &str = "decision|design choice|trade-off|entscheidung|决定|決定";
    let wanted = |sentence: &&Sentence| {
        let lower = sentence.text.to_lowercase();
        each(WORDS).any(|word| contains_phrase(&lower, word))
            || each(HEADINGS).any(|heading| sentence.heading.contains(heading))
    };
    sentences.iter().filter(wanted).filter(|sentence| !sentence.text.ends_with('?')).collect()
}

/// Whether a sentence tells why, or what was found out.
pub(super) fn tells_why(sentence: &str) -> bool {
    const WORDS: &str = "because|caused by|root cause|the cause|due to|turns out|turned out|the problem|\
        the issue|the bug|the race|the leak|the crash|the reason|so that|found that|discovered|realized|\
        realised|actually|since |was missing|were missing|failed when|fails when|which meant|\
        meaning |weil|ursache|wegen|lag daran|damit|因为|原因|由于|导致|原因は|ため|ので|发现";
    let lower = sentence.to_lowercase();
    each(WORDS).any(|word| contains_phrase(&lower, word))
}

/// Whether a sentence warns.
pub(super) fn warns(sentence: &str) -> bool {
    const WORDS: &str = "note:|note that|caveat|careful|warning|gotcha|be aware|keep in mind|watch out|\
        does not yet|doesn't yet|not yet|unrelated|pre-existing|flaky|limitation|achtung|\
        hinweis|beachte|注意|警告|ただし";
    let lower = sentence.to_lowercase();
    each(WORDS).any(|word| contains_phrase(&lower, word))
}

/// Whether the phrase is there, beginning where a word begins (in scripts that have words).
fn contains_phrase(text: &str, phrase: &str) -> bool {
    let free = !phrase.is_ascii();
    text.match_indices(phrase).any(|(at, _)| {
        free || at == 0
            || !text[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_' || char == '-')
    })
}

/// Whether a text reads like English.
pub(super) fn is_english(text: &str) -> bool {
    const ENGLISH: &str = "the|and|is|are|to|of|with|it|this|that|you|for|a|was|from|by|now|be|not|can|i|as|but|\
        when";
    const OTHER: &str = "der|die|das|und|ist|nicht|ich|den|ein|eine|im|mit|für|el|los|que|para|le|les|des|est|\
        une|il|por";
    let (mut english, mut other) = (0, 0);
    for word in text.split(|char: char| !char.is_alphanumeric()).take(60) {
        let word = word.to_lowercase();
        english += usize::from(each(ENGLISH).any(|known| known == word.as_str()));
        other += usize::from(each(OTHER).any(|known| known == word.as_str()));
    }
    let foreign = text.chars().take(200).filter(|char| char.is_alphabetic() && !char.is_ascii()).count();
    english > other && foreign * 5 < text.chars().take(200).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &str) -> Vec<String> {
        sentences(message).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn sentences_end_where_they_end() {
        assert_eq!(
            texts("Fixed `a. B` in app.py (e.g. v1.2.3 works). Done! Ran it?\nYes"),
            ["Fixed `a. B` in app.py (e.g. v1.2.3 works).", "Done!", "Ran it?", "Yes"]
        );
        assert_eq!(texts("修复了登录错误。添加了测试！"), ["修复了登录错误。", "添加了测试！"]);
        assert_eq!(
            texts("Der Fehler ist behoben, z.B. in Zeile 3. Fertig."),
            ["Der Fehler ist behoben, z.B. in Zeile 3.", "Fertig."]
        );
        assert_eq!(
            texts("a line that\nis wrapped here\nAnother one"),
            ["a line that is wrapped here", "Another one"]
        );
    }

    #[test]
    fn markdown_gives_way_to_its_words() {
        assert_eq!(
            texts(
                "## Head\n✅ **Fixed** the [login](http://x) in `a.py`\n```rust\nlet x;\n```\n| a | b |\n1. One\n- [ ] Two"
            ),
            ["Fixed the login in `a.py`", "One", "Two"]
        );
        assert_eq!(texts("Perfect! It works. Here's why:\n- One"), ["Perfect!", "It works.", "One"]);
        assert_eq!(
            texts("I've added a cache with the following changes:\n- One"),
            ["I've added a cache", "One"]
        );
        assert_eq!(texts("[unclosed **bold and a*b"), ["[unclosed bold and a*b"]);
    }

    #[test]
    fn next_steps_are_found_under_headings_and_in_sentences() {
        let message = "Added the cache.\n\n**Next steps:**\n- Run the migration\n- Update the docs\n\n## Notes\nFine.\n\nYou may want to bump the version.";
        let all = sentences(message);
        let next: Vec<&str> = next_steps(&all).into_iter().map(|sentence| sentence.text.as_str()).collect();
        assert_eq!(next, ["Run the migration", "Update the docs", "You may want to bump the version."]);
        let inline = sentences("Remaining:\n- wire it up\n\nThe rest works with Next.js.");
        assert_eq!(next_steps(&inline).len(), 1);
        let german = sentences("Behoben.\n\n### Nächste Schritte\n- Tests ergänzen");
        assert_eq!(next_steps(&german).len(), 1);
    }

    #[test]
    fn decisions_causes_and_warnings_are_recognised() {
        let all = sentences(
            "I chose SQLite over Postgres because it needs no server. Should we use Redis instead of it? It works.",
        );
        assert_eq!(decisions(&all).len(), 1);
        assert!(tells_why("The bug was a stale cache") && !tells_why("Added a test"));
        assert!(warns("Note that CI still fails") && !warns("Denoted that"));
    }

    #[test]
    fn filler_is_not_taken_for_news() {
        for filler in ["Done!", "All done.", "Let me check the logs.", "Here's what I found", "OK", "好的。"]
        {
            assert!(is_filler(filler), "{filler}");
        }
        assert!(!is_filler("Done with the migration of all users to the new table"));
    }

    #[test]
    fn english_is_told_from_the_rest() {
        assert!(is_english("Fix the login page"));
        assert!(!is_english("Behebe den Fehler im Login"));
        assert!(!is_english("修复登录"));
    }
}
