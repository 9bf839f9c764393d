//! `claude-mem value`: shows how memory was used, and its effect on sessions.

use std::process::ExitCode;

use crate::api::{Again, Holdout, Measure, Moment, Value};
use crate::cli::output::style::Style;
use crate::cli::output::wrap::{self, counted};
use crate::clock;
use crate::config::{Config, Environment};
use crate::paths::Home;
use crate::store::{self, browse};

/// Show how memory was used, and its effect on sessions
///
/// A memory counts as used if the session that was shown it then changed or read one of its files, ran its command, cited it, or
/// repaired the failure. With value.holdout_percent, sessions without memory are compared with the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  claude-mem value\n  claude-mem value --days 90 --json")]
pub struct Arguments {
    /// Number of days, including today; the event log is kept for retention.event_log_days
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=366))]
    days: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(&home.config(), environment)?;
    let database = store::open_to_read(home, 5000)?;
    let since = clock::first_of_days(arguments.days);
    let percent = config.value.holdout_percent;
    let value = browse::report(&database, arguments.days, since, clock::date, percent)?;
    if arguments.json {
        outln!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        print(&value, Style::of_stdout());
    }
    Ok(ExitCode::SUCCESS)
}

fn print(value: &Value, style: Style) {
    let mut all = Moment::default();
    value.effects.moments.iter().for_each(|moment| all.add(moment));
    outln!("{}", style.strong(&format!("The last {}", counted(i64::from(value.days), "day", "days"))));
    if all.contexts == 0 {
        outln!("No session was shown a memory.");
    } else {
        wrap::print("shown     ", &shown(&all));
        wrap::print("used      ", &used(&all));
        wrap::print("cost      ", &cost(value, &all));
        for moment in value.effects.moments.iter().filter(|moment| moment.contexts > 0) {
            let line = format!("{}; {}", shown(moment), used(moment));
            wrap::print(&format!("  {:<8}", moment.moment), &line);
        }
    }
    again(&value.effects.again);
    outln!("");
    holdout(&value.effects.holdout);
}

fn shown(moment: &Moment) -> String {
    let (memories, contexts) =
        (counted(moment.shown, "memory", "memories"), counted(moment.contexts, "context", "contexts"));
    format!("{memories} in {contexts}, {} tokens", moment.tokens)
}

fn used(moment: &Moment) -> String {
    let share = 100.0 * moment.used as f64 / moment.shown.max(1) as f64;
    let ways = [
        (moment.edited, "file changed"),
        (moment.opened, "file read"),
        (moment.ran, "command run"),
        (moment.cited, "cited"),
        (moment.repaired, "failure repaired"),
    ];
    let ways: Vec<String> =
        ways.iter().filter(|(count, _)| *count > 0).map(|(count, way)| format!("{way} {count}")).collect();
    let ways = if ways.is_empty() { String::new() } else { format!(" ({})", ways.join(", ")) };
    format!("{} then used, {share:.0} %{ways}", moment.used)
}

fn cost(value: &Value, all: &Moment) -> String {
    if all.used == 0 {
        return format!("{} tokens, ${:.4}", all.tokens, value.total.cost_usd);
    }
    let used = all.used as f64;
    format!(
        "{:.0} tokens of context and ${:.4} for models per memory used",
        all.tokens as f64 / used,
        value.total.cost_usd / used
    )
}

fn again(again: &Again) {
    if again.files > 0 {
        wrap::print(
            "again     ",
            &format!(
                "of {} files read, {} were known from earlier sessions, and a memory about {} of them had been shown",
                again.files, again.known_files, again.shown_files
            ),
        );
    }
    if again.failures > 0 {
        let text = format!(
            "of {} repaired failures, {} had been repaired by an earlier session",
            again.failures, again.known_failures
        );
        wrap::print("          ", &text);
    }
}

fn holdout(holdout: &Holdout) {
    if holdout.withheld == 0 {
        let text = match holdout.percent {
            0 => "off; value.holdout_percent = 10 would withhold memory from a tenth of the sessions, to compare the others with them"
                .to_owned(),
            percent => format!("memory is withheld from {percent} % of sessions; none of them so far"),
        };
        return wrap::print("holdout   ", &text);
    }
    let groups = format!(
        "{} with memory, {} without",
        counted(holdout.shown, "session", "sessions"),
        counted(holdout.withheld, "session", "sessions")
    );
    wrap::print("holdout   ", &groups);
    for measure in &holdout.measures {
        wrap::print("  ", &sentence(measure, holdout.needed));
    }
}

/// `tool calls per prompt: 12.1 with memory, 14.0 without: 14 % fewer (95 % interval 3 to 24 % fewer)`
fn sentence(measure: &Measure, needed: i64) -> String {
    let means =
        format!("{}: {:.1} with memory, {:.1} without", measure.name, measure.shown, measure.withheld);
    let Some(([low, high], change)) = measure.interval.zip(measure.change) else {
        return format!("{means}: not enough data (at least {needed} sessions in each group)");
    };
    let interval = format!("95 % interval {low:+.0} to {high:+.0} %");
    match (measure.is_shown(), change < 0.0) {
        (false, _) => format!("{means}: no difference shown ({interval})"),
        (true, true) => format!("{means}: {:.0} % fewer ({interval})", -change),
        (true, false) => format!("{means}: {change:.0} % more ({interval})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_claims_only_what_its_interval_excludes() {
        let measure = |change, interval| Measure {
            name: "tool calls per prompt".into(),
            shown: 10.0,
            withheld: 13.0,
            change,
            interval,
        };
        let cases = [
            (measure(None, None), "not enough data (at least 20"),
            (measure(Some(-23.0), Some([-31.0, -14.0])), "23 % fewer (95 % interval -31 to -14 %)"),
            (measure(Some(-23.0), Some([-50.0, 4.0])), "no difference shown"),
            (measure(Some(12.0), Some([3.0, 22.0])), "12 % more"),
        ];
        for (measure, expected) in cases {
            let text = sentence(&measure, 20);
            assert!(text.contains(expected), "{text}");
        }
    }
}
