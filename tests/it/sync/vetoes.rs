//! Vetoes hold on every machine, whoever states the thing again.

use super::machine::{Machine, lines};
use super::postgres::Postgres;
use crate::harness::clock::Clock;

fn statements(machine: &Machine) -> Vec<String> {
    lines(&machine.database(), "SELECT project || ': ' || statement FROM vetoes ORDER BY 1")
}

fn level(machines: &[&Machine]) {
    for _ in 0..2 {
        for machine in machines {
            machine.ok(&["sync", "now"]);
        }
    }
}

#[test]
fn a_veto_holds_on_every_machine_until_it_is_lifted() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let [mut first, mut second, third] = ["first", "second", "third"].map(|name| Machine::new(name, &clock));
    let invitation = first.found(&postgres.url("alice"), &[]);
    second.join(&invitation);
    first.observe("harbor", "s1", "Use tabs");
    level(&[&first, &second]);
    assert_eq!(second.titles(), ["Use tabs"]);
    first.veto("harbor", "use TABS!");
    // Stated again elsewhere before the veto arrives, and by another project.
    second.observe("harbor", "s2", "Use `tabs`.");
    second.observe("quay", "s3", "use tabs");
    level(&[&first, &second]);
    // A machine that comes later gets the veto as well, in whatever order.
    third.join(&invitation);
    level(&[&third, &first]);
    for machine in [&first, &second, &third] {
        assert_eq!(machine.titles(), ["use tabs"], "only the other project's is shown");
        assert_eq!(statements(machine), ["harbor: use TABS!"]);
    }
    second.database().execute("DELETE FROM vetoes", []).unwrap();
    level(&[&second, &first, &third]);
    for machine in [&first, &second, &third] {
        assert!(statements(machine).is_empty(), "lifted everywhere");
    }
    third.veto("harbor", "use tabs");
    level(&[&third, &first]);
    assert_eq!(statements(&first), ["harbor: use tabs"], "vetoed again");
}

#[test]
fn a_forgotten_veto_leaves_the_server_and_no_import_brings_it_back() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    first.observe("harbor", "s1", "something");
    first.veto("harbor", "the planted statement");
    first.veto("", "it holds everywhere");
    let export = first.sandbox.path().join("export.jsonl");
    first.ok(&["export", export.to_str().unwrap()]);
    let invitation = first.found(&postgres.url("alice"), &["--readable"]);
    second.join(&invitation);
    assert_eq!(statements(&second), [": it holds everywhere", "harbor: the planted statement"]);
    let on_server = || {
        let sql =
            "SELECT count(*) FROM claude_mem.record WHERE position('planted statement'::bytea IN body) > 0";
        postgres.admin(sql)
    };
    assert_eq!(on_server(), "1");
    second.ok(&["forget", "--text", "planted statement", "--yes"]);
    level(&[&second, &first]);
    assert_eq!(on_server(), "0");
    first.ok(&["import", export.to_str().unwrap()]);
    level(&[&first, &second]);
    for machine in [&first, &second] {
        assert_eq!(statements(machine), [": it holds everywhere"]);
    }
    assert_eq!(on_server(), "0");
    second.ok(&["forget", "--project", "harbor", "--yes"]);
    first.veto("harbor", "the planted statement");
    level(&[&second, &first, &second]);
    assert_eq!(statements(&second).len(), 2, "a later veto stands");
}
