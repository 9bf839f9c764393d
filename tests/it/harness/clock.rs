//! A calendar that jumps, for the programs under test only (see `clock.c`).

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{RwLock, RwLockReadGuard};

use crate::harness::wait::skip;

/// The calendar of one data directory.
pub struct Clock {
    library: Option<PathBuf>,
    file: PathBuf,
    /// Held by code that must not see it jump.
    jumps: RwLock<i64>,
}

impl Clock {
    /// A calendar that is initially correct, and stays so without a C compiler.
    pub fn new(folder: &Path) -> Self {
        let library = folder.join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/harness/clock.c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        let is_there = compile.output().is_ok_and(|output| output.status.success());
        if !is_there {
            skip("no clock jumps, because there is no C compiler");
        }
        Self::with(is_there.then_some(library), folder, 0)
    }

    /// A calendar that is always correct.
    pub fn right(folder: &Path) -> Self {
        Self::with(None, folder, 0)
    }

    /// The same time for another directory.
    pub fn copy(&self, folder: &Path) -> Self {
        Self::with(self.library.clone(), folder, *self.jumps.read().unwrap())
    }

    fn with(library: Option<PathBuf>, folder: &Path, seconds: i64) -> Self {
        let file = folder.join("clock");
        fs::write(&file, seconds.to_ne_bytes()).unwrap();
        Self { library, file, jumps: RwLock::new(seconds) }
    }

    #[allow(dead_code, reason = "only the torture tests need it")]
    pub fn can_jump(&self) -> bool {
        self.library.is_some()
    }

    /// Makes a program use this calendar.
    pub fn rule(&self, command: &mut Command) {
        if let Some(library) = &self.library {
            command.env("LD_PRELOAD", library).env("TORTURE_CLOCK", &self.file);
        }
    }

    /// Prevents jumps while the guard is held.
    pub fn steady(&self) -> RwLockReadGuard<'_, i64> {
        self.jumps.read().unwrap()
    }

    pub fn jump(&self, seconds: i64) {
        let mut total = self.jumps.write().unwrap();
        *total += seconds;
        // In place: the programs have mapped the file.
        let file = fs::File::options().write(true).open(&self.file).unwrap();
        file.write_all_at(&total.to_ne_bytes(), 0).unwrap();
    }
}
