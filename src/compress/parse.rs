//! Reads a model's answer in any form: a tool call's input, JSON that is bare, fenced or within prose, tags, cut off
//! anywhere. Keeps every usable part and drops the rest.
//!
//! Independent of the provider and of the request. Recursion is bounded, and so is the result, however long the answer is.

mod draft;
mod fields;
mod json;
mod tags;

use serde_json::{Map, Value};

use crate::model::{ObservationDraft, SummaryDraft};
pub use draft::Learnt;
use tags::Tags;

/// Maximum length of an answer that is read, in bytes. A usual one has a few kilobytes.
pub const MOST_BYTES: usize = 1 << 20;

/// Maximum number of observations taken from one answer.
pub const MOST_OBSERVATIONS: usize = 50;

/// A model's answer to a request for a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one for each answer, and it is gone soon")]
pub enum SummaryAnswer {
    /// The summary.
    Summary(SummaryDraft),
    /// The model found nothing to summarise.
    Skip {
        /// The model's reason.
        reason: Option<String>,
    },
}

/// An answer with nothing usable in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unusable {
    /// The kind of text that came instead, and its beginning.
    pub reason: String,
}

/// A model's answer for a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TurnAnswer {
    /// The observations; empty if the model states that nothing is worth keeping.
    pub observations: Vec<ObservationDraft>,
    /// The summary; none if the model gave none.
    pub summary: Option<SummaryDraft>,
    /// Learnings, as the model states them.
    pub learnings: Vec<Learnt>,
}

/// Reads the answer for a whole turn. Unusable only if it has neither an observation nor a summary, and does not state that
/// there is none.
pub fn turn(text: &str) -> Result<TurnAnswer, Unusable> {
    let (observations, summary) = (observations(text), summary(text));
    if let (Err(unusable), Err(_)) = (&observations, &summary) {
        return Err(unusable.clone());
    }
    let summary = match summary {
        Ok(SummaryAnswer::Summary(draft)) => Some(draft),
        Ok(SummaryAnswer::Skip { .. }) | Err(_) => None,
    };
    Ok(TurnAnswer { observations: observations.unwrap_or_default(), summary, learnings: learnings(text) })
}

/// The observations in a model's answer for a batch. Empty if the model states that nothing is worth keeping.
pub fn observations(text: &str) -> Result<Vec<ObservationDraft>, Unusable> {
    let text = answer_in(text)?;
    let tags = Tags::of(text);
    let blocks = json::blocks(text);
    let mut found = Vec::new();
    let mut says_none = false;
    for block in &blocks {
        let mut walk = Walk::default();
        walk.observations(&block.value, false, 0);
        says_none |= walk.empty_list && block.complete;
        found.extend(walk.found.into_iter().map(|draft| (block.start, draft)));
    }
    let tagged: Vec<_> = tags.observations();
    // Tags within JSON and JSON within tags are text: the one that begins first is the answer.
    let tags_first =
        tagged.first().is_some_and(|(start, _)| found.first().is_none_or(|(other, _)| start < other));
    if tags_first {
        found =
            tagged.into_iter().filter_map(|(at, object)| Some((at, draft::observation(&object)?))).collect();
    }
    if !found.is_empty() {
        return Ok(found.into_iter().map(|(_, draft)| draft).take(MOST_OBSERVATIONS).collect());
    }
    let skips = ["skip", "skipobservations", "skipobservation", "noobservations", "noobservation"];
    if says_none || text == "[]" || tags.skip(&skips).is_some() || is_nothing(text) {
        return Ok(Vec::new());
    }
    Err(unusable("no observation in the answer", text))
}

/// The summary in a model's answer for a turn.
pub fn summary(text: &str) -> Result<SummaryAnswer, Unusable> {
    let text = answer_in(text)?;
    let tags = Tags::of(text);
    let blocks = json::blocks(text);
    let in_json = blocks.iter().find_map(|block| Some((block.start, find_summary(&block.value, 0)?)));
    let tagged = tags.summary().and_then(|(at, object)| Some((at, draft::summary(&object)?)));
    let first = match (in_json, tagged) {
        (Some(json), Some(tagged)) => Some(if tagged.0 < json.0 { tagged } else { json }),
        (json, tagged) => json.or(tagged),
    };
    if let Some((_, draft)) = first {
        return Ok(SummaryAnswer::Summary(draft));
    }
    let skip = blocks.iter().find_map(|block| skip_in(&block.value));
    if let Some(reason) = skip.or_else(|| tags.skip(&["skipsummary", "skip", "nosummary"])) {
        return Ok(SummaryAnswer::Skip { reason });
    }
    if is_nothing(text) {
        return Ok(SummaryAnswer::Skip { reason: fields::text(&Value::from(text), fields::SUMMARY) });
    }
    Err(unusable("no summary in the answer", text))
}

/// Maximum number of learnings taken from one answer.
pub const MOST_LEARNINGS: usize = 8;

/// The learnings in a model's answer. An empty list is a valid answer.
pub fn learnings(text: &str) -> Vec<Learnt> {
    let Ok(text) = answer_in(text) else { return Vec::new() };
    let blocks = json::blocks(text);
    let mut found: Vec<Learnt> = Vec::new();
    blocks.iter().for_each(|block| find_learnings(&block.value, 0, &mut found));
    if blocks.is_empty() {
        found.extend(
            Tags::of(text).learnings().iter().filter_map(|item| draft::learnt(&Value::from(item.as_str()))),
        );
    }
    found.truncate(MOST_LEARNINGS);
    found
}

fn find_learnings(value: &Value, strings: usize, found: &mut Vec<Learnt>) {
    match value {
        Value::Object(object) => match fields::get(object, &["learnings"]) {
            Some(Value::Array(items))
                if fields::get(object, &["learned"]).is_some() || items.iter().any(Value::is_object) =>
            {
                found.extend(items.iter().filter_map(draft::learnt));
            }
            _ => object
                .iter()
                .filter(|(key, _)| *key != "error")
                .for_each(|(_, value)| find_learnings(value, strings, found)),
        },
        Value::Array(items) => items.iter().for_each(|item| find_learnings(item, strings, found)),
        Value::String(text) => {
            nested(text, strings).iter().for_each(|block| find_learnings(&block.value, strings + 1, found));
        }
        _ => {}
    }
}

/// The answer itself: bounded, and without the reasoning that some models put in front.
fn answer_in(text: &str) -> Result<&str, Unusable> {
    let mut text = text.trim();
    for (open, close) in [("<think>", "</think>"), ("<thinking>", "</thinking>")] {
        if let Some(thoughts) = text.strip_prefix(open)
            && let Some((_, answer)) = thoughts.split_once(close)
        {
            text = answer.trim();
        }
    }
    let text = text[..text.floor_char_boundary(MOST_BYTES)].trim_end();
    let begins = |start: &str| {
        text.as_bytes().get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start.as_bytes()))
    };
    if text.is_empty() {
        return Err(Unusable { reason: "the answer is empty".into() });
    }
    if begins("<!doctype") || begins("<html") {
        return Err(unusable("a web page instead of an answer", text));
    }
    Ok(text)
}

fn unusable(what: &str, text: &str) -> Unusable {
    const EXCERPT: usize = 120;
    let excerpt = fields::line(text, EXCERPT).unwrap_or_default();
    Unusable { reason: format!("{what}: {excerpt}") }
}

/// A short sentence which states that there is nothing.
fn is_nothing(text: &str) -> bool {
    const LONGEST: usize = 300;
    const PHRASES: [&str; 10] = [
        "nothing worth",
        "no observation",
        "nothing to record",
        "nothing to remember",
        "nothing to report",
        "nothing notable",
        "nothing significant",
        "nothing to summar",
        "nothing new",
        "no summary",
    ];
    const REFUSALS: [&str; 6] = ["can't", "can’t", "cannot", "unable", "sorry", "not able"];
    if text.len() > LONGEST {
        return false;
    }
    let text = text.to_lowercase();
    let word = text.trim_matches(|letter: char| !letter.is_alphanumeric());
    matches!(word, "none" | "nothing" | "skip")
        || PHRASES.iter().any(|phrase| text.contains(phrase))
            && !REFUSALS.iter().any(|refusal| text.contains(refusal))
}

/// JSON in a string in JSON, as in a tool call's arguments. Unwrapped at most twice.
fn nested(text: &str, strings: usize) -> Vec<json::Block> {
    let is_json = strings < 2 && text.trim_start().starts_with(['{', '[', '`']);
    if is_json { json::blocks(text) } else { Vec::new() }
}

/// Looks for observations in JSON, inside any wrappers.
#[derive(Default)]
struct Walk {
    found: Vec<ObservationDraft>,
    /// True if there is an empty list of observations.
    empty_list: bool,
}

impl Walk {
    /// `listed`: the value is under a name for observations. `strings`: the number of strings it was wrapped in.
    fn observations(&mut self, value: &Value, listed: bool, strings: usize) {
        if self.found.len() >= MOST_OBSERVATIONS {
            return;
        }
        match value {
            Value::Object(object) => self.object(object, strings),
            Value::Array(items) => {
                self.empty_list |= listed && items.is_empty();
                items.iter().for_each(|item| self.observations(item, listed, strings));
            }
            Value::Null => self.empty_list |= listed,
            Value::String(text) => self.string(text, listed, strings),
            Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn object(&mut self, object: &Map<String, Value>, strings: usize) {
        let list = fields::get(object, &["observations", "observation", "memories", "entries"]);
        if let Some(list) = list {
            return self.observations(list, true, strings);
        }
        if let Some(draft) = draft::observation(object) {
            self.found.push(draft);
            return;
        }
        self.empty_list |= skip_in_object(object).is_some();
        for (key, value) in object {
            if key != "error" {
                self.observations(value, false, strings);
            }
        }
    }

    fn string(&mut self, text: &str, listed: bool, strings: usize) {
        let blocks = nested(text, strings);
        if !blocks.is_empty() {
            return blocks.iter().for_each(|block| self.observations(&block.value, listed, strings + 1));
        }
        if listed {
            match draft::observation_of_text(text) {
                Some(draft) => self.found.push(draft),
                None => self.empty_list = true,
            }
        }
    }
}

fn find_summary(value: &Value, strings: usize) -> Option<SummaryDraft> {
    match value {
        Value::Object(object) => match fields::get(object, &["summary", "sessionsummary"]) {
            Some(inner @ Value::Object(_)) => find_summary(inner, strings),
            _ => draft::summary(object).or_else(|| {
                let mut others = object.iter().filter(|(key, _)| *key != "error");
                others.find_map(|(_, value)| find_summary(value, strings))
            }),
        },
        Value::Array(items) => items.iter().find_map(|item| find_summary(item, strings)),
        Value::String(text) => {
            nested(text, strings).iter().find_map(|block| find_summary(&block.value, strings + 1))
        }
        _ => None,
    }
}

/// The model's reason, if it skips in JSON.
fn skip_in(value: &Value) -> Option<Option<String>> {
    match value {
        Value::Object(object) => skip_in_object(object).or_else(|| object.values().find_map(skip_in)),
        Value::Array(items) => items.iter().find_map(skip_in),
        _ => None,
    }
}

fn skip_in_object(object: &Map<String, Value>) -> Option<Option<String>> {
    let skip = fields::get(object, &["skipsummary", "skip", "skipped"])?;
    let reason =
        |object: &Map<String, Value>| fields::text(fields::get(object, &["reason"])?, fields::SUMMARY);
    match skip {
        Value::Bool(false) => None,
        Value::Object(inner) => Some(reason(inner)),
        Value::String(text) => Some(fields::text(&Value::from(text.as_str()), fields::SUMMARY)),
        _ => Some(reason(object)),
    }
}

#[cfg(test)]
mod tests;
