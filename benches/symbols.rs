//! What an edit of a 2,000-line file costs: its symbols before and after, compared. For each language.
//!
//! `cargo bench --bench symbols`; the bound is 5 ms for an edit in one place.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at what is wrong")]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use claude_mem::symbols::{Language, Symbol, SymbolKind, changes, language_of, symbols};
use claude_mem::tokens;

const LINES: usize = 2000;
const EXTENSIONS: [&str; 11] = ["rs", "py", "ts", "tsx", "js", "go", "java", "c", "cpp", "rb", "cs"];

fn main() {
    println!("{:12} {:>6} {:>9} {:>9} {:>9} {:>9}", "", "KB", "p50 ms", "p99 ms", "type ms", "all ms");
    for extension in EXTENSIONS {
        let language = language_of(&format!("file.{extension}")).unwrap();
        let before = large(extension);
        let found = symbols(language, &before).unwrap();
        let is_function = |symbol: &&Symbol| matches!(symbol.kind, SymbolKind::Function | SymbolKind::Method);
        let edits: Vec<String> =
            spread(found.iter().filter(is_function)).map(|symbol| edited(&before, symbol)).collect();
        let types: Vec<String> = spread(found.iter().filter(|symbol| !is_function(symbol)))
            .map(|symbol| edited(&before, symbol))
            .collect();
        let (p50, p99) = cost(language, &before, &edits);
        let (of_types, _) = cost(language, &before, &types);
        let everywhere = vec![before.replace('e', "ee"); 5];
        let (all, _) = cost(language, &before, &everywhere);
        let name = format!("{language:?}");
        println!("{name:12} {:6} {p50:9.2} {p99:9.2} {of_types:9.2} {all:9.2}", before.len() / 1024);
    }
    println!("resident after all that: {} KB", resident_kilobytes());
    let text = large("rs");
    let start = Instant::now();
    for _ in 0..100 {
        black_box(tokens::estimate(&text));
    }
    let rate = 100.0 * text.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("tokens::estimate: {rate:.0} MB/s");
}

/// Median and 99th percentile of what the edits cost, each the best of three, in milliseconds.
fn cost(language: Language, before: &str, edits: &[String]) -> (f64, f64) {
    let mut times: Vec<_> = edits.iter().map(|after| best_of_three(language, before, after)).collect();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    (at(0.5), at(0.99))
}

fn best_of_three(language: Language, before: &str, after: &str) -> Duration {
    let once = |_| {
        let start = Instant::now();
        black_box(changes(language, Some(before), after));
        start.elapsed()
    };
    (0..3).map(once).min().unwrap()
}

/// Sixty of them, from all over the file.
fn spread<'list>(symbols: impl Iterator<Item = &'list Symbol>) -> impl Iterator<Item = &'list Symbol> {
    let symbols: Vec<_> = symbols.collect();
    let step = symbols.len().div_ceil(60).max(1);
    symbols.into_iter().step_by(step)
}

/// The text with something more in the last line but one of the symbol, or in its only line.
fn edited(text: &str, symbol: &Symbol) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let last = symbol.line_end as usize - 1;
    let line = if symbol.line_end > symbol.line_start + 1 { last - 1 } else { last };
    lines[line] = lines[line].replacen('e', "ee", 1);
    lines.join("\n") + "\n"
}

fn large(extension: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/symbols");
    let text = fs::read_to_string(folder.join(format!("before.{extension}"))).unwrap();
    let (head, body): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("package "));
    let lines: Vec<&str> = head.into_iter().chain(body.into_iter().cycle().take(LINES)).collect();
    // The last copy is not whole: up to where it begins.
    let copies = LINES / text.lines().count();
    let whole = lines.len() - LINES + copies * (text.lines().count() - (lines.len() - LINES));
    lines[..whole].join("\n") + "\n"
}

fn resident_kilobytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}
