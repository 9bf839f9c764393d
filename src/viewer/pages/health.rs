//! Health: the checks of `doctor`, backups, settings and the log.

use maud::{Markup, html};

use super::Write;
use super::text::{bytes, cut, exact, when};
use crate::api::Setting;
use crate::model::Millis;
use crate::viewer::{Backup, Check};

/// The result of the last run of the checks.
#[derive(Debug, Clone, Default)]
pub struct LastChecks {
    /// Time of the run; none if there was none.
    pub at: Option<Millis>,
    /// True while the checks run.
    pub is_running: bool,
    /// The results.
    pub checks: Vec<Check>,
}

/// The page.
pub fn health(
    checked: &LastChecks,
    backups: &[Backup],
    settings: Result<&[Setting], &str>,
    log: &Result<Vec<String>, String>,
    write: &Write<'_>,
) -> Markup {
    let bad = checked.checks.iter().filter(|check| check.state == "failed").count();
    html! {
        div.head {
            h1 { "Health" }
            div.acts {
                (write.button("/health/check", "", "Check again", None))
                @if bad > 0 { (write.button("/health/fix", "main", "Fix what is safe to fix", None)) }
            }
        }
        section.section aria-labelledby="checks" {
            header {
                h2 #checks { "Checks" }
                span.lede { @match (checked.is_running, checked.at) { (true, _) => "running; reload in a few seconds", (_, Some(at)) => { "checked " (when(at)) } (_, None) => "not run yet" } }
            }
            ol.rows {
                @for check in &checked.checks {
                    li.row data-row {
                        (state(check.state))
                        div.title { b { (cut(&check.name, 40)) } " " (cut(&check.found, 400)) }
                        div.end {}
                        @if !check.why.is_empty() { div.whence { (cut(&check.why, 400)) } }
                        @if !check.fix.is_empty() { div.whence { "Fix: " (cut(&check.fix, 400)) } }
                    }
                }
            }
        }
        section.section aria-labelledby="backups" {
            header { h2 #backups { "Backups" } (write.button("/health/backup", "quiet", "Back up now", None)) }
            @if backups.is_empty() { p.lede { "There is no backup yet. The service makes one a day." } }
            div.rows { @for backup in backups.iter().take(20) {
                div.row.two data-row {
                    div.title { code { (cut(&backup.name, 120)) } }
                    div.end { (bytes(i64::try_from(backup.bytes).unwrap_or(i64::MAX))) " · " time title=(exact(backup.created_at)) { (when(backup.created_at)) } }
                }
            } }
            @if let Some(newest) = backups.first() {
                p.lede { "To restore one, run " code { "claude-mem restore " (cut(&newest.name, 120)) } ". It asks first, and keeps the present database." }
            }
        }
        (self::settings(settings))
        section.section aria-labelledby="log" {
            h2 #log { "Log" }
            @match log {
                Ok(lines) if lines.is_empty() => p.lede { "The log is empty." },
                Ok(lines) => pre.log tabindex="0" aria-label="The last lines of the log" { (cut(&lines.join("\n"), 60_000)) },
                Err(message) => p.lede { (cut(message, 300)) },
            }
        }
    }
}

fn state(word: &str) -> Markup {
    let class = match word {
        "ok" | "fixed" => "tag good",
        "note" => "tag warn",
        _ => "tag bad",
    };
    html! { span { span class=(class) { (word) } } }
}

fn settings(settings: Result<&[Setting], &str>) -> Markup {
    html! {
        section.section aria-labelledby="settings" {
            h2 #settings { "Settings in force" }
            @match settings {
                Err(message) => p.lede { (cut(message, 300)) },
                Ok(settings) => {
                    @let changed: Vec<&Setting> = settings.iter().filter(|setting| !setting.origin.is_empty()).collect();
                    @if changed.is_empty() { p.lede { "All settings have their defaults. " code { "claude-mem config path" } " names the file to change them in." } }
                    @else { (rows(&changed)) }
                    details { summary { "All " (settings.len()) " settings" } (rows(&settings.iter().collect::<Vec<_>>())) }
                }
            }
        }
    }
}

fn rows(settings: &[&Setting]) -> Markup {
    html! {
        div.table tabindex="0" role="region" aria-label="Settings" { table {
            thead { tr { th.text { "Key" } th.text { "Value" } th.text { "From" } } }
            tbody { @for setting in settings {
                tr {
                    td.text { code { (cut(&setting.key, 80)) } }
                    td.text { code { (cut(&setting.value, 300)) } }
                    td.text { @if setting.origin.is_empty() { "default" } @else { (cut(&setting.origin, 200)) } }
                }
            } }
        } }
    }
}
