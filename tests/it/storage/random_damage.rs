//! Random, repeatable damage anywhere in a database that is in use or not: the service recovers on its own, with everything
//! that the damaged file and the backup have together. `DAMAGE=200` tries more seeds, `DAMAGE_FROM=7` starts with another one.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::harness::rng::Dice;
use crate::harness::sandbox::Sandbox;
use crate::harness::wait::wait_for;
use crate::harness::worker::Worker;
use crate::storage::damage::{database, is_whole, mem, remembered, turn};

const PAGE: u64 = 4096;
const SESSIONS: u32 = 5;

fn noise(dice: &mut Dice, bytes: u64) -> Vec<u8> {
    (0..bytes).map(|_| dice.below(256) as u8).collect()
}

/// Damages the file. Returns a description.
fn damage(file: &File, dice: &mut Dice) -> String {
    let bytes = file.metadata().unwrap().len();
    let at = dice.below(bytes);
    let page = at / PAGE * PAGE;
    match dice.below(6) {
        0 => {
            file.set_len(at).unwrap();
            format!("cut at {at}")
        }
        1 => {
            file.write_all_at(&noise(dice, PAGE), page).unwrap();
            format!("noise in the page at {page}")
        }
        2 => {
            file.write_all_at(&[0; PAGE as usize], page).unwrap();
            format!("nothing in the page at {page}")
        }
        3 => {
            let other = dice.below(bytes / PAGE) * PAGE;
            let (mut one, mut two) = ([0; PAGE as usize], [0; PAGE as usize]);
            file.read_exact_at(&mut one, page).unwrap();
            file.read_exact_at(&mut two, other).unwrap();
            file.write_all_at(&one, other).unwrap();
            file.write_all_at(&two, page).unwrap();
            format!("the pages at {page} and {other} have changed places")
        }
        4 => {
            let places: Vec<u64> = (0..12).map(|_| dice.below(bytes - 64)).collect();
            for place in &places {
                let length = 1 + dice.below(64);
                file.write_all_at(&noise(dice, length), *place).unwrap();
            }
            format!("noise at {places:?}")
        }
        _ => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << dice.below(8);
            file.write_all_at(&byte, at).unwrap();
            format!("one bit at {at}")
        }
    }
}

fn survives(seed: u64) {
    let sandbox = Sandbox::new();
    remembered(&sandbox, SESSIONS as usize);
    // The backup has everything that the file loses. The daily backup, which checks everything, is still to be made.
    fs::remove_dir_all(sandbox.data().join("backups")).ok();
    assert_eq!(mem(&sandbox, &["backup"]).code, Some(0));
    let mut dice = Dice::new(seed);
    let is_in_use = dice.once_in(2);
    let start = || {
        let worker = Worker::start(&sandbox);
        worker.wait_for_health("healthy", |health| health["status"] == "ok");
        worker
    };
    let file = OpenOptions::new().read(true).write(true).open(database(&sandbox)).unwrap();
    let (mut worker, how) = if is_in_use {
        let worker = start();
        (worker, damage(&file, &mut dice))
    } else {
        let how = damage(&file, &mut dice);
        (start(), how)
    };
    drop(file);
    turn(&sandbox, "meanwhile");
    let describe =
        |what: &str| format!("seed {seed} ({how}, in use: {is_in_use}): {what}\n{}", sandbox.logged());
    let is_checked = || {
        let mut backups = fs::read_dir(sandbox.data().join("backups")).unwrap();
        backups.any(|backup| {
            let name = backup.unwrap().file_name().into_string().unwrap();
            name.starts_with("daily") && name.ends_with(".db")
        })
    };
    // Every session must have its memories; further rows do not matter.
    let all = "SELECT count(*) FROM sessions WHERE (id LIKE 'session-%' OR id = 'meanwhile')
                 AND id IN (SELECT session_id FROM user_prompts) AND id IN (SELECT session_id FROM observations)
                 AND id IN (SELECT session_id FROM session_summaries)";
    let remembered = || {
        let database = rusqlite::Connection::open(database(&sandbox)).unwrap();
        database.query_row(all, [], |row| row.get::<_, u32>(0)).unwrap_or_default()
    };
    let mut wait_while_alive = |holds: &dyn Fn() -> bool| {
        let state = || describe(&format!("{} sessions are there", remembered()));
        wait_for(state, || {
            assert_eq!(worker.ended(), None, "{}", describe("the worker ended"));
            holds().then_some(())
        });
    };
    wait_while_alive(&is_checked);
    // Events from the spool may arrive after the end of their turn: then they wait for the next one.
    sandbox.end_turn("meanwhile");
    wait_while_alive(&|| remembered() == SESSIONS + 1);
    worker.wait_for_health("healthy", |health| health["status"] == "ok");
    assert!(sandbox.logged().matches("degraded: ").count() <= 2, "{}", describe("it comes and goes"));
    is_whole(&sandbox);
}

#[test]
fn recovery_restores_everything_in_file_and_backup() {
    let number = |name, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let first = number("DAMAGE_FROM", 0);
    (first..first + number("DAMAGE", 6)).for_each(survives);
}
