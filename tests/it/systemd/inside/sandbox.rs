//! What the worker may not do, and what it can all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use super::super::machine::TESTS;
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

/// Makes a service that asks `claude`, which does what the script says, with everything else as in the unit.
fn ask_claude(service: &Service, script: &str) {
    let program = service.home.join(".local/bin/claude");
    fs::write(&program, format!("#!/bin/sh\nD='{}'\n{script}\n", service.scratch().display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let start = format!("{TESTS} --exact systemd::asks_claude --ignored --nocapture");
    service.drop_in(
        "asks.conf",
        &format!("[Service]\nType=exec\nWatchdogSec=0\nRestart=no\nExecStart=\nExecStart={start}\n"),
    );
    service.systemctl(&["restart", SERVICE]);
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
        ask_claude(service, &format!("{script}\n{}", prints(&answer("{\"title\":\"x\"}"), 0)));
        let read = |name: &str| fs::read_to_string(service.scratch().join(name)).unwrap_or_default();
        wait_until("there is an answer", || service.data().join("answer").exists());
        assert_eq!(read("../.claude-mem/answer"), "{\"title\":\"x\"}", "{way}");
        assert!(service.scratch().join("written").exists(), "{way}");
        assert!(
            !read("cgroup").contains(SERVICE) && read("cgroup").contains("/run-"),
            "{way}: {}",
            read("cgroup")
        );
        assert!(read("rights").trim().ends_with('0'), "{way}: {}", read("rights"));
    });
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn no_claude_outlives_a_worker_that_is_killed() {
    each_way(|service, way| {
        ask_claude(service, STUBBORN);
        let pids = || fs::read_to_string(service.scratch().join("pids")).unwrap_or_default();
        wait_until("claude runs", || pids().lines().count() == 2);
        let processes: Vec<_> =
            pids().lines().map(|line| Pid::from_raw(line.parse().unwrap()).unwrap()).collect();
        let worker = Pid::from_raw(service.property(SERVICE, "MainPID").parse().unwrap()).unwrap();
        kill_process(worker, Signal::KILL).unwrap();
        wait_until_gone(&processes);
        let units = || service.systemctl(&["list-units", "--all", "--plain", "--no-legend", "run-*.service"]);
        wait_until(&format!("no unit is left ({way})"), || units().is_empty());
    });
}
