//! Restrictions of the worker's sandbox, and operations that still work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::super::service::{SERVICE, Service};
use crate::harness::claude::{answer, prints, wait_until_gone};
use crate::harness::wait::{skip_even_in_ci, wait_until};
use crate::llm::child_processes::STUBBORN;

/// True if this system supports the drop-in, by the test that its first lines describe.
fn has_user_namespaces() -> bool {
    let properties = ["PrivateUsers=yes", "ProtectSystem=strict", "ProtectHome=read-only"];
    let mut probe = Command::new("systemd-run");
    probe.args(["--user", "--wait", "--quiet", "--collect"]).args(properties.map(|name| format!("-p{name}")));
    probe.args(["/bin/sh", "-c", "! touch \"$HOME/.probe\""]).status().unwrap().success()
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_sandboxed_worker_writes_only_its_data() {
    let Some(service) = Service::install() else { return };
    if !has_user_namespaces() {
        skip_even_in_ci("no user namespaces here");
        return;
    }
    service.packaged_drop_in("sandbox.conf");
    let may = "touch %h/.claude-mem/inside && ! touch %h/scratch/outside && test -r %h/scratch/readable";
    service.drop_in("writes.conf", &format!("[Service]\nExecStartPost=/bin/sh -c '{may}'\n"));
    fs::write(service.scratch().join("readable"), "as transcripts are").unwrap();
    service.turn("in the sandbox");
    service.wait_until_remembered("in the sandbox");
    service.pid();
    assert!(service.data().join("inside").exists() && !service.scratch().join("outside").exists());
    // A reload runs another process of the unit, in the same sandbox.
    service.systemctl(&["reload", SERVICE]);
    service.wait_for_message("reloading");
    assert_eq!(service.property(SERVICE, "NRestarts"), "0");
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_sandbox_allows_tmp_repositories_and_lower_priorities() {
    let Some(service) = Service::install() else { return };
    if !has_user_namespaces() {
        skip_even_in_ci("no user namespaces here");
        return;
    }
    service.packaged_drop_in("sandbox.conf");
    fs::write("/tmp/in-tmp", "a repository").unwrap();
    // nice(1) exits with 0 even if it is refused, with a message.
    let may = "test -r /tmp/in-tmp && ! touch /tmp/written && nice -n 5 true 2>&1 | (! grep .)";
    service.drop_in("sees.conf", &format!("[Service]\nExecStartPost=/bin/sh -c '{may}'\n"));
    service.turn("in the sandbox");
    service.wait_until_remembered("in the sandbox");
    wait_until("the service is active", || service.property(SERVICE, "ActiveState") == "active");
    let _ = fs::remove_file("/tmp/in-tmp");
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_next_hook_recreates_a_removed_data_directory() {
    each_way(|service, way| {
        service.turn("before");
        service.wait_until_remembered("before");
        fs::remove_dir_all(service.data()).unwrap();
        wait_until("the worker has ended", || service.property(SERVICE, "ActiveState") == "inactive");
        assert!(!service.data().exists(), "{way}");
        // No systemctl call: the hook finds no socket and restarts the units.
        service.turn("after");
        service.wait_until_remembered("after");
        wait_until("the service is active", || service.property(SERVICE, "ActiveState") == "active");
        // Manually, without a hook.
        fs::remove_dir_all(service.data()).unwrap();
        wait_until("the worker has ended", || service.property(SERVICE, "ActiveState") == "inactive");
        service.systemctl(&["start", SERVICE]);
        service.pid();
        wait_until("the socket is there", || service.data().join("worker.sock").exists());
    });
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn status_reads_only_and_finds_manually_enabled_units() {
    let Some(service) = Service::install() else { return };
    service.systemctl(&["enable", SERVICE]);
    service.turn("before");
    service.wait_until_remembered("before");
    service.systemctl(&["stop", SERVICE]);
    let status = || {
        let output =
            Command::new(service.home.join(".local/bin/claude-mem")).args(["status"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let output = status();
    assert!(output.contains("stopped") && output.contains("under systemd"), "{output}");
    assert_eq!(service.property(SERVICE, "ActiveState"), "inactive");
    let started = Command::new(service.home.join(".local/bin/claude-mem")).arg("start").output().unwrap();
    assert!(started.status.success(), "{started:?}");
    wait_until("the service is active", || service.property(SERVICE, "ActiveState") == "active");
}

/// Makes the worker call a scripted `claude`. `$D` is its directory for output.
fn compress_with_claude(service: &Service, script: &str) {
    let program = service.home.join(".local/bin/claude");
    fs::write(&program, format!("#!/bin/sh\nD='{}'\n{script}\n", service.scratch().display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(service.data().join("config.toml"), "[compress]\nprovider = 'claude-cli'\n").unwrap();
}

/// Runs a test without the drop-in and, if this system supports it, with it.
fn each_way(test: impl Fn(&Service, &str)) {
    for drop_in in ["", "sandbox.conf"] {
        let Some(service) = Service::install() else { return };
        if drop_in.is_empty() {
            test(&service, "plain");
        } else if has_user_namespaces() {
            service.packaged_drop_in(drop_in);
            test(&service, drop_in);
        }
    }
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn claude_runs_outside_the_sandbox() {
    each_way(|service, way| {
        // A client writes to the home, which the worker cannot.
        let script = "touch $D/written; cat /proc/self/cgroup >$D/cgroup; grep NoNewPrivs /proc/self/status >$D/rights";
        let output = r#"{"observations":[{"type":"bugfix","title":"The greeting is spelt right"}],"request":"Fix it"}"#;
        compress_with_claude(service, &format!("{script}\n{}", prints(&answer(output), 0)));
        service.turn("asked");
        service.wait_until_remembered("asked");
        let sql = "SELECT provider || ': ' || title FROM observations";
        let stored = service.database().query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(stored, "claude-cli: The greeting is spelt right", "{way}");
        let read = |name: &str| fs::read_to_string(service.scratch().join(name)).unwrap();
        assert!(service.scratch().join("written").exists(), "{way}");
        let cgroup = read("cgroup");
        assert!(!cgroup.contains(SERVICE) && cgroup.contains("/run-"), "{way}: {cgroup}");
        assert!(read("rights").trim().ends_with('0'), "{way}: {}", read("rights"));
    });
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn no_claude_outlives_a_worker_that_is_killed() {
    each_way(|service, way| {
        // The next worker would call it again.
        service.drop_in("once.conf", "[Service]\nRestart=no\n");
        compress_with_claude(service, STUBBORN);
        service.turn("asked");
        let pids = || fs::read_to_string(service.scratch().join("pids")).unwrap_or_default();
        wait_until("claude runs", || pids().lines().count() == 2);
        let number = |line: &str| Pid::from_raw(line.parse().unwrap()).unwrap();
        let processes: Vec<_> = pids().lines().map(number).collect();
        kill_process(service.pid(), Signal::KILL).unwrap();
        wait_until_gone(&processes);
        let units = || service.systemctl(&["list-units", "--all", "--plain", "--no-legend", "run-*.service"]);
        wait_until(&format!("no unit is left ({way})"), || units().is_empty());
    });
}
