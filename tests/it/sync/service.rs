//! Synchronisation inside the service.

use super::machine::Machine;
use super::postgres::Postgres;
use crate::harness::clock::Clock;
use crate::harness::wait::wait_until;

#[test]
fn the_service_sends_and_receives_by_itself() {
    let Some(mut postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, mut second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    second.start_worker();
    wait_until("the worker serves", || second.sandbox.data().join("worker.sock").exists());
    let invitation = first.found(&postgres.url("alice"), &[]);
    // A running service notices that the machine joined.
    second.join(&invitation);
    first.start_worker();
    let connections = |postgres: &Postgres| {
        postgres.admin("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claude-mem'")
    };
    wait_until("both are connected", || connections(&postgres) == "2");
    first.observe("harbor", "s", "from the first");
    wait_until("it arrives", || second.titles() == ["from the first"]);
    postgres.kill();
    second.observe("harbor", "s", "while the server is down");
    wait_until("the trouble is logged", || second.worker_log().contains("cannot synchronise"));
    postgres.run();
    wait_until("it arrives after the outage", || first.titles().len() == 2);
    assert_eq!(second.worker_log().matches("cannot synchronise").count(), 1, "{}", second.worker_log());
    second.ok(&["sync", "leave", "--yes"]);
    wait_until("the service disconnects", || connections(&postgres) == "1");
}

#[test]
fn a_device_whose_connection_broke_still_hears_of_new_records() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, mut second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    // Nothing arrives by polling while the test runs.
    second.sandbox.configure("[sync]\npoll_s = 86400\n");
    let invitation = first.found(&postgres.url("alice"), &[]);
    second.join(&invitation);
    second.start_worker();
    let connected =
        "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE application_name = 'claude-mem'";
    wait_until("it is connected", || postgres.admin(connected) != "0");
    first.observe("harbor", "s", "before");
    first.ok(&["sync", "now"]);
    wait_until("it arrives", || second.titles() == ["before"]);
    let before = postgres.admin(connected);
    postgres.admin(&format!("SELECT pg_terminate_backend({before})"));
    wait_until("it is connected again", || !["0", &before].contains(&postgres.admin(connected).as_str()));
    first.observe("harbor", "s", "later");
    first.ok(&["sync", "now"]);
    wait_until("it arrives as well", || second.titles().len() == 2);
}

#[test]
fn without_a_team_the_service_has_no_connection_and_no_tables() {
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("alone", &Clock::right(folder.path()));
    machine.start_worker();
    wait_until("the worker serves", || machine.sandbox.data().join("worker.sock").exists());
    machine.observe("harbor", "s", "alone");
    let tables: i64 =
        machine.sandbox.get("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sync\\_%' ESCAPE '\\'");
    assert_eq!(tables, 0);
    let pid = machine.worker_pid();
    let sockets = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(|entry| {
        std::fs::read_link(entry.unwrap().path()).ok().map(|target| target.display().to_string())
    });
    let inodes: Vec<String> = sockets
        .filter_map(|target| Some(target.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    for table in ["tcp", "tcp6"] {
        let open = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let is_ours = |line: &&str| inodes.iter().any(|inode| line.split_whitespace().nth(9) == Some(inode));
        assert_eq!(open.lines().filter(is_ours).count(), 0, "the service has a TCP connection");
    }
}
