//! Long output on a terminal goes through the user's pager, as with git.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

use crate::config::Environment;

/// A running pager.
#[derive(Debug)]
pub struct Pager(Child);

impl Pager {
    /// Starts the pager if a person reads the output. Without `PAGER` that is `less`, which shows less than a screen at once
    /// and ends.
    pub fn start() -> Option<Self> {
        if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return None;
        }
        let program = Environment::pager()?;
        let mut command = Command::new("sh");
        command.args(["-c", &program]).stdin(Stdio::piped());
        // Quit if it fits, keep colours, leave the text on the screen.
        if !Environment::has_less_options() {
            command.env("LESS", "FRX");
        }
        command.spawn().ok().map(Self)
    }

    /// Writes to it. An error means that the reader has quit.
    pub fn write_fmt(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        match &mut self.0.stdin {
            Some(stdin) => stdin.write_fmt(text),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Waits until the reader quits.
    pub fn finish(mut self) -> io::Result<()> {
        drop(self.0.stdin.take());
        self.0.wait().map(drop)
    }
}
