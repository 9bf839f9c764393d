//! The crates that the hook may link. Each one costs time in every hook of every session: add one only for a reason that
//! docs/decisions/013-hook.md gives.

use std::collections::BTreeSet;
use std::process::Command;

const MAY_LINK: [&str; 33] = [
    // ours
    "claude-mem",
    // SQLite and its bindings
    "rusqlite",
    "libsqlite3-sys",
    "bitflags",
    "fallible-iterator",
    "fallible-streaming-iterator",
    "hashlink",
    "hashbrown",
    "foldhash",
    "smallvec",
    "ahash",
    "once_cell",
    "zerocopy",
    // the payload
    "serde",
    "serde_core",
    "serde_derive",
    "serde_json",
    "itoa",
    "memchr",
    "ryu",
    "zmij",
    "xxhash-rust",
    // the settings
    "toml",
    "toml_datetime",
    "toml_parser",
    "serde_spanned",
    "winnow",
    "glob",
    // errors and the operating system
    "thiserror",
    "thiserror-impl",
    "rustix",
    "linux-raw-sys",
    "libc",
];

#[test]
fn the_hook_links_only_the_listed_crates() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--no-default-features",
            "--edges",
            "normal,no-proc-macro",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let allowed = BTreeSet::from(MAY_LINK);
    let surprising: Vec<_> = linked.difference(&allowed).collect();
    assert!(surprising.is_empty(), "the hook links {surprising:?}");
    assert!(linked.contains("rusqlite"), "the list is not empty: {linked:?}");
}
