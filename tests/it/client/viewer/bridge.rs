//! The real `claude-mem open`, and a client for its port that can also misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::harness::sandbox::{Sandbox, program};
use crate::harness::wait::{PATIENCE, wait_for_exit};

/// A bridge that runs until it is dropped.
pub struct Bridge {
    child: Child,
    address: String,
    printed: String,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The command, without a browser.
pub fn open(sandbox: &Sandbox, environment: &[(&str, &str)]) -> Command {
    let mut command = sandbox.command(program("claude-mem"));
    command.args(["open", "--no-browser"]).envs(environment.iter().copied()).stdin(Stdio::null());
    command
}

/// The address in its output.
pub fn address(printed: &str) -> Option<String> {
    printed.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
}

impl Bridge {
    pub fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, &[])
    }

    pub fn start_with(sandbox: &Sandbox, environment: &[(&str, &str)]) -> Self {
        Self::spawn(open(sandbox, environment))
    }

    /// With a browser that does nothing.
    pub fn start_with_browser(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(program("claude-mem"));
        std::os::unix::fs::symlink("/bin/true", sandbox.path().join("xdg-open")).unwrap();
        command.arg("open").env("PATH", sandbox.path()).stdin(Stdio::null());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut printed = String::new();
        let is_over_ssh = command.get_envs().any(|(name, _)| name == "SSH_CONNECTION");
        let wanted = if is_over_ssh { "ssh -N" } else { "http://" };
        while !printed.contains(wanted) {
            printed += &format!("{}\n", lines.next().expect("it ended without an address").unwrap());
        }
        let address = address(&printed).unwrap();
        Self { child, address, printed }
    }

    pub fn printed(&self) -> &str {
        &self.printed
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Host and port.
    pub fn host(&self) -> &str {
        self.address.split('/').nth(2).unwrap()
    }

    pub fn port(&self) -> u16 {
        self.host().rsplit(':').next().unwrap().parse().unwrap()
    }

    pub fn entry_path(&self) -> String {
        format!("/enter/{}", self.address.rsplit('/').next().unwrap())
    }

    /// Uses the address up, and returns the cookie.
    pub fn enter(&self) -> String {
        let entered = self.get(&self.entry_path(), &[]);
        entered.header("set-cookie").expect("a cookie").split(';').next().unwrap().to_owned()
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send_to_host("GET", path, headers, "")
    }

    pub fn send_to_host(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.send(method, path, &[&[("host", self.host())], headers].concat(), body)
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        let reply = self.raw(format!("{head}\r\n{body}").as_bytes());
        let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
        let mut lines = head.lines();
        let status =
            lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        Reply { status: status.unwrap_or_default(), headers: headers.collect(), body: body.to_owned() }
    }

    /// Sends bytes and returns everything that comes back.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Opens a stream and waits for its first bytes.
    pub fn hold(&self, path: &str, cookie: &str) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\n\r\n", self.host()).unwrap();
        let mut seen = Vec::new();
        let mut bytes = [0; 4096];
        while !seen.windows(4).any(|window| window == b"open") {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "closed");
            seen.extend_from_slice(&bytes[..count]);
        }
        stream
    }

    /// The messages of a feed.
    pub fn feed(&self, path: &str, cookie: &str) -> impl Iterator<Item = serde_json::Value> {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\n\r\n", self.host()).unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn wait(&mut self) -> ExitStatus {
        wait_for_exit(&mut self.child)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
