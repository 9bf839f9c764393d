//! Providers over HTTP against a real server: every fault is classified, and no key is ever shown.

use std::path::Path;
use std::time::Duration;

use claude_mem::config::{Config, Environment, Provider, Secret};
use claude_mem::llm::breaker::{Admission, Breaker, BreakerState};
use claude_mem::llm::{Choice, Failure, Llm, ProviderProblem, Response, choose};
use claude_mem::paths::Home;
use claude_mem::privacy::Redacted;
use serde_json::json;

use crate::harness::claude::{KEY, request, runtime};
use crate::harness::endpoint::{Endpoint, Reply};

/// The provider at an address, created like the worker does.
fn provider(kind: Provider, base_url: &str) -> Llm {
    patient_provider(kind, base_url, 60)
}

fn patient_provider(kind: Provider, base_url: &str, timeout_s: u64) -> Llm {
    let scratch = tempfile::tempdir().unwrap();
    let mut environment = Environment::default();
    environment.outgoing.anthropic_key = Secret::new(KEY);
    environment.outgoing.openai_key = Secret::new(KEY);
    let mut config = Config::default();
    config.compress.provider = kind;
    config.compress.timeout_s = timeout_s;
    config.anthropic.base_url = base_url.into();
    config.openai.base_url = format!("{base_url}/v1");
    config.openai.model = "some-model".into();
    match choose(&config, &Home::at(scratch.path()), &environment, Path::new("claude-mem")) {
        Choice::Llm(llm) => llm,
        other => panic!("{other:?}"),
    }
}

fn ask(llm: &Llm) -> Result<Response, Failure> {
    runtime().block_on(llm.complete(&request()))
}

/// The party at fault.
#[derive(Debug, PartialEq)]
enum Fault {
    Item,
    Provider(ProviderProblem),
    None,
}

/// Sends a request, and searches everything that comes back for the key.
fn fault_of(llm: &Llm) -> (Fault, Option<Duration>, String) {
    let result = ask(llm);
    let shown = format!("{result:?} {result:#?} {llm:?}");
    assert!(!shown.contains("Unmistakable"), "the key is shown: {shown}");
    match result {
        Ok(response) => (Fault::None, None, response.text),
        Err(Failure::Item { message, .. } | Failure::Declined { message, .. }) => {
            (Fault::Item, None, message)
        }
        Err(Failure::Provider(failure)) => {
            (Fault::Provider(failure.kind), failure.retry_after, failure.message)
        }
    }
}

#[test]
fn every_endpoint_fault_is_the_items_or_the_providers() {
    let message = |text: &str| format!("{text} (you sent {{key}})");
    let error = |status, kind, text| Reply::error(status, kind, &message(text));
    let provider = Fault::Provider;
    let in_an_hour = jiff::Timestamp::now() + Duration::from_secs(3600);
    let date = in_an_hour.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let limited = || error(429, "rate_limit_error", "slow down");
    let huge = format!("{{\"content\":\"{}\"}}", "x".repeat(10_000_000));
    let table = [
        ("reset mid-body", Reply::ResetMidBody, provider(ProviderProblem::Unreachable), 0),
        ("end mid-body", Reply::EndMidBody, provider(ProviderProblem::Unreachable), 0),
        ("hang", Reply::Hang, provider(ProviderProblem::Timeout), 0),
        ("slow drip", Reply::Drip, provider(ProviderProblem::Timeout), 0),
        ("400", error(400, "invalid_request_error", "bad"), Fault::Item, 0),
        ("401", error(401, "authentication_error", "invalid x-api-key"), provider(ProviderProblem::Auth), 0),
        ("402", error(402, "billing_error", "pay"), provider(ProviderProblem::Billing), 0),
        ("403", error(403, "permission_error", "no"), provider(ProviderProblem::Auth), 0),
        ("404 model", error(404, "not_found_error", "model: x"), provider(ProviderProblem::Model), 0),
        ("408", error(408, "timeout_error", "late"), provider(ProviderProblem::Timeout), 0),
        ("409", error(409, "conflict_error", "again"), provider(ProviderProblem::Server), 0),
        ("413", error(413, "request_too_large", "large"), Fault::Item, 0),
        ("422", error(422, "unprocessable", "odd"), Fault::Item, 0),
        ("429", limited(), provider(ProviderProblem::RateLimited), 0),
        (
            "429 seconds",
            limited().with_header("retry-after", "30"),
            provider(ProviderProblem::RateLimited),
            30,
        ),
        (
            "429 date",
            limited().with_header("retry-after", &date),
            provider(ProviderProblem::RateLimited),
            3600,
        ),
        ("500", error(500, "api_error", "oops"), provider(ProviderProblem::Server), 0),
        (
            "502 page",
            Reply::text(502, "text/html", "<html>{key}</html>"),
            provider(ProviderProblem::Server),
            0,
        ),
        ("529", error(529, "overloaded_error", "busy"), provider(ProviderProblem::Overloaded), 0),
        (
            "credit",
            error(400, "x", "Your credit balance is too low to go on"),
            provider(ProviderProblem::Billing),
            0,
        ),
        (
            "302",
            Reply::text(302, "text/html", "").with_header("location", "/"),
            provider(ProviderProblem::NotTheApi),
            0,
        ),
        ("HTML", Reply::text(200, "text/html", "<html>{key}"), provider(ProviderProblem::NotTheApi), 0),
        ("empty body", Reply::text(200, "application/json", ""), provider(ProviderProblem::NotTheApi), 0),
        (
            "half JSON",
            Reply::text(200, "application/json", "{\"content\":[{\"te"),
            provider(ProviderProblem::NotTheApi),
            0,
        ),
        (
            "plain text",
            Reply::text(200, "text/plain", "hello {key}"),
            provider(ProviderProblem::NotTheApi),
            0,
        ),
        ("other JSON", Reply::json(200, &json!({ "ok": "{key}" })), provider(ProviderProblem::NotTheApi), 0),
        ("10 MB", Reply::text(200, "application/json", &huge), Fault::Item, 0),
        (
            "10 MB page",
            Reply::text(200, "text/html", &format!("<{huge}")),
            provider(ProviderProblem::NotTheApi),
            0,
        ),
        (
            "200 with error",
            Reply::json(200, &json!({"error":{"code":429,"message":"{key}"}})),
            provider(ProviderProblem::RateLimited),
            0,
        ),
    ];
    for kind in [Provider::Anthropic, Provider::Openai] {
        for (name, reply, expected, wait) in &table {
            let endpoint = Endpoint::always(reply.clone());
            let patience = if *expected == Fault::Provider(ProviderProblem::Timeout) { 1 } else { 60 };
            let llm = patient_provider(kind, endpoint.url(), patience);
            let (fault, retry_after, message) = fault_of(&llm);
            assert_eq!(fault, *expected, "{kind:?} {name}: {message}");
            // The date comes closer while the test runs.
            let waited = retry_after.unwrap_or_default().as_secs();
            assert!((wait / 2..=*wait).contains(&waited), "{kind:?} {name}: {waited}");
            assert!(message.len() < 500, "{kind:?} {name}: {message}");
        }
    }
}

fn provider_of(kind: Provider, endpoint: &Endpoint) -> Llm {
    provider(kind, endpoint.url())
}

#[test]
fn a_refused_connection_is_the_providers_fault_with_its_address() {
    let url = Endpoint::refused();
    let (fault, _, message) = fault_of(&provider(Provider::Anthropic, &url));
    assert_eq!(fault, Fault::Provider(ProviderProblem::Unreachable));
    assert!(message.contains("cannot be reached") && message.contains("refused"), "{message}");
    assert!(message.contains(url.trim_start_matches("http://")), "{message}");
}

#[test]
fn a_recovered_provider_is_detected_by_one_probe() {
    let endpoint = Endpoint::always(Reply::error(529, "overloaded_error", "busy"));
    let llm = provider_of(Provider::Anthropic, &endpoint);
    let breaker = Breaker::new();
    let Admission::Go(pass) = breaker.admit(0) else { panic!("it begins closed") };
    let Err(Failure::Provider(failure)) = ask(&llm) else { panic!("529 is the provider's fault") };
    pass.failed(0, &failure);
    assert!(matches!(breaker.admit(0), Admission::WaitUntil(_)));
    endpoint.set_script(|_| Reply::tool_call(&json!({ "title": "x" })));
    let Admission::Go(probe) = breaker.admit(10_000) else { panic!("the time has come") };
    assert!(matches!(breaker.admit(10_000), Admission::WaitUntil(_)));
    assert!(ask(&llm).is_ok());
    probe.answered();
    assert_eq!(breaker.state(), BreakerState::Closed);
}

#[test]
fn anthropic_answers_by_a_forced_tool_call() {
    let endpoint = Endpoint::always(Reply::tool_call(&json!({ "title": "Fix it" })));
    let llm = provider_of(Provider::Anthropic, &endpoint);
    let response = ask(&llm).unwrap();
    assert_eq!(response.text, r#"{"title":"Fix it"}"#);
    assert_eq!((response.usage.tokens_in, response.usage.tokens_out), (1234, 56));
    assert_eq!((response.model.as_str(), response.truncated), ("claude-haiku-4-5-20251001", false));
    assert!((llm.cost(&Config::default().prices, &response.usage) - 0.0001514).abs() < 1e-9);
    let asked = &endpoint.asked()[0];
    assert_eq!((asked.path.as_str(), asked.header("x-api-key")), ("/v1/messages", Some(KEY)));
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(asked.body["tool_choice"]["name"], "record");
    assert_eq!(asked.body["thinking"]["type"], "disabled");
    assert_eq!((&asked.body["max_tokens"], &asked.body["system"]), (&json!(700), &json!(request().system)));
    assert_eq!(asked.body["messages"], json!([{ "role": "user", "content": request().prompt.as_str() }]));
}

#[test]
fn text_instead_of_a_tool_call_is_the_answer() {
    let refusal = json!([{ "type": "thinking", "thinking": "" }, { "type": "text", "text": "I cannot." }]);
    let cut = json!([{ "type": "tool_use", "id": "t", "name": "record", "input": {} }]);
    let table = [
        (Reply::anthropic(&refusal, "refusal"), "I cannot.", false),
        (Reply::anthropic(&cut, "max_tokens"), "", true),
        (Reply::anthropic(&json!([]), "end_turn"), "", false),
        (Reply::tool_call(&json!({ "unknown": 1 })), r#"{"unknown":1}"#, false),
    ];
    for (reply, text, truncated) in table {
        let response = ask(&provider_of(Provider::Anthropic, &Endpoint::always(reply))).unwrap();
        assert_eq!((response.text.as_str(), response.truncated), (text, truncated));
    }
}

#[test]
fn unsupported_request_options_are_dropped_and_remembered() {
    let endpoint = Endpoint::start(|asked| {
        let refused = |what: &str| Reply::error(400, "invalid_request_error", what);
        if asked.body["thinking"]["type"] == "disabled" {
            refused(
                "\"thinking.type.disabled\" is not supported for this model. Use \"output_config.effort\".",
            )
        } else if asked.body["tool_choice"]["type"] == "tool" {
            refused("tool_choice: type \"tool\" and \"any\" are not supported for this model.")
        } else {
            Reply::tool_call(&json!({ "title": "x" }))
        }
    });
    let llm = provider_of(Provider::Anthropic, &endpoint);
    assert_eq!(ask(&llm).unwrap().text, r#"{"title":"x"}"#);
    assert_eq!(endpoint.asked().len(), 3);
    ask(&llm).unwrap();
    let last = &endpoint.asked()[3].body;
    assert_eq!(
        (&last["tool_choice"]["type"], &last["output_config"]["effort"]),
        (&json!("auto"), &json!("low"))
    );
}

#[test]
fn an_endpoint_with_schema_support_gets_the_schema() {
    let endpoint = Endpoint::always(Reply::chat("{\"title\":\"x\"}", "stop"));
    let response = ask(&provider_of(Provider::Openai, &endpoint)).unwrap();
    assert_eq!(response.text, "{\"title\":\"x\"}");
    assert_eq!((response.usage.tokens_in, response.usage.tokens_out, response.truncated), (1234, 56, false));
    let asked = &endpoint.asked()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(asked.body["response_format"]["json_schema"]["name"], "record");
    assert_eq!(asked.body["messages"][0]["content"], request().system);
}

#[test]
fn an_endpoint_without_schema_support_gets_plain_json_requests() {
    let endpoint = Endpoint::start(|asked| {
        let refused = |what: &str| Reply::error(400, "invalid_request_error", what);
        if asked.body.get("max_tokens").is_some() {
            refused("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        } else if asked.body.get("response_format").is_some() {
            refused("response_format is not supported")
        } else {
            Reply::chat("{}", "length")
        }
    });
    let llm = provider_of(Provider::Openai, &endpoint);
    assert!(ask(&llm).unwrap().truncated);
    assert!(ask(&llm).is_ok());
    let asked = endpoint.asked();
    assert_eq!(asked.len(), 4);
    let system = asked[3].body["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.contains("one JSON object") && system.contains("\"title\""), "{system}");
}

#[test]
fn answers_of_all_kinds_of_endpoints_are_parsed() {
    let chat = |message: serde_json::Value| Reply::json(200, &json!({ "choices": [{ "message": message }] }));
    let parts = json!([{ "type": "text", "text": "{\"a\":" }, { "type": "text", "text": "1}" }]);
    let call = json!({ "content": null, "tool_calls": [{ "function": { "arguments": "{\"a\":1}" } }] });
    let table = [
        (chat(json!({ "content": parts })), "{\"a\":1}"),
        (chat(call), "{\"a\":1}"),
        (chat(json!({ "content": "", "refusal": "I cannot." })), "I cannot."),
        (chat(json!({ "content": null })), ""),
        (Reply::text(200, "text/plain", r#"{"choices":[{"message":{"content":"ok"}}]}"#), "ok"),
    ];
    for (reply, text) in table {
        let response = ask(&provider_of(Provider::Openai, &Endpoint::always(reply))).unwrap();
        assert_eq!(response.text, text);
        assert!(response.usage.tokens_in > 1000, "what is not stated is estimated, and high");
    }
}

#[test]
fn a_local_endpoint_needs_no_key() {
    let endpoint = Endpoint::always(Reply::chat("{}", "stop"));
    let scratch = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.compress.provider = Provider::Openai;
    config.openai.base_url = format!("{}/v1", endpoint.url());
    config.openai.model = "qwen3:8b".into();
    let home = Home::at(scratch.path());
    let Choice::Llm(llm) = choose(&config, &home, &Environment::default(), Path::new("claude-mem")) else {
        panic!("a model at an address can be asked");
    };
    let response = ask(&llm).unwrap();
    assert_eq!(endpoint.asked()[0].header("authorization"), None);
    assert_eq!(llm.cost(&config.prices, &response.usage), 0.0, "what runs on this machine costs nothing");
    assert_eq!(llm.cost_at_most(&config.prices, &request()), 0.0);
}

#[test]
fn a_call_never_costs_more_than_its_estimate() {
    let config = Config::default();
    let endpoint = Endpoint::always(Reply::tool_call(&json!({})));
    let llm = provider_of(Provider::Anthropic, &endpoint);
    let mut long = request();
    long.prompt =
        Redacted::of_program(Box::leak("fn main() { let x = 1; } 中文字".repeat(1000).into_boxed_str()));
    // At 3 characters per token, and one token per Chinese character: an upper bound.
    let tokens_in = (24 * 1000 / 3 + 3 * 1000) as f64;
    let dearest = (tokens_in * 0.1 + 700.0 * 0.5) / 1e6;
    assert!(llm.cost_at_most(&config.prices, &long) > dearest);
}

#[test]
fn the_proxy_is_used_for_remote_endpoints_only() {
    let proxy = Endpoint::always(Reply::tool_call(&json!({ "title": "by proxy" })));
    let scratch = tempfile::tempdir().unwrap();
    let mut environment = Environment::default();
    environment.outgoing.anthropic_key = Secret::new(KEY);
    environment.outgoing.proxies.http = Secret::new(proxy.url());
    environment.outgoing.proxies.none_for = Some("spared.invalid".into());
    let llm = |base_url: &str| {
        let mut config = Config::default();
        config.anthropic.base_url = base_url.into();
        match choose(&config, &Home::at(scratch.path()), &environment, Path::new("claude-mem")) {
            Choice::Llm(llm) => llm,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(ask(&llm("http://api.invalid")).unwrap().text, r#"{"title":"by proxy"}"#);
    assert_eq!(proxy.asked()[0].path, "http://api.invalid/v1/messages");
    assert!(ask(&llm("http://spared.invalid")).is_err(), "no such host, and no proxy for it");
    let here = Endpoint::always(Reply::tool_call(&json!({ "title": "direct" })));
    assert_eq!(ask(&llm(here.url())).unwrap().text, r#"{"title":"direct"}"#);
    assert_eq!(proxy.asked().len(), 1);
}

/// A server for localhost with the certificate in fixtures/tls.
#[cfg(target_os = "linux")]
fn secure_endpoint() -> String {
    use std::io::{Read, Write};
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let certificate =
        CertificateDer::from_pem_slice(include_bytes!("../../fixtures/tls/localhost.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../../fixtures/tls/localhost.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut secure = rustls::Stream::new(&mut session, &mut stream);
            let body = r#"{"content":[{"type":"text","text":"in private"}]}"#;
            if secure.read(&mut [0; 16384]).is_ok() {
                let _ = write!(secure, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            }
        }
    });
    url
}

#[test]
#[ignore = "not a test: a process that another test starts with an environment of its own"]
fn a_caller_in_a_process_of_its_own() {
    let environment = Environment::capture();
    let home = Home::locate(environment.mem_home.clone(), None).unwrap();
    let config = Config::load(&home.config(), &environment).unwrap();
    let Choice::Llm(llm) = choose(&config, &home, &environment, Path::new("claude-mem")) else {
        panic!("no key")
    };
    let answer = ask(&llm).map_or_else(|failure| failure.to_string(), |response| response.text);
    std::fs::write(home.dir().join("answer"), answer).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn a_certificate_must_be_trusted_by_the_platform() {
    let url = secure_endpoint();
    let scratch = tempfile::tempdir().unwrap();
    let authority = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/authority.pem"));
    let answer = |variables: &[(&str, &Path)]| {
        let mut caller = std::process::Command::new(std::env::current_exe().unwrap());
        caller.args(["--exact", "llm::http::a_caller_in_a_process_of_its_own", "--ignored"]).env_clear();
        caller
            .env("CLAUDE_MEM_HOME", scratch.path())
            .env("ANTHROPIC_API_KEY", KEY)
            .env("ANTHROPIC_BASE_URL", &url);
        assert!(caller.envs(variables.iter().copied()).output().unwrap().status.success());
        std::fs::read_to_string(scratch.path().join("answer")).unwrap()
    };
    let refused = answer(&[]);
    assert!(refused.contains("cannot be reached") && refused.contains("certificate"), "{refused}");
    assert_eq!(answer(&[("SSL_CERT_FILE", authority)]), "in private");
}
