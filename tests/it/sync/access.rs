//! Row-level security: every login sees and writes only its own, whatever it tries.

use std::io::Write;
use std::process::Stdio;

use super::machine::{Machine, invitation_in};
use super::postgres::Postgres;
use crate::harness::clock::Clock;
use crate::harness::wait::wait_until;

/// A team of alice, with bob as a reader, and a team of eve, on one database that alice owns.
struct Teams {
    postgres: Postgres,
    alice: Machine,
    bob: Machine,
    eve: Machine,
    _folder: tempfile::TempDir,
}

fn teams() -> Option<Teams> {
    let postgres = Postgres::start()?;
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let [mut alice, bob, mut eve] = ["alice", "bob", "eve"].map(|name| Machine::new(name, &clock));
    alice.observe("harbor", "s-harbor", "alice shares this");
    alice.observe("diary", "s-diary", "alice keeps this");
    eve.observe("quay", "s-quay", "eve knows this");
    alice.found(&postgres.url("alice"), &[]);
    alice.ok(&["sync", "share", "harbor", "team"]);
    alice.ok(&["sync", "now"]);
    eve.found(&postgres.url("eve"), &[]);
    let invitation = invitation_in(&alice.ok(&["sync", "invite", "--member", "read"]));
    bob.ok(&["sync", "join", &invitation, "--url", &postgres.url("bob"), "--label", "bob"]);
    Some(Teams { postgres, alice, bob, eve, _folder: folder })
}

const RECORDS: &str = "SELECT count(*) FROM claude_mem.record";

#[test]
fn a_reader_gets_what_the_team_shares_and_nothing_else() {
    let Some(teams) = teams() else { return };
    assert_eq!(teams.bob.titles(), ["alice shares this"]);
    assert_eq!(teams.eve.titles(), ["eve knows this"]);
    let visible = |login: &str| teams.postgres.sql(login, RECORDS).unwrap().parse::<i64>().unwrap();
    let all: i64 = teams.postgres.admin(RECORDS).parse().unwrap();
    assert!(visible("bob") > 0 && visible("bob") < visible("alice") && visible("alice") < all);
    let mut bob = teams.bob;
    bob.observe("harbor", "s-bob", "bob may only read");
    bob.ok(&["sync", "now"]);
    teams.alice.ok(&["sync", "now"]);
    assert_eq!(teams.alice.titles(), ["alice keeps this", "alice shares this"]);
}

#[test]
fn every_attempt_beyond_ones_rights_is_refused() {
    let Some(teams) = teams() else { return };
    let postgres = &teams.postgres;
    let device = |login: &str| {
        postgres.admin(&format!(
            "SELECT id FROM claude_mem.device WHERE login = '{login}' ORDER BY made_at LIMIT 1"
        ))
    };
    let team = |login: &str| {
        postgres.admin(&format!("SELECT team FROM claude_mem.device WHERE login = '{login}' LIMIT 1"))
    };
    let insert = |team: &str, device: &str, seq: i64| {
        format!(
            "INSERT INTO claude_mem.record (team, device, seq, id, kind, project, hlc, epoch, shared, refers, body) VALUES \
             ('{team}', '{device}', {seq}, gen_random_uuid(), 1, 'p', 1, 0, true, gen_random_uuid(), 'x')"
        )
    };
    let (alices, eves) = (team("alice"), team("eve"));
    let rls = "row-level security";
    let attempts = [
        ("another team", "eve", insert(&alices, &device("eve"), 1), rls),
        ("a foreign device", "eve", insert(&alices, &device("alice"), 99), rls),
        ("a foreign device of another team", "eve", insert(&eves, &device("alice"), 99), rls),
        ("a reader", "bob", insert(&alices, &device("bob"), 1), rls),
        ("an update", "alice", "UPDATE claude_mem.head SET seq = 9 WHERE false".into(), ""),
        ("a reader's update", "bob", "UPDATE claude_mem.record SET body = ''".into(), "permission denied"),
        ("a deletion", "bob", "DELETE FROM claude_mem.record".into(), "permission denied"),
        ("a truncation", "eve", "TRUNCATE claude_mem.record".into(), "permission denied"),
        ("the members", "eve", "SELECT * FROM claude_mem.member".into(), "permission denied"),
        ("a partition", "eve", "SELECT * FROM claude_mem.record_0".into(), "permission denied"),
        ("a gap", "eve", insert(&eves, &device("eve"), 99), "do not follow"),
        (
            "a reader's purge",
            "bob",
            format!("SELECT claude_mem.forget('{alices}', ARRAY[gen_random_uuid()], NULL, NULL, 1)"),
            "may not",
        ),
        (
            "another team's purge",
            "eve",
            format!("SELECT claude_mem.forget('{alices}', ARRAY[gen_random_uuid()], NULL, NULL, 1)"),
            "may not",
        ),
        ("another team's devices", "eve", format!("SELECT * FROM claude_mem.devices('{alices}')"), "may not"),
        (
            "retiring a foreign device",
            "eve",
            format!("SELECT claude_mem.retire('{alices}', '{}')", device("alice")),
            "may not",
        ),
        (
            "inviting oneself",
            "eve",
            format!("SELECT claude_mem.invite('{alices}', 'x', 'write', 1)"),
            "may not",
        ),
        ("another team's members", "eve", format!("SELECT * FROM claude_mem.members('{alices}')"), "may not"),
        (
            "another team's key",
            "eve",
            format!("SELECT claude_mem.rotate('{alices}', 2, 'x', ARRAY['eve']::name[], ARRAY['x'::bytea])"),
            "may not",
        ),
        (
            "forgetting a foreign device's log",
            "bob",
            format!("SELECT claude_mem.forget('{alices}', NULL, NULL, '{}', 1)", device("alice")),
            "may not",
        ),
        (
            "registering in another team",
            "eve",
            format!("SELECT claude_mem.register('{alices}', gen_random_uuid(), 'x')"),
            "may not",
        ),
        (
            "the time of arrival",
            "eve",
            "INSERT INTO claude_mem.record (recv_at) VALUES (now())".into(),
            "permission denied",
        ),
        ("another login", "eve", "SET SESSION AUTHORIZATION alice".into(), "permission denied"),
        ("another role", "eve", "SET ROLE alice".into(), "permission denied"),
    ];
    for (what, login, sql, reason) in attempts {
        let refused = postgres.sql(login, &sql);
        match reason {
            "" => assert!(refused.is_ok(), "{what}: {refused:?}"),
            _ => assert!(refused.as_ref().is_err_and(|error| error.contains(reason)), "{what}: {refused:?}"),
        }
    }
    let mine = postgres.sql("eve", RECORDS).unwrap();
    for setting in ["app.team", "claude_mem.team", "app.login"] {
        let forged = format!("SET {setting} = '{alices}'; {RECORDS}");
        assert_eq!(postgres.sql("eve", &forged).unwrap(), mine, "a forged setting shows more");
    }
    let owner = postgres.sql("alice", &format!("{RECORDS} WHERE team = '{eves}'")).unwrap();
    assert_eq!(owner, "0", "the owner of the tables sees another team");
    let owner = postgres.sql(
        "alice",
        "SELECT sum((SELECT count(*) FROM claude_mem.record_0)) + (SELECT count(*) FROM claude_mem.record_5)",
    );
    assert_eq!(owner.unwrap(), "0", "the owner reads a partition around the policies");
}

#[test]
fn a_removed_member_and_a_removed_device_are_shut_out() {
    let Some(teams) = teams() else { return };
    teams.alice.ok(&["sync", "devices", "--remove-member", "bob"]);
    assert_eq!(teams.postgres.sql("bob", RECORDS).unwrap(), "0");
    teams.bob.fails(&["sync", "now"], "not a member");
    // Nothing may look forgotten that the server still has.
    teams.bob.fails(&["sync", "leave", "--forget", "--yes"], "nothing was changed");
    teams.eve.fails(&["sync", "devices", "--remove", "00000000-0000-0000-0000-000000000000"], "no device");
    let own = teams.alice.status()["devices"][0]["id"].as_str().unwrap().to_owned();
    teams.alice.ok(&["sync", "devices", "--remove", &own]);
    teams.alice.fails(&["sync", "now"], "was removed from the team");
}

#[test]
fn the_server_can_read_nothing_of_a_sealed_team() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::new("sealed", &Clock::right(folder.path()));
    machine.observe("planted-project", "planted-session", "planted title");
    let sql = "UPDATE observations SET summary = 'planted summary', facts = '[\"planted fact\"]', files_modified = '[\"planted/file.rs\"]';
               INSERT INTO user_prompts (session_id, prompt_number, prompt, created_at) VALUES ('planted-session', 1, 'planted prompt', 1);
               UPDATE sessions SET title = 'planted digest', outcome = 'planted outcome';
               INSERT INTO learnings (uid, project, category, content, created_at, updated_at)
                 VALUES ('planted-uid', 'planted-project', 'gotcha', 'planted learning', 1, 1);";
    machine.database().execute_batch(sql).unwrap();
    machine.found(&postgres.url("alice"), &[]);
    let sent = machine.status()["devices"][0]["records"].as_i64();
    assert_eq!(sent, Some(3));
    let dump = postgres.dump();
    let text = String::from_utf8_lossy(&dump).to_lowercase();
    assert!(text.contains("copy claude_mem.record"), "the dump is not one");
    let hex: String = "planted".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(!text.contains("planted") && !text.contains(&hex), "the server can read a planted text");
    // The same in a team that chose readable texts: there they are found, so the search works.
    let mut other = Machine::new("readable", &Clock::right(folder.path()));
    other.observe("planted-project", "planted-session", "planted title");
    other.database().execute("INSERT INTO user_prompts (session_id, prompt_number, prompt, created_at) VALUES ('planted-session', 1, 'personal prompt', 1)", []).unwrap();
    other.found(&postgres.url("eve"), &["--readable"]);
    let text = String::from_utf8_lossy(&postgres.dump()).to_lowercase();
    let prompt: String = "personal prompt".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(text.contains(&hex) && !text.contains(&prompt), "prompts never leave");
}

#[test]
fn a_removed_member_has_no_key_for_what_comes_later() {
    let Some(teams) = teams() else { return };
    let Teams { postgres, mut alice, bob, .. } = teams;
    let line = invitation_in(&alice.ok(&["sync", "invite"]));
    let desktop = Machine::new("desktop", &alice.clock);
    desktop.join(&line);
    let member = invitation_in(&alice.ok(&["sync", "invite", "--member", "write"]));
    let mut carol = Machine::new("carol", &alice.clock);
    carol.ok(&["sync", "join", &member, "--url", &postgres.url("carol"), "--label", "carol"]);
    let stale = invitation_in(&alice.ok(&["sync", "invite"]));
    carol.fails(&["sync", "rotate"], "may not do this");
    let removed = alice.mem(&["sync", "devices", "--remove-member", "bob"]);
    assert!(removed.stderr.contains("get by themselves: alice, carol"), "{removed:?}");
    // Carol still has the old key when this connection begins, and gets the new one before she sends.
    carol.observe("harbor", "s-carol", "sealed for those who stay");
    carol.ok(&["sync", "share", "harbor", "team"]);
    for machine in [&carol, &alice, &desktop] {
        machine.ok(&["sync", "now"]);
    }
    let all = ["alice keeps this", "alice shares this", "sealed for those who stay"];
    assert_eq!(
        (alice.titles(), desktop.titles()),
        (all.map(str::to_owned).to_vec(), all.map(str::to_owned).to_vec())
    );
    assert_eq!(carol.titles(), all[1..]);
    let epochs = "SELECT DISTINCT epoch FROM claude_mem.record WHERE shared AND device IN (SELECT id FROM claude_mem.device WHERE label = 'carol')";
    assert_eq!(postgres.admin(epochs), "2");
    let keys = |machine: &Machine| {
        let file = std::fs::read_to_string(machine.sandbox.data().join("sync.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&file).unwrap()["team_keys"].clone()
    };
    assert_eq!(keys(&carol), keys(&alice));
    assert_eq!(keys(&bob)["2"], serde_json::Value::Null);
    assert_ne!(keys(&alice)["2"], keys(&alice)["1"]);
    assert_eq!(postgres.sql("bob", "SELECT count(*) FROM claude_mem.team_key").unwrap(), "0");
    // A newcomer gets all keys with a new invitation, and reads what was sealed before.
    let late = Machine::new("late", &alice.clock);
    late.fails(&["sync", "join", &stale], "changed its key");
    late.join(&invitation_in(&alice.ok(&["sync", "invite"])));
    assert_eq!(late.titles(), all);
    // A sender that holds on to the old key is refused by the server.
    let sql = "INSERT INTO claude_mem.record (team, device, seq, id, kind, project, hlc, epoch, shared, refers, body)
               SELECT team, device, seq + 1, gen_random_uuid(), 1, 'p', 1, 1, true, gen_random_uuid(), 'x' FROM claude_mem.head
               WHERE device IN (SELECT device FROM claude_mem.my_devices())";
    assert!(postgres.sql("carol", sql).unwrap_err().contains("key of the team was changed"));
    alice.observe("harbor", "s-harbor", "with the third key");
    assert!(alice.ok(&["sync", "rotate"]).contains("alice, carol"));
    for machine in [&alice, &carol] {
        machine.ok(&["sync", "now"]);
    }
    assert!(carol.titles().contains(&"with the third key".to_owned()));
}

#[test]
fn another_member_cannot_forget_or_change_what_is_private() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let [mut alice, desktop, mut bob] = ["alice", "desktop", "bob"].map(|name| Machine::new(name, &clock));
    alice.observe("harbor", "s-alice", "alice keeps this");
    let invitation = alice.found(&postgres.url("alice"), &[]);
    desktop.join(&invitation);
    let member = invitation_in(&alice.ok(&["sync", "invite", "--member", "write"]));
    bob.ok(&["sync", "join", &member, "--url", &postgres.url("bob"), "--label", "bob"]);
    // The same repository, which Bob shares and Alice does not.
    bob.observe("harbor", "s-bob", "bob shares this");
    bob.ok(&["sync", "share", "harbor", "team"]);
    bob.ok(&["sync", "now"]);
    let level = |alice: &Machine| [alice, &desktop, alice].map(|machine| machine.ok(&["sync", "now"]));
    level(&alice);
    assert_eq!(desktop.titles(), ["alice keeps this", "bob shares this"]);
    bob.ok(&["forget", "--project", "harbor", "--yes"]);
    // Bob gets hold of the session's id and pretends that the memory is his own.
    let database = bob.database();
    let sql = "INSERT INTO sessions (id, project_key, project, started_at, last_activity_at) VALUES ('s-alice', 'git:example.org/harbor', 'harbor', 1, 1);
               INSERT OR IGNORE INTO projects (key, name) VALUES ('git:example.org/harbor', 'harbor')";
    database.execute_batch(sql).unwrap();
    let uid = alice.uids().into_iter().next().unwrap();
    let sql = "INSERT INTO observations (uid, session_id, project, title, created_at) VALUES (?1, 's-alice', 'harbor', 'forged', ?2)";
    database.execute(sql, rusqlite::params![uid, bob.now() + 1000]).unwrap();
    bob.veto("", "alice keeps this");
    bob.ok(&["sync", "now"]);
    bob.ok(&["forget", "--session", "s-alice", "--yes"]);
    bob.ok(&["sync", "now"]);
    level(&alice);
    for machine in [&alice, &desktop] {
        assert_eq!(machine.titles(), ["alice keeps this"], "only what Bob made is gone");
        assert_eq!(machine.status()["refused"], serde_json::json!([]));
    }
    // What she shares later, Bob may forget.
    alice.ok(&["sync", "share", "harbor", "team"]);
    alice.observe("harbor", "s-later", "alice shares this");
    level(&alice);
    bob.ok(&["sync", "now"]);
    assert_eq!(bob.titles(), ["alice shares this"]);
    bob.ok(&["forget", "--text", "alice shares", "--yes"]);
    bob.ok(&["sync", "now"]);
    level(&alice);
    assert_eq!(
        (alice.titles(), desktop.titles()),
        (vec!["alice keeps this".to_owned()], vec!["alice keeps this".to_owned()])
    );
}

#[test]
fn a_member_who_joins_while_the_key_changes_gets_the_new_key() {
    let Some(teams) = teams() else { return };
    let Teams { postgres, alice, .. } = teams;
    // Bob's place in the team is free again, and his invitation unused.
    let values =
        "SELECT format('SELECT claude_mem.accept(%L, %L, %L, %L, %L, %L, %L);', m.team, i.token, t.key_check,
                                t.epoch_check, m.key_check, m.public_key, m.proof)
                  FROM claude_mem.member m JOIN claude_mem.team t ON t.id = m.team
                  JOIN claude_mem.invitation i ON i.team = m.team AND i.role = 'read' WHERE m.login = 'bob'";
    let accept = postgres.admin(values);
    postgres.admin("DELETE FROM claude_mem.member WHERE login = 'bob'");
    postgres.admin("UPDATE claude_mem.invitation SET used_at = NULL");
    let mut bob = postgres.session("bob");
    let mut input = bob.stdin.take().unwrap();
    writeln!(input, "BEGIN;\n{accept}").unwrap();
    let is_so = |login: &str, state: &str| {
        let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{login}' AND {state}");
        postgres.admin(&sql) != "0"
    };
    wait_until("bob joins", || is_so("bob", "state = 'idle in transaction'"));
    let mut rotate = alice.command(&["sync", "rotate"]).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the change waits for him, or is done", || {
        is_so("alice", "wait_event_type = 'Lock'") || rotate.try_wait().unwrap().is_some()
    });
    writeln!(input, "COMMIT;").unwrap();
    drop(input);
    assert!(bob.wait().unwrap().success() && rotate.wait().unwrap().success());
    let newest = "SELECT count(*) FROM claude_mem.team_key k JOIN claude_mem.team t ON t.id = k.team AND t.epoch = k.epoch
                  WHERE k.login = 'bob'";
    assert_eq!(postgres.admin(newest), "1");
}
