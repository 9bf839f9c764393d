//! The user's own `claude` in print mode: a model for subscribers without a key.
//!
//! Hooks, tools, MCP servers and session files are off. There is never more than one, and none outlives the worker: the
//! guard sees to that. Where systemd runs us, it starts outside our sandbox, in a unit of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::failure::{self, Failure, Trouble};
use super::guard::{self, Job};
use super::{Request, Response, Usage, anthropic};
use crate::config::Environment;

/// It takes 190 MB and all of a user's patience: one at a time in the whole process, whatever is configured anew.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// The longest answer that is read.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;
/// The longest complaint that is read.
const MAX_COMPLAINT: u64 = 64 * 1024;
/// When it has ended, its pipes are at their end, unless it left something behind that holds them.
const DRAIN: Duration = Duration::from_secs(1);
/// A subscription's limit lasts for hours, and each try starts a process.
const LIMIT_WAIT: Duration = Duration::from_secs(900);

/// What a nested client must not take over from ours: whom it works for, and that it runs inside another.
const UNSET: [&str; 8] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
];
/// What a client outside our unit needs to know of our environment: names, or their beginnings with a star.
const HANDED_ON: [&str; 20] = [
    "ANTHROPIC_*",
    "CLAUDE_CODE_*",
    "CLAUDE_CONFIG_DIR",
    "AWS_*",
    "GOOGLE_*",
    "CLOUD_ML_REGION",
    "VERTEX_*",
    "AZURE_*",
    "NODE_*",
    "SSL_CERT_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HOME",
    "LANG",
];

/// The provider.
#[derive(Debug, Clone)]
pub struct ClaudeCli(Arc<Setup>);

/// How `claude` is run.
#[derive(Debug)]
pub(super) struct Setup {
    /// The client.
    pub program: PathBuf,
    /// Our own program, which can be a guard.
    pub guard: PathBuf,
    /// `systemd-run`, if it shall start outside our unit.
    pub systemd_run: Option<PathBuf>,
    /// Where it stands: a place that is no project.
    pub directory: PathBuf,
    /// The model.
    pub model: String,
    /// It may take so long.
    pub timeout: Duration,
    /// `PATH`.
    pub path: Option<OsString>,
    /// The names of our variables.
    pub names: Vec<String>,
    /// Whether it has a login of its own: then a key in the environment is not for it.
    pub logged_in: bool,
}

impl Setup {
    /// `systemd-run`, if systemd runs us and listens to us.
    pub fn outside(environment: &Environment) -> Option<PathBuf> {
        let manager = environment.runtime_dir.as_ref()?.join("systemd/private");
        let wanted = environment.outgoing.supervised && manager.exists();
        wanted.then(|| super::installed::find("systemd-run", environment)).flatten()
    }
}

impl ClaudeCli {
    pub(super) fn new(setup: Setup) -> Self {
        Self(Arc::new(setup))
    }

    pub(super) fn model(&self) -> &str {
        &self.0.model
    }

    pub(super) async fn complete(&self, request: &Request) -> Result<Response, Failure> {
        let gone = |_| Failure::provider(Trouble::Server, "the worker is stopping");
        let permit = ONE_AT_A_TIME.acquire().await.map_err(|_| gone(()))?;
        let (wanted, unwanted) = oneshot::channel::<()>();
        let setup = Arc::clone(&self.0);
        let job = setup.job(request);
        // A task of its own: it outlives this future, which may be dropped, until the process is gone; only then is it
        // another's turn.
        let run = tokio::spawn(async move {
            let ending = setup.run(&job, unwanted).await;
            drop(permit);
            ending
        });
        let ending = run.await.map_err(|_| gone(()))?;
        drop(wanted);
        self.response(request, ending?)
    }

    fn response(&self, request: &Request, output: Output) -> Result<Response, Failure> {
        let Ok(answer) = serde_json::from_str::<Value>(&output.answer) else {
            return Err(not_an_answer(&output));
        };
        let text = answer.get("result").and_then(Value::as_str).unwrap_or_default().to_owned();
        let cost_usd = answer.get("total_cost_usd").and_then(Value::as_f64).filter(|cost| *cost >= 0.0);
        let usage = anthropic::usage(&answer).map(|usage| Usage { cost_usd, ..usage });
        if answer.get("is_error").and_then(Value::as_bool).unwrap_or(text.is_empty()) {
            return Err(of_error(&answer, &text, usage));
        }
        let models = answer.get("modelUsage").and_then(Value::as_object);
        let model =
            models.and_then(|models| models.keys().next().cloned()).unwrap_or_else(|| self.0.model.clone());
        let truncated = answer.get("stop_reason").and_then(Value::as_str) == Some("max_tokens");
        let usage = usage.unwrap_or_else(|| Usage::at_most(request, &text));
        Ok(Response { text, usage, model, truncated })
    }
}

/// What came out of a process that ended by itself.
struct Output {
    answer: String,
    complaint: String,
    code: Option<i32>,
}

impl Setup {
    fn job(&self, request: &Request) -> Job {
        let fixed =
            ["-p", "--output-format", "json", "--model", &self.model, "--setting-sources", "", "--settings"];
        let more =
            [r#"{"disableAllHooks":true}"#, "--strict-mcp-config", "--no-session-persistence", "--tools", ""];
        let last = ["--disable-slash-commands", "--system-prompt", &request.system_with_form()];
        let arguments = fixed.into_iter().chain(more).chain(last).map(str::to_owned).collect();
        let set = [
            ("CLAUDE_MEM_INTERNAL", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "1"),
            ("MAX_THINKING_TOKENS", "0"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("PATH", &self.path_for_client()),
        ];
        let key = self.logged_in.then_some("ANTHROPIC_API_KEY");
        Job {
            program: self.program.clone(),
            arguments,
            set: set.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            unset: UNSET.into_iter().chain(key).map(str::to_owned).collect(),
            input: request.prompt.as_str().to_owned(),
        }
    }

    /// Our `PATH` with the client's own place first: the interpreter that it needs often lies there, too.
    fn path_for_client(&self) -> String {
        let own = self.program.parent().map(Path::to_owned);
        let path = self.path.clone().unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let places = own.into_iter().chain(std::env::split_paths(&path));
        std::env::join_paths(places).unwrap_or(path).to_string_lossy().into_owned()
    }

    fn command(&self) -> Command {
        let mut command = match &self.systemd_run {
            None => Command::new(&self.guard),
            Some(systemd_run) => self.outside_command(systemd_run),
        };
        command.arg(guard::GUARD).current_dir(&self.directory).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The guard in a unit of its own, whose pipes are ours. If all else fails, systemd ends it.
    fn outside_command(&self, systemd_run: &Path) -> Command {
        let limit = format!("RuntimeMaxSec={}", (self.timeout + 2 * guard::GRACE).as_secs() + 1);
        let mut command = Command::new(systemd_run);
        command.args(["--user", "--pipe", "--wait", "--collect", "--quiet", "--service-type=exec"]);
        command.args(["--description=claude-mem asks claude", "-p", &limit]);
        command.arg("--working-directory").arg(&self.directory);
        // By name: what they contain must not be seen among a process's arguments.
        let handed_on = self.names.iter().filter(|name| is_handed_on(name));
        command.args(handed_on.map(|name| format!("--setenv={name}"))).arg(&self.guard);
        command
    }

    /// Runs it to its end, or to ours: when the time is over, or when it is no longer wanted.
    async fn run(&self, job: &Job, mut unwanted: oneshot::Receiver<()>) -> Result<Output, Failure> {
        let cannot = |error| {
            let what = format!("claude cannot be started by {}: {error}", self.guard.display());
            Failure::provider(Trouble::Unreachable, what)
        };
        let line = serde_json::to_string(job).map_err(|error| cannot(error.into()))? + "\n";
        let mut child = self.command().spawn().map_err(cannot)?;
        let group = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let mut lifeline = child.stdin.take();
        let answer = tokio::spawn(read(child.stdout.take(), MAX_ANSWER));
        let complaint = tokio::spawn(read(child.stderr.take(), MAX_COMPLAINT));
        let ended = async {
            tell(&mut lifeline, &line).await;
            child.wait().await
        };
        let status = tokio::select! {
            status = ended => Some(status.map_err(cannot)?),
            () = tokio::time::sleep(self.timeout) => None,
            _ = &mut unwanted => None,
        };
        drop(lifeline);
        let Some(status) = status else {
            self.end(&mut child, group).await;
            let what = format!("claude did not answer within {} s", self.timeout.as_secs_f32());
            return Err(Failure::provider(Trouble::Timeout, what));
        };
        let mut output = pin!(async { (text(answer).await, text(complaint).await) });
        let (answer, complaint) = match tokio::time::timeout(DRAIN, &mut output).await {
            Ok(output) => output,
            // Something that it started holds the pipes: it is of this group, and has no business any more.
            Err(_) => {
                kill(group);
                tokio::time::timeout(DRAIN, output).await.unwrap_or_default()
            }
        };
        Ok(Output { answer, complaint, code: status.code() })
    }

    /// The lifeline is cut: waits for the guard to end what it guards, and helps if it does not.
    async fn end(&self, child: &mut Child, group: Option<Pid>) {
        // Outside, systemd's own limit is the last resort; until then it may be alive.
        let patience = if self.systemd_run.is_some() { 5 * guard::GRACE } else { 2 * guard::GRACE };
        if tokio::time::timeout(patience, child.wait()).await.is_err() {
            kill(group);
            let _ = child.wait().await;
        }
    }
}

fn is_handed_on(name: &str) -> bool {
    HANDED_ON.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *pattern,
    })
}

fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

/// A guard that does not listen has said why.
async fn tell(lifeline: &mut Option<ChildStdin>, line: &str) {
    if let Some(lifeline) = lifeline {
        let _ = lifeline.write_all(line.as_bytes()).await;
        let _ = lifeline.flush().await;
    }
}

/// Everything up to the limit. Whoever writes more finds the pipe closed.
async fn read(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(limit).read_to_end(&mut bytes).await;
    }
    bytes
}

async fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.await.unwrap_or_default()).into_owned()
}

/// The failure of a process that printed no JSON.
fn not_an_answer(output: &Output) -> Failure {
    let said = if output.complaint.trim().is_empty() { &output.answer } else { &output.complaint };
    let how = output.code.map_or("was killed".into(), |code| format!("ended with code {code}"));
    let what = format!("claude {how} without an answer: {}", failure::one_line(said));
    Failure::provider(of_words(said).unwrap_or(Trouble::Server), what)
}

/// The failure that an answer tells of.
fn of_error(answer: &Value, said: &str, usage: Option<Usage>) -> Failure {
    let about_item = ["prompt is too long", "output token maximum"];
    let kind = ["api_error_type", "api_error"].into_iter().find_map(|name| answer.get(name)?.as_str());
    let said = failure::one_line(&kind.map_or(said.to_owned(), |kind| format!("{said} ({kind})")));
    let status = answer.get("api_error_status").and_then(Value::as_u64).or_else(|| status_in(&said));
    let lower = said.to_ascii_lowercase();
    let failure = if about_item.iter().any(|phrase| lower.contains(phrase)) {
        Failure::item(format!("claude says: {said}"), &answer.to_string())
    } else if let Some(kind) = of_words(&said) {
        Failure::provider(kind, format!("claude says: {said}")).retry_after(wait(kind, &said))
    } else if let Some(status) = status.and_then(|status| u16::try_from(status).ok()) {
        failure::of_message("the API behind claude", status, &said, &answer.to_string())
    } else {
        Failure::provider(Trouble::Server, format!("claude says: {said}"))
    };
    match failure {
        Failure::Item { message, response, .. } => Failure::Item { message, response, usage },
        provider => provider,
    }
}

/// The client's own words for trouble with its provider.
fn of_words(said: &str) -> Option<Trouble> {
    const PHRASES: [(&str, Trouble); 15] = [
        ("/login", Trouble::Auth),
        ("not logged in", Trouble::Auth),
        ("oauth token", Trouble::Auth),
        ("issue with the selected model", Trouble::Model),
        ("usage limit reached", Trouble::RateLimited),
        ("limit reached", Trouble::RateLimited),
        ("hit your limit", Trouble::RateLimited),
        ("hit your session limit", Trouble::RateLimited),
        ("hit your weekly limit", Trouble::RateLimited),
        ("hit your usage limit", Trouble::RateLimited),
        ("connection error", Trouble::Unreachable),
        ("connection_failed", Trouble::Unreachable),
        ("econnrefused", Trouble::Unreachable),
        ("unable to connect", Trouble::Unreachable),
        ("request timed out", Trouble::Timeout),
    ];
    failure::of_words(said).or_else(|| failure::first_phrase(&PHRASES, said))
}

/// How long to leave it alone: until the limit ends, where it says when ("…limit reached|1750708800").
fn wait(kind: Trouble, said: &str) -> Option<Duration> {
    let until = said.split('|').nth(1).and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
    let left = until.map(|until| u64::try_from(until - Timestamp::now().as_second()).unwrap_or_default());
    (kind == Trouble::RateLimited).then(|| left.map_or(LIMIT_WAIT, Duration::from_secs))
}

/// The status in the text of clients that do not state it otherwise ("API Error: 529 …").
fn status_in(said: &str) -> Option<u64> {
    said.split_once("API Error: ")?.1.split(' ').next()?.parse().ok()
}
