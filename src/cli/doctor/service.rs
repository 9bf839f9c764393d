//! Checks of the service: it runs, stays up, and keeps up with its queue.

use super::Doctor;
use super::finding::Finding;
use crate::cli::install::record::Manager;
use crate::cli::install::service_files::systemd;
use crate::cli::{client, run_command, service};
use crate::store::{self, overview};
use crate::text::age;
use crate::{clock, spool};

const OURS: &str = env!("CARGO_PKG_VERSION");

pub fn service(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "service";
    const WHY: &str = "events are recorded but not processed";
    let manager = service::manager(doctor.home, doctor.environment);
    let health = match client::health(doctor.home) {
        Ok(health) => health,
        Err(_) if doctor.may_fix => {
            return match service::start_quietly(doctor.home, doctor.environment, manager) {
                Ok(health) => {
                    Finding::fixed(NAME, format!("was stopped; started, {}", service::pid(&health)))
                }
                Err(error) => Finding::bad(NAME, format!("{error:#}"), WHY, "claude-mem logs"),
            };
        }
        Err(_) => {
            return Finding::bad(NAME, "not running", WHY, "claude-mem start, or claude-mem doctor --fix");
        }
    };
    if !health.is_ok() {
        let reason = health.reason.as_deref().unwrap_or("no reason given");
        return Finding::bad(
            NAME,
            format!("degraded: {reason}"),
            WHY,
            "fix the cause; see `claude-mem logs` for details",
        );
    }
    let version = health.version.as_deref().unwrap_or_default();
    if version != OURS {
        return Finding::bad(
            NAME,
            format!("version {version} is running, but {OURS} is installed"),
            "an old service does not understand the events of a new hook",
            "claude-mem restart",
        );
    }
    if manager == Manager::Systemd && !is_enabled(doctor) {
        return Finding::bad(
            NAME,
            "running, but not enabled",
            "it will not start at the next login",
            "claude-mem install",
        );
    }
    Finding::good(NAME, format!("{}, version {version}, {}", service::pid(&health), manager.description()))
}

fn is_enabled(doctor: &Doctor<'_>) -> bool {
    let ask = systemd::systemctl(
        doctor.environment,
        &["is-enabled", "--quiet", "claude-mem.service", "claude-mem.socket"],
    );
    run_command::succeeds(ask).unwrap_or(false)
}

pub fn linger(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "linger";
    if service::manager(doctor.home, doctor.environment) != Manager::Systemd {
        return Finding::good(NAME, "not applicable: the service runs without systemd");
    }
    let mut ask = std::process::Command::new("loginctl");
    ask.args(["show-user", &rustix::process::geteuid().as_raw().to_string(), "--property=Linger", "--value"]);
    match run_command::run(ask) {
        Ok(ran) if ran.stdout.trim() == "yes" => {
            Finding::good(NAME, "on: the service keeps running while you are logged out")
        }
        _ => Finding::note(
            NAME,
            "off: the service stops when you log out",
            "the queue then waits for the next login; nothing is lost",
            "to keep it running: loginctl enable-linger",
        ),
    }
}

/// Age from which a waiting row is worth a note while the service is healthy.
const LONG_MS: i64 = 60 * 60_000;

pub fn queue(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "queue";
    let Ok(facts) = store::open_to_read(doctor.home, 2000).and_then(|database| overview::read(&database, 0))
    else {
        return Finding::good(NAME, "empty");
    };
    let found = format!("{} waiting, {} failed", facts.waiting, facts.failed);
    let now = clock::now();
    if facts.failed > 0 {
        return Finding::note(
            NAME,
            found,
            "failed events are kept, but not remembered",
            "claude-mem queue errors, then claude-mem queue retry",
        );
    }
    match facts.oldest_waiting_at.filter(|at| now - at > LONG_MS) {
        Some(at) => Finding::note(
            NAME,
            format!("{found}; oldest queued {}", age::ago(at, now)),
            "they wait for a provider that does not respond, or for their session to continue",
            "see `claude-mem status`",
        ),
        None => Finding::good(NAME, found),
    }
}

/// Spooled events worth a note: the worker normally takes them within seconds.
const MANY_SPOOLED: usize = 100;

pub fn spool(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "lost events";
    let waiting = spool::waiting(doctor.home).map_or(0, |files| files.len());
    let dropped = spool::dropped(doctor.home, doctor.environment);
    if dropped > 0 {
        let notes = spool::dropped_notes(doctor.home, doctor.environment);
        let notes: Vec<_> = notes.iter().map(|note| note.display().to_string()).collect();
        return Finding::bad(
            NAME,
            format!("{dropped} events could not be stored anywhere"),
            "they are not remembered",
            format!("fix the cause logged in {}, then delete it", notes.join(" and ")),
        );
    }
    if waiting > MANY_SPOOLED {
        return Finding::note(
            NAME,
            format!("none, but {waiting} spooled events wait for the service"),
            "the service should have picked them up",
            "claude-mem logs",
        );
    }
    Finding::good(NAME, format!("none; {waiting} spooled"))
}
