//! `install`, `uninstall`, `doctor` and the service without a manager, with the real programs in a home of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, run, tool_payload};

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

    /// Without a service manager, and without any other program than the system's.
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

    /// Puts a client there that says it is of this version.
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
        hooks.iter().filter(|(_, groups)| is_ours(groups)).map(|(event, _)| event.clone()).collect()
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

/// Waits until something holds.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
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
fn install_works_from_nothing_and_uninstall_leaves_nothing_but_data() {
    let home = Installed::new();
    fs::write(home.settings(), SETTINGS).unwrap();
    let before = files(home.sandbox.path());
    let bin = home.path("tools/bin");
    let bin_dir = bin.to_str().unwrap();
    let told = home.mem(&["install", "--bin-dir", bin_dir]);
    assert!(told.contains("wire 6 events") && told.contains("started, pid"), "{told}");
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
    // One file, whole without a log beside it.
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
fn whatever_the_settings_look_like_they_are_back_byte_for_byte() {
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
fn a_settings_file_that_was_not_there_is_gone_again() {
    let home = Installed::new();
    fs::remove_dir(home.path("claude")).unwrap();
    home.mem(&["install", "--no-service"]);
    assert!(home.settings().exists());
    home.mem(&["uninstall"]);
    assert!(!home.path("claude").exists());
}

#[test]
fn purge_deletes_what_was_remembered_and_nothing_of_others() {
    let home = Installed::new();
    home.mem(&["install", "--no-service"]);
    home.sandbox.hook("save", tool_payload("s", "t", home.sandbox.path(), &Value::Null)).assert_unnoticed();
    fs::write(home.sandbox.data().join("not-ours.txt"), "x").unwrap();
    home.mem(&["uninstall", "--purge"]);
    let left = files(home.sandbox.data());
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_dry_run_changes_nothing() {
    let home = Installed::new();
    fs::write(home.settings(), SETTINGS).unwrap();
    let before = files(home.sandbox.path());
    let told = home.mem(&["install", "--dry-run", "--bin-dir", home.path("bin").to_str().unwrap()]);
    assert!(told.contains("nothing was changed"), "{told}");
    home.mem(&["uninstall", "--dry-run", "--purge"]);
    assert_eq!(files(home.sandbox.path()), before);
}

#[test]
fn installing_twice_is_installing_once_and_the_first_backup_stays() {
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
fn what_the_client_changed_since_stays_when_our_hooks_go() {
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
fn settings_that_are_no_json_are_refused_before_anything_is_done() {
    for bad in ["{\n  // a comment\n}", "{\"a\": 1,}", "{", "[]", "\u{0}"] {
        let home = Installed::new();
        fs::write(home.settings(), bad).unwrap();
        let before = files(home.sandbox.path());
        let ran = home.try_mem(&["install", "--bin-dir", home.path("bin").to_str().unwrap()]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("settings.json was left alone"), "{}", ran.stderr);
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
fn a_hook_starts_the_worker_that_nobody_else_does_and_does_not_wait_for_it() {
    let home = Installed::new();
    let hook = || {
        let mut command = home.command(env!("CARGO_BIN_EXE_claude-mem-hook"), &["save"]);
        command.env("CLAUDE_PROJECT_DIR", home.sandbox.path());
        // A worker that held its output open would hold this up.
        run(command, tool_payload("s", "t", home.sandbox.path(), &Value::Null).as_bytes())
    };
    hook().assert_unnoticed();
    wait_for("the worker", || home.sandbox.data().join("worker.sock").exists());
    let pid = home.holder().unwrap();
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = state.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_ne!(fields[3], pid.to_string(), "not the leader of its session: it can get no terminal");
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
    wait_for("the one start", || home.path("starts").exists());
    assert_eq!(fs::read_to_string(home.path("starts")).unwrap(), "x\n");
}

#[test]
fn doctor_tells_what_is_wrong_and_repairs_what_it_can() {
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
fn doctor_changes_nothing_unless_it_is_asked_to() {
    let home = Installed::new();
    let before = files(home.sandbox.path());
    let sick = home.try_mem(&["doctor"]);
    assert!(sick.code == Some(1) && sick.stdout.contains("not tried"), "{sick:?}");
    assert_eq!(files(home.sandbox.path()), before);
    assert!(home.holder().is_none(), "no service was started");
    // In a home where nothing is, not even the client's directory.
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
    let told = home.mem(&["doctor"]);
    assert!(told.contains("6 of 9 events wired"), "{told}");
}

#[test]
fn a_database_that_is_gone_is_missed_where_there_are_backups() {
    let home = Installed::new();
    home.mem(&["start"]);
    home.sandbox.prompt("one", "Repair the greeting");
    home.mem(&["backup"]);
    home.mem(&["stop"]);
    fs::remove_file(home.sandbox.data().join("claude-mem.db")).unwrap();
    let status = home.try_mem(&["status"]);
    assert!(status.stdout.contains("claude-mem restore"), "{status:?}");
    let doctor = home.try_mem(&["doctor"]);
    assert!(doctor.stdout.contains("is gone, but there are backups"), "{doctor:?}");
}

#[test]
fn status_tells_health_by_its_exit_code() {
    let home = Installed::new();
    let stopped = home.try_mem(&["status"]);
    assert_eq!((stopped.code, stopped.stdout.contains("claude-mem start")), (Some(1), true), "{stopped:?}");
    home.mem(&["start"]);
    let told = home.mem(&["status", "--json"]);
    let status: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(status["service"]["status"], "ok");
    assert!(home.mem(&["logs"]).contains("serv"));
}

#[test]
fn logs_of_one_session_are_about_it_and_no_other() {
    let home = Installed::new();
    home.mem(&["start"]);
    for session in ["session-one", "session-two"] {
        home.sandbox.prompt(session, "Repair the greeting");
        home.sandbox.edit(session, "edit");
        home.sandbox.end_turn(session);
    }
    home.sandbox.wait_until_settled();
    let told = |session: &str| home.mem(&["logs", "--session", session]);
    wait_for("the lines", || {
        ["session-one", "session-two"].iter().all(|one| told(one).contains("remembered"))
    });
    let lines = told("session-one");
    assert!(lines.lines().count() > 0 && lines.lines().all(|line| line.contains("session-one")), "{lines}");
    assert_eq!(told("session-three"), "");
    // A message is not followed by itself as a field.
    let all = home.mem(&["logs"]);
    let serves = all.lines().find(|line| line.contains("serves")).unwrap();
    let place = home.sandbox.data().display().to_string();
    assert_eq!(serves.matches(&place).count(), 1, "{serves}");
}
