//! `claude-mem today`: the work of a day, by project, ready to paste into a stand-up.

use std::process::ExitCode;

use jiff::ToSpan;
use jiff::civil::Date;

use crate::api::{HistoryDay, ProjectDay, SessionDay};
use crate::cli::arguments::project_filter;
use crate::cli::output::style::{Style, harmless};
use crate::cli::output::wrap;
use crate::cli::{UsageError, client};
use crate::config::Environment;
use crate::paths::Home;

/// Show what was done today, by project
///
/// Prints Markdown that can be pasted into a stand-up: each session with its notes, and the points left open.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem today\n  claude-mem today --day yesterday --project my-app\n  claude-mem today --day 2026-11-16 --json"
)]
pub struct Arguments {
    /// Another day: yesterday, a weekday (the last one), or a date like 2026-11-16
    #[arg(long, default_value = "today")]
    day: String,
    /// Only this project: its name or one of its directories
    #[arg(long, short)]
    project: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Notes of a session that are listed; the others are counted.
const NOTES: usize = 8;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let date = named_day(&arguments.day, jiff::Zoned::now().date()).ok_or_else(|| {
        UsageError(format!(
            "invalid day {}: expected today, yesterday, a weekday, or a date like 2026-11-16",
            arguments.day
        ))
    })?;
    let project = project_filter(home, environment, arguments.project.as_deref())?;
    let day = client::ask(home, environment, async |client| client.day(&date.to_string(), project).await)?;
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&day)?);
    } else {
        print(&day, date, Style::of_stdout());
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the day that a word stands for.
fn named_day(word: &str, today: Date) -> Option<Date> {
    let back = |days: i64| today.checked_sub(days.days()).ok();
    match word.to_lowercase().as_str() {
        "today" => Some(today),
        "yesterday" => back(1),
        word if word.len() >= 3 && word.chars().all(char::is_alphabetic) => (1..=7)
            .filter_map(back)
            .find(|date| date.strftime("%A").to_string().to_lowercase().starts_with(word)),
        date => date.parse().ok(),
    }
}

fn print(day: &HistoryDay, date: Date, style: Style) {
    outln!("{}", style.strong(&format!("# {}", date.strftime("%A, %-d %B %Y"))));
    if day.projects.is_empty() {
        outln!("\nNo notes of this day.");
    }
    for project in &day.projects {
        print_project(project, style);
    }
}

fn print_project(project: &ProjectDay, style: Style) {
    outln!("\n{}", style.strong(&format!("## {}", harmless(&project.project))));
    project.sessions.iter().for_each(print_session);
    let open: Vec<&String> = project.sessions.iter().flat_map(|session| &session.open_items).collect();
    if !open.is_empty() {
        wrap::print("", &style.strong("\nOpen:"));
        open.iter().for_each(|item| bullet("- ", item));
    }
}

/// Prints a session as one point, with its notes below it if there are several.
fn print_session(session: &SessionDay) {
    if let [note] = session.notes.as_slice() {
        return bullet("- ", note.heading());
    }
    bullet("- ", session.session.heading());
    let title = session.session.title.as_deref().unwrap_or_default();
    let notes: Vec<&str> =
        session.notes.iter().map(|note| note.heading()).filter(|heading| *heading != title).collect();
    notes.iter().take(NOTES).for_each(|heading| bullet("  - ", heading));
    if notes.len() > NOTES {
        bullet("  - ", &format!("and {} more", notes.len() - NOTES));
    }
}

fn bullet(head: &str, text: &str) {
    wrap::print(head, &harmless(&text.split_whitespace().collect::<Vec<_>>().join(" ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_names() {
        let wednesday: Date = "2026-11-18".parse().unwrap();
        let named = |word| named_day(word, wednesday).map(|date| date.to_string());
        assert_eq!(named("Today").as_deref(), Some("2026-11-18"));
        assert_eq!(named("yesterday").as_deref(), Some("2026-11-17"));
        assert_eq!(named("fri").as_deref(), Some("2026-11-13"));
        assert_eq!(named("wednesday").as_deref(), Some("2026-11-11"), "the last one, not today");
        assert_eq!(named("2026-01-02").as_deref(), Some("2026-01-02"));
        assert_eq!([named("someday"), named("2026-13-02"), named("12")], [None, None, None]);
    }
}
