//! A machine that stopped, and the one that goes on with its disk.

use std::fs;
use std::path::Path;

use crate::Evidence;
use crate::finish;
use crate::invariants::{check_always, check_settled};
use crate::ledger::Ledger;
use crate::machine::FILLER;
use crate::sandbox::Sandbox;
use crate::scene::Scene;
use crate::service::Worker;

/// Everything in the data directory, as it is now. Nobody may write meanwhile.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() && entry.file_name() != FILLER {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Starts a worker on a copy, and holds it to everything that the ledger of that instant says.
pub fn check_new_machine(scene: &Scene, folder: &Path, ledger: &Ledger) {
    let data = folder.join("mem");
    let away = data.join("spool-away");
    check_always(&data, &[data.join("spool"), away.clone()], ledger, || ledger.clone());
    // Its user puts right what was wrong with the files.
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
