//! The machine under test: worker, disk, calendar, settings, endpoint, and other programs that lock the database. Executes the
//! schedule.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use rustix::process::Signal;

use crate::crash;
use crate::harness::endpoint::Endpoint;
use crate::harness::faults::{faults, good};
use crate::harness::sandbox::Tmpfs;
use crate::harness::worker::Worker;
use crate::invariants;
use crate::processes::go_on;
use crate::scene::Scene;
use crate::schedule::{Condition, Step};
use crate::settings;

const KEY: &str = "sk-ant-api03-zq7torturezq7torturezq7torturezq7";

pub struct Machine<'a> {
    pub scene: &'a Scene,
    disk: Option<&'a Tmpfs>,
    pub endpoint: Endpoint,
    refused: String,
    /// The model's address in the settings.
    url: String,
    settings: u64,
    pub worker: Option<Worker>,
    conditions: Vec<Condition>,
    lock_holder: Option<Connection>,
    reader: Option<Connection>,
}

impl<'a> Machine<'a> {
    pub fn new(scene: &'a Scene, disk: Option<&'a Tmpfs>) -> Self {
        let endpoint = Endpoint::start(good);
        let url = endpoint.url().to_owned();
        scene.sandbox.configure(&settings::usual(&url));
        let refused = Endpoint::refused();
        let mut machine = Self {
            scene,
            disk,
            endpoint,
            refused,
            url,
            settings: 0,
            worker: None,
            conditions: Vec::new(),
            lock_holder: None,
            reader: None,
        };
        machine.start_worker();
        machine
    }

    pub fn perform(&mut self, step: Step) {
        match step {
            Step::Kill { down_ms } => self.kill(down_ms),
            Step::Terminate => self.terminate(),
            Step::Second => self.start_a_second(),
            Step::Crash => self.crash(),
            Step::Endpoint(number) => self.set_endpoint(number),
            Step::Clock { seconds } => self.jump(seconds),
            Step::Settings(number) => self.change_settings(number),
            Step::Retention => self.retire(),
            Step::Backup => self.back_up(),
            Step::Check => self.check(),
            Step::Begin(condition) => self.begin(condition),
            Step::End(condition) => self.end(condition),
            Step::Wait => {}
        }
        let log = self.scene.sandbox.data().join("claude-mem.db-wal");
        let size = fs::metadata(log).map_or(0, |meta| meta.len());
        let mut figures = self.scene.figures.lock().unwrap();
        figures.largest_log = figures.largest_log.max(size);
    }

    fn count(&self, what: &str) {
        self.scene.figures.lock().unwrap().count(what);
    }

    fn is(&self, condition: Condition) -> bool {
        self.conditions.contains(&condition)
    }

    fn spawn_worker(&mut self) {
        let mut command = self.scene.sandbox.worker_command();
        command.env_remove("CLAUDE_MEM_COMPRESS_PROVIDER").env("ANTHROPIC_API_KEY", KEY);
        self.scene.clock.rule(&mut command);
        self.worker = Some(Worker::spawn(command, &self.scene.sandbox));
    }

    fn start_worker(&mut self) {
        self.spawn_worker();
        self.worker.as_mut().unwrap().wait_until_it_answers();
    }

    fn bury_worker(&mut self) {
        self.worker.as_mut().unwrap().kill();
        // A frozen worker is dead now.
        self.conditions.retain(|condition| *condition != Condition::Frozen);
    }

    fn kill(&mut self, down_ms: u64) {
        self.bury_worker();
        self.count("worker kill -9");
        std::thread::sleep(Duration::from_millis(down_ms));
        if down_ms.is_multiple_of(4) {
            // Again, while it still starts.
            self.spawn_worker();
            std::thread::sleep(Duration::from_millis(down_ms % 64));
            self.bury_worker();
            self.count("worker kill -9");
        }
        self.start_worker();
    }

    fn terminate(&mut self) {
        self.end(Condition::Frozen);
        let status = self.worker.as_mut().unwrap().stop();
        assert!(status.success(), "SIGTERM ended the worker with {status}");
        self.count("worker SIGTERM");
        self.start_worker();
    }

    fn start_a_second(&mut self) {
        let mut command = self.scene.sandbox.worker_command();
        self.scene.clock.rule(&mut command);
        let mut second = Worker::spawn(command, &self.scene.sandbox);
        assert!(!second.wait().success(), "a second worker was let in");
        assert!(self.worker.as_mut().unwrap().is_alive(), "a second worker ended the first");
        self.count("second worker");
    }

    /// Stops the machine between two instructions; everything written counts as on the disk.
    fn crash(&mut self) {
        let scene = self.scene;
        let worker = self.worker.as_ref().map(Worker::pid);
        let copy = tempfile::tempdir().unwrap();
        let standing = scene.processes.stand_still(worker);
        let ledger = scene.ledger.lock().unwrap().clone();
        crash::copy(scene.sandbox.data(), &copy.path().join("mem"));
        let also = worker.filter(|_| !self.is(Condition::Frozen));
        go_on(standing, also);
        self.count("machine crash");
        // Pause everything else meanwhile, or a slow machine would never catch up.
        let _quiet = scene.gate.write().unwrap();
        crash::check_new_machine(scene, copy.path(), &ledger);
        scene.figures.lock().unwrap().checks += 1;
    }

    fn set_endpoint(&mut self, number: Option<u64>) {
        let mut url = self.endpoint.url().to_owned();
        let Some(number) = number else {
            self.endpoint.set_script(good);
            return self.lead_to(url);
        };
        let mut faults = faults();
        let fault = faults.swap_remove(number as usize % faults.len());
        self.count(&format!("endpoint: {}", fault.name));
        match fault.reply {
            Some(reply) => self.endpoint.set_script(move |_| reply.clone()),
            None => url.clone_from(&self.refused),
        }
        self.lead_to(url);
    }

    fn lead_to(&mut self, url: String) {
        if self.url != url {
            self.url = url;
            self.write_settings();
        }
    }

    fn jump(&mut self, seconds: i64) {
        if self.scene.clock.can_jump() {
            // Over more than a month, finished rows expire, as they should.
            let is_too_far = !DAYS_OFF.contains(&((*self.scene.clock.steady() + seconds) / 86_400));
            let seconds = if is_too_far { -seconds } else { seconds };
            self.scene.clock.jump(seconds);
            self.count(if seconds < 0 { "clock set back" } else { "clock set forward" });
        }
    }

    fn change_settings(&mut self, number: u64) {
        self.settings = number;
        self.count("settings changed, SIGHUP");
        self.write_settings();
    }

    fn write_settings(&self) {
        let text = match self.settings {
            _ if self.is(Condition::BrokenSettings) => "[compress\nprovider = ".to_owned(),
            0 => settings::usual(&self.url),
            number => settings::settings(number, &self.url),
        };
        let data = self.scene.sandbox.data();
        let unfinished = data.join("config.new");
        // On a full disk the write fails, and the old settings stay.
        if fs::write(&unfinished, text).is_ok() {
            fs::rename(&unfinished, data.join("config.toml")).unwrap();
        } else {
            let _ = fs::remove_file(&unfinished);
        }
        self.worker.as_ref().unwrap().signal(Signal::HUP);
    }

    /// Makes finished events a month old, and triggers retention.
    fn retire(&mut self) {
        let hindered = [Condition::Locked, Condition::FullDisk, Condition::NoSpool];
        if hindered.iter().any(|condition| self.is(*condition)) || !self.scene.sandbox.spooled().is_empty() {
            return;
        }
        // An event whose hooks still run would count as new.
        let keys: Vec<String> = {
            let ledger = self.scene.ledger.lock().unwrap();
            let over = ledger.entries.iter().filter(|entry| entry.is_over);
            over.map(|entry| entry.key.clone())
                .filter(|key| !ledger.retired.contains(key))
                .take(200)
                .collect()
        };
        let keys_as_json = serde_json::to_string(&keys).unwrap();
        let sql = "UPDATE pending_queue SET finished_at = finished_at - 40 * 86400000, created_at = created_at - 40 * 86400000
                   WHERE kind = 'observation' AND status IN ('done', 'skipped')
                     AND event_key IN (SELECT value FROM json_each(?1)) RETURNING event_key";
        let database = self.scene.sandbox.database();
        let mut statement = database.prepare(sql).unwrap();
        let retired: Vec<String> =
            statement.query_map([keys_as_json], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        self.scene.ledger.lock().unwrap().retired.extend(retired);
        self.count("retention");
        self.worker.as_ref().unwrap().signal(Signal::HUP);
    }

    fn back_up(&mut self) {
        // It waits only for a frozen worker.
        if !self.is(Condition::Frozen) {
            self.scene.call(&["backup"]);
            self.count("backup");
        }
    }

    fn check(&mut self) {
        let ledger = self.scene.ledger.lock().unwrap().clone();
        let newer_ledger = || self.scene.ledger.lock().unwrap().clone();
        invariants::check_always(self.scene.sandbox.data(), &self.spools(), &ledger, newer_ledger);
        self.scene.figures.lock().unwrap().checks += 1;
    }

    fn spools(&self) -> [PathBuf; 2] {
        ["spool", "spool-away"].map(|name| self.scene.sandbox.data().join(name))
    }

    fn begin(&mut self, condition: Condition) {
        let sandbox = &self.scene.sandbox;
        match condition {
            Condition::Frozen => self.worker.as_ref().unwrap().signal(Signal::STOP),
            Condition::FullDisk => match self.disk {
                Some(disk) => fill(disk),
                None => return,
            },
            Condition::Locked => {
                let lock_holder = sandbox.database();
                lock_holder.execute_batch("BEGIN IMMEDIATE").unwrap();
                self.lock_holder = Some(lock_holder);
            }
            Condition::LongReader => {
                let reader = sandbox.database();
                reader.execute_batch("BEGIN; SELECT count(*) FROM pending_queue").unwrap();
                self.reader = Some(reader);
            }
            Condition::NoSpool => {
                let [spool, away] = self.spools();
                let _ = fs::rename(&spool, away);
                fs::write(spool, "in the way").ok();
            }
            Condition::BrokenSettings => {}
        }
        self.conditions.push(condition);
        self.count(name(condition));
        if condition == Condition::BrokenSettings {
            self.write_settings();
        }
    }

    pub fn end(&mut self, condition: Condition) {
        if !self.is(condition) {
            return;
        }
        self.conditions.retain(|known| *known != condition);
        match condition {
            Condition::Frozen => self.worker.as_ref().unwrap().signal(Signal::CONT),
            Condition::FullDisk => {
                let _ = fs::remove_file(self.scene.sandbox.data().join(FILLER));
            }
            Condition::Locked => self.lock_holder = None,
            Condition::LongReader => self.reader = None,
            Condition::NoSpool => {
                let [spool, away] = self.spools();
                let _ = fs::remove_file(&spool);
                if away.exists() {
                    fs::rename(away, spool).unwrap();
                }
            }
            Condition::BrokenSettings => self.write_settings(),
        }
    }

    /// Ends all faults; the programs must do the rest.
    pub fn end_all_faults(&mut self) {
        while let Some(condition) = self.conditions.last().copied() {
            self.end(condition);
        }
        self.settings = 0;
        self.url = self.endpoint.url().to_owned();
        self.endpoint.set_script(good);
        self.write_settings();
        if !self.worker.as_mut().unwrap().is_alive() {
            self.start_worker();
        }
    }
}

/// Maximum deviation of the calendar, in days.
const DAYS_OFF: std::ops::Range<i64> = -10..15;

/// The file that fills the disk; the copy of a crash omits it.
pub const FILLER: &str = "filler";

fn fill(disk: &Tmpfs) {
    let filler = fs::File::create(disk.path().join(FILLER)).unwrap();
    let (mut size, mut piece) = (0, DISK_BYTES);
    while piece >= 4096 {
        match rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), size, piece) {
            Ok(()) => size += piece,
            Err(_) => piece /= 2,
        }
    }
}

pub const DISK_BYTES: u64 = 160 << 20;

fn name(condition: Condition) -> &'static str {
    match condition {
        Condition::Frozen => "worker SIGSTOP, SIGCONT",
        Condition::FullDisk => "disk full",
        Condition::Locked => "database locked by another program",
        Condition::LongReader => "read transaction held open",
        Condition::NoSpool => "spool unusable",
        Condition::BrokenSettings => "settings broken, SIGHUP",
    }
}
