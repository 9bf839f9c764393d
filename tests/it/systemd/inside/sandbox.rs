//! What the worker may not do, and what it can all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::super::service::{SERVICE, Service};
use crate::llm::claude::{answer, prints, wait_until, wait_until_gone};
use crate::llm::ends::STUBBORN;

/// Whether this system has what the drop-in needs: the test that its first lines name.
fn has_user_namespaces() -> bool {
    let properties = ["PrivateUsers=yes", "ProtectSystem=strict", "ProtectHome=read-only"];
    let mut probe = Command::new("systemd-run");
    probe.args(["--user", "--wait", "--quiet", "--collect"]).args(properties.map(|name| format!("-p{name}")));
    probe.args(["/bin/sh", "-c", "! touch \"$HOME/.probe\""]).status().unwrap().success()
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn with_the_sandbox_it_works_and_writes_nothing_but_its_data() {
    let Some(service) = Service::install() else { return };
    if !has_user_namespaces() {
        eprintln!("SKIPPED: no user namespaces here");
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
    // A reload is another process of the unit, in the same sandbox.
    service.systemctl(&["reload", SERVICE]);
    service.wait_for_message("reloading");
    assert_eq!(service.property(SERVICE, "NRestarts"), "0");
}

/// Lets the worker ask `claude`, which does what the script says. `$D` is the place for what it writes.
fn compress_with_claude(service: &Service, script: &str) {
    let program = service.home.join(".local/bin/claude");
    fs::write(&program, format!("#!/bin/sh\nD='{}'\n{script}\n", service.scratch().display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(service.data().join("config.toml"), "[compress]\nprovider = 'claude-cli'\n").unwrap();
}

/// With and without the drop-in, as far as it works here.
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
fn claude_is_asked_outside_of_the_sandbox() {
    each_way(|service, way| {
        // A client writes to the home, which the worker cannot.
        let script = "touch $D/written; cat /proc/self/cgroup >$D/cgroup; grep NoNewPrivs /proc/self/status >$D/rights";
        let told = r#"{"observations":[{"type":"bugfix","title":"The greeting is spelt right"}],"request":"Fix it"}"#;
        compress_with_claude(service, &format!("{script}\n{}", prints(&answer(told), 0)));
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
        // The next worker would ask again.
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
