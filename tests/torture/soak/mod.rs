//! Steady use for a given time, with the cost sampled: memory, descriptors and the WAL must not grow.

mod plot;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::finish::{self, memory, proportional_set_size};
use crate::harness::endpoint::Endpoint;
use crate::harness::faults::good;
use crate::harness::worker::Worker;
use crate::invariants::check_settled;
use crate::scene::Scene;
use crate::writers;
use crate::{Evidence, Over, setting, settings};
use plot::{Curve, svg};

const WRITERS: usize = 4;
/// Maximum pause between two events of a writer.
const PAUSE_MS: u64 = 1_500;
const SAMPLES: u64 = 300;

/// The figures at one time.
struct Sample {
    seconds: f64,
    memory: u64,
    /// The part of it that is not file-backed.
    own_memory: u64,
    descriptors: usize,
    log: u64,
    database: u64,
    /// Durations of the hooks since the last sample, in milliseconds.
    median: f64,
    slowest: f64,
}

#[test]
#[ignore = "`make soak` runs it"]
fn steady_use_does_not_grow() {
    let seconds = setting("CLAUDE_MEM_SOAK_SECONDS").unwrap_or(300);
    let scene = Scene::calm(setting("CLAUDE_MEM_TORTURE_SEED").unwrap_or(1));
    let _evidence = Evidence(&scene);
    let endpoint = Endpoint::start(good);
    // Events of an unfinished turn are not waited for at the end.
    let settings = settings::usual(endpoint.url()) + "[batch]\nmax_wait_s = 5\n";
    scene.sandbox.configure(&settings);
    let mut command = scene.sandbox.worker_command();
    command.env_remove("CLAUDE_MEM_COMPRESS_PROVIDER").env("ANTHROPIC_API_KEY", "sk-ant-soak");
    let mut worker = Worker::spawn(command, &scene.sandbox);
    worker.wait_until_it_answers();
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let scene = &scene;
            scope.spawn(move || writers::write(scene, writer, PAUSE_MS));
        }
        scope.spawn(|| writers::ask(&scene, 2_000));
        let _over = Over(&scene);
        let began = Instant::now();
        let every = Duration::from_secs(seconds) / SAMPLES as u32;
        while began.elapsed() < Duration::from_secs(seconds) {
            std::thread::sleep(every.max(Duration::from_secs(1)));
            samples.push(sample(&scene, &worker, began));
            // The records of hours of requests would grow the test itself.
            endpoint.forget_asked();
        }
    });
    finish::settle(&scene, &mut worker);
    assert!(worker.stop().success());
    let ledger = scene.ledger.lock().unwrap().clone();
    let events = check_settled(scene.sandbox.data(), &ledger);
    finish::check_log(&scene.sandbox);
    report(&samples, events, &scene);
    check(&samples);
}

fn sample(scene: &Scene, worker: &Worker, began: Instant) -> Sample {
    let mut latencies = std::mem::take(&mut *scene.latencies.lock().unwrap());
    latencies.sort();
    let at = |share: f64| {
        let index = ((latencies.len() as f64 * share) as usize).min(latencies.len().saturating_sub(1));
        latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
    };
    let size = |name: &str| fs::metadata(scene.sandbox.data().join(name)).map_or(0, |meta| meta.len());
    Sample {
        seconds: began.elapsed().as_secs_f64(),
        memory: proportional_set_size(worker.pid()),
        own_memory: memory(worker.pid(), "Pss_Anon:"),
        descriptors: fs::read_dir(format!("/proc/{}/fd", worker.pid())).unwrap().count(),
        log: size("claude-mem.db-wal"),
        database: size("claude-mem.db"),
        median: at(0.5),
        slowest: at(1.0),
    }
}

type Measure = (&'static str, &'static str, fn(&Sample) -> f64);

const MEASURES: [Measure; 7] = [
    ("worker's memory (PSS)", "MB", |sample| sample.memory as f64 / 1e6),
    ("of it not from files", "MB", |sample| sample.own_memory as f64 / 1e6),
    ("worker's file descriptors", "open", |sample| sample.descriptors as f64),
    ("write-ahead log", "MB", |sample| sample.log as f64 / 1e6),
    ("database", "MB", |sample| sample.database as f64 / 1e6),
    ("hook, median", "ms", |sample| sample.median),
    ("hook, slowest", "ms", |sample| sample.slowest),
];

fn report(samples: &[Sample], events: u64, scene: &Scene) {
    let figures = scene.figures.lock().unwrap();
    eprintln!("{events} events settled once, {} hooks, {} requests", figures.hooks, figures.requests);
    eprintln!("{:<28} {:>9} {:>9} {:>9} {:>9}", "", "first", "last", "least", "most");
    let mut curves = Vec::new();
    for (title, unit, value) in MEASURES {
        let values: Vec<f64> = samples.iter().map(value).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        let name = format!("{title} ({unit})");
        eprintln!("{name:<28} {:>9.1} {:>9.1} {least:>9.1} {most:>9.1}", values[0], values[values.len() - 1]);
        let points = samples.iter().map(|sample| (sample.seconds, value(sample))).collect();
        curves.push(Curve { title, unit, points });
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak.svg");
    fs::write(&file, svg(&curves)).unwrap();
    eprintln!("{}", file.display());
}

/// Compares the last third with the first, without the warm-up. By medians: single samples are noisy, and an idle period in
/// which the worker releases memory falls into one of the thirds at random. Durations are not checked, because the machine
/// has other work too.
fn check(samples: &[Sample]) {
    let samples = &samples[samples.len() / 10..];
    let third = samples.len().div_ceil(3);
    let median = |samples: &[Sample], value: fn(&Sample) -> f64| {
        let mut values: Vec<f64> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (first, last) = (&samples[..third], &samples[samples.len() - third..]);
    for value in [|sample: &Sample| sample.memory as f64, |sample: &Sample| sample.own_memory as f64] {
        let (before, after) = (median(first, value), median(last, value));
        assert!(after < before * 1.25 + 4e6, "the worker's memory grew from {before} to {after}");
    }
    let open: fn(&Sample) -> f64 = |sample| sample.descriptors as f64;
    assert!(median(last, open) <= median(first, open) + 8.0, "descriptors were left open");
    let log = samples.iter().map(|sample| sample.log).max().unwrap_or_default();
    assert!(log < 32 << 20, "the write-ahead log grew to {log} bytes");
}
