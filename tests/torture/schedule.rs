//! The steps of a run and their times, determined by a seed.

use crate::harness::rng::Dice;

/// A fault that begins and ends, with other steps in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The worker is frozen (SIGSTOP) until SIGCONT.
    Frozen,
    /// The disk is full.
    FullDisk,
    /// Another program holds the write lock.
    Locked,
    /// Another program holds a read transaction open.
    LongReader,
    /// The spool cannot be read or written.
    NoSpool,
    /// The settings are not TOML.
    BrokenSettings,
}

const CONDITIONS: [Condition; 6] = [
    Condition::Frozen,
    Condition::FullDisk,
    Condition::Locked,
    Condition::LongReader,
    Condition::NoSpool,
    Condition::BrokenSettings,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// kill -9, and a new worker after a while.
    Kill {
        down_ms: u64,
    },
    /// SIGTERM, and a new worker.
    Terminate,
    /// A second worker, which must exit at once.
    Second,
    /// The machine stops; a new one continues with its disk.
    Crash,
    /// The endpoint shows the fault of this number from now on; `None`: it works.
    Endpoint(Option<u64>),
    /// The calendar jumps.
    Clock {
        seconds: i64,
    },
    /// Other settings, by number, and SIGHUP.
    Settings(u64),
    /// Rows grow old, and retention runs.
    Retention,
    Backup,
    /// The invariants that hold at any instant.
    Check,
    Begin(Condition),
    End(Condition),
    /// Only time passes.
    Wait,
}

/// A step and the time until the next one, in milliseconds.
pub type Timed = (Step, u64);

const HOUR: i64 = 3600;
const JUMPS: [i64; 8] = [-26 * HOUR, -2 * HOUR, -90, 30, 400, 2 * HOUR, 26 * HOUR, 8 * 24 * HOUR];

/// The steps of a seed. The first steps of a longer list are those of a shorter one.
pub fn schedule(seed: u64, steps: usize) -> Vec<Timed> {
    let mut dice = Dice::new(seed);
    let mut open: Vec<(Condition, usize)> = Vec::new();
    let mut list = Vec::new();
    while list.len() < steps {
        let now = list.len();
        let due = open.iter().position(|(_, end)| *end <= now);
        let step = match due {
            Some(index) => Step::End(open.swap_remove(index).0),
            None => draw(&mut dice, &mut open, now),
        };
        list.push((step, 40 + dice.below(350)));
    }
    list
}

fn draw(dice: &mut Dice, open: &mut Vec<(Condition, usize)>, now: usize) -> Step {
    match dice.below(100) {
        0..18 => Step::Kill { down_ms: dice.below(300) },
        18..23 => Step::Terminate,
        23..25 => Step::Second,
        25..32 => Step::Crash,
        32..48 => Step::Endpoint((!dice.once_in(3)).then(|| dice.below(1 << 20))),
        48..55 => Step::Clock { seconds: *dice.pick(&JUMPS) },
        55..62 => Step::Settings(dice.below(1 << 20)),
        62..65 => Step::Retention,
        65..68 => Step::Backup,
        68..74 => Step::Check,
        74..94 => {
            let condition = *dice.pick(&CONDITIONS);
            if open.iter().any(|(known, _)| *known == condition) {
                return Step::Wait;
            }
            open.push((condition, now + 1 + dice.below(4) as usize));
            Step::Begin(condition)
        }
        _ => Step::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_schedule() {
        let long = schedule(7, 300);
        assert_eq!(long[..100], schedule(7, 100)[..]);
        assert_ne!(long[..100], schedule(8, 100)[..]);
        for condition in CONDITIONS {
            let count = |step| long.iter().filter(|(known, _)| *known == step).count();
            let (begun, ended) = (count(Step::Begin(condition)), count(Step::End(condition)));
            assert!(begun > 0 && begun - ended <= 1, "{condition:?}: {begun} begun, {ended} ended");
        }
    }
}
