use std::fs;
use std::path::Path;

use toml::de::DeTable;

use super::layers::{KNOWN_SECTIONS, file_settings, is_all_comments};
use super::*;

fn load(text: &str, overrides: &[(&str, &str)]) -> Result<Config, String> {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("config.toml");
    fs::write(&file, text).unwrap();
    Config::load(&file, &Environment::with_overrides(overrides))
        .map_err(|error| error.to_string().replace(&*scratch.path().to_string_lossy(), ""))
}

#[test]
fn the_compiled_in_defaults_are_valid_and_match_the_contract() {
    let config = Config::default();
    assert_eq!(config, toml::from_str(DEFAULTS).unwrap());
    let hook = HookSettings { busy_ms: 250, max_payload_bytes: 1 << 20, synchronous: Synchronous::Normal };
    assert_eq!(config.hook, hook);
    assert_eq!((config.queue.max_attempts, config.worker.concurrency, config.worker.stop_s), (3, 2, 10));
    assert_eq!(config.batch, BatchSettings { enabled: true, max_size: 60, max_wait_s: 300 });
    assert_eq!(config.compress.model, "claude-haiku-5-5");
    assert_eq!((config.context.budget, config.context.worker_timeout_ms), (2000, 1500));
    assert_eq!(config.cost.max_usd_per_day, 1.0);
    assert_eq!(
        config.retention,
        RetentionSettings { raw_days: 7, queue_days: 30, event_log_days: 90, max_mb: 2048 }
    );
}

#[test]
#[cfg(feature = "service")]
fn the_commented_defaults_set_nothing_and_name_every_key() {
    let text = commented_defaults();
    let table = DeTable::parse(&text).unwrap();
    assert!(file_settings(Path::new("x"), &text, table.get_ref()).is_empty(), "{text}");
    // A comment has one space after its #, a commented-out key none, and a line of a list two.
    let is_comment = |line: &str| line.starts_with(' ') && !line.starts_with("  ");
    let lines = text.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    let uncommented: String =
        lines.filter(|line| !is_comment(line)).map(|line| format!("{line}\n")).collect();
    assert_eq!(toml::from_str::<Config>(&uncommented).unwrap(), Config::default());
}

#[test]
fn known_sections_are_the_sections_of_the_default_file() {
    let table = DeTable::parse(DEFAULTS).unwrap();
    let mut sections: Vec<_> = table.get_ref().keys().map(|key| key.get_ref().to_string()).collect();
    let mut known = KNOWN_SECTIONS.map(String::from);
    sections.sort();
    known.sort();
    assert_eq!(sections, known);
}

#[test]
fn no_file_and_an_empty_file_mean_the_defaults() {
    assert_eq!(load("", &[]), Ok(Config::default()));
    let missing = Config::load(Path::new("/nonexistent/config.toml"), &Environment::default());
    assert_eq!(missing.unwrap(), Config::default());
}

#[test]
fn the_environment_overrides_the_file_and_the_file_the_defaults() {
    let text =
        "[hook]\nbusy_ms = 100\n[batch]\nmax_size = 5\n[capture.project_aliases]\n\"/srv/a\" = \"alpha\"";
    let config = load(text, &[("CLAUDE_MEM_HOOK_BUSY_MS", "70")]).unwrap();
    assert_eq!((config.hook.busy_ms, config.batch.max_size), (70, 5));
    assert_eq!(config.capture.project_aliases["/srv/a"], "alpha");
    assert_eq!(config.hook.max_payload_bytes, 1 << 20);
}

#[test]
fn variable_names_of_other_programs_keep_working() {
    let config = load(
        "",
        &[
            ("CLAUDE_MEM_MODEL", "some-model"),
            ("CLAUDE_MEM_VERBOSITY", "minimal"),
            ("CLAUDE_MEM_BATCHING_ENABLED", "false"),
            ("CLAUDE_MEM_BATCH_MAX_SIZE", "7"),
            ("CLAUDE_MEM_SOMETHING_ELSE", "is not ours"),
        ],
    )
    .unwrap();
    assert_eq!(config.compress.model, "some-model");
    assert_eq!(config.compress.verbosity, Verbosity::Minimal);
    assert_eq!((config.batch.enabled, config.batch.max_size), (false, 7));
}

#[test]
fn anthropic_base_url_overrides_the_file() {
    let shared = ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
    let config = load("[anthropic]\nbase_url = 'http://127.0.0.1:2'", &[shared]).unwrap();
    assert_eq!(config.anthropic.base_url, "http://127.0.0.1:1");
    let both = load("", &[shared, ("CLAUDE_MEM_ANTHROPIC_BASE_URL", "http://127.0.0.1:3")]).unwrap();
    assert_eq!(both.anthropic.base_url, "http://127.0.0.1:3");
}

#[test]
fn lists_in_the_environment_are_toml_or_comma_separated() {
    let commas = load("", &[("CLAUDE_MEM_CAPTURE_SKIP_TOOLS", "Read, Glob")]).unwrap();
    let toml = load("", &[("CLAUDE_MEM_CAPTURE_SKIP_TOOLS", "['Read', 'Glob']")]).unwrap();
    assert_eq!(commas.capture.skip_tools, ["Read", "Glob"]);
    assert_eq!(commas, toml);
}

#[test]
fn a_mistake_names_file_line_and_key() {
    let unknown_key = load("\n[hook]\nbusy_ms = 5\nbussy_ms = 6", &[]).unwrap_err();
    assert!(unknown_key.starts_with("/config.toml:4: hook.bussy_ms: unknown field"), "{unknown_key}");
    let bad_type = load("[hook]\nbusy_ms = \"soon\"", &[]).unwrap_err();
    assert!(bad_type.starts_with("/config.toml:2: hook.busy_ms: invalid type"), "{bad_type}");
    let too_small = load("[worker]\n\nconcurrency = 0", &[]).unwrap_err();
    assert_eq!(too_small, "/config.toml:3: worker.concurrency: 0 is too small; the minimum is 1");
    let unknown_section = load("[hooks]\nbusy_ms = 5", &[]).unwrap_err();
    assert!(unknown_section.starts_with("/config.toml:1: hooks: unknown field"), "{unknown_section}");
    let bad_choice = load("[compress]\nprovider = 'gpt'", &[]).unwrap_err();
    assert!(bad_choice.contains("compress.provider: unknown variant `gpt`, expected one of"), "{bad_choice}");
    let not_toml = load("[hook]\nbusy_ms 5", &[]).unwrap_err();
    assert!(not_toml.starts_with("/config.toml:2: "), "{not_toml}");
    let variable = load("", &[("CLAUDE_MEM_HOOK_BUSY_MS", "soon")]).unwrap_err();
    assert!(variable.starts_with("CLAUDE_MEM_HOOK_BUSY_MS: hook.busy_ms: invalid type"), "{variable}");
    let section_as_value = load("hook = 5", &[]).unwrap_err();
    assert!(section_as_value.starts_with("/config.toml:1: hook: invalid type"), "{section_as_value}");
}

#[test]
fn the_forgiving_load_keeps_valid_settings_and_reports_the_rest() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("config.toml");
    fs::write(&file, "[hook]\nbusy_ms = 'x'\nmax_payload_bytes = 8192\nnonsense = 1\n[zoo]\na = 1").unwrap();
    let (config, problems) = Config::load_forgiving(&file, &Environment::default());
    let hook = HookSettings { busy_ms: 250, max_payload_bytes: 8192, synchronous: Synchronous::Normal };
    assert_eq!(config.hook, hook);
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["hook.busy_ms", "hook.nonsense", "zoo"]);
}

#[test]
fn a_file_that_sets_nothing_is_recognised_without_parsing() {
    assert!(is_all_comments(&commented_defaults()));
    assert!(!is_all_comments(&commented_defaults().replace("#busy_ms", "busy_ms")));
    assert!(!is_all_comments("[zoo]"), "an unknown section must be reported");
    assert!(!is_all_comments("[hook"));
}

#[test]
fn both_loaders_report_a_mistake_in_a_file_that_sets_nothing() {
    for text in
        ["# a bell \u{7} in a comment", "[hook]\n[hook]", "\u{a0}# no blank of TOML's", "# a\rb", "[hook ]x"]
    {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("config.toml");
        fs::write(&file, text).unwrap();
        let strict = Config::load(&file, &Environment::default()).unwrap_err();
        let (config, problems) = Config::load_forgiving(&file, &Environment::default());
        let ConfigError::Bad(problem) = strict else { panic!("{strict}") };
        assert_eq!(problems, [problem], "{text:?}");
        assert_eq!(config, Config::default());
    }
}

#[test]
fn the_forgiving_load_survives_a_file_that_is_not_text() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("config.toml");
    fs::write(&file, [0xff, 0xfe, 0x00]).unwrap();
    let (config, problems) = Config::load_forgiving(&file, &Environment::default());
    assert_eq!((config, problems.len()), (Config::default(), 1));
}
