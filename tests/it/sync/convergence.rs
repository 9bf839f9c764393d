//! Random changes on five machines, with every interruption that happens, always end in equal
//! tables: nothing lost, nothing doubled, nothing resurrected.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::machine::{Machine, lines};
use super::postgres::Postgres;
use crate::harness::clock::Clock;
use crate::harness::rng::Dice;

/// Seeds of a normal run; `CLAUDE_MEM_SYNC_SEEDS=20` tries more.
const SEEDS: u64 = 2;
const STEPS: usize = 160;
const PROJECTS: [&str; 3] = ["harbor", "quay", "crane"];

#[test]
fn five_machines_converge_whatever_happens() {
    let Some(mut postgres) = Postgres::start() else { return };
    let seeds =
        std::env::var("CLAUDE_MEM_SYNC_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    for seed in 1..=seeds {
        eprintln!("seed {seed}");
        Scene::new(&postgres, seed).play(&mut postgres);
    }
}

struct Scene {
    dice: Dice,
    machines: Vec<Machine>,
    _folder: tempfile::TempDir,
    created: BTreeSet<String>,
    /// Memories that were there when the user forgot them.
    forgotten: BTreeSet<String>,
    /// Sessions and projects that were forgotten at some time: their other memories may be gone.
    closed: BTreeSet<String>,
    sessions: u64,
}

impl Scene {
    fn new(postgres: &Postgres, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::new(folder.path());
        let machines: Vec<Machine> =
            (0..5).map(|at| Machine::new(&format!("s{seed}m{at}"), &clock)).collect();
        let invitation = machines[0].found(&postgres.url("alice"), &["--name", &format!("seed-{seed}")]);
        machines[1..].iter().for_each(|machine| machine.join(&invitation));
        let none = BTreeSet::new;
        Self {
            dice: Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            machines,
            _folder: folder,
            created: none(),
            forgotten: none(),
            closed: none(),
            sessions: 0,
        }
    }

    fn play(mut self, postgres: &mut Postgres) {
        // Two of them synchronise by themselves.
        self.machines[0].start_worker();
        self.machines[1].start_worker();
        for _ in 0..STEPS {
            let at = self.dice.below(5) as usize;
            match self.dice.below(100) {
                0..30 => self.observe(at),
                30..45 => self.change(at),
                45..52 => self.summarize(at),
                52..60 => self.learn(at),
                60..66 => self.forget(at),
                66..69 => self.veto(at),
                69..71 => self.import(at),
                71..76 => {
                    let days = self.dice.below(9) as i64 - 4;
                    self.machines[at].clock.jump(days * 86_400 + 17);
                }
                76..79 => {
                    postgres.kill();
                    postgres.run();
                }
                79..83 => {
                    self.machines[at % 2].kill_worker();
                    self.machines[at % 2].start_worker();
                }
                83..85 => self.deliver_again(at),
                85..90 => {
                    let time = Duration::from_millis(self.dice.below(150));
                    self.machines[at].sync_killed_after(time);
                }
                _ => drop(self.machines[at].mem(&["sync", "now"])),
            }
        }
        self.machines.iter_mut().for_each(Machine::kill_worker);
        self.settle();
        self.check();
    }

    /// Lets every machine send and receive until nothing is left.
    fn settle(&self) {
        for _ in 0..4 {
            for machine in &self.machines {
                machine.ok(&["sync", "now"]);
            }
        }
        for machine in &self.machines {
            let status = machine.status();
            let figures = (&status["state"], &status["behind"], &status["waiting"]);
            assert_eq!(figures, (&"level".into(), &0.into(), &0.into()), "{status:#}");
            assert_eq!(status["refused"], serde_json::json!([]), "{status:#}");
        }
    }

    fn check(&self) {
        let first = tables(&self.machines[0].database());
        for machine in &self.machines[1..] {
            let other = tables(&machine.database());
            let differences: Vec<_> = first.symmetric_difference(&other).map(String::as_str).collect();
            assert!(differences.is_empty(), "machines differ:\n{}", differences.join("\n"));
        }
        let there = self.machines[0].uids();
        let resurrected: Vec<_> = there.intersection(&self.forgotten).collect();
        assert!(resurrected.is_empty(), "resurrected: {resurrected:?}");
        // A service may receive a memory between our look and the user's `forget`, which then deletes it.
        let sql = "SELECT substr(key, 5) FROM sync_forgotten WHERE key LIKE 'uid:%'";
        let buried: BTreeSet<String> = lines(&self.machines[0].database(), sql).into_iter().collect();
        let is_open = |uid: &&String| {
            !buried.contains(*uid) && !self.closed.iter().any(|closed| uid.contains(closed.as_str()))
        };
        let lost: Vec<_> = self
            .created
            .difference(&self.forgotten)
            .filter(|uid| !there.contains(*uid))
            .filter(is_open)
            .collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
        assert!(!there.is_empty() && !self.forgotten.is_empty(), "the scene was too quiet");
    }

    fn observe(&mut self, at: usize) {
        let project = *self.dice.pick(&PROJECTS);
        if self.dice.once_in(3) {
            self.sessions += 1;
        }
        let session = format!("session{}.{project}.", self.dice.below(self.sessions + 1));
        let uid = self.machines[at].observe(project, &session, &session);
        self.created.insert(uid);
    }

    fn any(&mut self, database: &Connection, table: &str) -> Option<i64> {
        let sql = format!(
            "SELECT id FROM {table} ORDER BY uid LIMIT 1 OFFSET ?1 % max(1, (SELECT count(*) FROM {table}))"
        );
        database.query_row(&sql, [self.dice.below(1000) as i64], |row| row.get(0)).optional().unwrap()
    }

    fn change(&mut self, at: usize) {
        let database = self.machines[at].database();
        let Some(id) = self.any(&database, "observations") else { return };
        let (now, number) = (self.machines[at].now(), self.dice.below(1_000_000) as i64);
        let sql = match self.dice.below(4) {
            0 => {
                "UPDATE observations SET deleted_at = iif(deleted_at IS NULL, ?2, NULL) WHERE id = ?1 AND ?3 = ?3"
            }
            1 => {
                "UPDATE observations SET pinned_at = iif(pinned_at IS NULL, ?2, NULL) WHERE id = ?1 AND ?3 = ?3"
            }
            _ => {
                "UPDATE observations SET summary = 'rewritten ' || ?3, facts = json_array(?3), edited_at = ?2 WHERE id = ?1"
            }
        };
        database.execute(sql, params![id, now, number]).unwrap();
    }

    fn summarize(&mut self, at: usize) {
        let machine = &self.machines[at];
        let database = machine.database();
        let sql = "SELECT id, project FROM sessions ORDER BY id LIMIT 1 OFFSET ?1 % max(1, (SELECT count(*) FROM sessions))";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let found = database.query_row(sql, [self.dice.below(1000) as i64], read).optional().unwrap();
        let Some((session, project)) = found else { return };
        let uid = format!("summary-{at}-{}-{session}", self.dice.below(1_000_000));
        let sql = "INSERT INTO session_summaries (uid, session_id, project, request, completed, created_at) VALUES (?1, ?2, ?3, 'do it', 'done', ?4)";
        database.execute(sql, params![uid, session, project, machine.now()]).unwrap();
        let sql = "UPDATE sessions SET title = ?2, outcome = 'done', open_items = '[]' WHERE id = ?1";
        database.execute(sql, [&session, &uid]).unwrap();
        self.created.insert(uid);
    }

    fn learn(&mut self, at: usize) {
        let machine = &self.machines[at];
        let database = machine.database();
        if let Some(id) = self.any(&database, "learnings").filter(|_| self.dice.once_in(2)) {
            let other = self.any(&database, "learnings").filter(|other| *other != id && self.dice.once_in(2));
            let sql = "UPDATE learnings SET times_seen = times_seen + 1, updated_at = ?2, is_active = ?3 IS NULL, superseded_by = ?3 WHERE id = ?1";
            database.execute(sql, params![id, self.machines[at].now(), other]).unwrap();
            return;
        }
        let project = *self.dice.pick(&PROJECTS);
        let sql = "INSERT OR IGNORE INTO projects (key, name) VALUES ('git:example.org/' || ?1, ?1)";
        database.execute(sql, [project]).unwrap();
        let evidence = self.any(&database, "observations");
        let uid = format!("learning-{at}-{}.{project}.", self.dice.below(1_000_000));
        let sql = "INSERT INTO learnings (uid, project, category, content, confidence, source_observation_id, created_at, updated_at)
                   VALUES (?1, ?2, 'gotcha', ?1, 0.9, ?3, ?4, ?4)";
        database.execute(sql, params![uid, project, evidence, self.machines[at].now()]).unwrap();
        self.created.insert(uid);
    }

    fn forget(&mut self, at: usize) {
        let database = self.machines[at].database();
        let Some(id) = self.any(&database, "observations") else { return };
        let sql = "SELECT session_id, project FROM observations WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let (session, project) = database.query_row(sql, [id], read).unwrap();
        drop(database);
        let before = self.machines[at].uids();
        let id = id.to_string();
        let ran = match self.dice.below(8) {
            0 => {
                self.closed.insert(format!(".{project}."));
                self.machines[at].mem(&["forget", "--project", &project, "--yes"])
            }
            1 | 2 => {
                self.closed.insert(session.clone());
                self.machines[at].mem(&["forget", "--session", &session, "--yes"])
            }
            _ => self.machines[at].mem(&["forget", &id, "--yes"]),
        };
        assert!(ran.code == Some(0) || ran.stderr.contains("no memories match"), "{ran:?}");
        let after = self.machines[at].uids();
        self.forgotten.extend(before.difference(&after).cloned());
    }

    /// Vetoes a statement, or lifts a veto.
    fn veto(&mut self, at: usize) {
        let machine = &self.machines[at];
        let database = machine.database();
        if self.dice.once_in(3) {
            let sql = "DELETE FROM vetoes WHERE id IN (SELECT id FROM vetoes ORDER BY key LIMIT 1)";
            database.execute(sql, []).unwrap();
            return;
        }
        let Some(id) = self.any(&database, "observations") else { return };
        let sql = "SELECT project, title FROM observations WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let (project, title) = database.query_row(sql, [id], read).unwrap();
        self.machines[at].veto(&project, &title);
    }

    /// Makes the machine receive earlier records a second time, after later ones of other machines.
    fn deliver_again(&mut self, at: usize) {
        let part = self.dice.below(4) as i64;
        let sql = "UPDATE sync_cursors SET seq = seq * ?1 / 4 WHERE seq % 2 = 0";
        self.machines[at].database().execute(sql, [part]).unwrap();
    }

    /// Imports an export of another machine, which may hold what was forgotten here.
    fn import(&mut self, at: usize) {
        let from = &self.machines[(at + 1) % 5];
        let file = from.sandbox.path().join("export.jsonl");
        if !file.exists() {
            from.mem(&["export", file.to_str().unwrap()]);
            return;
        }
        self.machines[at].ok(&["import", file.to_str().unwrap()]);
    }
}

/// All synchronised columns of all tables, in a form that is the same on every machine.
fn tables(database: &Connection) -> BTreeSet<String> {
    let key = "(SELECT min(key) FROM projects WHERE name = t.project)";
    let queries = [
        format!(
            "SELECT json_array('observation', uid, {key}, session_id, type, title, summary, facts, created_at, deleted_at, pinned_at,
                               edited_at) FROM observations t"
        ),
        format!("SELECT json_array('summary', uid, {key}, session_id, request, completed, created_at) FROM session_summaries t"),
        format!(
            "SELECT json_array('learning', uid, {key}, category, content, confidence, times_seen, is_active, created_at, updated_at,
                               (SELECT uid FROM learnings WHERE id = t.superseded_by),
                               (SELECT uid FROM observations WHERE id = t.source_observation_id)) FROM learnings t"
        ),
        format!(
            "SELECT json_array('digest', id, {key}, title, outcome, open_items) FROM sessions t
             WHERE EXISTS (SELECT 1 FROM observations WHERE session_id = t.id) OR EXISTS (SELECT 1 FROM session_summaries WHERE session_id = t.id)"
        ),
        format!("SELECT json_array('veto', {key}, t.key, statement, created_at) FROM vetoes t"),
    ];
    queries.iter().flat_map(|sql| lines(database, sql)).collect()
}
