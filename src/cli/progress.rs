//! How far something has come, for a person who watches and after a second of waiting.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Nobody needs to be told of less.
const SHORT: Duration = Duration::from_secs(1);

/// Told at most this often.
const PAUSE: Duration = Duration::from_millis(100);

/// A line on the terminal that is written again and again, and is gone when the work is done.
#[derive(Debug)]
pub struct Progress {
    label: &'static str,
    began: Instant,
    told: Option<Instant>,
    is_watched: bool,
}

impl Progress {
    /// Of some work that begins now.
    pub fn new(label: &'static str) -> Self {
        Self { label, began: Instant::now(), told: None, is_watched: io::stderr().is_terminal() }
    }

    /// So much is done of so much; a total of zero is not known.
    pub fn tell(&mut self, done: u64, total: u64) {
        let is_time = self.told.is_none_or(|told| told.elapsed() >= PAUSE);
        if !self.is_watched || !is_time || self.began.elapsed() < SHORT {
            return;
        }
        self.told = Some(Instant::now());
        let line = match total {
            0 => format!("{} {done} …", self.label),
            _ => format!("{} {} {:>3} %", self.label, bar(done, total, 24), done * 100 / total),
        };
        eprint!("\r{line}\u{1b}[K");
        let _ = io::stderr().flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told.is_some() {
            eprint!("\r\u{1b}[K");
        }
    }
}

/// A bar of up to `width` characters, in eighths of them.
pub fn bar(part: u64, whole: u64, width: usize) -> String {
    const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    let eighths = match whole {
        0 => 0,
        _ => (part.min(whole) as f64 / whole as f64 * (width * 8) as f64).round() as usize,
    };
    let mut bar = "█".repeat(eighths / 8);
    if eighths % 8 > 0 {
        bar.push(EIGHTHS[eighths % 8 - 1]);
    } else if eighths == 0 && part > 0 {
        bar.push(EIGHTHS[0]);
    }
    let missing = width - bar.chars().count().min(width);
    bar + &" ".repeat(missing)
}

/// Asks a person. Where nobody can be asked, `yes` must have been said before.
pub fn is_agreed(question: &str, yes: bool) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        anyhow::bail!("nobody can be asked here: say --yes if you mean it");
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_width_and_something_is_never_nothing() {
        assert_eq!(bar(0, 10, 4), "    ");
        assert_eq!(bar(5, 10, 4), "██  ");
        assert_eq!(bar(1, 1000, 4), "▏   ");
        assert_eq!(bar(20, 10, 4), "████");
        assert_eq!(bar(3, 0, 4), "▏   ");
    }
}
