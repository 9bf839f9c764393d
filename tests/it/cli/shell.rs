//! The output of commands as people read it, and the settings that they change with them.

use regex::Regex;

use super::commands::{mem, remembered};
use crate::harness::sandbox::Sandbox;

/// Replaces everything that differs from run to run.
fn normalized(text: &str, sandbox: &Sandbox) -> String {
    let rules = [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d(–\d\d:\d\d)?", "[time]"),
        (r"# \w+day, \d+ \w+ \d{4}", "# [date]"),
        (r"\b(just now|\d+ minutes? ago)", "[age]"),
        (r"\d+(\.\d)? [kM]B", "[size]"),
        (r"\b\d+ bytes", "[size]"),
        (r"\b[0-9a-f]{40}\b|\b[0-9a-f]{12}\b", "[commit]"),
    ];
    let mut text = text.replace(&sandbox.data().display().to_string(), "[data]");
    text = text.replace(&sandbox.path().display().to_string(), "[home]");
    let project = sandbox.path().file_name().unwrap().to_string_lossy().into_owned();
    text = text.replace(&project, "[project]");
    for (pattern, word) in rules {
        text = Regex::new(pattern).unwrap().replace_all(&text, word).into_owned();
    }
    // Columns are as wide as their widest cell.
    Regex::new("   +")
        .unwrap()
        .replace_all(&text, "   ")
        .lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn commands_read_well() {
    let sandbox = remembered();
    let commands: [&[&str]; 14] = [
        &["status"],
        &["sessions"],
        &["today"],
        &["search", "greeting"],
        &["show", "1"],
        &["show", "one"],
        &["timeline", "1"],
        &["queue", "list"],
        &["queue", "errors"],
        &["config", "get", "compress.provider"],
        &["config", "set", "context.budget", "900"],
        &["config", "effective", "--changed"],
        &["config", "unset", "context.budget"],
        &["export", "--markdown"],
    ];
    let mut seen = String::new();
    for arguments in commands {
        let ran = mem(&sandbox, arguments);
        seen += &format!("$ claude-mem {}\n{}{}\n", arguments.join(" "), ran.stdout, ran.stderr);
    }
    insta::assert_snapshot!("shell", normalized(&seen, &sandbox));
}

#[test]
fn settings_are_changed_one_at_a_time_and_never_broken() {
    let sandbox = Sandbox::new();
    let file = sandbox.data().join("config.toml");
    let mine = "# mine\n[hook]\n#busy_ms = 250\n\n[compress]\nprovider = \"auto\" # for now\n";
    std::fs::create_dir_all(sandbox.data()).unwrap();
    std::fs::write(&file, mine).unwrap();
    let code = |arguments: &[&str]| mem(&sandbox, &[&["config"], arguments].concat()).code;
    let text = || std::fs::read_to_string(&file).unwrap();
    assert_eq!(code(&["set", "compress.provider", "local"]), Some(0));
    assert_eq!(code(&["set", "hook.busy_ms", "500"]), Some(0));
    let changed =
        mine.replace("\"auto\"", "\"local\"").replace("#busy_ms = 250\n", "#busy_ms = 250\nbusy_ms = 500\n");
    assert_eq!(text(), changed);
    let refused = mem(&sandbox, &["config", "set", "compress.provider", "gpt"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("nothing was changed"), "{refused:?}");
    let misspelt = mem(&sandbox, &["config", "set", "compress.provder", "local"]);
    assert!(
        misspelt.code == Some(2) && misspelt.stderr.contains("did you mean compress.provider?"),
        "{misspelt:?}"
    );
    assert_eq!(text(), changed);
    assert_eq!(mem(&sandbox, &["config", "get", "compress.provider"]).stdout, "local\n");
    assert_eq!(code(&["unset", "hook.busy_ms"]), Some(0));
    assert_eq!(code(&["unset", "hook.busy_ms"]), Some(1), "it is not set any more");
    assert_eq!(text(), mine.replace("\"auto\"", "\"local\""));
}

#[test]
fn config_check_names_the_first_mistake_by_line_and_an_incomplete_provider() {
    let sandbox = Sandbox::new();
    sandbox.configure("[search]\ndepht = 3\n\n[compress]\nprovider = \"gpt\"");
    let ran = mem(&sandbox, &["config", "check"]);
    let place = "config.toml:2: search.depht:";
    assert!(ran.code == Some(1) && ran.stderr.contains(place), "{ran:?}");
    assert!(ran.stderr.contains("did you mean search.depth?"), "{ran:?}");
    sandbox.configure("[compress]\nprovider = \"openai\"");
    let ran = mem(&sandbox, &["config", "check"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("openai.model is not set"), "{ran:?}");
}
