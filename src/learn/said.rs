//! What the user said that is meant to last: corrections, rules, preferences. Each language has its own file.

use super::sentences::{Sentence, sentences};
use super::{LONGEST, category_of, chinese, each, english, german, japanese, sure};
use crate::model::{Category, LearningDraft};

/// What was understood of a sentence.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Heard {
    /// The sentence without what leads to it.
    pub content: String,
    /// How sure it is that it is meant to last.
    pub confidence: f64,
    /// What it is about, if its form says so.
    pub category: Option<Category>,
}

impl Heard {
    pub fn new(content: impl Into<String>, confidence: f64) -> Self {
        Self { content: content.into(), confidence, category: None }
    }

    pub fn preference(content: impl Into<String>) -> Self {
        Self { content: content.into(), confidence: sure::CORRECTION, category: Some(Category::Preference) }
    }
}

/// Words that may stand before what is said, and say how it is meant.
pub(super) struct Leads {
    /// "Please", "ok".
    pub plain: &'static str,
    /// "From now on".
    pub lasting: &'static str,
    /// "No", "that's wrong".
    pub correcting: &'static str,
    /// What follows a lead, if the text begins with it.
    pub led: for<'t> fn(&'t str, &str) -> Option<&'t str>,
    /// The same for one that corrects.
    pub led_by_no: for<'t> fn(&'t str, &str) -> Option<&'t str>,
}

/// A sentence without its leads.
pub(super) struct Led<'t> {
    pub rest: &'t str,
    pub corrects: bool,
    pub lasts: bool,
}

impl Leads {
    /// Takes leads off. They may follow each other: "No, please, from now on …".
    pub fn strip<'t>(&self, text: &'t str, corrects: bool) -> Led<'t> {
        let mut led = Led { rest: text.trim(), corrects, lasts: false };
        loop {
            if let Some(next) = each(self.lasting).find_map(|lead| (self.led)(led.rest, lead)) {
                (led.rest, led.lasts) = (next, true);
            } else if let Some(next) = each(self.correcting).find_map(|lead| (self.led_by_no)(led.rest, lead))
            {
                (led.rest, led.corrects) = (next, true);
            } else if let Some(next) = each(self.plain).find_map(|lead| (self.led)(led.rest, lead)) {
                led.rest = next;
            } else {
                return led;
            }
        }
    }
}

/// What a prompt says that outlives its task.
pub(super) fn said(prompt: &str) -> Vec<LearningDraft> {
    let mut drafts = Vec::new();
    // "No." and then what is right.
    let mut corrects = false;
    for sentence in sentences(prompt) {
        let heard = heard(&sentence, corrects);
        corrects = is_no(&sentence.text);
        let Some(heard) = heard else { continue };
        let content = finished(&heard.content);
        if content.chars().count() > LONGEST {
            continue;
        }
        let category = heard.category.unwrap_or_else(|| match category_of(&content) {
            // Who tells how things are to be done tells a convention.
            Category::Architecture => Category::Convention,
            category => category,
        });
        let mut draft = LearningDraft::new(category, content, heard.confidence);
        draft.everywhere = is_everywhere(&sentence.text);
        drafts.push(draft);
    }
    drafts
}

fn heard(sentence: &Sentence, corrects: bool) -> Option<Heard> {
    if sentence.asks {
        return None;
    }
    let text = sentence.text.as_str();
    let is_kana = |char: char| ('\u{3041}'..='\u{30ff}').contains(&char);
    let is_han = |char: char| ('\u{4e00}'..='\u{9fff}').contains(&char);
    if text.chars().any(is_kana) {
        return japanese::heard(text, corrects);
    }
    if text.chars().any(is_han) {
        return chinese::heard(text, corrects);
    }
    english::heard(text, corrects).or_else(|| german::heard(text, corrects))
}

/// Whether a sentence says no and nothing else.
fn is_no(text: &str) -> bool {
    let word = text.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase();
    const NO: &str = "no|nope|nah|wrong|that's wrong|that is wrong|that’s wrong|not like that|incorrect|nein|falsch|\
        das ist falsch|不|不对|不是|错了|いいえ|いや|違う|違います";
    each(NO).any(|known| known == word.as_str())
}

fn is_everywhere(text: &str) -> bool {
    let text = text.to_lowercase();
    const WORDS: &str = "in all projects|in all my projects|in every project|in all repos|in all my repos|everywhere|\
        for all my projects|in allen projekten|überall|所有项目|全プロジェクト|すべてのプロジェクト|どのプロジェクト";
    each(WORDS).any(|word| text.contains(word))
}

/// A sentence of its own.
fn finished(text: &str) -> String {
    let ends = [' ', ',', ';', ':', '.', '!', '-', '–', '—', '、', '，', '。', '！'];
    let text =
        text.trim().trim_end_matches(ends).trim_start_matches([',', ' ', ':', '-', '–', '—', '，', '、']);
    let mut chars = text.chars();
    match chars.next() {
        // Scripts without capitals would only have their foreign names changed.
        Some(_) if text.chars().any(|char| char > '\u{2e7f}') => text.to_owned(),
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
