//! The transport between stdio and the MCP library: one message per line.
//!
//! Handles what the library does not. The library would not respond to a line that is too long or
//! not JSON, so that a client waits; it would exit on a notification before `initialize`; and it
//! would answer `server/discover`, which makes Claude Code use a protocol version that this server
//! does not fully support.

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

/// Maximum length of a message.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Messages to buffer before the client has to wait.
const MAX_BUFFERED: usize = 64;

/// A transport for the library.
#[derive(Debug)]
pub struct LenientTransport<W> {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    output: Arc<Mutex<W>>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> LenientTransport<W> {
    /// Starts reading.
    pub fn open<R: AsyncRead + Send + Unpin + 'static>(input: R, output: W) -> Self {
        let (sender, messages) = mpsc::channel(MAX_BUFFERED);
        let output = Arc::new(Mutex::new(output));
        let answers = output.clone();
        tokio::spawn(async move {
            // A read error counts as end of input.
            let _ = read(BufReader::new(input), &sender, &answers).await;
        });
        Self { messages, output }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for LenientTransport<W> {
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
    let mut classifier = Classifier::default();
    while let Some(is_whole) = next_line(&mut input, &mut line).await? {
        let verdict = if is_whole { classifier.classify(&line) } else { too_long() };
        match verdict {
            LineAction::Pass(message) => {
                if messages.send(*message).await.is_err() {
                    break;
                }
            }
            LineAction::Answer(error, id) => write(output, &JsonRpcMessage::error(error, id)).await?,
            LineAction::Ignore => {}
        }
    }
    Ok(())
}

/// Reads a line. Returns false for a line that was too long and has been skipped; none at the end
/// of input.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let read = (&mut *input).take(MAX_LINE_BYTES as u64).read_until(b'\n', line).await?;
    if read == 0 {
        return Ok(None);
    }
    if read < MAX_LINE_BYTES || line.ends_with(b"\n") {
        return Ok(Some(true));
    }
    // Free the buffer as well.
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

/// The action for a line.
#[derive(Debug)]
enum LineAction {
    /// Pass the message to the library.
    Pass(Box<ClientJsonRpcMessage>),
    /// Answer it here.
    Answer(ErrorData, Option<RequestId>),
    /// Ignore it: the client expects no response.
    Ignore,
}

fn too_long() -> LineAction {
    let message = format!("message too long: the limit is {MAX_LINE_BYTES} bytes");
    LineAction::Answer(ErrorData::invalid_request(message, None), None)
}

/// Classifies lines; tracks if the session is initialized.
#[derive(Debug, Default)]
struct Classifier {
    is_initialized: bool,
}

impl Classifier {
    fn classify(&mut self, line: &[u8]) -> LineAction {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return LineAction::Ignore;
        }
        let value: Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(error) => {
                return LineAction::Answer(
                    ErrorData::parse_error(format!("not valid JSON: {error}"), None),
                    None,
                );
            }
        };
        let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
        let method = value.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        let refused = |code, message: &str| {
            LineAction::Answer(ErrorData::new(code, message.to_owned(), None), id.clone())
        };
        if !value.is_object() || (method.is_empty() && !is_response(&value)) {
            return refused(
                ErrorCode::INVALID_REQUEST,
                "a message must be one JSON-RPC request, notification or response",
            );
        }
        let is_request = !method.is_empty() && value.get("id").is_some();
        if !is_request {
            let message = if self.is_initialized { serde_json::from_value(value).ok() } else { None };
            return message.map_or(LineAction::Ignore, LineAction::Pass);
        }
        if method == "server/discover" {
            return refused(ErrorCode::METHOD_NOT_FOUND, "server/discover is not supported; send initialize");
        }
        if !self.is_initialized && !matches!(method.as_str(), "initialize" | "ping") {
            return refused(ErrorCode::INVALID_REQUEST, "the first request must be initialize");
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
            self.is_initialized = true;
        }
        LineAction::Pass(Box::new(message))
    }
}

fn is_response(value: &Value) -> bool {
    value.get("id").is_some() && (value.get("result").is_some() || value.get("error").is_some())
}

/// True if the message is a valid `initialize`: the library parses a request with invalid
/// parameters as another type.
fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::InitializeRequest(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
        "capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

    fn code(verdict: &LineAction) -> i32 {
        match verdict {
            LineAction::Answer(error, _) => error.code.0,
            LineAction::Pass(_) => 1,
            LineAction::Ignore => 0,
        }
    }

    #[test]
    fn invalid_lines_before_initialize_are_survived() {
        let mut classifier = Classifier::default();
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
            let verdict = classifier.classify(line.replace('\n', "").as_bytes());
            assert_eq!(code(&verdict), expected, "{line}: {verdict:?}");
        }
    }

    #[test]
    fn error_carries_the_id_of_its_request() {
        let verdict =
            Classifier::default().classify(br#"{"jsonrpc":"2.0","id":"a","method":"server/discover"}"#);
        assert!(matches!(verdict, LineAction::Answer(_, Some(RequestId::String(id))) if &*id == "a"));
    }

    #[tokio::test]
    async fn endless_line_is_refused_without_using_memory() {
        let mut long = vec![b'x'; MAX_LINE_BYTES + 5];
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
