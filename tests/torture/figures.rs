//! Counters of a run.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Default)]
pub struct Figures {
    pub seeds: u64,
    pub steps: u64,
    /// Number of steps by name.
    pub faults: BTreeMap<String, u64>,
    /// Hooks run, including killed ones.
    pub hooks: u64,
    pub requests: u64,
    /// Events that a hook accepted.
    pub events: u64,
    pub spooled: u64,
    pub dropped: u64,
    pub settled: u64,
    /// Vectors compared with recomputed ones.
    pub vectors: u64,
    pub checks: u64,
    pub largest_log: u64,
}

impl Figures {
    pub fn count(&mut self, fault: &str) {
        *self.faults.entry(fault.to_owned()).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        other.faults.iter().for_each(|(name, count)| *self.faults.entry(name.clone()).or_default() += count);
        self.hooks += other.hooks;
        self.requests += other.requests;
        self.events += other.events;
        self.spooled += other.spooled;
        self.dropped += other.dropped;
        self.settled += other.settled;
        self.vectors += other.vectors;
        self.checks += other.checks;
        self.largest_log = self.largest_log.max(other.largest_log);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  seeds {}, steps {}, checks of all invariants {}",
            self.seeds, self.steps, self.checks
        )?;
        writeln!(f, "  hooks {}, requests and commands {}", self.hooks, self.requests)?;
        writeln!(
            f,
            "  events accepted {} (by the spool {}), settled {}, refused and counted as dropped {}",
            self.events, self.spooled, self.settled, self.dropped
        )?;
        writeln!(
            f,
            "  largest write-ahead log {} KB; {} vectors the same from scratch",
            self.largest_log >> 10,
            self.vectors
        )?;
        for (name, count) in &self.faults {
            writeln!(f, "  {count:>6}  {name}")?;
        }
        write!(f, "  losses 0, duplicates 0 (either would have ended the run)")
    }
}
