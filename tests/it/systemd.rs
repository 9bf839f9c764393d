//! The units on a real systemd.
//!
//! One test boots a machine and runs, as an unprivileged user inside it, the tests of [`inside`]: there they use `systemctl`,
//! the journal, the hook and the socket as that user would. Where no machine can be booted it says why, and passes.

mod inside;
mod machine;
mod service;

use std::fs;
use std::path::Path;

use claude_mem::config::{Config, Environment, Provider};
use claude_mem::llm::{Choice, choose};
use claude_mem::paths::Home;

use crate::llm::{request, runtime};
use machine::Machine;

#[test]
fn the_service_lives_as_it_should_under_a_real_systemd() {
    let machine = match Machine::boot() {
        Ok(machine) => machine,
        Err(reason) => {
            eprintln!("SKIPPED, no systemd was booted: {reason}");
            return;
        }
    };
    machine.install();
    let ran = machine.user(&[machine::TESTS, "systemd::inside::", "--ignored", "--test-threads=1"]);
    eprintln!("{}", ran.stdout);
    assert!(ran.code == Some(0) && !ran.stdout.contains(" 0 passed"), "{}", ran.stderr);
    machine.shut_down();
}

#[test]
#[ignore = "not a test: started as a service, it asks `claude` as the worker does"]
fn asks_claude() {
    let environment = Environment::capture();
    let home = Home::locate(None, environment.user_home.clone()).unwrap();
    let mut config = Config::default();
    config.compress.provider = Provider::ClaudeCli;
    let program = home.dir().with_file_name(".local/bin/claude-mem");
    let Choice::Llm(llm) = choose(&config, &home, &environment, &program) else { panic!("no claude") };
    let answer = match runtime().block_on(llm.complete(&request())) {
        Ok(response) => response.text,
        Err(failure) => failure.to_string(),
    };
    write_whole(&home.dir().join("answer"), &answer);
}

/// So that nobody reads half of it.
fn write_whole(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}
