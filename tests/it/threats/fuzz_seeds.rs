//! Every seed of the fuzzer, with repeatable random mutations: finds in seconds the nearest of the failures that `make fuzz`
//! finds with coverage and hours. NONSENSE=100000 tries that many mutations per reader.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

#[path = "../../../fuzz/src/config.rs"]
mod config;
#[path = "../../../fuzz/src/hook.rs"]
mod hook;
#[path = "../../../fuzz/src/http.rs"]
mod http;
#[path = "../../../fuzz/src/importing.rs"]
mod importing;
#[path = "../../../fuzz/src/parse.rs"]
mod parse;
#[path = "../../../fuzz/src/redact.rs"]
mod redact;
#[path = "../../../fuzz/src/search.rs"]
mod search;
#[path = "../../../fuzz/src/spool.rs"]
mod spool;

/// A seeded random generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Fragments that break parsers more often than others.
const PIECES: [&[u8]; 24] = [
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[[",
    b"<private>",
    b"</private>",
    b"9223372036854775807",
    b"-1",
    b"1e999",
    b"null",
    b"../",
    b"%00",
    b"\xf0\x9f\x98\x80",
    b"\xe2\x80\xae",
    b"=",
    b"' OR 1=1 --",
];

fn changed(seed: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() + 1);
        let to = (at + chance.below(16)).min(bytes.len());
        match chance.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..to)),
            2 if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
            3 => drop(bytes.splice(at..at, PIECES[chance.below(PIECES.len())].iter().copied())),
            4 => {
                let again = bytes[at..to].repeat(1 + chance.below(300));
                bytes.splice(at..at, again);
            }
            5 => drop(bytes.splice(at..to, PIECES[chance.below(PIECES.len())].iter().copied())),
            _ => {
                let from = chance.below(other.len() + 1);
                let end = (from + chance.below(64)).min(other.len());
                bytes.splice(at..to, other[from..end].iter().copied());
            }
        }
    }
    bytes.truncate(64 << 10);
    bytes
}

fn survives(target: &str, usual: usize, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    for (seed, file) in seeds.iter().zip(&files) {
        assert!(catch_unwind(AssertUnwindSafe(|| check(seed))).is_ok(), "{}", file.display());
    }
    let runs = std::env::var("NONSENSE").ok().and_then(|number| number.parse().ok()).unwrap_or(usual);
    for number in 0..runs {
        let mut chance = Chance(0x9e37_79b9 + number as u64 * 0x1_0000_0001);
        let (seed, other) = (&seeds[number % seeds.len()], &seeds[chance.below(seeds.len())]);
        let bytes = changed(seed, other, &mut chance);
        if catch_unwind(AssertUnwindSafe(|| check(&bytes))).is_err() {
            panic!("{target}, change {number}: {:?}", String::from_utf8_lossy(&bytes));
        }
    }
    eprintln!("{target}: {} seeds and {runs} changes", seeds.len());
}

#[test]
fn settings_files() {
    survives("config", 300, config::check);
}

#[test]
fn hook_payloads() {
    survives("hook", 1000, hook::check);
}

#[test]
fn requests() {
    survives("http", 100, http::check);
    http::clean_up();
}

#[test]
fn exports() {
    survives("import", 40, importing::check_export);
}

#[test]
fn databases_of_other_programs() {
    survives("predecessor", 40, importing::check);
}

#[test]
fn answers_of_models() {
    survives("parse", 500, parse::check);
}

#[test]
fn secrets() {
    survives("redact", 100, redact::check);
}

#[test]
fn questions() {
    survives("search", 300, search::check);
}

#[test]
fn spool_files() {
    survives("spool", 1000, spool::check);
}
