//! `claude` runs one at a time and never outlives its call: real processes, real pipes, real signals.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use claude_mem::config::{Config, Environment, Provider};
use claude_mem::llm::{Choice, Failure, ProviderProblem, choose};
use claude_mem::paths::Home;
use rustix::process::{Pid, Signal};

use crate::harness::claude::{KEY, request, runtime};
use crate::harness::claude::{Place, answer, is_gone, prints, wait_until_gone, write_program};

/// A client that never exits, with a child of its own; both ignore SIGTERM.
pub const STUBBORN: &str = "trap '' TERM\necho $$ >>$D/pids\nsh -c 'trap \"\" TERM; echo $$ >>'$D'/pids; \
    while :; do sleep 1; done' &\nwhile :; do sleep 1; done";

#[test]
fn a_logged_in_client_gets_no_key_and_no_key_is_an_argument() {
    let script = format!(
        "env >$D/env; {{ tr '\\0' ' ' </proc/$$/cmdline || ps -ww -o args= -p $$; }} >$D/cmdline\n{}",
        prints(&answer("{}"), 0)
    );
    for (logged_in, passed_on) in [(true, false), (false, true)] {
        let place = Place::new(&script);
        if !logged_in {
            fs::remove_file(place.path("home/.claude/.credentials.json")).unwrap();
        }
        // The variable must really be in a worker's environment; other tests share this process's environment.
        let status = worker(&place, &[("ANTHROPIC_API_KEY", KEY)]).spawn().unwrap().wait().unwrap();
        assert!(status.success());
        assert_eq!(place.read("env").contains(KEY), passed_on, "logged in: {logged_in}");
        assert!(!place.read("cmdline").is_empty() && !place.read("cmdline").contains(KEY));
    }
}

#[test]
fn under_systemd_claude_runs_in_its_own_unit() {
    let mut place = Place::new(&prints(&answer("{\"title\":\"x\"}"), 0));
    // A stand-in for systemd-run: records its arguments and starts the guard.
    let stand_in = "for a in \"$@\"; do echo \"$a\"; done >$D/arguments\nuntil [ -f \"$1\" ]; do shift; done\nexec \"$@\"";
    write_program(place.scratch.path(), "systemd-run", stand_in);
    fs::create_dir(place.path("systemd")).unwrap();
    fs::write(place.path("systemd/private"), "").unwrap();
    place.environment.runtime_dir = Some(place.scratch.path().to_owned());
    place.environment.outgoing.names =
        ["https_proxy", "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "NOTIFY_SOCKET", "MY_TOKEN"]
            .map(String::from)
            .into();
    assert!(
        place.ask().is_ok() && place.read("arguments").is_empty(),
        "not started by systemd, it needs no systemd"
    );
    place.environment.outgoing.supervised = true;
    assert_eq!(place.ask().unwrap().text, "{\"title\":\"x\"}");
    let arguments = place.read("arguments").replace(&*place.scratch.path().to_string_lossy(), "PLACE");
    let expected = [
        "--user",
        "--pipe",
        "--wait",
        "--collect",
        "--quiet",
        "--service-type=exec",
        "--description=claude-mem model call",
        "-p",
        "RuntimeMaxSec=65",
        "-p",
        "TimeoutStopSec=2",
        "--working-directory",
        "PLACE",
        env!("CARGO_BIN_EXE_claude-mem"),
        "internal-guard",
    ];
    assert_eq!(arguments.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_slow_client_is_killed_with_its_children() {
    let mut place = Place::new(STUBBORN);
    place.config.compress.timeout_s = 1;
    let failure = place.ask().unwrap_err();
    assert!(
        matches!(&failure, Failure::Provider(failure) if failure.kind == ProviderProblem::Timeout),
        "{failure}"
    );
    let processes = place.processes("pids", 2);
    wait_until_gone(&processes);
}

#[test]
fn a_client_that_handles_sigterm_may_exit_cleanly() {
    let mut place = Place::new("trap 'echo bye >$D/bye; exit' TERM\nwhile :; do sleep 0.05; done");
    place.config.compress.timeout_s = 1;
    assert!(place.ask().is_err());
    assert_eq!(place.read("bye"), "bye\n");
}

#[test]
fn a_cancelled_call_ends_the_client_before_the_next_call() {
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
fn only_one_client_runs_at_a_time() {
    let script = format!(
        "mkdir $D/busy || echo two >>$D/overlap\nsleep 0.1\nrmdir $D/busy\n{}",
        prints(&answer("{}"), 0)
    );
    let place = Place::new(&script);
    runtime().block_on(async {
        let calls: Vec<_> = (0..4)
            .map(|_| {
                // A new provider each time, as after a reload of the settings.
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
fn a_clients_leftover_children_are_killed() {
    let script =
        format!("(echo $$; sh -c 'echo $$ >>'$D'/pids; sleep 1000') &\n{}", prints(&answer("{}"), 0));
    let place = Place::new(&script);
    assert_eq!(place.ask().unwrap().text, "{}");
    wait_until_gone(&place.processes("pids", 1));
}

/// Runs this test program in a process of its own that calls `claude`: a worker that can be killed.
fn worker(place: &Place, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "llm::child_processes::a_worker_in_a_process_of_its_own",
        "--ignored",
        "--nocapture",
    ]);
    command.env_clear().env("CLAUDE_MEM_HOME", place.scratch.path()).env("HOME", place.path("home"));
    command.env("PATH", place.environment.outgoing.path.as_ref().unwrap()).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command
}

#[test]
#[ignore = "not a test: the worker that other tests start, and kill"]
fn a_worker_in_a_process_of_its_own() {
    let environment = Environment::capture();
    let home = Home::locate(environment.mem_home.clone(), None).unwrap();
    let mut config = Config::default();
    config.compress.provider = Provider::ClaudeCli;
    let program = Path::new(env!("CARGO_BIN_EXE_claude-mem"));
    let Choice::Llm(llm) = choose(&config, &home, &environment, program) else { panic!("no claude") };
    runtime().block_on(llm.complete(&request())).unwrap();
}

/// The guard of a client: its parent.
#[cfg(target_os = "linux")]
fn parent(pid: Pid) -> Pid {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let rest = stat.rsplit(')').next().unwrap();
    Pid::from_raw(rest.split_whitespace().nth(1).unwrap().parse().unwrap()).unwrap()
}

#[test]
fn no_client_survives_the_worker() {
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
fn no_client_survives_the_workers_runtime() {
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
fn no_client_survives_a_kill_of_worker_and_guard() {
    // Without a child of its own, because nothing would be left to kill it.
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
fn killing_the_guard_kills_the_client_and_fails_the_call() {
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
