//! Checks of the service: whether it runs, keeps running, and gets its work done.

use super::Patient;
use super::finding::Finding;
use crate::cli::install::record::Way;
use crate::cli::install::systemd;
use crate::cli::{child, client, service};
use crate::context::age;
use crate::spool;
use crate::store::{self, overview};
use crate::worker::clock;

const OURS: &str = env!("CARGO_PKG_VERSION");

pub fn service(patient: &Patient<'_>) -> Finding {
    const NAME: &str = "service";
    const WHY: &str = "events are recorded, but nothing is made of them";
    let way = service::way(patient.home);
    let health = match client::get(&patient.home.socket(), "/api/health") {
        Ok(health) => health,
        Err(_) if patient.may_fix => {
            return match service::start_quietly(patient.home, patient.environment, way) {
                Ok(health) => {
                    Finding::fixed(NAME, format!("it did not run; now it does, pid {}", health["pid"]))
                }
                Err(error) => Finding::bad(NAME, format!("{error:#}"), WHY, "claude-mem logs"),
            };
        }
        Err(_) => {
            return Finding::bad(
                NAME,
                "it does not run",
                WHY,
                "claude-mem start, or claude-mem doctor --fix",
            );
        }
    };
    if health["status"] != "ok" {
        let reason = health["reason"].as_str().unwrap_or("it does not say why");
        return Finding::bad(
            NAME,
            format!("degraded: {reason}"),
            WHY,
            "repair that; claude-mem logs tells more",
        );
    }
    let version = health["version"].as_str().unwrap_or_default();
    if version != OURS {
        return Finding::bad(
            NAME,
            format!("version {version} runs, and this is {OURS}"),
            "an old service does not know what a new hook records",
            "claude-mem restart",
        );
    }
    if way == Way::Systemd && !is_enabled(patient) {
        return Finding::bad(
            NAME,
            "it runs, but is not enabled",
            "it will be gone after the next login",
            "claude-mem install",
        );
    }
    Finding::good(NAME, format!("pid {}, version {version}, {}", health["pid"], way.told()))
}

fn is_enabled(patient: &Patient<'_>) -> bool {
    let ask = systemd::systemctl(
        patient.environment,
        &["is-enabled", "--quiet", "claude-mem.service", "claude-mem.socket"],
    );
    child::succeeds(ask).unwrap_or(false)
}

pub fn linger(patient: &Patient<'_>) -> Finding {
    const NAME: &str = "linger";
    if service::way(patient.home) != Way::Systemd {
        return Finding::good(NAME, "does not concern a service that runs without systemd");
    }
    let mut ask = std::process::Command::new("loginctl");
    ask.args(["show-user", &rustix::process::geteuid().as_raw().to_string(), "--property=Linger", "--value"]);
    match child::run(ask) {
        Ok(ran) if ran.stdout.trim() == "yes" => {
            Finding::good(NAME, "on: the service also runs while you are logged out")
        }
        _ => Finding::note(
            NAME,
            "off: the service ends with your last login",
            "what is left in the queue then waits for the next login; nothing is lost",
            "if you want it to go on: loginctl enable-linger",
        ),
    }
}

/// A row that waits longer than this while the service is well is worth a word.
const LONG_MS: i64 = 60 * 60_000;

pub fn queue(patient: &Patient<'_>) -> Finding {
    const NAME: &str = "queue";
    let Ok(facts) = store::open_to_read(patient.home, 2000).and_then(|database| overview::read(&database, 0))
    else {
        return Finding::good(NAME, "empty");
    };
    let found = format!("{} waiting, {} failed", facts.waiting, facts.failed);
    let now = clock::now();
    if facts.failed > 0 {
        return Finding::note(
            NAME,
            found,
            "what failed is kept, but not remembered",
            "claude-mem queue errors, then claude-mem queue retry",
        );
    }
    match facts.oldest_waiting_at.filter(|at| now - at > LONG_MS) {
        Some(at) => Finding::note(
            NAME,
            format!("{found}; the oldest since {}", age::ago(at, now)),
            "it waits for a provider that does not answer, or for its session to go on",
            "claude-mem status tells what the service waits for",
        ),
        None => Finding::good(NAME, found),
    }
}

/// The worker takes what is put aside within seconds.
const MANY_PUT_ASIDE: usize = 100;

pub fn spool(patient: &Patient<'_>) -> Finding {
    const NAME: &str = "lost events";
    let waiting = spool::waiting(patient.home).map_or(0, |files| files.len());
    let dropped = spool::dropped(patient.home, patient.environment);
    if dropped > 0 {
        let notes = spool::dropped_notes(patient.home, patient.environment);
        let notes: Vec<_> = notes.iter().map(|note| note.display().to_string()).collect();
        return Finding::bad(
            NAME,
            format!("{dropped} events could be stored nowhere"),
            "they are not remembered",
            format!("repair what {} tells, and delete that", notes.join(" and ")),
        );
    }
    if waiting > MANY_PUT_ASIDE {
        return Finding::note(
            NAME,
            format!("none, but {waiting} wait outside the database"),
            "the service should have taken them",
            "claude-mem logs",
        );
    }
    Finding::good(NAME, format!("none; {waiting} wait outside the database"))
}
