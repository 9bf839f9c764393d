//! Instructions, counted by valgrind: the same on a busy machine as on a quiet one, so that a regression shows anywhere.

use std::path::Path;
use std::process::{Command, Stdio};

use claude_mem::paths::Home;

use crate::search::fill;
use crate::table::Table;
use crate::worker::Bench;

const ROWS: usize = 10_000;

/// One save, and one search of the command line without a worker.
pub fn run(binaries: &Path, table: &mut Table) {
    let has_valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_valgrind {
        println!("skipped: instructions (valgrind is not installed)");
        return;
    }
    let bench = Bench::new(binaries);
    // As with a worker: the hook does not have to build the WAL index.
    let open_elsewhere = bench.database();
    open_elsewhere.query_row("SELECT count(*) FROM sessions", [], |_| Ok(())).unwrap();
    let stdin = std::fs::File::open(bench.payload("counted")).unwrap();
    let mut hook = counting(&bench, &bench.hook);
    let save = count(hook.arg("save").stdin(stdin));
    table.figure("instructions of one save", millions(save), "–");
    fill(&Home::locate(Some(bench.home()), None).unwrap(), ROWS);
    let mut service = counting(&bench, &bench.service);
    let search = count(service.args(["search", "--json", "parser", "deadlock", "socket"]));
    table.figure(
        &format!("instructions of one search, {ROWS} observations, no worker"),
        millions(search),
        "–",
    );
}

fn counting(bench: &Bench, program: &Path) -> Command {
    let mut command = bench.command(Path::new("valgrind"));
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn count(command: &mut Command) -> f64 {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let (_, count) = report.split_once("Collected : ").expect("valgrind's count");
    count.split_whitespace().next().unwrap().parse().unwrap()
}

fn millions(instructions: f64) -> String {
    format!("{:.2} M", instructions / 1e6)
}
