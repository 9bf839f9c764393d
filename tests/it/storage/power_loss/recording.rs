//! The file operations of the real programs, recorded by a preloaded library.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::Step;
use crate::harness::sandbox::{Sandbox, run};
use crate::harness::wait::skip;

/// A sandbox whose programs are recorded.
pub struct Recording {
    pub sandbox: Sandbox,
    library: PathBuf,
    trace: PathBuf,
}

impl Recording {
    /// `None`, with the reason printed, if programs cannot be recorded here.
    pub fn new() -> Option<Self> {
        let sandbox = Sandbox::new();
        let library = sandbox.path().join("record.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/storage/power_loss/record.c");
        let compiled =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
        if !cfg!(all(target_os = "linux", target_env = "gnu"))
            || !compiled.is_ok_and(|output| output.status.success())
        {
            skip("only with glibc and a C compiler can programs be watched");
            return None;
        }
        let trace = sandbox.path().join("trace");
        File::create(&trace).unwrap();
        Some(Self { sandbox, library, trace })
    }

    pub fn watched(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.library).env("POWER_LOSS_TRACE", &self.trace);
        command.env("POWER_LOSS_ROOT", self.sandbox.data());
        command
    }

    /// Runs a hook to its end and records a mark.
    pub fn hook(&self, verb: &str, payload: &str, mark: &str) {
        run(self.watched(self.sandbox.hook_command(verb)), payload.as_bytes()).assert_unnoticed();
        self.mark(mark);
    }

    pub fn mark(&self, mark: &str) {
        let mut record = vec![b'M'];
        record.extend([0; 16]);
        record.extend((mark.len() as u32).to_ne_bytes());
        record.extend(0_u32.to_ne_bytes());
        record.extend(mark.as_bytes());
        File::options().append(true).open(&self.trace).unwrap().write_all(&record).unwrap();
    }

    pub fn steps(&self) -> Vec<Step> {
        let trace = fs::read(&self.trace).unwrap();
        let mut rest = &trace[..];
        let mut steps = Vec::new();
        // A killed program may have recorded half of its last step.
        while let Some((step, behind)) = read(rest) {
            steps.extend(step);
            rest = behind;
        }
        steps
    }
}

fn read(bytes: &[u8]) -> Option<(Option<Step>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(25)?;
    let number = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap());
    let length = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap()) as usize;
    let (path, rest) = rest.split_at_checked(length(17))?;
    let (data, rest) = rest.split_at_checked(length(21))?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (inode, path) = (number(1), PathBuf::from(text(path)));
    let step = match head[0] {
        b'O' => Step::Opened { path, inode },
        b'W' => Step::Wrote { inode, at: number(9) as usize, bytes: data.to_vec() },
        b'T' => Step::Cut { inode, length: number(9) as usize },
        b'S' => Step::SyncBegan { inode, path, is_directory: false },
        b'Y' => Step::SyncBegan { inode, path, is_directory: true },
        b'E' => Step::SyncEnded,
        b'R' => Step::Renamed { from: path, to: text(data).into() },
        b'U' => Step::Removed { path },
        b'D' => Step::MadeDirectory { path },
        b'M' => Step::Marked(path.display().to_string()),
        other => panic!("no step is called {}", other as char),
    };
    Some((Some(step), rest))
}
