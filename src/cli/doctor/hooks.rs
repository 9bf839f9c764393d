//! Checks of the Claude Code side: the programs, the hooks in the settings, and that hooks fire.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use super::Doctor;
use super::finding::Finding;
use crate::cli::install::client::{self, Neighbour};
use crate::cli::install::hooks::{HookPlan, unusual_data};
use crate::cli::install::programs::Programs;
use crate::cli::install::record::Record;
use crate::cli::install::{settings, settings_file};
use crate::cli::run_command;
use crate::clock;
use crate::hook_events::{self, WIRING};
use crate::model::Millis;
use crate::store::{self, overview};
use crate::text::age;

const OURS: &str = env!("CARGO_PKG_VERSION");

pub fn programs(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "programs";
    let hook = match hook_program(doctor) {
        Ok(hook) => hook,
        Err(error) => {
            return Finding::bad(
                NAME,
                format!("{error:#}"),
                "nothing is recorded without the hook",
                "make install",
            );
        }
    };
    let mut ask = Command::new(&hook);
    ask.arg("--version");
    let version = run_command::run(ask).map(|ran| ran.stdout.trim().to_owned());
    match version {
        Ok(version) if version.ends_with(OURS) => {
            Finding::good(NAME, format!("claude-mem {OURS} and its hook, {}", hook.display()))
        }
        Ok(version) => Finding::bad(
            NAME,
            format!("this is claude-mem {OURS}, but {} is \"{version}\"", hook.display()),
            "a hook of another version may not understand the database",
            "claude-mem install, or make install",
        ),
        Err(error) => Finding::bad(
            NAME,
            format!("cannot run {}: {error}", hook.display()),
            "nothing is recorded without the hook",
            "make install",
        ),
    }
}

/// The hook that was installed, else the one in this program's directory.
fn hook_program(doctor: &Doctor<'_>) -> anyhow::Result<PathBuf> {
    match Record::load(doctor.home).hook {
        Some(hook) => Ok(hook),
        None => Ok(Programs::running()?.hook),
    }
}

/// Returns our commands in the settings that the client reads, by event.
pub fn wired_commands(doctor: &Doctor<'_>) -> Vec<settings::FoundHook> {
    let mut files: Vec<PathBuf> = settings_file::locate(doctor.environment, None).into_iter().collect();
    for file in Record::load(doctor.home).settings {
        if !files.contains(&file.path) {
            files.push(file.path);
        }
    }
    let texts = files.iter().filter_map(|file| settings_file::read(file).ok().flatten());
    texts
        .filter_map(|text| settings::commands(&text).ok())
        .flatten()
        .filter(|found| hook_events::is_ours(&found.command))
        .collect()
}

pub fn hooks(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "hooks";
    const WHY: &str = "without hooks nothing is recorded";
    let Ok(plan) = HookPlan::make(doctor.environment, false) else {
        return Finding::bad(NAME, "the home directory is unknown", WHY, "set HOME");
    };
    let shown = plan.file.display();
    let text = match settings_file::read(&plan.file) {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => return Finding::bad(NAME, error.to_string(), WHY, "fix the file"),
    };
    if let Err(error) = settings::commands(&text) {
        return Finding::bad(NAME, format!("{shown}: {error}"), WHY, "fix the file");
    }
    if settings::hooks_are_disabled(&text) {
        return Finding::bad(NAME, format!("{shown} has \"disableAllHooks\""), WHY, "remove that line");
    }
    let found = wired_commands(doctor);
    let neighbours =
        client::neighbours(&text, settings_file::client_directory(doctor.environment).as_deref());
    let by_plugin = neighbours.iter().any(|neighbour| matches!(neighbour, Neighbour::OwnPlugin(_)));
    if found.is_empty() && by_plugin {
        return Finding::good(NAME, "wired by our plugin");
    }
    let version = plan.client.as_ref().and_then(|client| client.version);
    let missing: Vec<_> = hook_events::for_client(version)
        .map(|wire| wire.event)
        .filter(|event| found.iter().all(|found| found.event != *event))
        .collect();
    if !missing.is_empty() {
        return rewired(doctor, &plan, &format!("{} not wired in {shown}", missing.join(", ")));
    }
    if let Some(broken) =
        found.iter().find(|found| !program_of(&found.command).is_some_and(|program| is_program(&program)))
    {
        return rewired(
            doctor,
            &plan,
            &format!("`{}` in {shown} does not run an executable", broken.command),
        );
    }
    // A project's settings may wire the same events again.
    let events = WIRING.iter().filter(|wire| found.iter().any(|found| found.event == wire.event)).count();
    if let Some(neighbour) = neighbours.first() {
        return Finding::note(
            NAME,
            format!("{events} events wired in {shown}; {}", neighbour.description()),
            "",
            "",
        );
    }
    let client = version
        .map_or_else(|| "a client of unknown version".into(), |version| format!("Claude Code {version}"));
    if events < WIRING.len() {
        return Finding::note(
            NAME,
            format!("{events} of {} events wired in {shown}, for {client}", WIRING.len()),
            "failed tools and failed turns are not recorded",
            format!("with Claude Code {} or later: claude-mem install", hook_events::FORGIVING_SINCE),
        );
    }
    Finding::good(NAME, format!("{events} events wired in {shown}, for {client}"))
}

fn rewired(doctor: &Doctor<'_>, plan: &HookPlan, found: &str) -> Finding {
    const WHY: &str = "events that are not wired are not recorded";
    if doctor.may_fix
        && let Ok(programs) = Programs::running()
    {
        let wanted = plan.wanted(&programs.hook, unusual_data(doctor.home, doctor.environment));
        if let Some(directory) = plan.file.parent() {
            // If that fails, the next step fails too and reports why.
            let _ = fs::create_dir_all(directory);
        }
        let fixed = settings_file::replace(&plan.file, None, |text| settings::with_hooks(text, &wanted));
        return match fixed {
            Ok(_) => Finding::fixed("hooks", format!("{found}; fixed")),
            Err(error) => Finding::bad("hooks", format!("{found}; {error}"), WHY, "claude-mem install"),
        };
    }
    Finding::bad("hooks", found, WHY, "claude-mem install, or claude-mem doctor --fix")
}

/// Returns the program that one of our commands runs. A shell splits the command, as the client's
/// shell does.
fn program_of(command: &str) -> Option<PathBuf> {
    let variable = command.starts_with("CLAUDE_MEM_HOME=");
    let word = if variable { "$2" } else { "$1" };
    let mut ask = Command::new("sh");
    ask.args(["-c", &format!("set -- {command}; printf %s \"{word}\"")]);
    run_command::run(ask).ok().filter(|ran| ran.success).map(|ran| PathBuf::from(ran.stdout))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Grace period after the last hook: the client still writes the transcript when all hooks are
/// done.
const TRANSCRIPT_LAG: Millis = 10 * 60_000;

pub fn fired_lately(doctor: &Doctor<'_>) -> Finding {
    const NAME: &str = "last hook";
    let overview = store::open_to_read(doctor.home, 2000).and_then(|database| overview::read(&database, 0));
    let fired = overview.ok().and_then(|overview| overview.last_event_at);
    let used = last_transcript(doctor);
    let now = clock::now();
    let ago = |at: Option<Millis>| at.map_or("never".to_owned(), |at| age::ago(at, now));
    match (fired, used) {
        (fired, Some(used)) if fired.is_none_or(|fired| used > fired + TRANSCRIPT_LAG) => Finding::bad(
            NAME,
            format!("Claude Code was last used {}, the last hook fired {}", ago(Some(used)), ago(fired)),
            "sessions are not being recorded",
            "start a new session, because hooks are read at its start; if that does not help, run `claude --debug hooks`",
        ),
        (None, None) => Finding::good(NAME, "none yet, and no session since"),
        (fired, _) => Finding::good(NAME, ago(fired)),
    }
}

/// The time of the client's newest transcript, if its directory can be read.
fn last_transcript(doctor: &Doctor<'_>) -> Option<Millis> {
    let installed = fs::metadata(doctor.home.install_record()).and_then(|meta| meta.modified()).ok()?;
    let projects = settings_file::client_directory(doctor.environment)?.join("projects");
    let files =
        fs::read_dir(projects).ok()?.flatten().filter_map(|project| fs::read_dir(project.path()).ok());
    let transcripts = files
        .flat_map(|entries| entries.flatten())
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "jsonl"));
    let newest = transcripts.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max()?;
    // We cannot have recorded anything before our installation.
    let since = newest.duration_since(UNIX_EPOCH).ok().filter(|_| newest > installed)?;
    Millis::try_from(since.as_millis()).ok()
}
