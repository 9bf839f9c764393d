//! The table of figures: name, baseline, ours, ratio.

use std::path::Path;

use serde_json::{Value, json};

/// One line.
struct Row {
    what: String,
    baseline: String,
    ours: String,
    ratio: String,
    bound: String,
}

/// All lines so far.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// A time and the time of the baseline, both in milliseconds.
    pub fn time(&mut self, what: &str, baseline_ms: f64, ours_ms: f64, bound: &str) {
        self.push(
            what,
            format!("{baseline_ms:.2} ms"),
            format!("{ours_ms:.2} ms"),
            ours_ms / baseline_ms,
            bound,
        );
    }

    /// A figure without a baseline.
    pub fn figure(&mut self, what: &str, ours: String, bound: &str) {
        self.rows.push(Row {
            what: what.into(),
            baseline: "–".into(),
            ours,
            ratio: "–".into(),
            bound: bound.into(),
        });
    }

    fn push(&mut self, what: &str, baseline: String, ours: String, ratio: f64, bound: &str) {
        self.rows.push(Row {
            what: what.into(),
            baseline,
            ours,
            ratio: format!("{ratio:.2}×"),
            bound: bound.into(),
        });
    }

    /// Prints it as Markdown.
    pub fn print(&self) {
        println!("| what | baseline | ours | ratio | bound |");
        println!("| --- | --- | --- | --- | --- |");
        for Row { what, baseline, ours, ratio, bound } in &self.rows {
            println!("| {what} | {baseline} | {ours} | {ratio} | {bound} |");
        }
    }

    /// Writes the figures to a JSON file, replacing older ones of the same name.
    pub fn keep(&self, file: &Path) {
        let known = std::fs::read_to_string(file).unwrap_or_default();
        let mut kept: Vec<Value> = serde_json::from_str(&known).unwrap_or_default();
        for Row { what, baseline, ours, ratio, bound } in &self.rows {
            let figure =
                json!({"what": what, "baseline": baseline, "ours": ours, "ratio": ratio, "bound": bound});
            match kept.iter_mut().find(|old| old["what"] == figure["what"]) {
                Some(old) => *old = figure,
                None => kept.push(figure),
            }
        }
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, serde_json::to_string_pretty(&kept).unwrap() + "\n").unwrap();
    }
}

/// The median of some times.
pub fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
