//! No file makes `claude-mem import` panic, breaks the database, is changed, or adds rows when it is imported again: exports,
//! and databases of ours or of the TypeScript program, intact or damaged.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use clap::Parser;
use claude_mem::cli::{self, Arguments};
use claude_mem::config::Environment;
use claude_mem::paths::Home;
use claude_mem::store;
use rusqlite::Connection;

/// An empty database to start from: copying it is faster than creating one.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::at(scratch.path().join("mem"));
    let database = store::open_for_hook(&home, 250).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(database);
    fs::read(home.usual_database()).unwrap()
});

/// Panics if this does not hold for an export of these lines.
pub fn check_export(lines: &[u8]) {
    // Without this first line nothing is read, and mutation would rarely find it.
    let mut file = b"{\"format\":\"claude-mem-export\",\"schema\":1,\"rows\":1}\n".to_vec();
    file.extend_from_slice(lines);
    check(&file);
}

/// Imports the file, checks the result, and imports it again, which must add nothing.
pub fn check(file: &[u8]) {
    let scratch = tempfile::tempdir().unwrap();
    let home = Home::at(scratch.path().join("mem"));
    home.prepare().unwrap();
    fs::write(home.usual_database(), &*EMPTY).unwrap();
    let path = scratch.path().join("import");
    fs::write(&path, file).unwrap();
    import(&home, &path);
    let first = whole(&home);
    import(&home, &path);
    assert_eq!(whole(&home), first, "the second import added something");
    assert_eq!(fs::read(&path).unwrap(), file, "the file was changed");
}

fn import(home: &Home, path: &Path) {
    let words = ["claude-mem".into(), "import".into(), "--json".into(), path.as_os_str().to_owned()];
    let arguments = Arguments::try_parse_from(words).unwrap();
    let mut environment = Environment::default();
    environment.mem_home = Some(home.dir().to_owned());
    // Refusing a file with an error is fine.
    let _ = cli::run(&arguments, environment);
}

/// The number of rows in a database that must be intact.
fn whole(home: &Home) -> Vec<(String, i64)> {
    let database = Connection::open(home.usual_database()).unwrap();
    let check: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let dangling: Option<String> = database.query_row("PRAGMA foreign_key_check", [], |row| row.get(0)).ok();
    assert_eq!(dangling, None, "a row refers to nothing");
    store::tables::TABLES
        .iter()
        .map(|table| {
            let sql = format!("SELECT count(*) FROM {}", table.name);
            (table.name.to_owned(), database.query_row(&sql, [], |row| row.get(0)).unwrap())
        })
        .collect()
}
