use std::path::Path;

use super::*;
use crate::hook_events::{ClientVersion, WIRING, command, for_client};

fn wanted_for(hook: &str) -> Vec<WantedHook> {
    let wanted = |wire: Wire| WantedHook { wire, command: command(Path::new(hook), wire.verb, None) };
    for_client(Some(ClientVersion(9, 0, 0))).map(wanted).collect()
}

fn wanted() -> Vec<WantedHook> {
    wanted_for("/home/dev/.local/bin/claude-mem-hook")
}

fn ours(text: &str) -> usize {
    commands(text).unwrap().iter().filter(|found| hook_events::is_ours(&found.command)).count()
}

#[test]
fn missing_or_empty_settings_get_our_hooks() {
    for text in ["", " \n"] {
        let wired = with_hooks(text, &wanted()).unwrap();
        insta::assert_snapshot!("fresh_settings", wired);
        assert_eq!(ours(&wired), WIRING.len());
        assert_eq!(without_hooks(&wired).unwrap().trim(), "{}");
    }
}

const OTHERS: &str = r#"{
    "model":   "opus",
    "hooks": {
        "PostToolUse": [
            { "matcher": "Edit", "hooks": [ { "type": "command", "command": "prettier --write" } ] }
        ],
        "Notification": [{"hooks": [{"type": "command", "command": "notify-send hi"}]}]
    },
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []}, "x": 1.50, "y": "\u00e9\/"
}
"#;

#[test]
fn other_hooks_and_all_other_bytes_are_preserved() {
    let wired = with_hooks(OTHERS, &wanted()).unwrap();
    insta::assert_snapshot!("settings_with_other_hooks", wired);
    for line in OTHERS.lines().filter(|line| line.contains("model") || line.contains("permissions")) {
        assert!(wired.contains(line), "{line}");
    }
    assert_eq!(without_hooks(&wired).unwrap(), OTHERS);
}

#[test]
fn one_line_file_keeps_its_values_when_reformatted() {
    let text = r#"{"a":1,"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]},"z":[2]}"#;
    let wired = with_hooks(text, &wanted()).unwrap();
    assert_eq!(ours(&wired), WIRING.len());
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&without_hooks(&wired).unwrap()), value(text));
}

#[test]
fn adding_hooks_is_idempotent() {
    for text in ["", "{}", OTHERS] {
        let once = with_hooks(text, &wanted()).unwrap();
        assert_eq!(with_hooks(&once, &wanted()).unwrap(), once);
    }
}

#[test]
fn older_hooks_of_ours_are_replaced_everywhere() {
    let old = r#"{"hooks": {
  "Notification": [{"hooks": [{"type": "command", "command": "/old/claude-mem-hook save"}]}],
  "Stop": [{"hooks": [
    {"type": "command", "command": "say done"},
    {"type": "command", "command": "'/old place/claude-mem-hook' summary", "timeout": 60}
  ]}]
}}"#;
    let wired = with_hooks(old, &wanted()).unwrap();
    assert_eq!(ours(&wired), WIRING.len());
    assert!(!wired.contains("/old") && !wired.contains("Notification"), "{wired}");
    assert!(wired.contains("say done"));
    let moved = with_hooks(&wired, &wanted_for("/new/claude-mem-hook")).unwrap();
    assert_eq!((ours(&moved), moved.matches("/new/").count()), (WIRING.len(), WIRING.len()));
}

#[test]
fn older_client_gets_only_the_events_it_accepts() {
    let all = with_hooks("{}", &wanted()).unwrap();
    let safe: Vec<_> = wanted().into_iter().filter(|hook| hook.wire.is_old).collect();
    let fewer = with_hooks(&all, &safe).unwrap();
    assert!(!fewer.contains("StopFailure") && !fewer.contains("PostToolUseFailure"));
    assert_eq!(ours(&fewer), safe.len());
}

#[test]
fn crlf_line_endings_are_preserved_and_used() {
    let text = OTHERS.replace('\n', "\r\n");
    let wired = with_hooks(&text, &wanted()).unwrap();
    assert!(!wired.replace("\r\n", "").contains('\n'), "no bare line end");
    assert_eq!(without_hooks(&wired).unwrap(), text);
}

#[test]
fn tabs_and_byte_order_mark_are_preserved() {
    let text = "\u{feff}{\n\t\"model\": \"opus\"\n}";
    let wired = with_hooks(text, &wanted()).unwrap();
    assert!(
        wired.starts_with("\u{feff}{\n\t\"model\": \"opus\",\n\t\"hooks\": {\n\t\t\"SessionStart\""),
        "{wired}"
    );
    assert_eq!(without_hooks(&wired).unwrap(), text);
}

#[test]
fn comments_and_syntax_errors_report_their_position() {
    let comment = with_hooks("{\n  // mine\n  \"a\": 1\n}", &wanted()).unwrap_err().to_string();
    assert!(comment.contains("line 2, column 3") && comment.contains("comments"), "{comment}");
    for bad in ["{", "{\"a\": 1,}", "{'a': 1}", "{\"a\": 1} x", "nonsense"] {
        assert!(matches!(with_hooks(bad, &wanted()), Err(SettingsError::Invalid { .. })), "{bad}");
    }
}

#[test]
fn unexpected_shapes_are_refused() {
    for bad in ["[]", "1", r#"{"hooks": []}"#, r#"{"hooks": {"Stop": {}}}"#, r#"{"hooks": {}, "hooks": {}}"#]
    {
        assert!(matches!(with_hooks(bad, &wanted()), Err(SettingsError::Shape(_))), "{bad}");
    }
}

#[test]
fn a_large_file_is_edited_like_a_small_one() {
    let rules: Vec<String> = (0..30_000).map(|n| format!("    \"Bash(command-number-{n}:*)\"")).collect();
    let text = format!("{{\n  \"permissions\": {{\"allow\": [\n{}\n  ]}}\n}}\n", rules.join(",\n"));
    assert!(text.len() > 1_000_000);
    let wired = with_hooks(&text, &wanted()).unwrap();
    assert_eq!(without_hooks(&wired).unwrap(), text);
}

#[test]
fn enabled_plugins_and_disable_all_hooks_are_read() {
    let text =
        r#"{"enabledPlugins": {"claude-mem@thedotmack": true, "off@x": false}, "disableAllHooks": true}"#;
    assert_eq!(enabled_plugins(text), ["claude-mem@thedotmack"]);
    assert!(hooks_are_disabled(text) && !hooks_are_disabled("{}"));
}
