//! A scripted `claude` in a scratch directory, and helpers to watch processes start and end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use claude_mem::config::{Config, Environment, Provider};
use claude_mem::llm::{Choice, Failure, Llm, ModelRequest, Response, Tool, choose};
use claude_mem::paths::Home;
use claude_mem::privacy::Redacted;
use rustix::process::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::wait::wait_until;

/// A key that resembles no word, so that a search for it finds nothing else.
pub const KEY: &str = "sk-ant-Qx7mmUnmistakable0Zz";

pub fn request() -> ModelRequest {
    ModelRequest {
        system: "You keep $HOME records.".into(),
        prompt: Redacted::of_program("Three events.\n\"quoted\" \u{1b} ünï"),
        tool: Tool {
            name: "record",
            description: "Records what happened.",
            schema: json!({ "type": "object", "properties": { "title": { "type": "string" } } }),
        },
        max_output_tokens: 700,
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A scratch directory with a scripted `claude`. `$D` is the directory.
pub struct Place {
    pub scratch: TempDir,
    pub config: Config,
    pub environment: Environment,
}

impl Place {
    pub fn new(script: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(scratch.path().join("bin")).unwrap();
        write_program(scratch.path(), "claude", script);
        fs::create_dir_all(scratch.path().join("home/.claude")).unwrap();
        let login = scratch.path().join("home/.claude/.credentials.json");
        fs::write(login, r#"{"claudeAiOauth":{"accessToken":"x"}}"#).unwrap();
        let mut environment = Environment::default();
        environment.user_home = Some(scratch.path().join("home"));
        let path = [scratch.path().join("bin"), "/usr/bin".into(), "/bin".into()];
        environment.outgoing.path = Some(std::env::join_paths(path).unwrap());
        let mut config = Config::default();
        config.compress.provider = Provider::ClaudeCli;
        config.compress.timeout_s = 60;
        Self { scratch, config, environment }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn choice(&self) -> Choice {
        let program = Path::new(env!("CARGO_BIN_EXE_claude-mem"));
        choose(&self.config, &Home::at(self.scratch.path()), &self.environment, program)
    }

    pub fn llm(&self) -> Llm {
        match self.choice() {
            Choice::Llm(llm) => llm,
            other => panic!("{other:?}"),
        }
    }

    pub fn ask(&self) -> Result<Response, Failure> {
        runtime().block_on(self.llm().complete(&request()))
    }

    /// Waits until this many processes have written their ids to a file, and returns the ids.
    pub fn processes(&self, name: &str, count: usize) -> Vec<Pid> {
        wait_until("the processes have started", || self.read(name).lines().count() >= count);
        let number = |line: &str| Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        self.read(name).lines().map(number).collect()
    }
}

/// Writes an executable script.
pub fn write_program(place: &Path, name: &str, script: &str) {
    let program = place.join("bin").join(name);
    fs::write(&program, format!("#!/bin/sh\nD='{}'\n{script}\n", place.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

/// True if a process has ended, even if it is not reaped yet.
#[cfg(target_os = "linux")]
pub fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_none_or(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with('Z'))
}

#[cfg(not(target_os = "linux"))]
pub fn is_gone(pid: Pid) -> bool {
    let pid = pid.as_raw_nonzero().to_string();
    let state = std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid]).output().unwrap().stdout;
    state.trim_ascii().is_empty() || state.trim_ascii().starts_with(b"Z")
}

pub fn wait_until_gone(processes: &[Pid]) {
    wait_until("all processes are gone", || processes.iter().all(|pid| is_gone(*pid)));
}

/// The relevant part of the client's real output.
pub fn answer(result: &str) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "result": result, "stop_reason": "end_turn",
        "total_cost_usd": 0.000135, "api_error_status": null,
        "usage": { "input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 3, "output_tokens": 7 },
        "modelUsage": { "claude-haiku-4-5-20251001": { "inputTokens": 100 } },
    })
}

/// A script that reads its input and prints this.
pub fn prints(output: &Value, code: i32) -> String {
    format!("cat >/dev/null\ncat <<'END'\n{output}\nEND\nexit {code}")
}
