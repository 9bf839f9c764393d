//! Signals as messages.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The request that a signal stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, SIGINT.
    Stop,
    /// SIGHUP.
    Reload,
}

/// Starts to listen. A separate thread forwards the signals.
pub fn signals() -> std::io::Result<UnboundedReceiver<Signal>> {
    let mut received = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let (sender, receiver) = unbounded_channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for number in received.forever() {
            let signal = if number == SIGHUP { Signal::Reload } else { Signal::Stop };
            if sender.send(signal).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}
