//! Tries to break the real programs by random, repeatable schedules. docs/torture.md describes the coverage.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, clippy::disallowed_methods)]

mod crash;
mod figures;
mod finish;
#[path = "../it/harness/mod.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod harness;
mod invariants;
mod ledger;
mod machine;
mod meaning;
mod processes;
mod scene;
mod schedule;
mod settings;
mod soak;
mod writers;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use figures::Figures;
use harness::clock::Clock;
use harness::sandbox::{Sandbox, Tmpfs};
use machine::{DISK_BYTES, Machine};
use scene::Scene;

/// A number from the environment, which the Makefile sets.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse().expect(name))
}

/// Prints how to repeat a failing seed.
struct Replay {
    seed: u64,
    steps: usize,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("\nTo repeat it: make torture SEED={} STEPS={}", self.seed, self.steps);
        }
    }
}

/// Keeps the data directory and the workers' output of a failing seed.
pub struct Evidence<'a>(&'a Scene);

impl Drop for Evidence<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("torture-{}", self.0.seed));
            let _ = std::fs::remove_dir_all(&folder);
            crash::copy(self.0.sandbox.data(), &folder);
            let _ = std::fs::copy(self.0.sandbox.log(), folder.join("worker.log"));
            eprintln!("\nWhat is left of it: {}", folder.display());
        }
    }
}

#[test]
fn every_accepted_event_is_settled_once() {
    let steps = setting("CLAUDE_MEM_TORTURE_STEPS").unwrap_or(60) as usize;
    let minutes = setting("CLAUDE_MEM_TORTURE_MINUTES").unwrap_or(0);
    let first = setting("CLAUDE_MEM_TORTURE_SEED").unwrap_or(1);
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut all = Figures::default();
    for seed in first.. {
        let began = Instant::now();
        all.add(&torture(seed, steps));
        eprintln!("seed {seed} with {steps} steps held ({:.0} s)", began.elapsed().as_secs_f64());
        if Instant::now() >= end {
            break;
        }
    }
    eprintln!("{all}");
}

fn torture(seed: u64, steps: usize) -> Figures {
    let _replay = Replay { seed, steps };
    let began = Instant::now();
    let disk = Tmpfs::new(&format!("size={DISK_BYTES}"));
    let sandbox = match &disk {
        Some(disk) => Sandbox::with_data(disk.path()),
        None => Sandbox::new(),
    };
    let clock = Clock::new(sandbox.path());
    let scene = Scene::new(seed, sandbox, clock);
    let _evidence = Evidence(&scene);
    meaning::provide(&scene);
    let mut machine = Machine::new(&scene, disk.as_ref());
    std::thread::scope(|scope| {
        for writer in 0..writers::WRITERS {
            let scene = &scene;
            scope.spawn(move || writers::write(scene, writer, 160));
        }
        scope.spawn(|| writers::ask(&scene, 60));
        // The end of the schedule, even by a panic, ends the other threads.
        let over = Over(&scene);
        for (number, (step, then)) in schedule::schedule(seed, steps).into_iter().enumerate() {
            if setting("CLAUDE_MEM_TORTURE_TELL").is_some() {
                eprintln!("{:7.1} {number}: {step:?}", began.elapsed().as_secs_f64());
            }
            machine.perform(step);
            std::thread::sleep(Duration::from_millis(then));
        }
        machine.end_all_faults();
        drop(over);
    });
    finish::finish(&mut machine);
    let mut figures = std::mem::take(&mut *scene.figures.lock().unwrap());
    figures.seeds = 1;
    figures.steps = steps as u64;
    figures
}

struct Over<'a>(&'a Scene);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
