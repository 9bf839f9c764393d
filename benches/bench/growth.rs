//! Growth of everyday costs with the size of the memory: a thousand rows, ten thousand, and so on.

use std::path::Path;

use claude_mem::paths::Home;

use crate::search::{Shape, fill_shaped};
use crate::table::{Table, median};
use crate::worker::Bench;

/// The measured operations, and their bounds of growth: exponent 0 is constant, 1 is linear.
const CURVES: [(&str, &str); 5] =
    [("save", "≤ 0.2"), ("claim", "≤ 0.2"), ("search", "≤ 0.6"), ("context", "≤ 0.2"), ("start", "–")];

const TIMES: usize = 41;

/// Measures one curve for each. `CLAUDE_MEM_BENCH_GROWTH` sets other sizes: "1000,10000".
pub fn run(binaries: &Path, table: &mut Table) {
    let sizes =
        std::env::var("CLAUDE_MEM_BENCH_GROWTH").unwrap_or_else(|_| "1000,10000,100000,1000000".to_owned());
    let sizes: Vec<usize> = sizes.split(',').map(|rows| rows.trim().parse().unwrap()).collect();
    let points: Vec<[f64; CURVES.len()]> = sizes.iter().map(|&rows| measure(binaries, rows)).collect();
    for (curve, (what, bound)) in CURVES.into_iter().enumerate() {
        let times: Vec<f64> = points.iter().map(|point| point[curve]).collect();
        let listed: Vec<String> =
            sizes.iter().zip(&times).map(|(rows, time)| format!("{rows}: {time:.2} ms")).collect();
        let exponent = exponent(&sizes, &times);
        table.figure(
            &format!("growth of {what} (exponent)"),
            format!("{exponent:.2} ({})", listed.join(", ")),
            bound,
        );
    }
}

/// Milliseconds, in the order of the curves, with this many observations and finished events.
fn measure(binaries: &Path, rows: usize) -> [f64; CURVES.len()] {
    let bench = Bench::new(binaries);
    let home = Home::locate(Some(bench.home()), None).unwrap();
    let project = bench.scratch.path().canonicalize().unwrap().join("project3");
    std::fs::create_dir(&project).unwrap();
    let project = project.to_str().unwrap();
    fill_shaped(&home, rows, Shape { for_each_session: 20, projects: 8 });
    bench
        .database()
        .execute_batch(&format!(
            "UPDATE sessions SET project_path = '{project}', prompt_count = 1 WHERE project = 'project3';
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
             INSERT INTO pending_queue (event_key, session_id, kind, status, created_at, finished_at)
             SELECT 'tool:old:' || hex(randomblob(12)), 'bench', 'observation', 'done', unixepoch() * 1000 - i,
               unixepoch() * 1000 - i FROM n;
             PRAGMA wal_checkpoint(TRUNCATE);"
        ))
        .unwrap();
    let start = middle(|| bench.start(&[]).1);
    let save = {
        let (_worker, _) = bench.start(&[]);
        let mut number = 0;
        middle(|| {
            number += 1;
            bench.spawn_hook(&format!("growth-{number}"))
        })
    };
    let settled = "UPDATE pending_queue SET status = 'skipped', finished_at = created_at, claimed_at = NULL
                   WHERE status IN ('raw', 'processing')";
    bench.database().execute(settled, []).unwrap();
    let claim = median(&mut bench.times_to_claim(TIMES));
    let (_worker, _) = bench.start(&[]);
    let ask = |route: &str, expected: &str| {
        assert!(bench.answer(route).contains(expected), "{}", bench.answer(route));
        middle(|| bench.get(route))
    };
    let search = ask("/api/search?q=parser+deadlock+index+connection+socket&project=project3", "snippet");
    let context =
        ask(&format!("/api/context?project_path={project}&cwd={project}&source=startup"), "## Earlier work");
    [save, claim, search, context, start]
}

fn middle(mut work: impl FnMut() -> f64) -> f64 {
    median(&mut (0..TIMES).map(|_| work()).collect::<Vec<f64>>())
}

/// The slope of the best-fitting line through the logarithms of both.
fn exponent(sizes: &[usize], times: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> = sizes
        .iter()
        .zip(times)
        // A clock of whole milliseconds reports 0 for short times: count them as half a millisecond.
        .map(|(&size, &time)| ((size as f64).ln(), time.max(0.5).ln()))
        .collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), point| {
        (above + (point.0 - x) * (point.1 - y), below + (point.0 - x).powi(2))
    });
    above / below
}
