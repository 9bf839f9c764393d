//! Faults are reported, lose no accepted event, and end when they are fixed.

use std::fs;

use super::super::service::{SERVICE, SOCKET, Service};

use crate::harness::wait::wait_until;

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn bad_settings_are_reported_and_a_fix_is_noticed() {
    let Some(service) = Service::install() else { return };
    let settings = service.data().join("config.toml");
    fs::write(&settings, "[worker]\nstop_s = 'soon'\n").unwrap();
    service.turn("while it is degraded");
    let pid = service.pid();
    let reason = "config.toml:2: worker.stop_s";
    wait_until("systemd knows", || service.property(SERVICE, "StatusText").contains(reason));
    assert!(service.property(SERVICE, "StatusText").starts_with("degraded: "));
    assert_eq!(service.wait_for_message(reason)["PRIORITY"], "3");
    let health = service.health();
    assert_eq!(health["status"], "degraded");
    assert!(health["reason"].as_str().unwrap().contains(reason), "{health}");
    fs::write(&settings, "[worker]\nstop_s = 7\n").unwrap();
    service.systemctl(&["reload", SERVICE]);
    service.wait_until_remembered("while it is degraded");
    service.wait_for_message("healthy again");
    wait_until("systemd knows", || !service.property(SERVICE, "StatusText").contains("degraded"));
    assert_eq!((service.pid(), &service.health()["status"]), (pid, &"ok".into()), "it never ended");
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn the_environment_file_reaches_the_worker() {
    let Some(service) = Service::install() else { return };
    fs::write(service.data().join("environment"), "CLAUDE_MEM_WORKER_STOP_S=soon\n").unwrap();
    let health = service.health();
    assert!(
        health["reason"].as_str().is_some_and(|reason| reason.contains("CLAUDE_MEM_WORKER_STOP_S")),
        "{health}"
    );
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn a_worker_that_cannot_start_does_not_take_the_socket_with_it() {
    let Some(service) = Service::install() else { return };
    // Immediately, and often enough to exceed systemd's default start limits.
    service.drop_in(
        "broken.conf",
        "[Service]\nRestartSec=0\nRestartSteps=0\nExecStart=\nExecStart=/bin/false\n",
    );
    service.turn("while it fails");
    let restarts = || service.property(SERVICE, "NRestarts").parse::<u32>().unwrap();
    wait_until("it failed often", || restarts() >= 30);
    assert_eq!(service.property(SOCKET, "ActiveState"), "active");
    service.turn("after many failures");
    service.remove_drop_in("broken.conf");
    // It recovers without intervention.
    for session in ["while it fails", "after many failures"] {
        service.wait_until_remembered(session);
    }
    wait_until("the service is active", || service.property(SERVICE, "ActiveState") == "active");
}

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn a_replaced_broken_program_is_started_again() {
    let Some(service) = Service::install() else { return };
    service.drop_in("soon.conf", "[Service]\nRestartSec=100ms\n");
    let program = service.home.join(".local/bin/claude-mem");
    let aside = program.with_extension("good");
    fs::rename(&program, &aside).unwrap();
    service.turn("without a program");
    let failed = || service.property(SERVICE, "NRestarts").parse::<u32>().unwrap();
    wait_until("it failed", || failed() >= 2);
    assert_eq!(service.property(SOCKET, "ActiveState"), "active");
    fs::rename(&aside, &program).unwrap();
    service.wait_until_remembered("without a program");
}
