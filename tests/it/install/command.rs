//! `install`, `uninstall`, `doctor` and the service without a manager, with the real programs in a home of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::sandbox::{Ran, Sandbox, run, tool_payload};
use crate::harness::wait::wait_until;

const SETTINGS: &str = r#"{
  "model": "opus",
  "hooks": {
    "Stop": [
      {
        "hooks": [
          { "type": "command", "command": "say done" }
        ]
      }
    ]
  }
}
"#;

/// A home with copies of both programs, as after `make install`, and a worker that ends with the test.
pub struct Installed {
    pub sandbox: Sandbox,
}

impl Installed {
    pub fn new() -> Self {
        let sandbox = Sandbox::new();
        fs::create_dir_all(sandbox.path().join("claude")).unwrap();
        Self { sandbox }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.sandbox.path().join(name)
    }

    pub fn settings(&self) -> PathBuf {
        self.path("claude/settings.json")
    }

    /// A command without a service manager and without programs other than the system's.
    pub fn command(&self, program: impl Into<PathBuf>, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(program.into());
        command.args(arguments).env("PATH", "/usr/bin:/bin").env_remove("CLAUDE_MEM_WORKER_AUTOSTART");
        command
    }

    pub fn try_mem(&self, arguments: &[&str]) -> Ran {
        run(self.command(env!("CARGO_BIN_EXE_claude-mem"), arguments), b"")
    }

    pub fn mem(&self, arguments: &[&str]) -> String {
        let ran = self.try_mem(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.stdout
    }

    /// Installs a fake client that reports this version.
    pub fn with_client(&self, version: &str) {
        let program = self.path(".local/bin/claude");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, format!("#!/bin/sh\necho '{version} (Claude Code)'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn events(&self) -> Vec<String> {
        let text = fs::read_to_string(self.settings()).unwrap();
        let settings: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap();
        let is_ours = |groups: &Value| groups.to_string().contains("claude-mem-hook");
        let hooks = settings["hooks"].as_object().unwrap();
        let ours = hooks.iter().filter(|(_, groups)| is_ours(groups));
        let mut events: Vec<String> = ours.map(|(event, _)| event.clone()).collect();
        events.sort();
        events
    }

    fn holder(&self) -> Option<i32> {
        fs::read_to_string(self.sandbox.data().join("worker.lock")).ok()?.trim().parse().ok()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = run(self.command(env!("CARGO_BIN_EXE_claude-mem"), &["stop"]), b"");
    }
}

/// Every file below a directory, with its content.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap_or_default()));
        }
    }
    found.sort();
    found
}

#[test]
fn install_works_from_scratch_and_uninstall_leaves_only_data() {
    let home = Installed::new();
    fs::write(home.settings(), SETTINGS).unwrap();
    let before = files(home.sandbox.path());
    let bin = home.path("tools/bin");
    let bin_dir = bin.to_str().unwrap();
    let output = home.mem(&["install", "--bin-dir", bin_dir]);
    assert!(output.contains("added hooks for 6 events") && output.contains("started, pid"), "{output}");
    assert!(bin.join("claude-mem-hook").exists());
    let doctor = run(home.command(bin.join("claude-mem"), &["doctor"]), b"");
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.stdout.contains("hook, queue, service, observation, context"), "{}", doctor.stdout);
    let left: i64 = home.sandbox.get("SELECT count(*) FROM sessions");
    assert_eq!(left, 0, "the doctor's own sessions are gone");
    let gone = run(home.command(bin.join("claude-mem"), &["uninstall"]), b"");
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), SETTINGS);
    let is_data = |path: &Path| path.starts_with(home.sandbox.data());
    let after = files(home.sandbox.path());
    let others: Vec<_> = after.iter().filter(|(path, _)| !is_data(path)).cloned().collect();
    assert_eq!(others, before);
    let data = after
        .iter()
        .filter(|(path, _)| is_data(path))
        .map(|(path, _)| path.file_name().unwrap().to_str().unwrap());
    // One complete file, without a WAL next to it.
    assert_eq!(data.collect::<Vec<_>>(), ["claude-mem.db"]);
}

#[cfg(target_os = "linux")]
#[test]
fn the_service_that_install_starts_is_the_copy_that_stays() {
    let home = Installed::new();
    let bin = home.path("tools/bin");
    home.mem(&["install", "--no-hooks", "--bin-dir", bin.to_str().unwrap()]);
    let program = fs::read_link(format!("/proc/{}/exe", home.holder().unwrap())).unwrap();
    assert_eq!(program, bin.canonicalize().unwrap().join("claude-mem"));
}

#[test]
fn uninstall_restores_any_settings_byte_for_byte() {
    let rules: Vec<String> = (0..30_000).map(|n| format!("    \"Bash(command-number-{n}:*)\"")).collect();
    let large = format!("{{\n  \"permissions\": {{\"allow\": [\n{}\n  ]}}\n}}\n", rules.join(",\n"));
    let cases = [
        ("empty", String::new()),
        ("blank", " \n\n".into()),
        ("no settings", "{}".into()),
        ("one line", SETTINGS.split_whitespace().collect()),
        ("other hooks", SETTINGS.into()),
        ("no line end", SETTINGS.trim_end().into()),
        ("CRLF", SETTINGS.replace('\n', "\r\n")),
        ("tabs and a mark", format!("\u{feff}{}", SETTINGS.replace("  ", "\t"))),
        ("1 MB", large),
    ];
    for (name, before) in cases {
        let home = Installed::new();
        fs::write(home.settings(), &before).unwrap();
        home.mem(&["install", "--no-service"]);
        assert_eq!(home.events().len(), 6, "{name}");
        home.mem(&["uninstall"]);
        assert!(fs::read(home.settings()).unwrap() == before.as_bytes(), "{name}");
    }
}

#[test]
fn hooks_of_an_older_version_are_replaced_and_do_not_come_back() {
    let home = Installed::new();
    let old = r#"{"type": "command", "command": "/old/claude-mem-hook summary", "timeout": 60}, "#;
    let before = SETTINGS.replace("{ \"type\"", &format!("{old}{{ \"type\""));
    assert_ne!(before, SETTINGS);
    fs::write(home.settings(), &before).unwrap();
    home.mem(&["install", "--no-service"]);
    let wired = fs::read_to_string(home.settings()).unwrap();
    assert!(!wired.contains("/old/") && wired.contains("say done") && home.events().len() == 6, "{wired}");
    home.mem(&["uninstall"]);
    let left = fs::read_to_string(home.settings()).unwrap();
    assert!(!left.contains("claude-mem-hook"), "{left}");
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(value(&left), value(SETTINGS), "{left}");
}

#[test]
fn uninstall_removes_a_settings_file_that_install_made() {
    let home = Installed::new();
    fs::remove_dir(home.path("claude")).unwrap();
    home.mem(&["install", "--no-service"]);
    assert!(home.settings().exists());
    home.mem(&["uninstall"]);
    assert!(!home.path("claude").exists());
}

#[test]
fn the_client_that_only_the_shell_can_find_is_recorded_and_forgotten() {
    let home = Installed::new();
    let client = home.path(".nvm/versions/node/v22.1.0/bin/claude");
    fs::create_dir_all(client.parent().unwrap()).unwrap();
    fs::write(&client, "#!/bin/sh\necho '2.1.0 (Claude Code)'\n").unwrap();
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let mut install = home.command(env!("CARGO_BIN_EXE_claude-mem"), &["install", "--no-service"]);
    install.env("PATH", format!("{}:/usr/bin:/bin", client.parent().unwrap().display()));
    assert_eq!(run(install, b"").code, Some(0));
    let recorded = home.sandbox.data().join("claude.path");
    let mode = fs::metadata(&recorded).unwrap().permissions().mode() & 0o777;
    assert_eq!((fs::read_to_string(&recorded).unwrap().trim(), mode), (client.to_str().unwrap(), 0o600));
    home.mem(&["uninstall"]);
    assert!(!recorded.exists());
}

#[test]
fn purge_deletes_only_our_own_data() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    home.sandbox.hook("save", tool_payload("s", "t", home.sandbox.path(), &Value::Null)).assert_unnoticed();
    fs::write(home.sandbox.data().join("not-ours.txt"), "x").unwrap();
    home.mem(&["uninstall", "--purge", "--yes"]);
    let left = files(home.sandbox.data());
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn purge_without_a_terminal_needs_yes() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    let data = home.sandbox.data().to_owned();
    home.sandbox.hook("save", tool_payload("s", "t", home.sandbox.path(), &Value::Null)).assert_unnoticed();
    assert_eq!(run(home.command(env!("CARGO_BIN_EXE_claude-mem"), &["backup"]), b"").code, Some(0));
    let mut mcp = home.command(env!("CARGO_BIN_EXE_claude-mem"), &["mcp"]);
    mcp.env("CLAUDE_PROJECT_DIR", home.sandbox.path());
    let asked = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        "\n"
    );
    run(mcp, asked.as_bytes());
    fs::write(data.join("credentials"), "ANTHROPIC_API_KEY=sk-ant-x\n").unwrap();
    let plugin = home.path("claude/plugins/ours/hooks");
    fs::create_dir_all(&plugin).unwrap();
    fs::write(plugin.join("hooks.json"), r#"{"hooks": {"Stop": "claude-mem-hook summary"}}"#).unwrap();
    let list = serde_json::json!({"version": 2, "plugins": {"mem@here": [{"installPath": home.path("claude/plugins/ours")}]}});
    fs::write(home.path("claude/plugins/installed_plugins.json"), list.to_string()).unwrap();
    let mut settings: Value = serde_json::from_str(&fs::read_to_string(home.settings()).unwrap()).unwrap();
    settings["enabledPlugins"] = serde_json::json!({"mem@here": true});
    fs::write(home.settings(), settings.to_string()).unwrap();

    let before = files(&data);
    let refused = run(home.command(env!("CARGO_BIN_EXE_claude-mem"), &["uninstall", "--purge"]), b"");
    assert_eq!((refused.code, refused.stderr.contains("--yes")), (Some(1), true), "{refused:?}");
    assert_eq!(files(&data), before);
    let done = run(home.command(env!("CARGO_BIN_EXE_claude-mem"), &["uninstall", "--purge", "--yes"]), b"");
    assert_eq!(done.code, Some(0), "{done:?}");
    let output = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.contains("API key") && output.contains("`claude plugin uninstall mem@here`"), "{output}");
    assert!(!data.exists(), "{:?}", files(&data));
}

#[test]
fn a_dry_run_changes_nothing() {
    let home = Installed::new();
    fs::write(home.settings(), SETTINGS).unwrap();
    let before = files(home.sandbox.path());
    let output = home.mem(&["install", "--dry-run", "--bin-dir", home.path("bin").to_str().unwrap()]);
    assert!(output.contains("nothing was changed"), "{output}");
    home.mem(&["uninstall", "--dry-run", "--purge"]);
    assert_eq!(files(home.sandbox.path()), before);
}

#[test]
fn installing_twice_changes_nothing_and_keeps_the_first_backup() {
    let home = Installed::new();
    fs::write(home.settings(), SETTINGS).unwrap();
    home.mem(&["install", "--no-service"]);
    let once = fs::read_to_string(home.settings()).unwrap();
    home.mem(&["install", "--no-service"]);
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), once);
    home.with_client("2.1.325");
    home.mem(&["install", "--no-service"]);
    assert_eq!(home.events().len(), 9, "a newer client gets more");
    home.mem(&["uninstall", "--no-service"]);
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), SETTINGS);
}

#[test]
fn uninstall_keeps_later_changes_of_the_client() {
    let home = Installed::new();
    fs::write(home.settings(), SETTINGS).unwrap();
    home.mem(&["install", "--no-service"]);
    let changed = fs::read_to_string(home.settings()).unwrap().replace("opus", "sonnet");
    fs::write(home.settings(), changed).unwrap();
    home.mem(&["install", "--no-service"]);
    home.mem(&["uninstall"]);
    let left = fs::read_to_string(home.settings()).unwrap();
    assert_eq!(left, SETTINGS.replace("opus", "sonnet"));
}

#[test]
fn only_events_that_the_installed_client_knows_are_wired() {
    let safe = ["PostToolUse", "PreCompact", "SessionEnd", "SessionStart", "Stop", "UserPromptSubmit"];
    for version in ["2.0.14", "2.1.20", "unknown"] {
        let home = Installed::new();
        home.with_client(version);
        home.mem(&["install", "--no-service"]);
        assert_eq!(home.events(), safe, "{version}");
    }
}

#[test]
fn invalid_settings_json_is_refused_before_any_change() {
    for bad in ["{\n  // a comment\n}", "{\"a\": 1,}", "{", "[]", "\u{0}"] {
        let home = Installed::new();
        fs::write(home.settings(), bad).unwrap();
        let before = files(home.sandbox.path());
        let ran = home.try_mem(&["install", "--bin-dir", home.path("bin").to_str().unwrap()]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("settings.json was not changed"), "{}", ran.stderr);
        assert_eq!(files(home.sandbox.path()), before, "{bad}");
    }
}

#[test]
fn a_read_only_file_is_left_alone_and_the_hooks_are_shown() {
    let home = Installed::new();
    fs::write(home.settings(), SETTINGS).unwrap();
    fs::set_permissions(home.settings(), fs::Permissions::from_mode(0o444)).unwrap();
    let ran = home.try_mem(&["install", "--no-service"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("read-only") && ran.stderr.contains("claude-mem-hook context"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read_to_string(home.settings()).unwrap(), SETTINGS);
}

#[test]
fn a_link_into_a_repository_stays_a_link() {
    let home = Installed::new();
    let repository = home.path("dotfiles");
    fs::create_dir(&repository).unwrap();
    fs::write(repository.join("settings.json"), SETTINGS).unwrap();
    fs::set_permissions(repository.join("settings.json"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("../dotfiles/settings.json", home.settings()).unwrap();
    home.mem(&["install", "--no-service"]);
    assert!(fs::symlink_metadata(home.settings()).unwrap().is_symlink());
    assert_eq!(home.events().len(), 6);
    let meta = fs::metadata(repository.join("settings.json")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(&repository).unwrap().count(), 1, "no backup in the repository");
    home.mem(&["uninstall"]);
    assert_eq!(fs::read_to_string(repository.join("settings.json")).unwrap(), SETTINGS);
}

#[test]
fn a_project_can_have_hooks_of_its_own() {
    let home = Installed::new();
    let project = home.path("project");
    fs::create_dir(&project).unwrap();
    let mut install =
        home.command(env!("CARGO_BIN_EXE_claude-mem"), &["install", "--project", "--no-service"]);
    install.current_dir(&project);
    assert_eq!(run(install, b"").code, Some(0));
    assert!(project.join(".claude/settings.json").exists() && !home.settings().exists());
    home.mem(&["uninstall"]);
    assert!(!project.join(".claude").exists());
}

#[test]
fn the_wired_command_finds_an_unusual_data_directory_by_itself() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    let settings: Value = serde_json::from_str(&fs::read_to_string(home.settings()).unwrap()).unwrap();
    let command = settings["hooks"]["PostToolUse"][0]["hooks"][0]["command"].as_str().unwrap().to_owned();
    let mut shell = home.command("sh", &["-c", &command]);
    shell.env_remove("CLAUDE_MEM_HOME").env("CLAUDE_MEM_WORKER_AUTOSTART", "false");
    run(shell, tool_payload("s", "t", home.sandbox.path(), &Value::Null).as_bytes()).assert_unnoticed();
    assert_eq!(home.sandbox.get::<i64>("SELECT count(*) FROM pending_queue"), 1);
}

#[test]
fn a_hook_starts_an_unmanaged_worker_without_waiting() {
    let home = Installed::new();
    let hook = || {
        let mut command = home.command(env!("CARGO_BIN_EXE_claude-mem-hook"), &["save"]);
        command.env("CLAUDE_PROJECT_DIR", home.sandbox.path());
        // A worker that kept the output open would block this.
        run(command, tool_payload("s", "t", home.sandbox.path(), &Value::Null).as_bytes())
    };
    hook().assert_unnoticed();
    wait_until("the worker serves", || home.sandbox.data().join("worker.sock").exists());
    let pid = home.holder().unwrap();
    #[cfg(target_os = "linux")]
    {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = state.rsplit_once(')').unwrap().1.split_whitespace().collect();
        assert_ne!(fields[3], pid.to_string(), "not the leader of its session: it can get no terminal");
    }
    assert!(home.sandbox.data().join("worker.log").exists());
    home.mem(&["stop"]);
    hook().assert_unnoticed();
    assert!(!home.sandbox.data().join("worker.sock").exists(), "who stops it wants it stopped");
    home.mem(&["start"]);
    home.mem(&["restart"]);
    assert_ne!(home.holder(), Some(pid));
}

#[test]
fn a_worker_that_cannot_run_is_not_started_by_every_hook() {
    let home = Installed::new();
    let bin = home.path("bin");
    fs::create_dir(&bin).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_claude-mem-hook"), bin.join("claude-mem-hook")).unwrap();
    fs::write(bin.join("claude-mem"), "#!/bin/sh\necho x >> \"$HOME/starts\"\n").unwrap();
    fs::set_permissions(bin.join("claude-mem"), fs::Permissions::from_mode(0o755)).unwrap();
    for number in 0..5 {
        let payload = tool_payload("s", &format!("t{number}"), home.sandbox.path(), &Value::Null);
        run(home.command(bin.join("claude-mem-hook"), &["save"]), payload.as_bytes()).assert_unnoticed();
    }
    wait_until("it is started", || home.path("starts").exists());
    assert_eq!(fs::read_to_string(home.path("starts")).unwrap(), "x\n");
}

#[test]
fn doctor_reports_problems_and_fixes_what_it_can() {
    let home = Installed::new();
    home.mem(&["install"]);
    home.mem(&["stop"]);
    fs::write(home.settings(), "{}").unwrap();
    fs::set_permissions(home.sandbox.data(), fs::Permissions::from_mode(0o755)).unwrap();
    let sick = home.try_mem(&["doctor", "--json"]);
    assert_eq!(sick.code, Some(1));
    let report: Value = serde_json::from_str(&sick.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let bad: Vec<&str> =
        checks.iter().filter(|c| c["state"] == "bad").map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(bad, ["data directory", "hooks", "service"]);
    assert!(checks.iter().filter(|c| c["state"] == "bad").all(|c| c["why"] != "" && c["repair"] != ""));
    let repaired = home.try_mem(&["doctor", "--fix"]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert_eq!(home.events().len(), 6);
    assert_eq!(home.try_mem(&["doctor"]).code, Some(0));
}

#[test]
fn doctor_changes_nothing_without_fix() {
    let home = Installed::new();
    let before = files(home.sandbox.path());
    let sick = home.try_mem(&["doctor"]);
    assert!(sick.code == Some(1) && sick.stdout.contains("skipped"), "{sick:?}");
    assert_eq!(files(home.sandbox.path()), before);
    assert!(home.holder().is_none(), "no service was started");
    // In an empty home, without the client's directory.
    let _ = fs::remove_dir_all(home.settings().parent().unwrap());
    let repaired = home.try_mem(&["doctor", "--fix"]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert_eq!(home.events().len(), 6);
}

#[test]
fn hooks_that_are_wired_in_two_files_count_once() {
    let home = Installed::new();
    home.mem(&["install"]);
    home.mem(&["install", "--project"]);
    let output = home.mem(&["doctor"]);
    assert!(output.contains("6 of 9 events wired"), "{output}");
}

#[test]
fn doctor_reports_a_missing_database_if_backups_exist() {
    let home = Installed::new();
    home.mem(&["start"]);
    home.sandbox.prompt("one", "Repair the greeting");
    home.mem(&["backup"]);
    home.mem(&["stop"]);
    fs::remove_file(home.sandbox.data().join("claude-mem.db")).unwrap();
    let status = home.try_mem(&["status"]);
    assert!(status.stdout.contains("claude-mem restore"), "{status:?}");
    let doctor = home.try_mem(&["doctor"]);
    assert!(doctor.stdout.contains("is missing, but there are backups"), "{doctor:?}");
}

#[test]
fn status_reports_health_by_its_exit_code() {
    let home = Installed::new();
    let stopped = home.try_mem(&["status"]);
    assert_eq!((stopped.code, stopped.stdout.contains("claude-mem start")), (Some(1), true), "{stopped:?}");
    home.mem(&["start"]);
    let output = home.mem(&["status", "--json"]);
    let status: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(status["service"]["status"], "ok");
    assert!(home.mem(&["logs"]).contains("serv"));
}

#[test]
fn logs_can_be_filtered_by_session() {
    let home = Installed::new();
    home.mem(&["start"]);
    for session in ["session-one", "session-two"] {
        home.sandbox.prompt(session, "Repair the greeting");
        home.sandbox.edit(session, "edit");
        home.sandbox.end_turn(session);
    }
    home.sandbox.wait_until_settled();
    let output = |session: &str| home.mem(&["logs", "--session", session]);
    wait_until("the lines are there", || {
        ["session-one", "session-two"].iter().all(|one| output(one).contains("1 observation, 1 summary"))
    });
    let lines = output("session-one");
    assert!(lines.lines().count() > 0 && lines.lines().all(|line| line.contains("session-one")), "{lines}");
    assert_eq!(output("session-three"), "");
    // The message is not repeated as a field.
    let all = home.mem(&["logs"]);
    let serves = all.lines().find(|line| line.contains("serving")).unwrap();
    let place = home.sandbox.data().display().to_string();
    assert_eq!(serves.matches(&place).count(), 1, "{serves}");
}

#[test]
fn update_names_its_source_or_explains_what_is_missing() {
    let home = Installed::new();
    let refused = home.try_mem(&["update"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("unpacked release") && refused.stderr.contains("package manager"),
        "{refused:?}"
    );
    let release = home.path("claude-mem-9.9.9");
    fs::create_dir_all(release.join("bin")).unwrap();
    let named = release.to_str().unwrap();
    assert!(home.try_mem(&["update", named]).stderr.contains("is no unpacked release"));
    for (name, program) in [
        ("claude-mem", env!("CARGO_BIN_EXE_claude-mem")),
        ("claude-mem-hook", env!("CARGO_BIN_EXE_claude-mem-hook")),
    ] {
        fs::copy(program, release.join("bin").join(name)).unwrap();
    }
    let bin = home.path("tools/bin");
    home.mem(&["install", "--bin-dir", bin.to_str().unwrap()]);
    fs::remove_file(bin.join("claude-mem-hook")).unwrap();
    let output = home.mem(&["update", named]);
    assert!(output.contains(&format!("install --bin-dir {}", bin.display())), "{output}");
    assert!(bin.join("claude-mem-hook").exists(), "the programs of the release were installed");
}
