//! The user's own `claude` in print mode: a model for subscribers without an API key.
//!
//! Hooks, tools, MCP servers and session files are off. Only one runs at a time, and the guard
//! makes sure that none outlives the worker. Under systemd, it runs outside our sandbox, in its own
//! unit.

pub(crate) mod installed;

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

use super::failure::{self, Failure, ProviderProblem};
use super::guard::{self, GuardedCommand};
use super::{ModelRequest, Response, Usage, anthropic};
use crate::config::{Environment, Outgoing};

/// Each takes 190 MB, so only one runs at a time in the whole process, across configuration
/// reloads.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// Maximum size of a response.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;
/// Maximum size of the error output.
const MAX_STDERR: u64 = 64 * 1024;
/// Time to read the rest of the pipes after it has ended. They are at their end by then, unless a
/// descendant holds them open.
const DRAIN: Duration = Duration::from_secs(1);
/// Wait after a subscription limit: it lasts for hours, and each attempt starts a process.
const LIMIT_WAIT: Duration = Duration::from_secs(900);

/// Variables that a nested client must not inherit: they identify its parent and state that it runs
/// inside another client.
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
/// Variables that a client outside our unit needs: names, or prefixes with a star.
const INHERITED: [&str; 20] = [
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

/// The settings for running `claude`.
#[derive(Debug)]
pub(super) struct Setup {
    /// The client.
    pub program: PathBuf,
    /// Our own program, which can run as the guard.
    pub guard: PathBuf,
    /// `systemd-run`, to start outside our unit.
    pub systemd_run: Option<PathBuf>,
    /// Working directory: a directory that is no project.
    pub directory: PathBuf,
    /// The model.
    pub model: String,
    /// Maximum run time.
    pub timeout: Duration,
    /// `PATH`.
    pub path: Option<OsString>,
    /// The names of our environment variables.
    pub names: Vec<String>,
    /// True if it has its own login: then a key in the environment is not for it.
    pub logged_in: bool,
}

impl Setup {
    /// Returns `systemd-run` if systemd runs us and can be reached.
    pub fn outside(environment: &Environment) -> Option<PathBuf> {
        let manager = environment.runtime_dir.as_ref()?.join("systemd/private");
        let wanted = environment.outgoing.supervised && manager.exists();
        wanted.then(|| installed::find("systemd-run", environment)).flatten()
    }
}

impl ClaudeCli {
    pub(super) fn new(setup: Setup) -> Self {
        Self(Arc::new(setup))
    }

    pub(super) fn model(&self) -> &str {
        &self.0.model
    }

    pub(super) async fn complete(&self, request: &ModelRequest) -> Result<Response, Failure> {
        let stopping = || Failure::provider(ProviderProblem::Server, "the worker is stopping");
        let permit = ONE_AT_A_TIME.acquire().await.map_err(|_| stopping())?;
        let (wanted, unwanted) = oneshot::channel::<()>();
        let setup = Arc::clone(&self.0);
        let job = setup.job(request);
        // A separate task: it survives the drop of this future until the process is gone, and only
        // then may the next call start.
        let run = tokio::spawn(async move {
            let ending = setup.run(&job, unwanted).await;
            drop(permit);
            ending
        });
        let ending = run.await.map_err(|_| stopping())?;
        drop(wanted);
        self.response(request, ending?)
    }

    fn response(&self, request: &ModelRequest, output: Output) -> Result<Response, Failure> {
        // The result is the last line; other output comes before it.
        let parse = |line| serde_json::from_str::<Value>(line).ok().filter(Value::is_object);
        let Some(answer) = output.answer.lines().rev().find_map(parse) else {
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

/// The output of a process that ended by itself.
struct Output {
    answer: String,
    complaint: String,
    code: Option<i32>,
}

impl Setup {
    fn job(&self, request: &ModelRequest) -> GuardedCommand {
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
        GuardedCommand {
            program: self.program.clone(),
            arguments,
            set: self
                .inherited()
                .into_iter()
                .chain(set.map(|(name, value)| (name.to_owned(), value.to_owned())))
                .collect(),
            unset: self.unset().map(str::to_owned).collect(),
            input: request.prompt.as_str().to_owned(),
        }
    }

    fn unset(&self) -> impl Iterator<Item = &'static str> {
        UNSET.into_iter().chain(self.logged_in.then_some("ANTHROPIC_API_KEY"))
    }

    /// Returns our `PATH` with the client's own directory first: its interpreter is often there,
    /// too.
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

    /// Builds the command for a guard in its own unit that uses our pipes. As a last resort,
    /// systemd ends it.
    fn outside_command(&self, systemd_run: &Path) -> Command {
        let limit = format!("RuntimeMaxSec={}", (self.timeout + 2 * guard::GRACE).as_secs() + 1);
        let mut command = Command::new(systemd_run);
        command.args(["--user", "--pipe", "--wait", "--collect", "--quiet", "--service-type=exec"]);
        let grace = format!("TimeoutStopSec={}", guard::GRACE.as_secs());
        command.args(["--description=claude-mem model call", "-p", &limit, "-p", &grace]);
        command.arg("--working-directory").arg(&self.directory);
        command.arg(&self.guard);
        command
    }

    /// Returns variables that a separate unit does not inherit. They are sent with the job over a
    /// pipe: their values must not appear in process arguments, and passing them by name alone
    /// needs systemd 248.
    fn inherited(&self) -> Vec<(String, String)> {
        if self.systemd_run.is_none() {
            return Vec::new();
        }
        let unset = |name: &str| self.unset().any(|unset| unset == name);
        let names = self.names.iter().filter(|name| is_handed_on(name) && !unset(name));
        names.filter_map(|name| Some((name.clone(), Outgoing::value_of(name)?))).collect()
    }

    /// Runs it until it ends, the time is over, or the caller drops the call.
    async fn run(
        &self,
        job: &GuardedCommand,
        mut unwanted: oneshot::Receiver<()>,
    ) -> Result<Output, Failure> {
        let cannot = |error| {
            let what = format!("cannot start claude with {}: {error}", self.guard.display());
            Failure::provider(ProviderProblem::Unreachable, what)
        };
        let line = serde_json::to_string(job).map_err(|error| cannot(error.into()))? + "\n";
        let mut child = self.command().spawn().map_err(cannot)?;
        let group = child.id().and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        let mut lifeline = child.stdin.take();
        let answer = tokio::spawn(read(child.stdout.take(), MAX_ANSWER));
        let complaint = tokio::spawn(read(child.stderr.take(), MAX_STDERR));
        let ended = async {
            write_line(&mut lifeline, &line).await;
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
            return Err(Failure::provider(ProviderProblem::Timeout, what).may_cost());
        };
        let mut output = pin!(async { (text(answer).await, text(complaint).await) });
        let (answer, complaint) = match tokio::time::timeout(DRAIN, &mut output).await {
            Ok(output) => output,
            // A descendant holds the pipes: it is in this process group and no longer needed.
            Err(_) => {
                kill(group);
                tokio::time::timeout(DRAIN, output).await.unwrap_or_default()
            }
        };
        Ok(Output { answer, complaint, code: status.code() })
    }

    /// The lifeline is closed: waits for the guard to end its child, and kills it if it does not.
    async fn end(&self, child: &mut Child, group: Option<Pid>) {
        // Outside our unit, systemd's own limit is the last resort; until then it may be alive.
        let patience = if self.systemd_run.is_some() { 5 * guard::GRACE } else { 2 * guard::GRACE };
        if tokio::time::timeout(patience, child.wait()).await.is_err() {
            kill(group);
            let _ = child.wait().await;
        }
    }
}

fn is_handed_on(name: &str) -> bool {
    INHERITED.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *pattern,
    })
}

fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

/// Writes to the guard. A guard that does not read reports its reason elsewhere.
async fn write_line(lifeline: &mut Option<ChildStdin>, line: &str) {
    if let Some(lifeline) = lifeline {
        let _ = lifeline.write_all(line.as_bytes()).await;
        let _ = lifeline.flush().await;
    }
}

/// Reads up to the limit. A process that writes more gets a closed pipe.
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

/// Builds the failure of a process that printed no JSON.
fn not_an_answer(output: &Output) -> Failure {
    let message = if output.complaint.trim().is_empty() { &output.answer } else { &output.complaint };
    let how = output.code.map_or("was killed".into(), |code| format!("ended with code {code}"));
    let what = format!("claude {how} without an answer: {}", failure::one_line(message));
    Failure::provider(of_words(message).unwrap_or(ProviderProblem::Server), what)
}

/// Builds the failure that a response reports.
fn of_error(answer: &Value, message: &str, usage: Option<Usage>) -> Failure {
    let about_item = ["prompt is too long", "output token maximum"];
    let kind = ["api_error_type", "api_error"].into_iter().find_map(|name| answer.get(name)?.as_str());
    let message = failure::one_line(&kind.map_or(message.to_owned(), |kind| format!("{message} ({kind})")));
    let status = answer.get("api_error_status").and_then(Value::as_u64).or_else(|| status_in(&message));
    let lower = message.to_ascii_lowercase();
    let failure = if about_item.iter().any(|phrase| lower.contains(phrase)) {
        Failure::item(format!("claude reported: {message}"), &answer.to_string())
    } else if let Some(kind) = of_words(&message) {
        Failure::provider(kind, format!("claude reported: {message}")).retry_after(wait(kind, &message))
    } else if let Some(status) = status.and_then(|status| u16::try_from(status).ok()) {
        failure::of_message("the API behind claude", status, &message, &answer.to_string())
    } else {
        Failure::provider(ProviderProblem::Server, format!("claude reported: {message}"))
    };
    match failure {
        Failure::Item { message, response, .. } => Failure::Item { message, response, usage },
        provider => provider,
    }
}

/// Recognises the client's own messages about problems with its provider.
fn of_words(message: &str) -> Option<ProviderProblem> {
    const PHRASES: [(&str, ProviderProblem); 15] = [
        ("/login", ProviderProblem::Auth),
        ("not logged in", ProviderProblem::Auth),
        ("oauth token", ProviderProblem::Auth),
        ("issue with the selected model", ProviderProblem::Model),
        ("usage limit reached", ProviderProblem::RateLimited),
        ("limit reached", ProviderProblem::RateLimited),
        ("hit your limit", ProviderProblem::RateLimited),
        ("hit your session limit", ProviderProblem::RateLimited),
        ("hit your weekly limit", ProviderProblem::RateLimited),
        ("hit your usage limit", ProviderProblem::RateLimited),
        ("connection error", ProviderProblem::Unreachable),
        ("connection_failed", ProviderProblem::Unreachable),
        ("econnrefused", ProviderProblem::Unreachable),
        ("unable to connect", ProviderProblem::Unreachable),
        ("request timed out", ProviderProblem::Timeout),
    ];
    failure::of_words(message).or_else(|| failure::first_phrase(&PHRASES, message))
}

/// Returns the time to wait: until the limit ends, if the message contains it ("…limit
/// reached|1750708800").
fn wait(kind: ProviderProblem, message: &str) -> Option<Duration> {
    let until = message.split('|').nth(1).and_then(|rest| rest.split(' ').next()?.parse::<i64>().ok());
    let left = until.map(|until| u64::try_from(until - Timestamp::now().as_second()).unwrap_or_default());
    (kind == ProviderProblem::RateLimited).then(|| left.map_or(LIMIT_WAIT, Duration::from_secs))
}

/// Extracts the status from messages of clients that do not report it otherwise ("API Error: 529
/// …").
fn status_in(message: &str) -> Option<u64> {
    message.split_once("API Error: ")?.1.split(' ').next()?.parse().ok()
}
