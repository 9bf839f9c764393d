//! Requests to `claude`, and the parsing of its output.

use std::fs;
use std::path::Path;

use claude_mem::llm::{Failure, ProviderProblem};
use serde_json::json;

use crate::harness::claude::{Place, answer, prints};
use crate::harness::claude::{request, runtime};

#[test]
fn claude_runs_without_tools_and_its_answer_is_read() {
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
    assert_eq!(
        llm.cost(&place.config.prices, &response.usage),
        0.000135,
        "what the client says that it cost"
    );
    assert_eq!(place.read("input"), request().prompt.as_str());
    let arguments = place.read("arguments");
    let expected = "[-p]\n[--output-format]\n[json]\n[--model]\n[claude-haiku-5-5]\n[--setting-sources]\n[]\n\
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
fn client_errors_are_the_items_or_the_providers_fault() {
    let table = [
        (
            "Invalid API key · Fix external API key",
            json!(401),
            json!("authentication_error"),
            Some(ProviderProblem::Auth),
        ),
        (
            "Credit balance is too low",
            json!(400),
            json!("invalid_request_error"),
            Some(ProviderProblem::Billing),
        ),
        (
            "API Error: Request rejected (429) · slow",
            json!(429),
            json!("rate_limit_error"),
            Some(ProviderProblem::RateLimited),
        ),
        (
            "API Error: 529 Overloaded. …",
            json!(529),
            json!("overloaded_error"),
            Some(ProviderProblem::Overloaded),
        ),
        ("API Error: 500 Internal. …", json!(500), json!("api_error"), Some(ProviderProblem::Server)),
        (
            "There's an issue with the selected model (x).",
            json!(404),
            json!("not_found_error"),
            Some(ProviderProblem::Model),
        ),
        (
            "Failed to authenticate. API Error: 403 nope",
            json!(403),
            json!("permission_error"),
            Some(ProviderProblem::Auth),
        ),
        ("Not logged in · Please run /login", json!(null), json!(null), Some(ProviderProblem::Auth)),
        (
            "API Error: Connection refused (ECONNREFUSED)",
            json!(null),
            json!(null),
            Some(ProviderProblem::Unreachable),
        ),
        ("Request timed out", json!(null), json!(null), Some(ProviderProblem::Timeout)),
        (
            "You've hit your limit · resets 3pm (Europe/Berlin)",
            json!(429),
            json!(null),
            Some(ProviderProblem::RateLimited),
        ),
        ("API Error: 502 <html>…", json!(null), json!(null), Some(ProviderProblem::Server)),
        ("API Error: something new", json!(null), json!(null), Some(ProviderProblem::Server)),
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
            other => panic!("{result} is neither: {other:?}"),
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
fn unreadable_client_output_is_the_providers_fault() {
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
