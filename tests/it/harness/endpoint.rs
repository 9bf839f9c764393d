//! A model's HTTP endpoint: the one fake in these tests, and a real server.
//!
//! It speaks HTTP/1.1 on a port of 127.0.0.1, records requests, and answers by script, with faults of all kinds. Every reply
//! may repeat the caller's key (`{key}` in a body), as careless servers do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// A recorded request.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn key(&self) -> &str {
        let bearer = self.header("authorization").map(|value| value.trim_start_matches("Bearer "));
        self.header("x-api-key").or(bearer).unwrap_or_default()
    }
}

/// A scripted reply.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A status, headers, and a body.
    Http { status: u16, headers: Vec<(String, String)>, body: String },
    /// The first part of a good answer, then a reset.
    ResetMidBody,
    /// The first part of a good answer, then the end of the connection.
    EndMidBody,
    /// Nothing, for as long as the caller waits.
    Hang,
    /// A good answer, a byte at a time, for as long as the caller waits.
    Drip,
}

impl Reply {
    /// JSON with a status.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", &body.to_string())
    }

    /// Text of a type with a status.
    pub fn text(status: u16, content_type: &str, body: &str) -> Self {
        let headers = vec![("content-type".into(), content_type.into())];
        Self::Http { status, headers, body: body.into() }
    }

    /// An error as Anthropic's API has it.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::json(status, &json!({ "type": "error", "error": { "type": kind, "message": message } }))
    }

    /// The same with an additional header.
    pub fn with_header(self, name: &str, value: &str) -> Self {
        match self {
            Self::Http { status, mut headers, body } => {
                headers.push((name.into(), value.into()));
                Self::Http { status, headers, body }
            }
            other => other,
        }
    }

    /// Anthropic's answer: a call of the tool with this input.
    pub fn tool_call(input: &Value) -> Self {
        Self::anthropic(
            &json!([{ "type": "tool_use", "id": "toolu_1", "name": "record", "input": input }]),
            "tool_use",
        )
    }

    /// Anthropic's answer with these blocks.
    pub fn anthropic(blocks: &Value, stop_reason: &str) -> Self {
        let usage = json!({
            "input_tokens": 1200, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 4, "output_tokens": 56,
        });
        Self::json(
            200,
            &json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5-20251001",
                "content": blocks, "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
            }),
        )
    }

    /// An OpenAI-compatible answer with this content.
    pub fn chat(content: &str, finish_reason: &str) -> Self {
        let message = json!({ "role": "assistant", "content": content });
        Self::json(
            200,
            &json!({
                "id": "chatcmpl-1", "object": "chat.completion", "model": "some-model",
                "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
                "usage": { "prompt_tokens": 1234, "completion_tokens": 56, "total_tokens": 1290 },
            }),
        )
    }
}

type Script = dyn Fn(&Asked) -> Reply + Send + Sync;

/// The server. Its threads end with the test.
pub struct Endpoint {
    address: String,
    script: Arc<Mutex<Arc<Script>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Endpoint {
    /// A server that answers by a script.
    pub fn start(script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let script: Arc<Mutex<Arc<Script>>> = Arc::new(Mutex::new(Arc::new(script)));
        let endpoint = Self { address, script: Arc::clone(&script), asked: Arc::default() };
        let asked = Arc::clone(&endpoint.asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (script, asked) = (Arc::clone(&script), Arc::clone(&asked));
                thread::spawn(move || serve(stream, &script, &asked));
            }
        });
        endpoint
    }

    /// A server with one constant answer.
    pub fn always(reply: Reply) -> Self {
        Self::start(move |_| reply.clone())
    }

    /// An address on which nothing listens.
    pub fn refused() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    }

    /// Its address, without a path.
    pub fn url(&self) -> &str {
        &self.address
    }

    /// Answers by another script from now on.
    pub fn set_script(&self, script: impl Fn(&Asked) -> Reply + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// Clears the recorded requests.
    #[allow(dead_code, reason = "for those who ask for hours")]
    pub fn forget_asked(&self) {
        self.asked.lock().unwrap().clear();
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, script: &Mutex<Arc<Script>>, all: &Mutex<Vec<Asked>>) {
    // Head and body are two writes: without this the second waits 40 ms for the other side's acknowledgement.
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(asked) = read_request(&mut reader) {
        let script = Arc::clone(&script.lock().unwrap());
        let reply = script(&asked);
        let key = asked.key().to_owned();
        all.lock().unwrap().push(asked);
        if answer(&stream, reply, &key).is_none() {
            break;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { path, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

/// Sends the reply; `None` if the connection cannot be used again.
fn answer(mut stream: &TcpStream, reply: Reply, key: &str) -> Option<()> {
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n\r\n{\"content\":[{\"type\":";
    match reply {
        Reply::Http { status, headers, body } => {
            let body = body.replace("{key}", key);
            let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("HTTP/1.1 {status} Status\r\n{lines}content-length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).ok()?;
            stream.write_all(body.as_bytes()).ok()
        }
        Reply::ResetMidBody => {
            stream.write_all(half.as_bytes()).ok()?;
            rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
            None
        }
        Reply::EndMidBody => {
            stream.write_all(half.as_bytes()).ok()?;
            stream.shutdown(Shutdown::Both).ok();
            None
        }
        Reply::Hang => {
            // Returns when the caller goes away.
            let _ = stream.read(&mut [0]);
            None
        }
        Reply::Drip => {
            stream.write_all(half.as_bytes()).ok()?;
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
            None
        }
    }
}
