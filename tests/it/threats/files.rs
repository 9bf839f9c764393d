//! Files and links planted by other users, and files that other users may find.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::harness::sandbox::{Ran, Sandbox, run, tool_payload};
use crate::harness::wait::skip_even_in_ci;
use crate::harness::worker::Worker;

fn mem(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_claude-mem"));
    command.args(arguments).env("PATH", "/usr/bin:/bin");
    run(command, b"")
}

fn all_below(place: &Path) -> Vec<PathBuf> {
    let mut found = vec![place.to_owned()];
    if place.is_dir() {
        for entry in fs::read_dir(place).unwrap() {
            found.extend(all_below(&entry.unwrap().path()));
        }
    }
    found
}

/// Backups, exports, the spool, sockets, the log: private regardless of the user's umask.
#[test]
fn all_files_are_private_even_without_a_umask() {
    let sandbox = Sandbox::new();
    let without_umask = |program: &str, arguments: &[&str], input: &str| {
        let mut command = sandbox.command("/bin/sh");
        command.args(["-c", "umask 000; exec \"$0\" \"$@\"", program]).args(arguments);
        run(command, input.as_bytes())
    };
    let (hook, main) = (env!("CARGO_BIN_EXE_claude-mem-hook"), env!("CARGO_BIN_EXE_claude-mem"));
    without_umask(hook, &["save"], &tool_payload("s", "t", sandbox.path(), &"x".into())).assert_unnoticed();
    let holder = sandbox.database();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    without_umask(hook, &["save"], &tool_payload("s", "u", sandbox.path(), &"x".into())).assert_unnoticed();
    assert_eq!(sandbox.spooled().len(), 1);
    drop(holder);
    assert_eq!(without_umask(main, &["backup"], "").code, Some(0));
    let export = sandbox.data().join("export.jsonl");
    assert_eq!(without_umask(main, &["export", export.to_str().unwrap()], "").code, Some(0));
    let _worker = Worker::start(&sandbox);
    for place in all_below(sandbox.data()) {
        let mode = fs::symlink_metadata(&place).unwrap().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", place.display());
    }
}

#[test]
fn any_first_command_creates_a_private_database() {
    let commands: [&[&str]; 6] = [
        &["import", "no-such-file"],
        &["reindex"],
        &["queue", "purge"],
        &["queue", "retry"],
        &["learn", "add", "Use pnpm"],
        &["doctor"],
    ];
    for arguments in commands {
        let sandbox = Sandbox::new();
        let mut command = sandbox.command("/bin/sh");
        command
            .args(["-c", "umask 000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_claude-mem")])
            .args(arguments);
        run(command, b"");
        for place in all_below(sandbox.data()).into_iter().filter(|place| place.exists()) {
            let mode = fs::symlink_metadata(&place).unwrap().mode() & 0o777;
            assert_eq!(mode & 0o077, 0, "{arguments:?}: {} has mode {mode:o}", place.display());
        }
    }
}

/// In a directory that others can write, they can guess the temporary name of an export.
#[test]
fn an_export_follows_no_link_and_reuses_no_file() {
    let sandbox = Sandbox::new();
    sandbox.hook("save", tool_payload("s", "t", sandbox.path(), &"remembered".into()));
    let shared = sandbox.path().join("shared");
    fs::create_dir(&shared).unwrap();
    let (target, guessed, precious) =
        (shared.join("memory.jsonl"), shared.join("memory.jsonl.tmp"), sandbox.path().join("precious"));
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, &guessed).unwrap();
    let output = mem(&sandbox, &["export", target.to_str().unwrap()]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    fs::remove_file(&target).unwrap();
    // A file that its creator keeps open for reading.
    fs::write(&guessed, "").unwrap();
    fs::set_permissions(&guessed, fs::Permissions::from_mode(0o666)).unwrap();
    let mut planted = fs::File::open(&guessed).unwrap();
    assert_eq!(mem(&sandbox, &["export", target.to_str().unwrap()]).code, Some(0));
    let mut seen = String::new();
    planted.read_to_string(&mut seen).unwrap();
    assert_eq!((seen.as_str(), fs::metadata(&target).unwrap().mode() & 0o777), ("", 0o600));
    assert!(fs::read_to_string(&target).unwrap().contains("remembered"));
}

/// Another user may create the directory first if its name can be guessed.
#[test]
fn a_data_directory_of_another_user_is_refused() {
    let sandbox = Sandbox::new();
    if !rustix::process::geteuid().is_root() {
        skip_even_in_ci("only root can change the owner of a directory");
        return;
    }
    fs::create_dir(sandbox.data()).unwrap();
    fs::set_permissions(sandbox.data(), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(sandbox.data(), Some(65534), Some(65534)).unwrap();
    sandbox.hook("save", tool_payload("s", "t", sandbox.path(), &"x".into())).assert_unnoticed();
    assert_eq!(fs::read_dir(sandbox.data()).unwrap().count(), 0);
    assert_eq!(sandbox.dropped(), 1);
    // Nor through our own link to it.
    let link = sandbox.path().join("link");
    symlink(sandbox.data(), &link).unwrap();
    let mut hook = sandbox.hook_command("save");
    hook.env("CLAUDE_MEM_HOME", &link);
    run(hook, tool_payload("s", "t", sandbox.path(), &"x".into()).as_bytes()).assert_unnoticed();
    assert_eq!(fs::read_dir(sandbox.data()).unwrap().count(), 0);
    let output = mem(&sandbox, &["worker"]);
    assert!(output.code == Some(1) && output.stderr.contains("belongs to user 65534"), "{output:?}");
}

/// A pipe in the spool would block the worker and all later files for ever.
#[test]
fn non_files_in_the_spool_are_skipped() {
    let sandbox = Sandbox::new();
    let holder = {
        sandbox.hook("save", tool_payload("s", "before", sandbox.path(), &"x".into()));
        sandbox.database()
    };
    sandbox.configure("[hook]\nbusy_ms = 1\n");
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    sandbox.hook("save", tool_payload("s", "spooled", sandbox.path(), &"x".into()));
    drop(holder);
    let spool = sandbox.data().join("spool");
    let made = std::process::Command::new("mkfifo")
        .arg(spool.join("000000000000001-0000000001-000000.json"))
        .status();
    assert!(made.unwrap().success());
    symlink("/dev/zero", spool.join("000000000000002-0000000001-000000.json")).unwrap();
    fs::create_dir(spool.join("000000000000003-0000000001-000000.json")).unwrap();
    let _worker = Worker::start(&sandbox);
    sandbox.wait_for("taken in", "SELECT count(*) = 2 FROM pending_queue");
}
