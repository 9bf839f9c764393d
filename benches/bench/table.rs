//! The table: what was measured, its baseline, and how they relate.

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
    /// A time beside the time of the baseline, both in milliseconds.
    pub fn time(&mut self, what: &str, baseline_ms: f64, ours_ms: f64, bound: &str) {
        self.push(
            what,
            format!("{baseline_ms:.2} ms"),
            format!("{ours_ms:.2} ms"),
            ours_ms / baseline_ms,
            bound,
        );
    }

    /// A figure that stands alone.
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
}

/// The middle of some times.
pub fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
