//! Poisoned records and unusable servers: set aside or reported, and everything else goes on.

use claude_mem::config::{Environment, Share};
use claude_mem::paths::Home;
use claude_mem::store::{self, open_for_bulk_change};
use claude_mem::sync::{Engine, OwnConnection};

use super::machine::Machine;
use super::postgres::Postgres;
use crate::harness::clock::Clock;
use crate::harness::sandbox::fixture;

#[test]
fn a_poisoned_record_is_set_aside_and_everything_else_arrives() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    let invitation = first.found(&postgres.url("alice"), &[]);
    for at in 0..6 {
        first.observe("harbor", "s", &format!("number {at}"));
    }
    first.ok(&["sync", "now"]);
    let huge = "x".repeat(70_000);
    first.observe("harbor", "s", "too large");
    first
        .database()
        .execute("UPDATE observations SET detail = ?1 WHERE title = 'too large'", [&huge])
        .unwrap();
    first.observe("harbor", "s", "after it");
    first.ok(&["sync", "now"]);
    // The server is hostile: it changes what it stores.
    let poison = [
        "body = set_byte(body, 60, get_byte(body, 60) # 1) WHERE seq = 1",
        "kind = 99 WHERE seq = 2",
        "hlc = hlc + (86400000::bigint * 30 << 16) WHERE seq = 3",
        "epoch = 0, body = '{}' WHERE seq = 4",
        "body = 'short' WHERE seq = 5",
    ];
    for poison in poison {
        postgres.admin(&format!("UPDATE claude_mem.record SET {poison}"));
    }
    second.join(&invitation);
    assert_eq!(second.titles(), ["after it", "number 5"]);
    let status = second.status();
    let reasons = status["refused"].to_string();
    for word in ["its seal is broken", "not sealed", "incomplete"] {
        assert!(reasons.contains(word), "{reasons}");
    }
    assert_eq!(status["refused"].as_array().unwrap().len(), 5, "{status:#}");
    assert_eq!(status["state"], "level");
    let refused = first.status()["refused"].clone();
    assert!(refused.to_string().contains("at most 65536"), "{refused}");
    // Cut to size and tried again, it arrives.
    first
        .database()
        .execute("UPDATE observations SET detail = 'short' WHERE title = 'too large'", [])
        .unwrap();
    first.ok(&["sync", "repair"]);
    second.ok(&["sync", "repair"]);
    assert_eq!(second.titles(), ["after it", "number 5", "too large"]);
}

#[test]
fn a_record_of_a_member_with_a_wrong_clock_or_a_newer_version_is_set_aside() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    let invitation = first.found(&postgres.url("alice"), &["--readable"]);
    for at in 0..3 {
        first.observe("harbor", "s", &format!("number {at}"));
    }
    first.ok(&["sync", "now"]);
    postgres.admin("UPDATE claude_mem.record SET kind = 99 WHERE seq = 1");
    postgres.admin("UPDATE claude_mem.record SET hlc = hlc + (86400000::bigint * 30 << 16) WHERE seq = 2");
    second.join(&invitation);
    assert_eq!(second.titles(), ["number 2"]);
    let reasons = second.status()["refused"].to_string();
    assert!(reasons.contains("upgrade claude-mem") && reasons.contains("ahead of the server's"), "{reasons}");
}

#[test]
fn an_unusable_server_is_reported_in_a_sentence() {
    let Some(mut postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new("first", &Clock::right(folder.path()));
    let authority = fixture("tls/authority.pem");
    let init = |url: &str, expected: &str| machine.fails(&["sync", "init", "--url", url], expected);
    init("mysql://me@db/mem", "must begin with postgres://");
    init("postgres://me@db.example/mem?sslmode=disable", "unencrypted");
    init("postgres://me@127.0.0.1:1/mem", "cannot reach 127.0.0.1");
    init(&postgres.url("nobody"), "refuses the login");
    init(&postgres.url("eve"), "lacks a right");
    init(&postgres.tls_url("alice", "127.0.0.1", &authority), "certificate");
    init(&postgres.tls_url("alice", "localhost", &fixture("tls/localhost.pem")), "certificate");
    init(
        &postgres.tls_url("alice", "localhost", &authority).replace("pw-alice", "wrong"),
        "password authentication failed",
    );
    assert!(!machine.sandbox.data().join("sync.json").exists());
    // With the right authority, name and password everything works over TLS.
    machine.found(&postgres.tls_url("alice", "localhost", &authority), &[]);
    postgres.kill();
    machine.fails(&["sync", "now"], "cannot reach localhost");
    let status = machine.status();
    assert_eq!(status["state"], "unreachable");
    postgres.run();
    machine.ok(&["sync", "now"]);
    assert_eq!(machine.status()["state"], "level");
}

#[test]
fn forgetting_removes_the_bodies_and_the_key_from_the_server() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, mut second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    first.observe("harbor", "s", "to be forgotten");
    first.observe("harbor", "s", "stays");
    first.observe("diary", "d", "of the diary");
    let export = first.sandbox.path().join("export.jsonl");
    first.ok(&["export", export.to_str().unwrap()]);
    let invitation = first.found(&postgres.url("alice"), &[]);
    second.join(&invitation);
    let bodies = || postgres.admin("SELECT count(*) FROM claude_mem.record WHERE kind <> 6 AND body <> ''");
    assert_eq!(bodies(), "3");
    second.ok(&["forget", "--text", "to be forgotten", "--yes"]);
    second.ok(&["sync", "now"]);
    assert_eq!(bodies(), "2");
    // An import of what was forgotten elsewhere does not bring it back.
    first.ok(&["sync", "now"]);
    first.ok(&["import", export.to_str().unwrap()]);
    first.ok(&["sync", "now"]);
    second.ok(&["sync", "now"]);
    for machine in [&first, &second] {
        assert_eq!(machine.titles(), ["of the diary", "stays"]);
    }
    assert_eq!(bodies(), "2");
    let keys = || postgres.admin("SELECT count(*) FROM claude_mem.project_key");
    assert_eq!(keys(), "2");
    second.ok(&["forget", "--project", "diary", "--yes"]);
    second.ok(&["sync", "now"]);
    first.ok(&["sync", "now"]);
    assert_eq!((bodies().as_str(), keys().as_str()), ("1", "1"));
    assert_eq!(first.titles(), ["stays"]);
    second.observe("diary", "d2", "a new page");
    second.ok(&["sync", "now"]);
    first.ok(&["sync", "now"]);
    assert_eq!(first.titles(), ["a new page", "stays"]);
    first.ok(&["sync", "leave", "--forget", "--yes"]);
    assert_eq!(first.titles(), ["a new page", "stays"], "leaving keeps the memories here");
    assert_eq!(first.status()["state"], "off");
}

#[test]
fn a_service_seals_nothing_with_the_key_of_a_project_that_was_forgotten_elsewhere() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    let invitation = first.found(&postgres.url("alice"), &[]);
    second.join(&invitation);
    let home = Home::at(first.sandbox.data());
    let own = OwnConnection::new(open_for_bulk_change(&home, 1000).unwrap());
    let mut service = Engine::new(own, home, Environment::default(), Share::Me);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    first.observe("diary", "d", "the first page");
    runtime.block_on(service.cycle(first.now())).unwrap();
    second.ok(&["sync", "now"]);
    second.ok(&["forget", "--project", "diary", "--yes"]);
    second.ok(&["sync", "now"]);
    // Not the service receives it: its connection and its keys stay as they are.
    first.ok(&["sync", "now"]);
    first.observe("diary", "d2", "a new page");
    runtime.block_on(service.cycle(first.now())).unwrap();
    second.ok(&["sync", "now"]);
    assert_eq!(second.titles(), ["a new page"]);
}

#[test]
fn the_tombstone_of_a_project_is_sent_after_its_bodies_are_removed() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("first", &Clock::right(folder.path()));
    machine.found(&postgres.url("alice"), &[]);
    machine.observe("diary", "d", "the first page");
    machine.ok(&["sync", "now"]);
    machine.ok(&["forget", "--project", "diary", "--yes"]);
    let shares = store::sync::Shares { default: Share::Me, projects: Default::default() };
    let collector = store::sync::Collector {
        shares: &shares,
        redact: str::to_owned,
        digest: claude_mem::compress::digest::digest,
        now: machine.now(),
        server_now: None,
    };
    let mut database = machine.database();
    let mut next = || store::sync::next_batch(&mut database, collector, 1, (500, 1 << 20)).unwrap();
    let store::sync::NextBatch::Purges(what) = next() else { panic!("the tombstone is not last") };
    assert!(what.iter().any(|(what, _)| what == "project:git:example.org/diary"), "{what:?}");
    store::sync::purged(&machine.database(), &what).unwrap();
    let store::sync::NextBatch::Records(records) = next() else { panic!("purged twice") };
    assert!(
        records.iter().any(|record| record.body.contains("project:git:example.org/diary")),
        "{records:?}"
    );
}
