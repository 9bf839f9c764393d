//! The layers listed in src/lib.rs: code uses only modules below its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the rank of each module, counted from the top of the list.
fn ranks(lib: &str) -> BTreeMap<String, usize> {
    let listed = lib.lines().filter(|line| line.starts_with("//! - [`"));
    let names = |line: &str| -> Vec<String> {
        let head = line.split("]:").next().unwrap_or_default();
        head.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    listed
        .enumerate()
        .flat_map(|(rank, line)| names(line).into_iter().map(move |name| (name, rank)))
        .collect()
}

/// Returns the names after `crate::` in code, without comments and unit tests.
fn used(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let name =
        |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let mut found = Vec::new();
    for part in code.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            Some(group) => {
                found.extend(
                    group
                        .split(';')
                        .next()
                        .unwrap_or_default()
                        .split([',', '{'])
                        .map(|item| name(item.trim())),
                );
            }
            None => found.push(name(part)),
        }
    }
    found
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_in(&path) } else { vec![path] }).collect()
}

fn upward_uses(module: &str, text: &str, ranks: &BTreeMap<String, usize>) -> Vec<String> {
    let own = ranks[module];
    let mut upward = used(text);
    upward.retain(|name| ranks.get(name).is_some_and(|rank| *rank < own));
    upward
}

#[test]
fn code_uses_only_the_layers_below_it() {
    let lib = fs::read_to_string(source().join("lib.rs")).unwrap();
    let ranks = ranks(&lib);
    for declared in lib.lines().filter_map(|line| line.strip_prefix("pub mod ")) {
        assert!(ranks.contains_key(declared.trim_end_matches(';')), "lib.rs does not list {declared}");
    }
    let mut wrong = Vec::new();
    for file in files_in(&source()) {
        let within = file.strip_prefix(source()).unwrap().to_string_lossy().into_owned();
        let module = within.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let is_test = within.contains("/tests") || within.ends_with("scenario.rs");
        if !within.ends_with(".rs") || is_test || ["lib", "main", "bin"].contains(&module) {
            continue;
        }
        for name in upward_uses(module, &fs::read_to_string(&file).unwrap(), &ranks) {
            wrong.push(format!("{within} uses {name}, which is above it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_upward_use_is_noticed() {
    let ranks = ranks("//! - [`cli`]: x\n//! - [`config`], [`paths`]: y\n//! - [`model`]: z");
    let uses = |text: &str| upward_uses("paths", text, &ranks);
    assert_eq!(uses("use crate::cli::status;"), ["cli"]);
    assert_eq!(uses("use crate::{cli, model};"), ["cli"]);
    assert_eq!(uses("fn f() { crate::cli::f() }"), ["cli"]);
    assert!(uses("// crate::cli\nuse crate::config::Config;\nuse crate::model::Millis;").is_empty());
}
