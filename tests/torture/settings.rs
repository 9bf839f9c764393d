//! Various settings that a user may have, by number.

use crate::harness::rng::Dice;

/// A settings file. `url` is the model's address.
pub fn settings(number: u64, url: &str) -> String {
    let mut dice = Dice::new(number);
    let provider = if dice.once_in(4) { "local" } else { "anthropic" };
    let mut pick = |from: &[&str]| (*dice.pick(from)).to_owned();
    let lines = [
        "[compress]".to_owned(),
        format!("provider = \"{provider}\""),
        // A hanging endpoint times out soon.
        "timeout_s = 2".to_owned(),
        format!("verbosity = \"{}\"", pick(&["minimal", "normal", "verbose"])),
        "[anthropic]".to_owned(),
        format!("base_url = \"{url}\""),
        "[batch]".to_owned(),
        format!("enabled = {}", pick(&["true", "true", "false"])),
        format!("max_size = {}", pick(&["1", "3", "20", "20"])),
        format!("max_wait_s = {}", pick(&["1", "300"])),
        "[worker]".to_owned(),
        format!("concurrency = {}", pick(&["1", "2", "8"])),
        format!("stop_s = {}", pick(&["1", "10"])),
        "[hook]".to_owned(),
        format!("busy_ms = {}", pick(&["20", "250", "250"])),
        "[retention]".to_owned(),
        format!("raw_days = {}", pick(&["0", "7"])),
        "[backup]".to_owned(),
        format!("keep = {}", pick(&["0", "2", "7"])),
        "[cost]".to_owned(),
        format!("max_usd_per_day = {}", pick(&["1000.0", "1000.0", "0.05"])),
    ];
    lines.join("\n")
}

/// The settings at the beginning and the end of a run.
pub fn usual(url: &str) -> String {
    format!(
        "[compress]\nprovider = \"anthropic\"\ntimeout_s = 2\n[anthropic]\nbase_url = \"{url}\"\n\
         [cost]\nmax_usd_per_day = 1000.0\n"
    )
}
