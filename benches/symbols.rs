//! What an edit of a 2,000-line file costs: its symbols before and after, compared. For each language.
//!
//! `cargo bench --bench symbols`; the bound is 5 ms for an edit in one place: in a function, in the own text of a type,
//! or a function more. Beside them what has none: an edit after which the file does not parse, new names for all
//! functions at once, and the parser's time for one whole file, below which those two cannot be.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop at what is wrong")]

use std::collections::BTreeSet;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use claude_mem::symbols::{
    Change, Language, Symbol, SymbolChange, SymbolKind, changes, language_of, symbols,
};
use claude_mem::tokens;

const LINES: usize = 2000;
const EXTENSIONS: [&str; 11] = ["rs", "py", "ts", "tsx", "js", "go", "java", "c", "cpp", "rb", "cs"];

fn main() {
    println!(
        "an edit in one place, p50 / p99 ms: the bound is 5 ms. No bound: one that breaks the file, one in every line, p50"
    );
    println!(
        "{:12} {:>4} {:>13} {:>13} {:>13} {:>7} {:>7} {:>7}",
        "", "KB", "in a function", "in a type", "new function", "broken", "all", "parse"
    );
    for extension in EXTENSIONS {
        let language = language_of(&format!("file.{extension}")).unwrap();
        let before = large(extension);
        let found = symbols(language, &before).unwrap();
        let (functions, types): (Vec<&Symbol>, Vec<&Symbol>) =
            found.iter().partition(|symbol| matches!(symbol.kind, SymbolKind::Function | SymbolKind::Method));
        let edits = |list: &[&Symbol], edit: Edit| -> Vec<String> {
            spread(list).filter_map(|symbol| edit(language, &before, symbol)).collect()
        };
        let times = [
            cost(language, &before, &edits(&functions, modified)),
            cost(language, &before, &edits(&types, modified)),
            cost(language, &before, &edits(&functions, doubled)),
        ];
        let [in_functions, in_types, new] = times.map(|(p50, p99)| format!("{p50:.2} / {p99:.2}"));
        let (broken, _) = cost(language, &before, &edits(&functions, broken));
        let (all, _) = cost(language, &before, &vec![everywhere(language, &before); 5]);
        let parsed = (0..5).map(|_| time(|| black_box(symbols(language, &before)))).min().unwrap();
        println!(
            "{:12} {:4} {in_functions:>13} {in_types:>13} {new:>13} {broken:7.2} {all:7.2} {:7.2}",
            format!("{language:?}"),
            before.len() / 1024,
            parsed.as_secs_f64() * 1e3
        );
    }
    println!("resident after all that: {} KB", resident_kilobytes());
    let text = large("rs");
    let spent = time(|| {
        for _ in 0..100 {
            black_box(tokens::estimate(&text));
        }
    });
    println!("tokens::estimate: {:.0} MB/s", 100.0 * text.len() as f64 / spent.as_secs_f64() / 1e6);
}

type Edit = fn(Language, &str, &Symbol) -> Option<String>;

/// Median and 99th percentile of what the edits cost, each the best of three, in milliseconds.
fn cost(language: Language, before: &str, edits: &[String]) -> (f64, f64) {
    let mut times: Vec<_> = edits.iter().map(|after| best_of_three(language, before, after)).collect();
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    (at(0.5), at(0.99))
}

fn best_of_three(language: Language, before: &str, after: &str) -> Duration {
    (0..3).map(|_| time(|| black_box(changes(language, Some(before), after)))).min().unwrap()
}

fn time<Answer>(run: impl FnOnce() -> Answer) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

/// Sixty of them, from all over the file.
fn spread<'list>(symbols: &[&'list Symbol]) -> impl Iterator<Item = &'list Symbol> {
    symbols.iter().copied().step_by(symbols.len().div_ceil(60).max(1))
}

/// The text with a letter more in one word of the symbol, so that the symbol's own text is another one.
fn modified(language: Language, text: &str, symbol: &Symbol) -> Option<String> {
    let lines = symbol.line_start as usize - 1..symbol.line_end as usize;
    let words = lines.rev().flat_map(|line| {
        let written = text.lines().nth(line).unwrap_or_default();
        written.match_indices(char::is_alphabetic).map(move |(at, _)| (line, at)).collect::<Vec<_>>()
    });
    let edits = words.step_by(3).map(|(line, at)| with_letter(text, line, at));
    let is_it =
        |one: &SymbolChange| one.symbol.kind == symbol.kind && one.symbol.line_start == symbol.line_start;
    let is_modified = |one: &SymbolChange| one.change == Change::Modified;
    let hits = |after: &String| {
        let changes = changes(language, Some(text), after);
        changes.is_some_and(|all| all.iter().all(is_modified) && all.iter().any(is_it))
    };
    edits.into_iter().find(hits)
}

fn with_letter(text: &str, line: usize, at: usize) -> String {
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    format!("{}x{}", &text[..start + at], &text[start + at..])
}

/// The text with the symbol in it twice, the second time by another name.
fn doubled(language: Language, text: &str, symbol: &Symbol) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let (start, end) = (symbol.line_start as usize - 1, symbol.line_end as usize);
    let copy = lines[start..end].join("\n").replacen(symbol.name(), "brand_new", 1);
    let after = format!("{}\n\n{copy}\n{}\n", lines[..end].join("\n"), lines[end..].join("\n"));
    let is_new = changes(language, Some(text), &after)
        .is_some_and(|changes| matches!(&changes[..], [one] if one.symbol.name() == "brand_new"));
    is_new.then_some(after)
}

/// The text with half of a statement in the symbol.
fn broken(_: Language, text: &str, symbol: &Symbol) -> Option<String> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.insert(symbol.line_end as usize - 1, "return ((;");
    Some(lines.join("\n") + "\n")
}

/// The text with another name for every function.
fn everywhere(language: Language, text: &str) -> String {
    let found = symbols(language, text).unwrap();
    let names: BTreeSet<&str> = found.iter().map(Symbol::name).collect();
    names.iter().fold(text.to_owned(), |all, name| all.replace(&format!("{name}("), &format!("{name}x(")))
}

/// A fixture again and again, each time with other names.
fn large(extension: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/symbols");
    let text = fs::read_to_string(folder.join(format!("before.{extension}"))).unwrap();
    let (head, body): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("package "));
    let found = symbols(language_of(&format!("file.{extension}")).unwrap(), &text).unwrap();
    let names: BTreeSet<&str> =
        found.iter().map(|symbol| symbol.name().trim_start_matches(['~', '#'])).collect();
    let copies = (0..LINES / body.len()).map(|copy| renamed(&body.join("\n"), &names, copy));
    head.into_iter().map(str::to_owned).chain(copies).collect::<Vec<_>>().join("\n") + "\n"
}

/// The text with a number behind those names.
fn renamed(text: &str, names: &BTreeSet<&str>, number: usize) -> String {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut renamed = String::new();
    for piece in text.split_inclusive(|letter| !is_word(letter)) {
        let word = piece.trim_end_matches(|letter| !is_word(letter));
        renamed.push_str(word);
        if names.contains(word) && word != "constructor" {
            renamed.push_str(&number.to_string());
        }
        renamed.push_str(&piece[word.len()..]);
    }
    renamed
}

fn resident_kilobytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}
