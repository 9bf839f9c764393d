//! The socket by which a second `claude-mem open` gets an entry to the viewer that already runs.

use std::io::{self, Read};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

/// Time for a running viewer to respond.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of an address.
const MAX_ADDRESS: u64 = 1024;

/// Asks the viewer behind the socket for an entry. `None` if none runs.
pub fn ask(socket: &Path) -> Option<String> {
    let stream = BlockingStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let mut address = String::new();
    stream.take(MAX_ADDRESS).read_to_string(&mut address).ok()?;
    let address = address.trim();
    address.starts_with("http://").then(|| address.to_owned())
}

/// Binds the socket. A file that a killed viewer left is replaced; call [`ask`] first.
pub fn bind(socket: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(socket)
}

/// Hands an address to the next client, if it is our user's.
pub async fn answer(listener: &UnixListener, address: impl FnOnce() -> anyhow::Result<String>) {
    let Ok((mut stream, _)) = listener.accept().await else { return };
    let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
    if let (true, Ok(address)) = (is_ours, address()) {
        let _ = stream.write_all(format!("{address}\n").as_bytes()).await;
    }
}
