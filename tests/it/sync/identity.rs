//! Keys, copies and backups: refused or healed with a clear message, and nothing written wrong.

use super::machine::{Machine, invitation_in};
use super::postgres::Postgres;
use crate::harness::clock::Clock;

fn pair(postgres: &Postgres) -> (Machine, Machine, String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    first.observe("harbor", "s1", "made first");
    let invitation = first.found(&postgres.url("alice"), &[]);
    second.join(&invitation);
    (first, second, invitation, folder)
}

#[test]
fn a_wrong_key_is_refused_before_anything_is_written() {
    let Some(postgres) = Postgres::start() else { return };
    let (first, second, _, _folder) = pair(&postgres);
    let rows =
        || postgres.admin("SELECT count(*), (SELECT count(*) FROM claude_mem.device) FROM claude_mem.record");
    let before = rows();
    let path = second.sandbox.data().join("sync.json");
    let file = std::fs::read_to_string(&path).unwrap();
    let mut membership: serde_json::Value = serde_json::from_str(&file).unwrap();
    let foreign = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for keys in ["team_keys", "my_keys"] {
        let right = std::mem::replace(&mut membership[keys]["1"], foreign.into());
        std::fs::write(&path, membership.to_string()).unwrap();
        second.fails(&["sync", "now"], "wrong key");
        membership[keys]["1"] = right;
    }
    std::fs::write(&path, file).unwrap();
    let line = invitation_in(&first.ok(&["sync", "invite"]));
    let third = Machine::new("third", &first.clock);
    third.fails(&["sync", "join", &line[..line.len() - 8]], "copy the whole line");
    postgres.admin("UPDATE claude_mem.team SET key_check = 'another'");
    third.fails(&["sync", "join", &line], "wrong key");
    assert_eq!(rows(), before);
    assert!(!third.sandbox.data().join("sync.json").exists());
}

#[test]
fn invitations_expire_and_are_bound_to_a_person() {
    let Some(postgres) = Postgres::start() else { return };
    let (first, _second, line, folder) = pair(&postgres);
    let third = Machine::new("third", &Clock::right(folder.path()));
    third.fails(&["sync", "join", &line, "--url", &postgres.url("bob")], "for the machines of alice");
    let other = invitation_in(&first.ok(&["sync", "invite", "--member", "write"]));
    third.fails(&["sync", "join", &other], "pass your own login");
    postgres.admin("UPDATE claude_mem.invitation SET expires_at = now() - interval '1 hour'");
    third.fails(&["sync", "join", &line], "expired on");
    postgres.admin("DELETE FROM claude_mem.invitation");
    third.fails(&["sync", "join", &line], "unknown");
    first.fails(&["sync", "join", &line], "already synchronises");
}

#[test]
fn a_copied_database_becomes_another_device() {
    let Some(postgres) = Postgres::start() else { return };
    let (mut first, second, _, folder) = pair(&postgres);
    let mut copy = Machine::new("copy", &Clock::right(folder.path()));
    let made = std::process::Command::new("cp")
        .arg("-r")
        .arg(first.sandbox.data().join("."))
        .arg(copy.sandbox.data())
        .status();
    assert!(made.unwrap().success());
    first.observe("harbor", "s1", "made on the original");
    copy.observe("harbor", "s1", "made on the copy");
    for machine in [&copy, &first, &copy, &second, &first] {
        machine.ok(&["sync", "now"]);
    }
    let all = ["made first", "made on the copy", "made on the original"];
    for machine in [&first, &second, &copy] {
        assert_eq!(machine.titles(), all);
    }
    assert_eq!(first.status()["devices"].as_array().unwrap().len(), 3);
}

#[test]
fn a_restored_backup_catches_up_under_a_new_id() {
    let Some(postgres) = Postgres::start() else { return };
    let (mut first, second, _, _folder) = pair(&postgres);
    first.ok(&["backup"]);
    first.observe("harbor", "s1", "made after the backup");
    first.ok(&["forget", "--text", "made first", "--yes"]);
    first.ok(&["sync", "now"]);
    first.ok(&["restore", "--yes"]);
    assert_eq!(first.titles(), ["made first"], "the backup has what was forgotten later");
    // As many records as the server has beyond the backup: only their ids tell them apart.
    for title in ["made again a", "made again b", "made again c"] {
        first.observe("harbor", "s1", title);
    }
    first.ok(&["sync", "now"]);
    second.ok(&["sync", "now"]);
    let all = ["made after the backup", "made again a", "made again b", "made again c"];
    assert_eq!(first.titles(), all);
    assert_eq!(second.titles(), all);
    assert_eq!(first.status()["devices"].as_array().unwrap().len(), 3);
}

#[test]
fn two_machines_with_one_id_are_told_apart() {
    let Some(postgres) = Postgres::start() else { return };
    let (mut first, mut second, _, _folder) = pair(&postgres);
    // Two machines that even look the same, as clones of a virtual machine do.
    let identity = "SELECT device FROM sync_state";
    let device: String = first.sandbox.get(identity);
    let sql = "UPDATE sync_state SET device = ?1, seq = 0, acked = 0, acked_id = ''";
    second.database().execute(sql, [&device]).unwrap();
    first.observe("harbor", "s1", "by the first");
    second.observe("harbor", "s1", "by the second");
    for machine in [&first, &second, &first, &second] {
        machine.ok(&["sync", "now"]);
    }
    assert_eq!(first.titles(), ["by the first", "by the second", "made first"]);
    assert_eq!(second.titles(), first.titles());
    assert_ne!(second.sandbox.get::<String>(identity), device);
}

#[test]
fn a_server_restored_from_a_backup_gets_everything_again() {
    let Some(postgres) = Postgres::start() else { return };
    let (mut first, second, _, _folder) = pair(&postgres);
    first.observe("harbor", "s1", "lost by the server");
    first.ok(&["sync", "now"]);
    postgres.admin("ALTER TABLE claude_mem.record DISABLE ROW LEVEL SECURITY; DELETE FROM claude_mem.record WHERE seq > 1;
                    UPDATE claude_mem.head h SET seq = 1, id = (SELECT id FROM claude_mem.record r WHERE r.device = h.device AND r.seq = 1);
                    ALTER TABLE claude_mem.record ENABLE ROW LEVEL SECURITY");
    first.ok(&["sync", "now"]);
    second.ok(&["sync", "now"]);
    assert_eq!(second.titles(), ["lost by the server", "made first"]);
}
