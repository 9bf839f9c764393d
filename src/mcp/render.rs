//! Answers as text for a model: one line a memory where a line is enough, and never more tokens than a client takes.

use serde_json::Value;

use crate::context::line::one_line;
use crate::tokens::Budget;

/// The most that any answer takes. Claude Code refuses results over about 25,000.
pub const MOST_TOKENS: usize = 20_000;
/// Kept back for the closing line, which tells how to go on.
const CLOSING_TOKENS: usize = 600;

const TITLE_CHARS: usize = 100;

/// A text that grows line by line until it is full.
struct Page {
    text: String,
    budget: Budget,
}

impl Page {
    fn new() -> Self {
        Self { text: String::new(), budget: Budget::new(MOST_TOKENS - CLOSING_TOKENS) }
    }

    /// Adds the line if it fits.
    fn line(&mut self, line: &str) -> bool {
        let fits = self.budget.take(line);
        if fits {
            self.text.push_str(line);
            self.text.push('\n');
        }
        fits
    }

    /// Adds as much of a text as fits, line by line. True if it was all.
    fn whole(&mut self, text: &str) -> bool {
        text.lines().all(|line| {
            if self.line(line) {
                return true;
            }
            // One line may be a whole log.
            let mut part = line;
            while !part.is_empty() {
                part = &part[..part.floor_char_boundary(part.len() / 2)];
                if self.line(part) {
                    break;
                }
            }
            false
        })
    }

    fn close(mut self, closing: &str) -> String {
        self.text.push_str(closing);
        self.text.trim_end().to_owned()
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// What it is: the type of an observation, else its kind.
fn kind(value: &Value) -> &str {
    value["type"].as_str().unwrap_or_else(|| text(value, "kind"))
}

/// A page of hits.
pub fn found(found: &Value, project: &str) -> String {
    let mut page = Page::new();
    for correction in list(found, "corrections") {
        page.line(&format!(
            "Nothing has '{}'; looked for '{}'.",
            one_line(text(correction, "asked"), 60),
            one_line(text(correction, "read_as"), 60)
        ));
    }
    let hits = list(found, "hits").count();
    if hits == 0 {
        return page.close(&format!("Nothing in {} matches.", one_line(project, 60)));
    }
    for hit in list(found, "hits") {
        let title = one_line(text(hit, "title"), TITLE_CHARS);
        let similar = match hit["similar"].as_array().map_or(0, Vec::len) {
            0 => String::new(),
            count => format!(" (+{count} alike)"),
        };
        page.line(&format!("{} {} {}: {title}{similar}", text(hit, "ref"), kind(hit), text(hit, "age")));
    }
    match found["next_offset"].as_u64() {
        Some(next) => page.close(&format!("{} in all; offset {next} shows more.", found["total"])),
        None => page.close(""),
    }
}

/// What happened around something.
pub fn timeline(timeline: &Value) -> String {
    let mut page = Page::new();
    for moment in list(timeline, "moments") {
        let mark = if moment["anchor"] == true { "> " } else { "" };
        let title = one_line(text(moment, "title"), TITLE_CHARS);
        page.line(&format!(
            "{mark}{} {} {}: {title}",
            text(moment, "ref"),
            kind(moment),
            text(moment, "age")
        ));
    }
    page.close("")
}

/// Memories in full. `wanted` are the ids that were asked for.
pub fn memories(answer: &Value, wanted: &[String]) -> String {
    let mut page = Page::new();
    let mut left_out: Vec<&str> = Vec::new();
    let mut is_full = false;
    let mut shown = 0;
    for memory in list(answer, "memories") {
        if is_full {
            left_out.push(text(memory, "ref"));
            continue;
        }
        is_full = !memory_lines(&mut page, memory);
        shown += 1;
        if is_full {
            left_out.push(text(memory, "ref"));
            page.text.push_str("[cut here]\n");
        }
    }
    let mut closing = Vec::new();
    if let Some((first, others)) = left_out.split_first() {
        let ids: Vec<&str> = others.iter().take(50).copied().collect();
        closing.push(match (ids.is_empty(), shown) {
            (true, 1) => format!("{first} is too long to show whole: `claude-mem show {first}` prints it."),
            (true, _) => format!("{first} was cut: get it alone."),
            (false, _) => {
                format!("{first} was cut, and there was no room for {}: get them apart.", ids.join(", "))
            }
        });
    }
    let missing = missing(answer, wanted);
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.into_iter().take(50).collect();
        closing.push(format!("Not there, or forgotten: {}.", missing.join(", ")));
    }
    page.close(&closing.join("\n"))
}

fn missing<'a>(answer: &Value, wanted: &'a [String]) -> Vec<&'a str> {
    let is_there =
        |id: &str| list(answer, "memories").any(|memory| text(memory, "ref").eq_ignore_ascii_case(id));
    wanted.iter().map(|id| id.trim_start_matches('#')).filter(|id| !is_there(id)).collect()
}

fn memory_lines(page: &mut Page, memory: &Value) -> bool {
    let head = format!(
        "## {} {} {}, {}",
        text(memory, "ref"),
        kind(memory),
        text(memory, "age"),
        one_line(text(memory, "project"), 60)
    );
    let mut is_whole = page.line(&head);
    let mut said = "";
    for part in ["title", "summary", "detail"] {
        let words = text(memory, part).trim();
        // A short one is often said again as the beginning of the next.
        if !words.is_empty() && words != said {
            is_whole = is_whole && page.whole(words);
            said = words;
        }
    }
    for (name, heading) in
        [("facts", "Facts"), ("files_modified", "Changed"), ("files_read", "Read"), ("concepts", "Concepts")]
    {
        let items: Vec<&str> = list(memory, name).filter_map(Value::as_str).collect();
        if items.is_empty() {
            continue;
        }
        let lines = match name {
            "facts" => items.iter().map(|fact| format!("- {fact}")).collect::<Vec<_>>().join("\n"),
            _ => format!("{heading}: {}", items.join(", ")),
        };
        is_whole = is_whole && page.whole(&lines);
    }
    is_whole
}

/// The latest sessions, what they left open, and the learnings.
pub fn recent(recent: &Value) -> String {
    let mut page = Page::new();
    let project = one_line(text(recent, "project"), 60);
    if list(recent, "sessions").next().is_none() && list(recent, "learnings").next().is_none() {
        return page.close(&format!("Nothing is remembered of {project} yet."));
    }
    for session in list(recent, "sessions") {
        let interrupted = if text(session, "status") == "interrupted" { " (interrupted)" } else { "" };
        let request = one_line(text(session, "request"), 200);
        let line = format!("{} {}{interrupted}: {request}", text(session, "ref"), text(session, "age"));
        page.line(line.trim_start());
        for (name, word) in [("completed", "Done"), ("next_steps", "Next")] {
            let words = one_line(text(session, name), 400);
            if !words.is_empty() {
                page.line(&format!("  {word}: {words}"));
            }
        }
    }
    if list(recent, "learnings").next().is_some() {
        page.line("Learnings:");
    }
    for learning in list(recent, "learnings") {
        page.line(&format!(
            "L{} {}: {}",
            learning["id"],
            text(learning, "category"),
            one_line(text(learning, "content"), 400)
        ));
    }
    match recent["next_offset"].as_u64() {
        Some(next) => page.close(&format!("Earlier ones: offset {next}.")),
        None => page.close(""),
    }
}

/// A list of names, shortened.
pub fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut shown: Vec<String> = names.take(13).map(|name| one_line(name, 60)).collect();
    if shown.len() == 13 {
        shown[12] = "…".into();
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tokens;

    fn memory(id: usize, words: &str) -> Value {
        json!({"ref": id.to_string(), "kind": "observation", "type": "bugfix", "project": "harborline",
               "age": "3 days ago", "title": "Fix the race", "summary": words, "detail": "", "facts": ["One fact."],
               "files_modified": ["src/a.rs"]})
    }

    #[test]
    fn no_answer_is_larger_than_a_client_takes() {
        let huge = ["word ".repeat(40_000), "記憶".repeat(20_000), "a\n".repeat(40_000)];
        for words in &huge {
            let answer = json!({"memories": (1..=5).map(|id| memory(id, words)).collect::<Vec<_>>()});
            let wanted: Vec<String> = (1..=5).map(|id| id.to_string()).collect();
            let shown = memories(&answer, &wanted);
            assert!(tokens::ceiling(&shown) <= MOST_TOKENS, "{}", tokens::ceiling(&shown));
            assert!(
                shown.contains("1 was cut, and there was no room for 2, 3, 4, 5"),
                "{}",
                &shown[shown.len() - 300..]
            );
        }
        let long: Vec<String> = huge.iter().map(|words| words.chars().take(1_000).collect()).collect();
        let many = |name: &str| {
            json!({name: (0..500).map(|id| json!({"ref": format!("{id}"), "kind": "prompt", "age": "now",
                          "title": long[0], "request": long[1], "next_steps": long[1], "content": long[0]})).collect::<Vec<_>>()})
        };
        for shown in [
            found(&many("hits"), "p"),
            timeline(&many("moments")),
            recent(&many("sessions")),
            recent(&many("learnings")),
        ] {
            assert!(tokens::ceiling(&shown) <= MOST_TOKENS);
        }
    }

    #[test]
    fn a_hit_takes_about_thirty_tokens() {
        let hit = json!({"ref": "12345", "type": "bugfix", "age": "3 days ago", "similar": [],
                         "title": "Keep the pool from handing out closed connections"});
        let page = found(&json!({"hits": [hit], "total": 1}), "harborline");
        insta::assert_snapshot!(page, @"12345 bugfix 3 days ago: Keep the pool from handing out closed connections");
        assert!(tokens::estimate(&page) <= 30, "{}", tokens::estimate(&page));
    }

    #[test]
    fn a_memory_reads_well() {
        let answer = json!({"memories": [memory(12, "Two threads took the lock.\nOne never gave it back.")]});
        insta::assert_snapshot!(memories(&answer, &["#12".into(), "99".into()]), @r"
        ## 12 bugfix 3 days ago, harborline
        Fix the race
        Two threads took the lock.
        One never gave it back.
        - One fact.
        Changed: src/a.rs
        Not there, or forgotten: 99.
        ");
    }
}
