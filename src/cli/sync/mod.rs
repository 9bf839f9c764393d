//! `claude-mem sync`: one memory on several machines, through a PostgreSQL server.

mod join;
mod status;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde_json::json;

use super::arguments::project_named;
use super::output::progress::{Progress, is_agreed};
use super::output::style::harmless;
use crate::clock;
use crate::config::{Config, Environment, Share};
use crate::paths::Home;
use crate::store::{self, sync as local};
use crate::sync::server::{self, Forget, ServerConnection};
use crate::sync::{CycleReport, Engine, Membership, OwnConnection, SyncError};
use crate::worker::system::lock::Lock;

/// Share one memory between several machines, through a PostgreSQL server
///
/// Off until you set it up. Observations, summaries, learnings and session digests are sent, sealed
/// with a key that only your machines have; prompts and raw events never leave this machine.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  claude-mem sync init --url postgres://me:secret@db.example/memory\n  claude-mem sync join claude-mem-invitation-1-…\n  claude-mem sync status"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: SyncAction,
}

#[derive(Debug, clap::Subcommand)]
enum SyncAction {
    /// Prepare the server, create a team, and print an invitation for your next machine
    #[command(
        after_help = "Example:\n  claude-mem sync init --url postgres://me:secret@db.example/memory --name home"
    )]
    Init {
        /// Address of the server and database; - reads it from standard input
        #[arg(long)]
        url: String,
        /// Name of the team
        #[arg(long, default_value = "memory")]
        name: String,
        /// Name of this device [default: the machine's name]
        #[arg(long)]
        label: Option<String>,
        /// Store readable texts on the server, for teams that want to query them there
        #[arg(long)]
        readable: bool,
    },
    /// Print an invitation: for another machine of yours, or for another person
    #[command(
        after_help = "Examples:\n  claude-mem sync invite\n  claude-mem sync invite --member write --hours 24"
    )]
    Invite {
        /// For another person with a login of their own: write or read
        #[arg(long, value_parser = ["write", "read"])]
        member: Option<String>,
        /// Hours until it expires
        #[arg(long, default_value_t = 72, value_parser = clap::value_parser!(i32).range(1..=24 * 365))]
        hours: i32,
    },
    /// Join a team with an invitation, and synchronise for the first time
    #[command(after_help = "Example:\n  claude-mem sync join claude-mem-invitation-1-…")]
    Join {
        /// The invitation; - reads it from standard input
        invitation: String,
        /// Address with your own login, for an invitation from another person
        #[arg(long)]
        url: Option<String>,
        /// Name of this device [default: the machine's name]
        #[arg(long)]
        label: Option<String>,
    },
    /// Show the team, its devices, and what waits or was set aside
    #[command(after_help = "Example:\n  claude-mem sync status --json")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send and receive everything now
    #[command(after_help = "Example:\n  claude-mem sync now")]
    Now {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Try again what was set aside, compare everything, and synchronise
    #[command(after_help = "Example:\n  claude-mem sync repair")]
    Repair,
    /// Stop synchronising this machine; its memories stay here
    #[command(after_help = "Examples:\n  claude-mem sync leave\n  claude-mem sync leave --forget")]
    Leave {
        /// Also remove the texts that this machine sent to the server
        #[arg(long)]
        forget: bool,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// List the devices of the team, or remove a device or a member
    #[command(
        after_help = "Examples:\n  claude-mem sync devices\n  claude-mem sync devices --remove 019c3a52-…"
    )]
    Devices {
        /// Remove this device: it cannot send any more
        #[arg(long, value_name = "ID")]
        remove: Option<String>,
        /// Remove a person with all devices
        #[arg(long, value_name = "LOGIN", conflicts_with = "remove")]
        remove_member: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Change the team's key; the members' machines get the new one by themselves
    ///
    /// Earlier records keep their keys. Removing a member does this, too.
    #[command(after_help = "Example:\n  claude-mem sync rotate")]
    Rotate,
    /// Choose the devices that get a project's memories
    #[command(after_help = "Examples:\n  claude-mem sync share . team\n  claude-mem sync share diary none")]
    Share {
        /// The project: its name or one of its directories
        project: String,
        /// none: this machine only; me: all of my machines; team: everybody's
        #[arg(value_parser = share)]
        with: Share,
    },
}

fn share(word: &str) -> Result<Share, String> {
    serde_json::from_value(json!(word)).map_err(|_| "expected none, me or team".into())
}

/// Busy timeout: the service may be writing a batch.
const BUSY_TIMEOUT_MS: u32 = 10_000;

pub fn run(home: &Home, environment: &Environment, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let here = Here { home, environment, config: Config::load(&home.config(), environment)? };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &arguments.action {
            SyncAction::Init { url, name, label, readable } => {
                join::init(&here, url, name, label.as_deref(), !readable).await
            }
            SyncAction::Invite { member, hours } => join::invite(&here, member.as_deref(), *hours).await,
            SyncAction::Join { invitation, url, label } => {
                join::join(&here, invitation, url.as_deref(), label.as_deref()).await
            }
            SyncAction::Status { json } => status::status(&here, *json).await,
            SyncAction::Now { json } => now(&here, *json).await,
            SyncAction::Repair => repair(&here).await,
            SyncAction::Leave { forget, yes } => leave(&here, *forget, *yes).await,
            SyncAction::Devices { remove, remove_member, json } => {
                status::devices(&here, remove.as_deref(), remove_member.as_deref(), *json).await
            }
            SyncAction::Rotate => join::rotate(&here).await,
            SyncAction::Share { project, with } => set_share(&here, project, *with),
        }
    })
}

/// The machine that a command runs on.
struct Here<'a> {
    home: &'a Home,
    environment: &'a Environment,
    config: Config,
}

impl Here<'_> {
    fn membership(&self) -> Result<Membership, SyncError> {
        Membership::load(self.home, self.environment)?.ok_or(SyncError::NotSetUp)
    }

    fn engine(&self) -> anyhow::Result<Engine<OwnConnection>> {
        self.home.prepare()?;
        let database = store::open_for_bulk_change(self.home, BUSY_TIMEOUT_MS)?;
        Ok(Engine::new(
            OwnConnection::new(database),
            self.home.clone(),
            self.environment.clone(),
            self.config.sync.share_default,
        ))
    }

    /// Makes a running service notice the change.
    fn reload_service(&self) {
        let pid = Lock::holder(self.home).and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::HUP);
        }
    }
}

/// Runs one cycle with a progress line.
async fn cycle(here: &Here<'_>) -> anyhow::Result<CycleReport> {
    let progress = Progress::new("synchronising");
    let shown = std::sync::Arc::new(progress);
    let drawn = shown.clone();
    let mut engine = here.engine()?.on_progress(move |report| {
        drawn.set(u64::try_from(report.sent + report.received).unwrap_or(u64::MAX), 0);
    });
    Ok(engine.cycle(clock::now()).await?)
}

async fn now(here: &Here<'_>, as_json: bool) -> anyhow::Result<ExitCode> {
    let report = cycle(here).await?;
    if as_json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        outln!("{}", summary(&report));
    }
    Ok(ExitCode::SUCCESS)
}

fn summary(report: &CycleReport) -> String {
    let mut text = format!("Level: sent {}, received {}.", records(report.sent), records(report.received));
    if report.refused > 0 {
        text += &format!(" Set aside: {}; see `claude-mem sync status`.", records(report.refused));
    }
    text
}

/// Names a number of records.
fn records(count: impl TryInto<u64>) -> String {
    match count.try_into().unwrap_or_default() {
        1 => "1 record".into(),
        count => format!("{count} records"),
    }
}

async fn repair(here: &Here<'_>) -> anyhow::Result<ExitCode> {
    here.membership()?;
    let mut database = store::open_to_change(here.home, BUSY_TIMEOUT_MS)?;
    let retried = if local::is_set_up(&database)? {
        let retried = local::retry_refused(&mut database)?;
        local::enqueue_everything(&database)?;
        retried
    } else {
        0
    };
    drop(database);
    let retried = records(retried);
    outln!("Trying {retried} again, and comparing every memory with its last record.");
    let report = cycle(here).await?;
    outln!("{}", summary(&report));
    Ok(ExitCode::SUCCESS)
}

async fn leave(here: &Here<'_>, forget: bool, yes: bool) -> anyhow::Result<ExitCode> {
    let membership = here.membership()?;
    let question = if forget {
        "Leave the team and remove everything that this machine sent from the server?"
    } else {
        "Leave the team? The memories stay here, and the server keeps what was sent."
    };
    if !is_agreed(question, yes)? {
        outln!("Nothing was changed.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut database = store::open_to_change(here.home, BUSY_TIMEOUT_MS)?;
    let state = local::state(&database)?;
    let retired = match &state {
        Some(state) => retire(&membership, &state.device, forget).await,
        None => Ok(0),
    };
    match retired {
        Ok(purged) if forget => {
            let purged = records(purged);
            outln!("Removed the texts of {purged} from the server.");
        }
        Ok(_) => {}
        // Removing texts is what the user asked for: without it, nothing must look done.
        Err(error) if forget => bail!("{error}; nothing was changed"),
        Err(error) => eprintln!("claude-mem: the server still lists this device: {error}"),
    }
    Membership::remove(here.home)?;
    local::tear_down(&mut database)?;
    here.reload_service();
    outln!("This machine no longer synchronises. Its memories are still here.");
    Ok(ExitCode::SUCCESS)
}

async fn retire(membership: &Membership, device: &str, forget: bool) -> Result<i64, SyncError> {
    let server = ServerConnection::connect(membership.url.expose()).await?;
    server.check_schema().await?;
    let (team, device) = (membership.team, server::id(device));
    let removed = if forget { server.forget(team, Forget::Device(device), i64::MAX).await? } else { 0 };
    server.retire(team, device).await?;
    Ok(removed)
}

fn set_share(here: &Here<'_>, project: &str, with: Share) -> anyhow::Result<ExitCode> {
    let mut membership = here.membership()?;
    let database = store::open_to_change(here.home, BUSY_TIMEOUT_MS)?;
    let name = project_named(&database, &here.config, project)?;
    let keys = local::project_keys(&database, &name)?;
    let keys = keys.context(format!("no project is called {}; see `claude-mem stats`", harmless(&name)))?;
    for key in keys {
        membership.shares.insert(key, with);
    }
    membership.save(here.home)?;
    if local::is_set_up(&database)? {
        local::enqueue_everything(&database)?;
    }
    here.reload_service();
    let name = harmless(&name);
    match with {
        Share::None => outln!(
            "{name} stays on this machine from now on. What was sent before stays where it is; `claude-mem forget --project` removes it everywhere."
        ),
        Share::Me => {
            outln!("{name} goes to your own machines. What the team already got stays with the team.")
        }
        Share::Team => outln!("{name} goes to everybody in the team {}.", harmless(&membership.name)),
    }
    Ok(ExitCode::SUCCESS)
}
