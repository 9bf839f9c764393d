//! The parts of the machine that the service cannot report, because they are about the service itself: the checks of
//! `doctor`, backups, and the log. The command line provides them.

use crate::model::Millis;

/// Access to them.
pub trait Machine: Send + Sync {
    /// Runs the checks of `claude-mem doctor`, which takes seconds; with `may_fix`, also fixes what is safe to fix. Without
    /// `is_full`, runs only those that send nothing.
    fn check(&self, may_fix: bool, is_full: bool) -> Vec<Check>;
    /// Lists the backups, newest first.
    fn backups(&self) -> Vec<Backup>;
    /// Makes a backup and returns its name.
    fn back_up(&self) -> anyhow::Result<String>;
    /// Returns the last lines of the service's log.
    fn log(&self, lines: usize) -> anyhow::Result<Vec<String>>;
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// ok, note, fixed or failed.
    pub state: &'static str,
    /// The facts found.
    pub found: String,
    /// The consequence for the user.
    pub why: String,
    /// The steps that fix it.
    pub fix: String,
}

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Its file name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Time of its creation.
    pub created_at: Millis,
}
