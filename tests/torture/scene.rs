//! The state shared by all threads of a run, and running hooks in it.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use claude_mem::model::EventKey;
use serde_json::Value;

use crate::figures::Figures;
use crate::harness::clock::Clock;
use crate::harness::rng::Dice;
use crate::harness::sandbox::{Sandbox, program};
use crate::ledger::{Fate, Ledger, key_of};
use crate::processes::{Ended, Processes};

pub struct Scene {
    pub seed: u64,
    pub sandbox: Sandbox,
    pub clock: Clock,
    pub processes: Processes,
    pub ledger: Mutex<Ledger>,
    pub figures: Mutex<Figures>,
    pub is_over: AtomicBool,
    /// Held to pause events.
    pub gate: RwLock<()>,
    /// True if some hooks are killed.
    pub is_calm: bool,
    /// Durations of hooks since the last sample.
    pub latencies: Mutex<Vec<Duration>>,
}

impl Scene {
    pub fn new(seed: u64, sandbox: Sandbox, clock: Clock) -> Self {
        Self {
            seed,
            sandbox,
            clock,
            processes: Processes::default(),
            ledger: Mutex::default(),
            figures: Mutex::default(),
            is_over: AtomicBool::new(false),
            gate: RwLock::default(),
            is_calm: false,
            latencies: Mutex::default(),
        }
    }

    /// A scene in which nothing is killed.
    pub fn calm(seed: u64) -> Self {
        let sandbox = Sandbox::new();
        let clock = Clock::right(sandbox.path());
        Self { is_calm: true, ..Self::new(seed, sandbox, clock) }
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.sandbox.command(program("claude-mem"));
        command.args(arguments);
        self.clock.rule(&mut command);
        command
    }

    /// Runs a command, which may fail but must not crash.
    pub fn call(&self, arguments: &[&str]) -> Ended {
        self.figures.lock().unwrap().requests += 1;
        self.processes.run(self.command(arguments), b"", None, |ended| {
            assert!(
                matches!(ended.code, Some(0 | 1)),
                "{arguments:?} ended with {:?}: {}",
                ended.code,
                ended.stderr
            );
            assert!(!ended.stderr.contains("panicked"), "{arguments:?}: {}", ended.stderr);
            Ended { code: ended.code, stdout: ended.stdout.clone(), stderr: ended.stderr.clone() }
        })
    }

    /// Sends an event: by one hook, or by two at once as with a second hook set; some are killed.
    pub fn send(&self, writer: usize, verb: &str, payload: &str, dice: &mut Dice) {
        let _open = self.gate.read().unwrap();
        let _steady = self.clock.steady();
        let entry = key_of(verb, payload).map(|key| self.ledger.lock().unwrap().begin(key, writer));
        let hooks = if dice.once_in(3) { 2 } else { 1 };
        let mut end = || dice.once_in(15).then(|| Duration::from_millis(dice.below(15)));
        let ends: Vec<_> = (0..hooks).map(|_| end().filter(|_| !self.is_calm)).collect();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for end in ends {
                scope.spawn(move || self.hook(verb, payload, end, entry));
            }
        });
        if let Some(index) = entry {
            let entry = &mut self.ledger.lock().unwrap().entries[index];
            entry.is_over = true;
            entry.may_be_twice =
                hooks > 1 && began.elapsed() >= Duration::from_millis(EventKey::NEAR_MS as u64);
        }
    }

    fn hook(&self, verb: &str, payload: &str, killed_after: Option<Duration>, entry: Option<usize>) {
        let mut command = self.sandbox.hook_command(verb);
        // Makes it report where the event went.
        command.env("CLAUDE_MEM_HOOK_DEBUG", "1");
        self.clock.rule(&mut command);
        let began = Instant::now();
        self.processes.run(command, payload.as_bytes(), killed_after, |ended| {
            if self.is_calm {
                self.latencies.lock().unwrap().push(began.elapsed());
            }
            let fate = fate(ended, verb);
            let mut figures = self.figures.lock().unwrap();
            figures.hooks += 1;
            match fate {
                Fate::Unknown => figures.count("hook killed"),
                Fate::Dropped => figures.dropped += 1,
                Fate::Spooled | Fate::Stored => {}
            }
            if let Some(index) = entry {
                self.ledger.lock().unwrap().note(index, fate);
            }
        });
    }
}

fn fate(ended: &Ended, verb: &str) -> Fate {
    match ended.code {
        None => return Fate::Unknown,
        Some(0) => {}
        Some(code) => panic!("the hook {verb} ended with {code}: {}", ended.stderr),
    }
    if !ended.stdout.is_empty() {
        let printed: Value = serde_json::from_str(&ended.stdout).expect("one JSON object");
        assert!(printed.is_object(), "{verb}: {printed}");
    }
    match ended.stderr.trim().strip_prefix("claude-mem-hook: ") {
        None if ended.stderr.is_empty() => Fate::Stored,
        Some(line) if line.starts_with("in the spool, because") => Fate::Spooled,
        Some(line) if line.contains("; the spool: ") => Fate::Dropped,
        _ => panic!("the hook {verb} says: {}", ended.stderr),
    }
}
