//! How far something has come, for a person who watches and after a second of waiting.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::lines::columns;

/// Nobody needs to be told of less.
const SHORT: Duration = Duration::from_secs(1);

/// Told so often.
const PAUSE: Duration = Duration::from_millis(100);

/// A line on the terminal that is written again and again, and is gone when the work is done. Written by a thread of its own,
/// because the work may be one long statement, or wait for somebody else's.
#[derive(Debug)]
pub struct Progress {
    far: Arc<Far>,
    teller: Option<(Sender<()>, JoinHandle<()>)>,
}

/// How far it has come; a total of zero is not known.
#[derive(Debug, Default)]
struct Far {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Of some work that begins now.
    pub fn new(label: &'static str) -> Self {
        let far = Arc::new(Far::default());
        if !io::stderr().is_terminal() {
            return Self { far, teller: None };
        }
        let (stop, stopped) = mpsc::channel();
        let told = far.clone();
        let teller = std::thread::spawn(move || {
            let began = Instant::now();
            let mut pause = SHORT;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = PAUSE;
                eprint!("\r{}\u{1b}[K", told.line(label, began.elapsed(), columns(io::stderr())));
                let _ = io::stderr().flush();
            }
            if pause == PAUSE {
                eprint!("\r\u{1b}[K");
            }
        });
        Self { far, teller: Some((stop, teller)) }
    }

    /// So much is done of so much; a total of zero is not known.
    pub fn tell(&self, done: u64, total: u64) {
        self.far.done.store(done, Ordering::Relaxed);
        self.far.total.store(total, Ordering::Relaxed);
    }
}

impl Far {
    fn line(&self, label: &str, elapsed: Duration, columns: usize) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        match (done, total) {
            (0, _) => format!("{label} … {} s", elapsed.as_secs()),
            (_, 0) => format!("{label} {done} …"),
            _ => {
                // One column stays free: some terminals begin a new line after the last.
                let room = columns.saturating_sub(label.len() + 8).clamp(4, 24);
                format!("{label} {} {:>3} %", bar(done, total, room), (done.min(total)) * 100 / total)
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, teller)) = self.teller.take() {
            drop(stop);
            let _ = teller.join();
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
    fn a_line_of_progress_fits_a_narrow_terminal() {
        let far = Far::default();
        assert_eq!(far.line("importing", Duration::from_secs(3), 40), "importing … 3 s");
        far.done.store(50, Ordering::Relaxed);
        assert_eq!(far.line("importing", Duration::from_secs(3), 40), "importing 50 …");
        far.total.store(100, Ordering::Relaxed);
        let line = far.line("importing", Duration::from_secs(3), 40);
        assert!(line.ends_with(" 50 %") && line.chars().count() < 40, "{line}");
    }

    #[test]
    fn a_bar_has_its_width_and_something_is_never_nothing() {
        assert_eq!(bar(0, 10, 4), "    ");
        assert_eq!(bar(5, 10, 4), "██  ");
        assert_eq!(bar(1, 1000, 4), "▏   ");
        assert_eq!(bar(20, 10, 4), "████");
        assert_eq!(bar(3, 0, 4), "▏   ");
    }
}
