//! `claude-mem install` and `uninstall`, as the user of a machine with systemd runs them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::machine::{PLACE, TESTS};
use super::super::service::{SERVICE, SOCKET, Service};
use crate::harness::sandbox::run;
use crate::harness::wait::{skip_even_in_ci, wait_until};

const SETTINGS: &str = "{\r\n  \"model\": \"opus\",\r\n  \"hooks\": { \"Stop\": [] }\r\n}";

/// A home with only Claude Code's settings, cleaned up like any other service's.
fn home() -> Option<Service> {
    if std::env::current_exe().unwrap() != Path::new(TESTS) {
        skip_even_in_ci("this is not the machine that was booted for it");
        return None;
    }
    let service = Service { home: std::env::var_os("HOME").unwrap().into() };
    fs::create_dir_all(service.home.join(".claude")).unwrap();
    fs::write(service.home.join(".claude/settings.json"), SETTINGS).unwrap();
    Some(service)
}

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap_or_default());
        }
    }
    found
}

fn succeeds(program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let ran = run(command, b"");
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran.stdout
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn install_passes_doctor_and_uninstall_leaves_only_data() {
    let Some(service) = home() else { return };
    let before = files(&service.home);
    let bin = service.home.join(".local/bin");
    let output =
        succeeds(&Path::new(PLACE).join("claude-mem"), &["install", "--bin-dir", bin.to_str().unwrap()]);
    assert!(output.contains("systemd"), "{output}");
    let program = bin.join("claude-mem");
    let doctor = succeeds(&program, &["doctor"]);
    assert!(doctor.contains("All checks passed.") && doctor.contains("under systemd"), "{doctor}");
    for unit in [SERVICE, SOCKET] {
        assert_eq!(service.systemctl(&["is-enabled", unit]), "enabled\n");
    }

    // The next hook starts a stopped worker through its socket.
    service.systemctl(&["stop", SERVICE]);
    assert_eq!(service.property(SERVICE, "ActiveState"), "inactive");
    service.turn("after-the-install");
    service.wait_until_remembered("after-the-install");
    let logs = succeeds(&program, &["logs"]);
    assert!(logs.contains("serving"), "{logs}");
    let status = succeeds(&program, &["status"]);
    assert!(status.contains("under systemd"), "{status}");

    // `stop` keeps it stopped, and `start` starts it again.
    succeeds(&program, &["stop"]);
    service.hook("save", "PostToolUse/Edit.json", "while-it-is-stopped");
    assert_eq!(service.property(SERVICE, "ActiveState"), "inactive");
    succeeds(&program, &["start"]);
    wait_until("it is active", || service.property(SERVICE, "ActiveState") == "active");

    // A second install gives the same result.
    succeeds(&program, &["install", "--bin-dir", bin.to_str().unwrap()]);
    succeeds(&program, &["doctor"]);

    succeeds(&program, &["uninstall"]);
    let mut after = files(&service.home);
    after.retain(|path, _| !path.starts_with(service.data()));
    assert_eq!(after, before);
    let data: Vec<_> = files(&service.data()).into_keys().collect();
    let is_data = |path: &PathBuf| {
        let is_database = path.file_name().unwrap().to_str().unwrap().starts_with("claude-mem.db");
        is_database || path.starts_with(service.data().join("backups"))
    };
    assert!(data.iter().all(is_data), "{data:?}");
    for unit in [SERVICE, SOCKET] {
        assert_eq!(service.property(unit, "LoadState"), "not-found");
    }
}
