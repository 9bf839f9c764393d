//! Measurements, run by `make sync-figures`: they print figures and check only that the work was done.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use claude_mem::sync::server::{NewRecord, ServerConnection};
use claude_mem::sync::team::{NewTeam, create};
use rusqlite::params;
use uuid::Uuid;

use super::machine::Machine;
use super::postgres::Postgres;
use crate::harness::clock::Clock;
use crate::harness::rng::Dice;
use crate::harness::wait::wait_until;

const WORDS: [&str; 12] = [
    "worker", "queue", "lease", "retry", "index", "vector", "session", "hook", "branch", "schema", "record",
    "clock",
];

fn text(dice: &mut Dice, words: usize) -> String {
    (0..words).map(|_| *dice.pick(&WORDS)).collect::<Vec<_>>().join(" ")
}

/// Fills a machine with observations of about 700 bytes.
fn fill(machine: &Machine, count: usize) {
    let (mut database, mut dice) = (machine.database(), Dice::new(7));
    let transaction = database.transaction().unwrap();
    for session in 0..count.div_ceil(50) {
        let (id, project) = (format!("session-{session}"), format!("project-{}", session % 10));
        let key = format!("git:example.org/{project}");
        let sql = "INSERT OR IGNORE INTO projects (key, name) VALUES (?1, ?2)";
        transaction.execute(sql, [&key, &project]).unwrap();
        let sql = "INSERT INTO sessions (id, project_key, project, status, started_at, last_activity_at, title, outcome)
                   VALUES (?1, ?2, ?3, 'completed', ?4, ?4, ?5, ?6)";
        let values = params![id, key, project, machine.now(), text(&mut dice, 6), text(&mut dice, 20)];
        transaction.execute(sql, values).unwrap();
    }
    let sql = "INSERT INTO observations (uid, session_id, project, title, summary, detail, facts, files_modified, created_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, json_array(?7, ?8), json_array('src/lib.rs'), ?9)";
    for at in 0..count {
        let session = at / 50;
        let (session, project) = (format!("session-{session}"), format!("project-{}", session % 10));
        let [title, summary, detail, first, second] = [8, 25, 30, 10, 10].map(|words| text(&mut dice, words));
        let uid = Uuid::now_v7().to_string();
        let values = params![uid, session, project, title, summary, detail, first, second, machine.now()];
        transaction.prepare_cached(sql).unwrap().execute(values).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
#[ignore = "a measurement"]
fn first_sync_of_100_000_observations() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (first, second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    fill(&first, 100_000);
    let start = Instant::now();
    let invitation = first.found(&postgres.url("alice"), &[]);
    eprintln!("send 102,000 records: {:.1?}", start.elapsed());
    let start = Instant::now();
    second.join(&invitation);
    eprintln!("receive 102,000 records: {:.1?}", start.elapsed());
    assert_eq!(second.titles().len(), 100_000);
}

fn figure(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Reports threads, connections and memory of a worker.
fn report(what: &str, machine: &Machine, postgres: &Postgres) {
    let pid = machine.worker_pid();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claude-mem'";
    let (threads, own, connections) = (figure(pid, "Threads:"), figure(pid, "RssAnon:"), postgres.admin(sql));
    eprintln!("{what}: {threads} threads, {own} kB of its own, {connections} connections at the server");
}

#[test]
#[ignore = "a measurement"]
fn steady_state_and_idle() {
    let Some(postgres) = Postgres::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::right(folder.path());
    let (mut first, mut second) = (Machine::new("first", &clock), Machine::new("second", &clock));
    let serves = |machine: &Machine| machine.sandbox.data().join("worker.sock").exists();
    let rest = || std::thread::sleep(Duration::from_secs(20));
    fill(&second, 1000);
    second.start_worker();
    wait_until("the worker serves", || serves(&second));
    rest();
    report("without a team", &second, &postgres);
    let invitation = first.found(&postgres.url("alice"), &[]);
    second.join(&invitation);
    first.start_worker();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'claude-mem'";
    wait_until("both are connected", || postgres.admin(sql) == "2");
    let mut times: Vec<Duration> = (0..20)
        .map(|at| {
            first.observe("harbor", "s", &format!("number {at}"));
            let start = Instant::now();
            let sql = format!("SELECT count(*) FROM observations WHERE title = 'number {at}'");
            wait_until("it arrives", || second.sandbox.get::<i64>(&sql) == 1);
            start.elapsed()
        })
        .collect();
    times.sort();
    eprintln!("behind by: median {:.1?}, most {:.1?} of {}", times[10], times[19], times.len());
    rest();
    report("with a team", &second, &postgres);
    postgres.admin("ALTER SYSTEM SET log_statement = 'all'");
    postgres.admin("ALTER SYSTEM SET log_line_prefix = '%a|'");
    postgres.admin("SELECT pg_reload_conf()");
    std::thread::sleep(Duration::from_secs(1));
    let queries = || postgres.log().lines().filter(|line| line.starts_with("claude-mem|LOG:")).count();
    let (before, minutes) = (queries(), 3);
    std::thread::sleep(Duration::from_secs(60 * minutes));
    eprintln!("idle: {} queries of 2 machines in {minutes} minutes", queries() - before);
}

/// A simulated device.
struct Device {
    server: ServerConnection,
    team: Uuid,
    id: Uuid,
    seq: i64,
}

impl Device {
    async fn push(&mut self, count: i64) {
        let records: Vec<NewRecord> = (1..=count)
            .map(|at| NewRecord {
                seq: self.seq + at,
                id: Uuid::now_v7(),
                kind: 1,
                project: vec![7; 32],
                hlc: self.seq + at,
                epoch: 1,
                is_shared: false,
                refers: Uuid::new_v4(),
                body: (0..480).map(|byte| (byte * 31 + at) as u8).collect(),
            })
            .collect();
        self.server.append(self.team, self.id, &records).await.unwrap();
        self.seq += count;
    }

    /// Polls, and receives everything that the other devices of the team have sent.
    async fn pull(&mut self) -> usize {
        let mut received = 0;
        for head in self.server.heads(self.team).await.unwrap() {
            if head.device != self.id {
                received += self.server.records(self.team, head.device, 0, 500).await.unwrap().len();
            }
        }
        received
    }
}

const TEAMS: usize = 100;
const DEVICES: usize = 1000;
/// Devices that do something at the same time.
const AT_ONCE: usize = 16;
const BATCHES: i64 = 10;

/// Runs `work` for every device, and reports the rate of all records or polls, and the time of one
/// query; each device makes `queries`.
async fn each<T>(
    what: &str,
    devices: &mut [Device],
    (count, queries): (usize, usize),
    work: impl AsyncFn(&mut Device) -> T,
) -> Vec<T> {
    let start = Instant::now();
    let lanes = devices.chunks_mut(DEVICES / AT_ONCE + 1).map(async |lane| {
        let mut done = Vec::new();
        for device in lane {
            done.push(work(device).await);
        }
        done
    });
    let done: Vec<T> = futures(lanes).await.into_iter().flatten().collect();
    let seconds = start.elapsed().as_secs_f64();
    let one = seconds * 1000.0 * AT_ONCE as f64 / (done.len() * queries) as f64;
    let rate = count as f64 / seconds;
    eprintln!("{what}: {count} in {seconds:.1} s, {rate:.0}/s, {one:.1} ms per query");
    done
}

/// Runs all of them at the same time on this thread.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if all.iter().all(|(_, done)| done.is_some()) {
            return std::task::Poll::Ready(());
        }
        std::task::Poll::Pending
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}

#[test]
#[ignore = "a measurement"]
fn one_thousand_devices() {
    let Some(postgres) = Postgres::start_with(&["fsync=on", "max_connections=1100", "shared_buffers=256MB"])
    else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for team in 0..TEAMS {
        postgres.admin(&format!("CREATE ROLE team{team} LOGIN"));
    }
    let connected = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        create(&NewTeam { url: &postgres.url("alice"), name: "first", is_sealed: true, label: None })
            .await
            .unwrap();
        let mut devices = Vec::new();
        let start = Instant::now();
        for team in 0..TEAMS {
            let url = postgres.url(&format!("team{team}"));
            let membership =
                create(&NewTeam { url: &url, name: "team", is_sealed: true, label: None }).await.unwrap();
            for _ in 0..DEVICES / TEAMS {
                let (mut server, id) = (ServerConnection::connect(&url).await.unwrap(), Uuid::now_v7());
                server.hello(membership.team, id).await.unwrap();
                server.register(membership.team, id, "device").await.unwrap();
                devices.push(Device { server, team: membership.team, id, seq: 0 });
                connected.fetch_add(1, Ordering::Relaxed);
            }
        }
        eprintln!("connect {} devices: {:.1?}", connected.load(Ordering::Relaxed), start.elapsed());
        each("poll an empty head", &mut devices, (DEVICES, 1), async |device| device.pull().await).await;
        let sent = DEVICES * 10 * BATCHES as usize;
        each("send, in batches of 10", &mut devices, (sent, BATCHES as usize), async |device| {
            for _ in 0..BATCHES {
                device.push(10).await;
            }
        })
        .await;
        let polls = each("poll heads", &mut devices, (DEVICES * 20, 20), async |device| {
            for _ in 0..20 {
                device.server.heads(device.team).await.unwrap();
            }
        });
        polls.await;
        let received = sent * (DEVICES / TEAMS - 1);
        let counts =
            each("receive, nine logs each", &mut devices, (received, DEVICES / TEAMS), async |device| device.pull().await).await;
        assert_eq!(counts.iter().sum::<usize>(), received);
        let size = "SELECT sum(pg_total_relation_size(relid))::bigint / (SELECT count(*) FROM claude_mem.record) AS bytes
                    FROM pg_partition_tree('claude_mem.record') WHERE isleaf";
        eprintln!("growth: {} bytes per record with its indexes (480 of them body)", postgres.admin(size));
    });
}
