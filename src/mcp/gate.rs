//! The door between stdio and the protocol's library: a line in, a message out.
//!
//! It takes care of what the library does not. It would keep silent about a line that is no JSON or is too long, so that a
//! client waits; it would end on a notification that comes before `initialize`; and it would answer `server/discover`,
//! which Claude Code takes for an invitation to a protocol that needs more than this server has.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::sync::{Mutex, mpsc};

/// A longer line is not a message.
const MOST_LINE_BYTES: usize = 16 << 20;
/// So many messages wait before the client must.
const WAITING: usize = 64;

/// A transport for the library.
#[derive(Debug)]
pub struct Gate<W> {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    output: Arc<Mutex<W>>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Gate<W> {
    /// Begins to read.
    pub fn open<R: AsyncRead + Send + Unpin + 'static>(input: R, output: W) -> Self {
        let (sender, messages) = mpsc::channel(WAITING);
        let output = Arc::new(Mutex::new(output));
        let answers = output.clone();
        tokio::spawn(async move {
            // Input that cannot be read has ended.
            let _ = read(BufReader::new(input), &sender, &answers).await;
        });
        Self { messages, output }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Gate<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        async move { write(&output, &message).await }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.flush().await
    }
}

async fn read<W: AsyncWrite + Unpin>(
    mut input: impl AsyncBufRead + Unpin,
    messages: &mpsc::Sender<ClientJsonRpcMessage>,
    output: &Mutex<W>,
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut judge = Judge::default();
    while let Some(is_whole) = next_line(&mut input, &mut line).await? {
        let verdict = if is_whole { judge.judge(&line) } else { too_long() };
        match verdict {
            Verdict::Pass(message) => {
                if messages.send(*message).await.is_err() {
                    break;
                }
            }
            Verdict::Answer(error, id) => write(output, &JsonRpcMessage::error(error, id)).await?,
            Verdict::Ignore => {}
        }
    }
    Ok(())
}

/// Reads a line. False if it was too long and is gone; nothing at the end.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let read = (&mut *input).take(MOST_LINE_BYTES as u64).read_until(b'\n', line).await?;
    if read == 0 {
        return Ok(None);
    }
    if read < MOST_LINE_BYTES || line.ends_with(b"\n") {
        return Ok(Some(true));
    }
    // Give the memory back, too.
    *line = Vec::new();
    loop {
        let part = input.fill_buf().await?;
        let end = memchr::memchr(b'\n', part);
        let consumed = end.map_or(part.len(), |end| end + 1);
        let is_over = end.is_some() || part.is_empty();
        input.consume(consumed);
        if is_over {
            return Ok(Some(false));
        }
    }
}

async fn write<W: AsyncWrite + Unpin>(output: &Mutex<W>, message: &ServerJsonRpcMessage) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}

/// What is to be done with a line.
#[derive(Debug)]
enum Verdict {
    /// It is a message for the library.
    Pass(Box<ClientJsonRpcMessage>),
    /// It is answered here.
    Answer(ErrorData, Option<RequestId>),
    /// Nobody waits for an answer.
    Ignore,
}

fn too_long() -> Verdict {
    let message = format!("a message may have {MOST_LINE_BYTES} bytes at most");
    Verdict::Answer(ErrorData::invalid_request(message, None), None)
}

/// Knows how far the conversation is.
#[derive(Debug, Default)]
struct Judge {
    has_begun: bool,
}

impl Judge {
    fn judge(&mut self, line: &[u8]) -> Verdict {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Verdict::Ignore;
        }
        let value: Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(error) => {
                return Verdict::Answer(
                    ErrorData::parse_error(format!("this is no JSON: {error}"), None),
                    None,
                );
            }
        };
        let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
        let method = value.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        let refused =
            |code, message: &str| Verdict::Answer(ErrorData::new(code, message.to_owned(), None), id.clone());
        if !value.is_object() || (method.is_empty() && !is_response(&value)) {
            return refused(
                ErrorCode::INVALID_REQUEST,
                "a message is one JSON-RPC request, notification or response",
            );
        }
        let is_request = !method.is_empty() && value.get("id").is_some();
        if !is_request {
            let message = if self.has_begun { serde_json::from_value(value).ok() } else { None };
            return message.map_or(Verdict::Ignore, Verdict::Pass);
        }
        if method == "server/discover" {
            return refused(ErrorCode::METHOD_NOT_FOUND, "server/discover is not supported: send initialize");
        }
        if !self.has_begun && !matches!(method.as_str(), "initialize" | "ping") {
            return refused(ErrorCode::INVALID_REQUEST, "the first request is initialize");
        }
        let message = match serde_json::from_value(value) {
            Ok(message) => message,
            Err(error) => return refused(ErrorCode::INVALID_REQUEST, &error.to_string()),
        };
        if method == "initialize" {
            if !is_initialize(&message) {
                let advice = "initialize needs protocolVersion, capabilities and clientInfo";
                return refused(ErrorCode::INVALID_PARAMS, advice);
            }
            self.has_begun = true;
        }
        Verdict::Pass(Box::new(message))
    }
}

fn is_response(value: &Value) -> bool {
    value.get("id").is_some() && (value.get("result").is_some() || value.get("error").is_some())
}

/// The library takes a request whose parameters it does not understand for one of another kind.
fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

    fn code(verdict: &Verdict) -> i32 {
        match verdict {
            Verdict::Answer(error, _) => error.code.0,
            Verdict::Pass(_) => 1,
            Verdict::Ignore => 0,
        }
    }

    #[test]
    fn whatever_comes_before_the_beginning_does_not_end_it() {
        let mut judge = Judge::default();
        for (line, expected) in [
            ("", 0),
            ("not json", -32700),
            ("\u{feff}{", -32700),
            ("[]", -32600),
            ("7", -32600),
            ("{}", -32600),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 0),
            (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, 0),
            (r#"{"jsonrpc":"2.0","id":4,"method":"tools/list"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":5,"method":"server/discover","params":{}}"#, -32601),
            (r#"{"jsonrpc":"2.0","id":6,"method":"ping"}"#, 1),
            (r#"{"jsonrpc":"2.0","id":7,"method":"initialize"}"#, -32602),
            (r#"{"jsonrpc":"2.0","id":8,"method":"initialize","params":{"protocolVersion":7}}"#, -32602),
            (INITIALIZE, 1),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, 1),
            (r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#, 1),
            (r#"{"id":10,"method":"tools/list"}"#, -32600),
        ] {
            let verdict = judge.judge(line.replace('\n', "").as_bytes());
            assert_eq!(code(&verdict), expected, "{line}: {verdict:?}");
        }
    }

    #[test]
    fn a_refusal_goes_to_the_request_that_it_refuses() {
        let verdict = Judge::default().judge(br#"{"jsonrpc":"2.0","id":"a","method":"server/discover"}"#);
        assert!(matches!(verdict, Verdict::Answer(_, Some(RequestId::String(id))) if &*id == "a"));
    }

    #[tokio::test]
    async fn a_line_without_end_costs_no_memory_and_is_refused() {
        let mut long = vec![b'x'; MOST_LINE_BYTES + 5];
        long.extend_from_slice(b"\nnext\nlast");
        let mut input = BufReader::new(&long[..]);
        let mut line = Vec::new();
        assert_eq!(next_line(&mut input, &mut line).await.unwrap(), Some(false));
        assert!(line.capacity() == 0);
        assert_eq!(next_line(&mut input, &mut line).await.unwrap(), Some(true));
        assert_eq!(line, b"next\n");
        assert_eq!(next_line(&mut input, &mut line).await.unwrap(), Some(true));
        assert_eq!(line, b"last");
        assert_eq!(next_line(&mut input, &mut line).await.unwrap(), None);
    }
}
