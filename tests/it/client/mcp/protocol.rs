//! The protocol: versions, discovery, odd input, cancellation, the end.

use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::harness::mcp_client::Client;
use crate::harness::sandbox::Sandbox;

#[test]
fn every_protocol_version_with_a_handshake_works() {
    let sandbox = Sandbox::new();
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut client = Client::start(sandbox.mcp_command());
        let result = client.initialize(asked, json!({}))["result"].clone();
        assert_eq!(result["protocolVersion"], agreed, "{asked}");
        assert_eq!(result["serverInfo"]["name"], "claude-mem");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["capabilities"]["tools"].is_object(), "{result}");
        let tools = client.ask("tools/list", json!({}))["result"]["tools"].clone();
        let names: Vec<&str> =
            tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["search", "timeline", "get", "recent", "save", "correct", "forget"]);
        assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
        assert!(client.end().is_empty());
    }
}

/// Claude Code first probes for a newer protocol; without an answer it would wait three seconds at every start.
#[test]
fn discovery_is_refused_at_once_and_the_client_continues() {
    let sandbox = Sandbox::new();
    let mut client = Client::start(sandbox.mcp_command());
    let probe = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                                 "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.325"},
                                 "io.modelcontextprotocol/clientCapabilities": {}}});
    assert_eq!(client.ask("server/discover", probe.clone())["error"]["code"], -32601);
    assert_eq!(client.initialize("2025-11-25", json!({}))["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(client.ask("server/discover", probe)["error"]["code"], -32601);
    assert!(client.ask("tools/list", json!({}))["result"]["tools"].is_array());
}

#[test]
fn nothing_before_the_handshake_ends_the_server() {
    let sandbox = Sandbox::new();
    let mut client = Client::start(sandbox.mcp_command());
    client.send_raw(b"\n\r\nnot json\n");
    assert_eq!(client.next().unwrap()["error"]["code"], -32700);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    assert_eq!(client.ask("tools/list", json!({}))["error"]["code"], -32600);
    assert_eq!(client.ask("initialize", json!({"protocolVersion": 7}))["error"]["code"], -32602);
    assert_eq!(client.initialize("2025-06-18", json!({}))["result"]["protocolVersion"], "2025-06-18");
    assert!(client.end().is_empty());
}

#[test]
fn nothing_after_the_handshake_ends_the_server() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.mcp();
    let deep = format!("{}{}\n", "[".repeat(10_000), "]".repeat(10_000));
    for (line, code) in [
        (&b"{\"jsonrpc\":\"2.0\",\n"[..], -32700),
        (b"\xff\xfe\x00binary\n", -32700),
        (deep.as_bytes(), -32700),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n", -32600),
        (b"\"text\"\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1}\n", -32600),
        (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}\n", -32600),
    ] {
        client.send_raw(line);
        let answer = client.next().unwrap();
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    for notification in [
        json!({"jsonrpc": "2.0", "method": "notifications/made-up", "params": {"x": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4711}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": "odd"}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "recent"}}),
        json!({"jsonrpc": "2.0", "id": 4712, "result": {"not": "asked for"}}),
    ] {
        client.send(&notification);
    }
    assert_eq!(client.ask("no/such", json!({}))["error"]["code"], -32601);
    assert_eq!(
        client.ask("tools/call", json!({"name": "no_such", "arguments": {}}))["error"]["code"],
        -32602
    );
    let odd = client.ask("tools/call", json!({"name": "search", "arguments": "query"}));
    assert_eq!(odd["result"]["isError"], true, "{odd}");
    // A string id comes back as a string.
    client.send(&json!({"jsonrpc": "2.0", "id": "abc", "method": "ping"}));
    assert_eq!(client.answer_to(&json!("abc"))["result"], json!({}));
    assert_eq!(client.unexpected, Vec::<Value>::new(), "no unrequested messages");
    assert!(client.end().is_empty());
}

#[test]
fn large_arguments_are_read_and_an_endless_line_is_refused() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.mcp();
    client.call_ok("save", json!({"text": "The harbour opens at dawn"}));
    let long = "harbour words ".repeat(75_000);
    assert!(client.call_ok("search", json!({"query": long})).contains("harbour"));
    assert!(client.refused("save", json!({"text": long})).contains("20000"));
    let ids: Vec<String> = (1..150_000).map(|id| id.to_string()).collect();
    let got = client.call_ok("get", json!({ "ids": ids }));
    assert!(got.contains("The harbour opens at dawn") && got.len() < 80_000, "{}", got.len());
    assert!(client.refused("get", json!({"ids": vec!["x"; 200_000]})).contains("is not an id"));
    let mut endless = vec![b'x'; 17 << 20];
    endless.push(b'\n');
    client.send_raw(&endless);
    assert_eq!(client.next().unwrap()["error"]["code"], -32600);
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
}

/// A cancelled call gets no answer and blocks nothing.
#[test]
fn a_cancelled_call_is_dropped() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.mcp();
    client.call_ok("save", json!({"text": "The harbour opens at dawn"}));
    // A worker that takes a call and never answers.
    let hanging = UnixListener::bind(sandbox.socket()).unwrap();
    let call = json!({"name": "search", "arguments": {"query": "harbour"}});
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}));
    let taken = hanging.accept().unwrap();
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": 5, "reason": "changed my mind"}}));
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    drop((taken, hanging));
    assert!(client.call_ok("search", json!({"query": "harbour"})).contains("dawn"));
    assert!(client.unexpected.is_empty(), "{:?}", client.unexpected);
    assert!(client.end().is_empty());
}

#[test]
fn requests_before_end_of_input_are_answered() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.mcp();
    let call = json!({"name": "save", "arguments": {"text": "Said in the last moment"}});
    client.send(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call}));
    let rest = client.end();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert!(rest[0]["result"]["content"][0]["text"].as_str().unwrap().starts_with("Saved as 1"), "{rest:?}");
    assert_eq!(sandbox.get::<i64>("SELECT count(*) FROM observations"), 1);
}

#[test]
fn a_silent_client_is_not_waited_for() {
    let sandbox = Sandbox::new();
    assert!(Client::start(sandbox.mcp_command()).end().is_empty());
}
