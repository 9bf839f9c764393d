//! A progress line for users on a terminal, shown after one second, and the confirmation prompt.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::wrap::columns;

/// Work shorter than this shows no progress.
const DELAY: Duration = Duration::from_secs(1);

/// Refresh interval.
const REFRESH: Duration = Duration::from_millis(100);

/// A line on the terminal that is redrawn until the work is done, then erased. Drawn by its own
/// thread, because the work may be one long statement or may wait for a lock.
#[derive(Debug)]
pub struct Progress {
    counts: Arc<Counts>,
    painter: Option<(Sender<()>, JoinHandle<()>)>,
}

/// The work done; a total of zero means unknown.
#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    total: AtomicU64,
    detail: Mutex<String>,
}

impl Progress {
    /// Starts a progress line for work that begins now.
    pub fn new(label: &'static str) -> Self {
        let counts = Arc::new(Counts::default());
        if !io::stderr().is_terminal() {
            return Self { counts, painter: None };
        }
        let (stop, stopped) = mpsc::channel();
        let drawn = counts.clone();
        let painter = std::thread::spawn(move || {
            let began = Instant::now();
            let mut pause = DELAY;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = REFRESH;
                eprint!("\r{}\u{1b}[K", drawn.line(label, began.elapsed(), columns(io::stderr())));
                let _ = io::stderr().flush();
            }
            if pause == REFRESH {
                eprint!("\r\u{1b}[K");
            }
        });
        Self { counts, painter: Some((stop, painter)) }
    }

    /// Sets the work done and the total; a total of zero means unknown.
    pub fn set(&self, done: u64, total: u64) {
        self.counts.done.store(done, Ordering::Relaxed);
        self.counts.total.store(total, Ordering::Relaxed);
    }

    /// Shows this behind the bar.
    pub fn detail(&self, detail: String) {
        *self.counts.detail.lock().unwrap_or_else(PoisonError::into_inner) = detail;
    }

    /// True if somebody watches.
    pub fn is_watched(&self) -> bool {
        self.painter.is_some()
    }
}

impl Counts {
    fn line(&self, label: &str, elapsed: Duration, columns: usize) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        match (done, total) {
            (0, _) => format!("{label} … {} s", elapsed.as_secs()),
            (_, 0) => format!("{label} {done} …"),
            _ => {
                // One column stays free: some terminals wrap after the last.
                let room = columns.saturating_sub(label.len() + 8).clamp(4, 24);
                let line =
                    format!("{label} {} {:>3} %", bar(done, total, room), (done.min(total)) * 100 / total);
                let detail = self.detail.lock().unwrap_or_else(PoisonError::into_inner);
                let left = columns.saturating_sub(line.chars().count() + 2);
                if detail.is_empty() {
                    line
                } else {
                    line + " " + &detail.chars().take(left).collect::<String>()
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, painter)) = self.painter.take() {
            drop(stop);
            let _ = painter.join();
        }
    }
}

/// Returns a bar of up to `width` characters, with a resolution of an eighth of a character.
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

/// Asks for confirmation. Without a terminal, `yes` must be set.
pub fn is_agreed(question: &str, yes: bool) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        anyhow::bail!("can't prompt (no terminal); pass --yes to confirm");
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
    fn progress_line_fits_a_narrow_terminal() {
        let counts = Counts::default();
        assert_eq!(counts.line("importing", Duration::from_secs(3), 40), "importing … 3 s");
        counts.done.store(50, Ordering::Relaxed);
        assert_eq!(counts.line("importing", Duration::from_secs(3), 40), "importing 50 …");
        counts.total.store(100, Ordering::Relaxed);
        let line = counts.line("importing", Duration::from_secs(3), 40);
        assert!(line.ends_with(" 50 %") && line.chars().count() < 40, "{line}");
    }

    #[test]
    fn bar_has_its_width_and_is_never_empty_for_a_part() {
        assert_eq!(bar(0, 10, 4), "    ");
        assert_eq!(bar(5, 10, 4), "██  ");
        assert_eq!(bar(1, 1000, 4), "▏   ");
        assert_eq!(bar(20, 10, 4), "████");
        assert_eq!(bar(3, 0, 4), "▏   ");
    }
}
