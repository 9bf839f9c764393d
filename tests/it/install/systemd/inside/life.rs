//! The worker's life cycle: start, stop, restart, watchdog.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use rustix::process::{Signal, kill_process};

use super::super::service::{SERVICE, SOCKET, Service};

use crate::harness::wait::wait_until;

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn systemd_accepts_the_units_without_complaint() {
    let Some(service) = Service::install() else { return };
    for name in ["", "sandbox.conf"] {
        if !name.is_empty() {
            service.packaged_drop_in(name);
        }
        // Its exit code is always 0.
        let verified = service.verify();
        let complaints = String::from_utf8_lossy(&verified.stderr).into_owned();
        // Known since 254; older managers ignore them with a warning.
        let is_new = |line: &&str| line.contains("'RestartSteps'") || line.contains("'RestartMaxDelaySec'");
        let left: Vec<&str> = complaints.lines().filter(|line| !is_new(line)).collect();
        assert!(verified.stdout.is_empty() && left.is_empty(), "{name}: {verified:?}");
    }
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn enabling_the_service_enables_its_sockets_and_starts_both() {
    let Some(service) = Service::install() else { return };
    service.systemctl(&["disable", "--now", SOCKET]);
    assert!(!service.data().join("worker.sock").exists(), "a socket file without a listener is removed");
    service.systemctl(&["enable", "--now", SERVICE]);
    for unit in [SERVICE, SOCKET] {
        assert_eq!(service.systemctl(&["is-enabled", unit]), "enabled\n");
        assert_eq!(service.systemctl(&["is-active", unit]), "active\n");
    }
    assert_eq!(service.health()["status"], "ok");
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_first_hook_starts_the_worker() {
    let Some(service) = Service::install() else { return };
    let mode = |name| fs::metadata(service.data().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("worker.sock"), mode("nudge.sock")), (0o700, 0o600, 0o600));
    assert_eq!(service.property(SERVICE, "ActiveState"), "inactive");
    service.turn("first");
    service.wait_until_remembered("first");
    assert_eq!(service.property(SERVICE, "NRestarts"), "0");
    wait_until("systemd knows how the queue is", || {
        service.property(SERVICE, "StatusText") == "0 waiting, 0 under way"
    });
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_journal_has_readable_messages_and_search_fields() {
    let Some(service) = Service::install() else { return };
    let pid = service.health()["pid"].to_string();
    let entry = service.wait_for_message(" serving ");
    let is = |field: &str, value: &str| assert_eq!(entry[field], value, "{field} in {entry:#}");
    is("MESSAGE", &format!("version {} serving {}", env!("CARGO_PKG_VERSION"), service.data().display()));
    is("SYSLOG_IDENTIFIER", "claude-mem");
    is("PRIORITY", "6");
    is("F_VERSION", env!("CARGO_PKG_VERSION"));
    is("F_HOME", service.data().to_str().unwrap());
    is("F_ORIGIN", "Manager");
    is("_PID", &pid);
    is("_SYSTEMD_USER_UNIT", SERVICE);
    is("_TRANSPORT", "journal");
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_next_hook_restarts_a_stopped_worker() {
    let Some(service) = Service::install() else { return };
    service.turn("before");
    service.wait_until_remembered("before");
    let before = service.pid();
    service.systemctl(&["stop", SERVICE]);
    assert_eq!(service.property(SERVICE, "Result"), "success");
    assert_eq!(service.property(SOCKET, "ActiveState"), "active");
    service.turn("after");
    service.wait_until_remembered("after");
    assert_ne!(service.pid(), before);
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn a_killed_worker_restarts_and_loses_nothing() {
    let Some(service) = Service::install() else { return };
    service.health();
    let first = service.pid();
    kill_process(first, Signal::KILL).unwrap();
    let second = service.next_pid(first);
    assert_eq!(service.property(SERVICE, "NRestarts"), "1");
    kill_process(second, Signal::KILL).unwrap();
    service.turn("while there is none");
    service.next_pid(second);
    service.wait_until_remembered("while there is none");
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn a_worker_that_is_stuck_is_replaced() {
    let Some(service) = Service::install() else { return };
    service.drop_in("watchdog.conf", "[Service]\nWatchdogSec=2s\n");
    service.health();
    let stuck = service.pid();
    kill_process(stuck, Signal::STOP).unwrap();
    service.turn("while it is stuck");
    service.next_pid(stuck);
    service.wait_until_remembered("while it is stuck");
    let killed = |message: &str| message.contains("Watchdog timeout");
    assert!(service.journal().iter().any(|entry| entry["MESSAGE"].as_str().is_some_and(killed)));
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_watchdog_is_fed_while_idle_and_while_degraded() {
    let Some(service) = Service::install() else { return };
    service.drop_in("watchdog.conf", "[Service]\nWatchdogSec=3s\n");
    for settings in ["", "no such key = 1\n"] {
        fs::write(service.data().join("config.toml"), settings).unwrap();
        service.systemctl(&["restart", SERVICE]);
        let pid = service.pid();
        let expected = if settings.is_empty() { "ok" } else { "degraded" };
        // A worker is degraded until it has opened its database.
        wait_until("it has started", || service.health()["status"] == expected);
        for _ in 0..2 {
            let beat = || service.property(SERVICE, "WatchdogTimestampMonotonic");
            let last = beat();
            wait_until("there is another beat", || beat() != last);
        }
        assert_eq!(service.pid(), pid, "with {settings:?} it was killed");
    }
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn a_stopping_worker_gets_the_configured_time() {
    let Some(service) = Service::install() else { return };
    service.drop_in("impatient.conf", "[Service]\nTimeoutStopSec=500ms\n");
    fs::write(service.data().join("config.toml"), "[worker]\nstop_s = 3\n").unwrap();
    service.health();
    // A request that is never completed: half of the stop time is for such requests.
    let mut unfinished = UnixStream::connect(service.data().join("worker.sock")).unwrap();
    unfinished
        .write_all(b"POST /api/summarize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        .unwrap();
    service.health();
    service.systemctl(&["stop", SERVICE]);
    assert_eq!(service.property(SERVICE, "Result"), "success", "it was killed");
    service.wait_for_message("stopped");
}
