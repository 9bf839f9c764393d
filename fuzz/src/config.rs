//! No settings file makes the loader panic. The strict and the forgiving loader agree: either there is no mistake and both
//! return the same settings, or both report the same first mistake.

use claude_mem::config::{Config, ConfigError, Environment};

/// The first line may set variables: `HOOK_BUSY_MS=7 WORKER_AUTOSTART=false`.
fn environment(line: &str) -> Environment {
    let variables = line.split_whitespace().filter_map(|word| word.split_once('='));
    let named: Vec<(String, &str)> =
        variables.map(|(name, value)| (format!("CLAUDE_MEM_{name}"), value)).collect();
    let borrowed: Vec<(&str, &str)> = named.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    Environment::with_overrides(&borrowed)
}

/// Panics if this does not hold.
pub fn check(bytes: &[u8]) {
    let scratch = tempfile::NamedTempFile::new().unwrap();
    let file = scratch.path();
    std::fs::write(file, bytes).unwrap();
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let variables = std::str::from_utf8(first).ok().and_then(|line| line.strip_prefix("# "));
    let environment = environment(variables.unwrap_or_default());
    let (forgiving, problems) = Config::load_forgiving(file, &environment);
    assert!(problems.iter().all(|problem| !problem.place.is_empty() && !problem.message.is_empty()));
    match Config::load(file, &environment) {
        Ok(strict) => assert!(problems.is_empty() && strict == forgiving, "{problems:?}"),
        Err(ConfigError::Bad(problem)) => assert_eq!(Some(&problem), problems.first()),
        Err(ConfigError::Unreadable { .. }) => assert!(!problems.is_empty()),
    }
    // Loaded settings must be usable.
    assert!(forgiving.search.depth() >= 1 && forgiving.hook.max_payload_bytes >= 4096);
}
