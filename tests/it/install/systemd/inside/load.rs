//! Restarts and reloads that no client notices.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use serde_json::json;

use super::super::service::{SERVICE, Service};

use crate::harness::wait::wait_until;

const CLIENTS: u32 = 4;

#[test]
#[ignore = "runs inside the machine that another test boots"]
fn no_request_fails_during_restarts_and_reloads_under_load() {
    let Some(service) = Service::install() else { return };
    let load = Load::default();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (load, service) = (&load, &service);
            scope.spawn(move || load.press(service, client));
        }
        let more = |count| {
            let enough = load.answered.load(Ordering::Relaxed) + count;
            wait_until("requests are answered", || load.answered.load(Ordering::Relaxed) >= enough);
        };
        for round in 0..9 {
            more(50);
            service.systemctl(&[if round % 3 == 2 { "reload" } else { "restart" }, SERVICE]);
        }
        more(50);
        load.is_over.store(true, Ordering::Relaxed);
    });
    eprintln!("{:?} requests across 6 restarts and 3 reloads", load.answered);
    assert_eq!(*load.failures.lock().unwrap(), Vec::<String>::new());
    assert_eq!(service.ask("POST", "/api/sessions/load/summarize", "{}").unwrap().0, 202);
    let count = |which: &str| {
        let sql = format!("SELECT count(*) FROM pending_queue WHERE kind = 'observation' AND {which}");
        service.database().query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap()
    };
    let all = load.accepted.load(Ordering::Relaxed);
    assert_eq!(count("1"), all, "what was accepted is there, once");
    wait_until("all is settled", || count("status IN ('done', 'skipped')") == all);
    assert_eq!(service.property(SERVICE, "NRestarts"), "0", "none of the restarts was a crash's");
}

/// State shared by the clients.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    answered: AtomicU32,
    accepted: AtomicU32,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// Sends reads and writes in turn until the test ends.
    fn press(&self, service: &Service, client: u32) {
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            for route in ["/api/health", "/api/queue/stats", "/api/sessions"] {
                self.note(route, 200, service.ask("GET", route, ""));
            }
            number += 1;
            let event = json!({
                "tool_name": "Bash", "tool_use_id": format!("{client}-{number}"), "cwd": service.home,
                "tool_input": {"command": "make"}, "tool_response": {"stdout": "done"},
            });
            let route = "/api/sessions/load/observations";
            if self.note(route, 202, service.ask("POST", route, &event.to_string())) {
                self.accepted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn note(&self, route: &str, expected: u16, answer: io::Result<(u16, String)>) -> bool {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let is_well = matches!(&answer, Ok((status, _)) if *status == expected);
        if !is_well {
            self.failures.lock().unwrap().push(format!("{route}: {answer:?}"));
        }
        is_well
    }
}
