//! A machine crash, and a new machine that continues with its disk.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Evidence;
use crate::finish;
use crate::harness::sandbox::Sandbox;
use crate::harness::worker::Worker;
use crate::invariants::{check_always, check_settled};
use crate::ledger::Ledger;
use crate::machine::FILLER;
use crate::scene::Scene;

/// Copies the data directory while nothing writes. Runs in a process of its own: closing a file drops all locks of the process
/// on it, and this process holds some for the other programs that it plays (fcntl(2), "record locks").
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    let entries = fs::read_dir(from).unwrap().map(|entry| entry.unwrap());
    let is_wanted = |entry: &fs::DirEntry| {
        let kind = entry.file_type().unwrap();
        kind.is_dir() || (kind.is_file() && entry.file_name() != FILLER)
    };
    let wanted: Vec<_> = entries.filter(is_wanted).map(|entry| entry.path()).collect();
    let copied = Command::new("cp").arg("-R").args(wanted).arg(to).status().unwrap();
    assert!(copied.success(), "{copied}");
}

/// Starts a worker on a copy, and checks it against the ledger of that instant.
pub fn check_new_machine(scene: &Scene, folder: &Path, ledger: &Ledger) {
    let data = folder.join("mem");
    let away = data.join("spool-away");
    check_always(&data, &[data.join("spool"), away.clone()], ledger, || ledger.clone());
    // The user repairs the files first.
    if away.is_dir() {
        let _ = fs::remove_file(data.join("spool"));
        fs::rename(away, data.join("spool")).unwrap();
    }
    let machine = Scene {
        ledger: ledger.clone().into(),
        ..Scene::new(scene.seed, Sandbox::with_data(&data), scene.clock.copy(folder))
    };
    let _evidence = Evidence(&machine);
    machine.sandbox.configure("[compress]\nprovider = \"local\"\n");
    let mut command = machine.sandbox.worker_command();
    machine.clock.rule(&mut command);
    let mut worker = Worker::spawn(command, &machine.sandbox);
    worker.wait_until_it_answers();
    finish::settle(&machine, &mut worker);
    assert!(worker.stop().success());
    check_settled(&data, ledger);
    finish::check_log(&machine.sandbox);
}
