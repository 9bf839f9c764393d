//! `claude` as a provider: a script in its place, and otherwise real processes, real pipes, real signals.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use claude_mem::config::{Config, Environment, Provider, Secret};
use claude_mem::llm::{Choice, Failure, Llm, Request, Response, Tool, Trouble, choose};
use claude_mem::paths::Home;
use claude_mem::privacy::Redacted;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

const KEY: &str = "sk-ant-Qx7mmUnmistakable0Zz";

/// A place with a `claude` that does what a script says. `$D` is the place itself.
struct Place {
    scratch: TempDir,
    config: Config,
    environment: Environment,
}

impl Place {
    fn new(script: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let claude = scratch.path().join("bin/claude");
        fs::create_dir(scratch.path().join("bin")).unwrap();
        fs::write(&claude, format!("#!/bin/sh\nD='{}'\n{script}\n", scratch.path().display())).unwrap();
        fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
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

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn choice(&self) -> Choice {
        let program = Path::new(env!("CARGO_BIN_EXE_claude-mem"));
        choose(&self.config, &Home::at(self.scratch.path()), &self.environment, program)
    }

    fn llm(&self) -> Llm {
        match self.choice() {
            Choice::Llm(llm) => llm,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&self) -> Result<Response, Failure> {
        runtime().block_on(self.llm().complete(&request()))
    }

    /// The processes that wrote their numbers to a file, once there are so many.
    fn processes(&self, name: &str, count: usize) -> Vec<Pid> {
        wait_until("the processes have started", || self.read(name).lines().count() >= count);
        let number = |line: &str| Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        self.read(name).lines().map(number).collect()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn request() -> Request {
    Request {
        system: "You keep $HOME records.".into(),
        prompt: Redacted::of_program("Three events.\n\"quoted\" \u{1b} ünï"),
        tool: Tool { name: "record", description: "Records.", schema: json!({ "type": "object" }) },
        max_output_tokens: 700,
    }
}

/// Waits for something that must come; only if it never comes does the limit matter.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is no more. One that is dead and not yet buried does nothing, either.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_none_or(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with('Z'))
}

fn wait_until_gone(processes: &[Pid]) {
    wait_until("all processes are gone", || processes.iter().all(|pid| is_gone(*pid)));
}

/// What the client really prints, as far as it matters.
fn answer(result: &str) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "result": result, "stop_reason": "end_turn",
        "total_cost_usd": 0.000135, "api_error_status": null,
        "usage": { "input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 3, "output_tokens": 7 },
        "modelUsage": { "claude-haiku-4-5-20251001": { "inputTokens": 100 } },
    })
}

/// A script that reads its input and prints this.
fn prints(output: &Value, code: i32) -> String {
    format!("cat >/dev/null\ncat <<'END'\n{output}\nEND\nexit {code}")
}

/// A client that never ends by itself, with a child of its own, both deaf to SIGTERM.
const STUBBORN: &str = "trap '' TERM\necho $$ >>$D/pids\nsh -c 'trap \"\" TERM; echo $$ >>'$D'/pids; \
    while :; do sleep 1; done' &\nwhile :; do sleep 1; done";

#[test]
fn it_is_asked_with_everything_off_and_its_answer_is_read() {
    let script = format!(
        "pwd >$D/cwd; env >$D/env; cat >$D/input; for a in \"$@\"; do printf '%s\\n' \"[$a]\"; done >$D/arguments\n{}",
        prints(&answer("{\"title\":\"x\"}"), 0)
    );
    let place = Place::new(&script);
    let llm = place.llm();
    let response = runtime().block_on(llm.complete(&request())).unwrap();
    assert_eq!(response.text, "{\"title\":\"x\"}");
    assert_eq!((response.usage.tokens_in, response.usage.tokens_out), (123, 7));
    assert_eq!((response.model.as_str(), response.truncated), ("claude-haiku-4-5-20251001", false));
    assert_eq!(llm.cost(&place.config.prices, &response), 0.000135, "what the client says that it cost");
    assert_eq!(place.read("input"), request().prompt.as_str());
    let arguments = place.read("arguments");
    let expected = "[-p]\n[--output-format]\n[json]\n[--model]\n[claude-haiku-4-5-20251001]\n[--setting-sources]\n[]\n\
        [--settings]\n[{\"disableAllHooks\":true}]\n[--strict-mcp-config]\n[--no-session-persistence]\n[--tools]\n[]\n\
        [--disable-slash-commands]\n[--system-prompt]\n[You keep $HOME records.\n";
    assert!(arguments.starts_with(expected), "{arguments}");
    let environment = place.read("env");
    for line in [
        "CLAUDE_MEM_INTERNAL=1",
        "CLAUDE_CODE_MAX_RETRIES=1",
        "MAX_THINKING_TOKENS=0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
    ] {
        assert!(environment.lines().any(|known| known == line), "{line} is missing");
    }
    assert_eq!(Path::new(place.read("cwd").trim()), place.scratch.path().canonicalize().unwrap());
}

#[test]
fn what_the_client_reports_is_the_items_fault_or_the_providers() {
    let table = [
        (
            "Invalid API key · Fix external API key",
            json!(401),
            json!("authentication_error"),
            Some(Trouble::Auth),
        ),
        ("Credit balance is too low", json!(400), json!("invalid_request_error"), Some(Trouble::Billing)),
        (
            "API Error: Request rejected (429) · slow",
            json!(429),
            json!("rate_limit_error"),
            Some(Trouble::RateLimited),
        ),
        ("API Error: 529 Overloaded. …", json!(529), json!("overloaded_error"), Some(Trouble::Overloaded)),
        ("API Error: 500 Internal. …", json!(500), json!("api_error"), Some(Trouble::Server)),
        (
            "There's an issue with the selected model (x).",
            json!(404),
            json!("not_found_error"),
            Some(Trouble::Model),
        ),
        (
            "Failed to authenticate. API Error: 403 nope",
            json!(403),
            json!("permission_error"),
            Some(Trouble::Auth),
        ),
        ("Not logged in · Please run /login", json!(null), json!(null), Some(Trouble::Auth)),
        (
            "API Error: Connection refused (ECONNREFUSED)",
            json!(null),
            json!(null),
            Some(Trouble::Unreachable),
        ),
        ("Request timed out", json!(null), json!(null), Some(Trouble::Timeout)),
        (
            "You've hit your limit · resets 3pm (Europe/Berlin)",
            json!(429),
            json!(null),
            Some(Trouble::RateLimited),
        ),
        ("API Error: 502 <html>…", json!(null), json!(null), Some(Trouble::Server)),
        ("API Error: something new", json!(null), json!(null), Some(Trouble::Server)),
        ("API Error: 400 messages: bad thing", json!(400), json!("invalid_request_error"), None),
        ("API Error: 400 messages: bad thing", json!(null), json!(null), None),
        ("Request too large (max 32MB).", json!(413), json!("request_too_large"), None),
        ("Prompt is too long · the request is …", json!(400), json!("invalid_request_error"), None),
        (
            "API Error: Claude's response exceeded the 32000 output token maximum.",
            json!(null),
            json!(null),
            None,
        ),
    ];
    for (result, status, kind, expected) in table {
        let mut output = answer(result);
        output["is_error"] = true.into();
        output["api_error_status"] = status;
        output["api_error_type"] = kind;
        match Place::new(&prints(&output, 1)).ask() {
            Err(Failure::Provider(failure)) => assert_eq!(Some(failure.kind), expected, "{result}"),
            Err(Failure::Item { usage, message, .. }) => {
                assert_eq!(None, expected, "{result}: {message}");
                assert_eq!(usage.unwrap().cost_usd, Some(0.000135), "what was spent in vain was spent");
            }
            Ok(response) => panic!("{result} is an answer: {response:?}"),
        }
    }
}

#[test]
fn a_limit_that_ends_at_a_known_time_is_waited_for() {
    let in_an_hour = jiff::Timestamp::now().as_second() + 3600;
    let wait = |result: &str| {
        let mut output = answer(result);
        output["is_error"] = true.into();
        match Place::new(&prints(&output, 1)).ask() {
            Err(Failure::Provider(failure)) => failure.retry_after.unwrap().as_secs(),
            other => panic!("{other:?}"),
        }
    };
    assert!((3000..=3600).contains(&wait(&format!("Claude AI usage limit reached|{in_an_hour}"))));
    assert_eq!(wait("Claude AI usage limit reached|1"), 0);
    assert_eq!(wait("You've hit your limit · resets 3pm"), 900);
}

#[test]
fn a_client_that_says_nothing_sensible_is_the_providers_fault() {
    let table = [
        ("exit 3", "ended with code 3"),
        ("echo 'error: unknown option --tools' >&2; exit 1", "unknown option --tools"),
        ("echo hello", "hello"),
        ("kill -9 $$", "without an answer"),
        ("exec head -c 10000000 /dev/zero", "without an answer"),
    ];
    for (script, expected) in table {
        match Place::new(script).ask() {
            Err(Failure::Provider(failure)) => {
                assert!(failure.message.contains(expected), "{script}: {failure}")
            }
            other => panic!("{script}: {other:?}"),
        }
    }
    let vanished = Place::new("");
    let llm = vanished.llm();
    fs::remove_file(vanished.path("bin/claude")).unwrap();
    let failure = runtime().block_on(llm.complete(&request())).unwrap_err();
    assert!(
        matches!(&failure, Failure::Provider(_)) && failure.to_string().contains("bin/claude"),
        "{failure}"
    );
}

#[test]
fn a_key_is_not_for_a_client_that_is_logged_in_and_is_never_an_argument() {
    let script =
        format!("env >$D/env; tr '\\0' ' ' </proc/$$/cmdline >$D/cmdline\n{}", prints(&answer("{}"), 0));
    for (logged_in, passed_on) in [(true, false), (false, true)] {
        let place = Place::new(&script);
        if !logged_in {
            fs::remove_file(place.path("home/.claude/.credentials.json")).unwrap();
        }
        // The variable must really be in the environment of a worker: this test's own is everybody's.
        let status = worker(&place, &[("ANTHROPIC_API_KEY", KEY)]).spawn().unwrap().wait().unwrap();
        assert!(status.success());
        assert_eq!(place.read("env").contains(KEY), passed_on, "logged in: {logged_in}");
        assert!(!place.read("cmdline").is_empty() && !place.read("cmdline").contains(KEY));
    }
}

#[test]
fn a_client_that_takes_too_long_is_ended_with_all_that_it_started() {
    let mut place = Place::new(STUBBORN);
    place.config.compress.timeout_s = 1;
    let failure = place.ask().unwrap_err();
    assert!(matches!(&failure, Failure::Provider(failure) if failure.kind == Trouble::Timeout), "{failure}");
    let processes = place.processes("pids", 2);
    assert!(processes.iter().all(|pid| is_gone(*pid)), "when the call ends, so have they");
}

#[test]
fn a_client_that_heeds_a_request_to_end_can_end_in_order() {
    let mut place = Place::new("trap 'echo bye >$D/bye; exit' TERM\nwhile :; do sleep 0.05; done");
    place.config.compress.timeout_s = 1;
    assert!(place.ask().is_err());
    assert_eq!(place.read("bye"), "bye\n");
}

#[test]
fn a_call_that_is_given_up_ends_the_client_and_only_then_comes_the_next() {
    let place = Place::new(STUBBORN);
    let next = Place::new(&format!(
        "cp {}/pids $D/before\n{}",
        place.scratch.path().display(),
        prints(&answer("{}"), 0)
    ));
    runtime().block_on(async {
        let (first, second) = (place.llm(), next.llm());
        let call = tokio::spawn(async move { first.complete(&request()).await.map(|_| ()) });
        while place.read("pids").lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let processes = place.processes("pids", 2);
        call.abort();
        second.complete(&request()).await.unwrap();
        assert!(processes.iter().all(|pid| is_gone(*pid)), "the second began before the first had ended");
    });
}

#[test]
fn there_is_never_more_than_one() {
    let script = format!(
        "mkdir $D/busy || echo two >>$D/overlap\nsleep 0.1\nrmdir $D/busy\n{}",
        prints(&answer("{}"), 0)
    );
    let place = Place::new(&script);
    runtime().block_on(async {
        let calls: Vec<_> = (0..4)
            .map(|_| {
                // As after a reload of the settings: not even the same provider.
                let llm = place.llm();
                tokio::spawn(async move { llm.complete(&request()).await.map(|_| ()) })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
    });
    assert_eq!(place.read("overlap"), "");
}

#[test]
fn what_a_client_leaves_behind_costs_neither_the_answer_nor_a_process() {
    let script =
        format!("(echo $$; sh -c 'echo $$ >>'$D'/pids; sleep 1000') &\n{}", prints(&answer("{}"), 0));
    let place = Place::new(&script);
    assert_eq!(place.ask().unwrap().text, "{}");
    wait_until_gone(&place.processes("pids", 1));
}

/// This test again, in a process of its own that asks `claude` of this place: a worker that can be killed.
fn worker(place: &Place, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "llm_cli::a_worker_in_a_process_of_its_own", "--ignored", "--nocapture"]);
    command.env("LLM_CLI_TEST_PLACE", place.scratch.path()).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command
}

#[test]
#[ignore = "not a test: the worker that other tests start, and kill"]
#[allow(clippy::disallowed_methods, reason = "a message from the test that started this process")]
fn a_worker_in_a_process_of_its_own() {
    let place = PathBuf::from(std::env::var_os("LLM_CLI_TEST_PLACE").unwrap());
    let mut environment = Environment::default();
    environment.user_home = Some(place.join("home"));
    environment.outgoing.path = Some(std::env::join_paths([place.join("bin"), "/usr/bin".into()]).unwrap());
    let mut config = Config::default();
    config.compress.provider = Provider::ClaudeCli;
    let program = Path::new(env!("CARGO_BIN_EXE_claude-mem"));
    let Choice::Llm(llm) = choose(&config, &Home::at(place), &environment, program) else {
        panic!("no claude")
    };
    runtime().block_on(llm.complete(&request())).unwrap();
}

/// The guard of a client: its parent.
fn parent(pid: Pid) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let rest = stat.rsplit(')').next().unwrap();
    Pid::from_raw(rest.split_whitespace().nth(1).unwrap().parse().unwrap()).unwrap()
}

#[test]
fn none_is_left_after_any_end_of_the_worker() {
    for signal in [Signal::TERM, Signal::KILL] {
        let place = Place::new(STUBBORN);
        let mut worker = worker(&place, &[]).spawn().unwrap();
        let processes = place.processes("pids", 2);
        rustix::process::kill_process(Pid::from_child(&worker), signal).unwrap();
        worker.wait().unwrap();
        wait_until_gone(&processes);
    }
}

#[test]
fn none_is_left_after_the_end_of_the_workers_runtime() {
    let place = Place::new(STUBBORN);
    let runtime = runtime();
    let llm = place.llm();
    runtime.spawn(async move { llm.complete(&request()).await.map(|_| ()) });
    runtime.block_on(async {
        while place.read("pids").lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let processes = place.processes("pids", 2);
    drop(runtime);
    wait_until_gone(&processes);
}

#[test]
#[cfg(target_os = "linux")]
fn none_is_left_if_worker_and_guard_are_killed_at_once() {
    // Without a child of its own: that one has nobody left to watch over it.
    let place = Place::new("trap '' TERM\necho $$ >>$D/pids\nwhile :; do sleep 0.1; done");
    let mut worker = worker(&place, &[]).spawn().unwrap();
    let processes = place.processes("pids", 1);
    let guard = parent(processes[0]);
    rustix::process::kill_process(guard, Signal::KILL).unwrap();
    rustix::process::kill_process(Pid::from_child(&worker), Signal::KILL).unwrap();
    worker.wait().unwrap();
    wait_until_gone(&processes);
}

#[test]
#[cfg(target_os = "linux")]
fn a_guard_that_is_killed_takes_the_client_with_it_and_the_call_fails() {
    let place = Place::new(STUBBORN);
    runtime().block_on(async {
        let llm = place.llm();
        let call = tokio::spawn(async move { llm.complete(&request()).await.map(|_| ()) });
        while place.read("pids").lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let processes = place.processes("pids", 2);
        rustix::process::kill_process(parent(processes[0]), Signal::KILL).unwrap();
        assert!(matches!(call.await.unwrap(), Err(Failure::Provider(_))));
        wait_until_gone(&processes);
    });
}

#[test]
fn auto_prefers_a_key_then_a_login_and_says_why_there_is_neither() {
    let mut place = Place::new("");
    place.config.compress.provider = Provider::Auto;
    assert_eq!(place.llm().name(), "claude-cli");
    place.environment.outgoing.anthropic_key = Secret::new(KEY);
    assert_eq!(place.llm().name(), "anthropic");
    place.environment.outgoing.anthropic_key = None;
    let why = |place: &Place| match place.choice() {
        Choice::Local { why } => why,
        other => panic!("{other:?}"),
    };
    fs::remove_file(place.path("home/.claude/.credentials.json")).unwrap();
    assert_eq!(why(&place), "There is no ANTHROPIC_API_KEY, and `claude` is not logged in.");
    fs::remove_file(place.path("bin/claude")).unwrap();
    assert!(why(&place).contains("`claude` is not installed"));
    fs::write(place.path("credentials"), format!("ANTHROPIC_API_KEY={KEY}")).unwrap();
    fs::set_permissions(place.path("credentials"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(why(&place).contains("chmod 600") && !why(&place).contains(KEY));
    fs::set_permissions(place.path("credentials"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(place.llm().name(), "anthropic");
}

#[test]
fn a_wanted_provider_that_cannot_be_used_says_what_to_mend() {
    let mut place = Place::new("");
    let mut why = |provider, change: fn(&mut Config)| {
        place.config = Config::default();
        place.config.compress.provider = provider;
        change(&mut place.config);
        match place.choice() {
            Choice::Unusable { why } | Choice::Local { why } => why,
            Choice::Llm(llm) => panic!("{llm:?}"),
        }
    };
    assert!(why(Provider::Anthropic, |_| ()).contains("no ANTHROPIC_API_KEY"));
    assert!(why(Provider::Openai, |_| ()).contains("openai.model is not set"));
    assert!(
        why(Provider::ClaudeCli, |config| config.claude_cli.command = "no-such-claude".into())
            .contains("no-such-claude")
    );
    assert_eq!(why(Provider::Local, |_| ()), "compress.provider is local.");
    let address = why(Provider::Openai, |config| {
        config.openai.model = "x".into();
        config.openai.base_url = "api.example.org".into();
    });
    assert_eq!(address, "openai.base_url is not an address.");
}
