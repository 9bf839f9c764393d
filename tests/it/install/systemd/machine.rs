//! A machine that runs systemd, for the life of a test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::sandbox::{Ran, run};

/// The directory of the tested programs inside the machine.
pub const PLACE: &str = "/opt/claude-mem";
/// This test program, inside the machine.
pub const TESTS: &str = "/opt/claude-mem/it";

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");
/// The script's exit code for "not supported here".
const CANNOT: i32 = 77;

/// A booted machine. It ends, with everything in it, when this is dropped or when the test dies in any way: the script
/// watches its standard input.
pub struct Machine {
    state: TempDir,
    script: Child,
}

impl Machine {
    /// Boots one, or returns the reason why that is not possible.
    pub fn boot() -> Result<Self, String> {
        let state = tempfile::tempdir().unwrap();
        let mut command = script("boot", state.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Its own process group: a kill of the test's group must not kill the cleanup.
        let mut script = command.process_group(0).spawn().unwrap();
        let mut word = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut word).unwrap();
        if word == "up\n" {
            return Ok(Self { state, script });
        }
        let output = script.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(CANNOT), "{stderr}");
        Err(stderr.trim().lines().last().unwrap_or_default().to_owned())
    }

    /// Copies in the programs, the units, the payloads, and this test program.
    pub fn install(&self) {
        let tests = std::env::current_exe().unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_claude-mem"));
        let hook = Path::new(env!("CARGO_BIN_EXE_claude-mem-hook"));
        let mut pack = Command::new("tar");
        pack.args(["-c", "--mode=a+rX,u+w", "--owner=0", "--group=0"]);
        pack.args([
            "--transform",
            "s,^it-[0-9a-f]*$,it,",
            "-C",
            PROJECT,
            "packaging",
            "tests/fixtures/hooks",
        ]);
        for path in [program, hook, &tests] {
            pack.arg("-C").arg(path.parent().unwrap()).arg(path.file_name().unwrap());
        }
        let mut pack = pack.stdout(Stdio::piped()).spawn().unwrap();
        let unpack = format!("mkdir {PLACE} && tar -x -C {PLACE}");
        let mut unpacking = script("root", self.state.path());
        unpacking.args(["sh", "-c", &unpack]).stdin(pack.stdout.take().unwrap());
        assert!(unpacking.status().unwrap().success() && pack.wait().unwrap().success());
    }

    /// Runs a command as the user.
    pub fn user(&self, arguments: &[&str]) -> Ran {
        let mut command = script("user", self.state.path());
        command.args(arguments);
        run(command, b"")
    }

    /// Shuts it down and checks that nothing is left of it.
    pub fn shut_down(mut self) {
        let cgroup = fs::read_to_string(self.state.path().join("cgroup")).unwrap();
        assert!(Path::new(cgroup.trim()).exists());
        self.end();
        assert!(!Path::new(cgroup.trim()).exists(), "{cgroup} is left");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.state.path().to_str().unwrap()), "mounts are left");
    }

    fn end(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}

fn script(verb: &str, state: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg(Path::new(PROJECT).join("tests/systemd/usermanager.sh")).arg(verb).arg(state);
    command
}
