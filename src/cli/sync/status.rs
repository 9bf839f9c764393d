//! `sync status` and `sync devices`.

use std::collections::HashMap;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::join::new_key;
use super::{BUSY_TIMEOUT_MS, Here, records};
use crate::cli::output::style::harmless;
use crate::cli::output::wrap;
use crate::clock;
use crate::model::Millis;
use crate::store::sync::{self as local, DeviceState, Refused};
use crate::store::{self, StoreError};
use crate::sync::server::{self, Device, ServerConnection};
use crate::sync::team::check_keys;
use crate::sync::{Membership, SyncError};
use crate::text::age;

/// The state of this machine, known without the server.
#[derive(Debug, Default)]
struct LocalState {
    state: Option<DeviceState>,
    cursors: HashMap<String, i64>,
    refused: Vec<Refused>,
    waiting: i64,
}

impl LocalState {
    fn read(here: &Here<'_>) -> Result<Self, StoreError> {
        let database = match store::open_to_read(here.home, BUSY_TIMEOUT_MS) {
            Err(StoreError::Missing) => return Ok(Self::default()),
            other => other?,
        };
        if !local::is_set_up(&database)? {
            return Ok(Self::default());
        }
        Ok(Self {
            state: local::state(&database)?,
            cursors: local::cursors(&database)?,
            refused: local::list_refused(&database)?,
            waiting: local::dirty(&database)?,
        })
    }

    fn device(&self) -> Option<&str> {
        self.state.as_ref().map(|state| state.device.as_str())
    }

    /// Returns the number of a device's records that are not here.
    fn behind(&self, device: &Device) -> i64 {
        let id = device.id.to_string();
        if self.device() == Some(&id) {
            return 0;
        }
        device.seq - self.cursors.get(&id).copied().unwrap_or_default()
    }

    fn refused_of(&self, device: &Device) -> usize {
        let id = device.id.to_string();
        self.refused.iter().filter(|refused| refused.device == id).count()
    }
}

async fn ask(membership: &Membership, known: &LocalState) -> Result<(Vec<Device>, String), SyncError> {
    let mut server = ServerConnection::connect(membership.url.expose()).await?;
    server.check_schema().await?;
    let hello = server.hello(membership.team, known.device().map(server::id).unwrap_or_default()).await?;
    check_keys(membership, &hello.checks)?;
    Ok((server.devices(membership.team).await?, hello.role))
}

pub async fn status(here: &Here<'_>, as_json: bool) -> anyhow::Result<ExitCode> {
    let Some(membership) = Membership::load(here.home, here.environment)? else {
        if as_json {
            outln!("{:#}", json!({"state": "off", "behind": 0, "waiting": 0, "refused": [], "devices": []}));
        } else {
            wrap::print("", &format!("{}.", capitalised(&SyncError::NotSetUp.to_string())));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let known = LocalState::read(here)?;
    let answer = ask(&membership, &known).await;
    let (devices, role, problem) = match answer {
        Ok((devices, role)) => (devices, role, None),
        Err(error) => (Vec::new(), String::new(), Some(error.to_string())),
    };
    let behind: i64 = devices.iter().map(|device| known.behind(device)).sum();
    let state = match &problem {
        Some(_) => "unreachable",
        None if behind > 0 || known.waiting > 0 => "behind",
        None => "level",
    };
    if as_json {
        let listed: Vec<Value> = devices.iter().map(|device| device_json(device, &known)).collect();
        let synced_at = known.state.as_ref().and_then(|state| state.synced_at);
        outln!(
            "{:#}",
            json!({
                "state": state, "team": membership.name, "login": membership.login, "role": role, "sealed": membership.is_sealed,
                "behind": behind, "waiting": known.waiting, "synced_at": synced_at, "problem": problem,
                "refused": known.refused, "devices": listed,
            })
        );
        return Ok(ExitCode::SUCCESS);
    }
    let sealed = if membership.is_sealed { "sealed" } else { "readable on the server" };
    outln!("Team:        {} ({sealed})", harmless(&membership.name));
    let role = if role.is_empty() { role } else { format!(" ({role})") };
    outln!("Login:       {}{role}", harmless(&membership.login));
    outln!("State:       {state}");
    if let Some(problem) = &problem {
        wrap::print("Problem:     ", &harmless(problem));
    }
    outln!("To send:     {}", known.waiting);
    if problem.is_none() {
        outln!("To receive:  {behind}");
    }
    let problem_before = known.state.as_ref().and_then(|state| state.problem.clone());
    if let (Some(before), None) = (problem_before, &problem) {
        wrap::print("Last error:  ", &harmless(&before));
    }
    outln!("Set aside:   {}", known.refused.len());
    for refused in known.refused.iter().take(MOST_REFUSED) {
        wrap::print(&format!("  {}  ", harmless(&refused.place)), &harmless(&refused.reason));
    }
    if known.refused.len() > MOST_REFUSED {
        outln!("  … and {} more; `--json` lists all", known.refused.len() - MOST_REFUSED);
    }
    if !devices.is_empty() {
        outln!("Devices:");
        print_devices(&devices, &known);
    }
    Ok(ExitCode::SUCCESS)
}

/// Maximum records set aside that are shown one by one.
const MOST_REFUSED: usize = 10;

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn device_json(device: &Device, known: &LocalState) -> Value {
    json!({
        "id": device.id, "label": device.label, "login": device.login, "role": device.role, "seen_at": device.seen_at,
        "removed": device.is_gone, "records": device.seq, "behind": known.behind(device),
        "refused": known.refused_of(device), "this": known.device() == Some(&device.id.to_string()),
    })
}

fn print_devices(devices: &[Device], known: &LocalState) {
    let now = clock::now();
    let width = devices.iter().map(|device| device.label.chars().count()).max().unwrap_or_default();
    for device in devices {
        let mark = if known.device() == Some(&device.id.to_string()) { '*' } else { ' ' };
        let mut about =
            format!("{}, {}, {}", harmless(&device.login), seen(device.seen_at, now), records(device.seq));
        let behind = known.behind(device);
        if behind > 0 {
            about += &format!(", {behind} not received");
        }
        let refused = known.refused_of(device);
        if refused > 0 {
            about += &format!(", {refused} set aside");
        }
        if device.is_gone {
            about += ", removed";
        }
        outln!("  {mark} {:<width$}  {}  {about}", harmless(&device.label), device.id);
    }
}

fn seen(at: Millis, now: Millis) -> String {
    format!("seen {}", age::ago(at.min(now), now))
}

pub async fn devices(
    here: &Here<'_>,
    remove: Option<&str>,
    remove_member: Option<&str>,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let mut membership = here.membership()?;
    let known = LocalState::read(here)?;
    let server = ServerConnection::connect(membership.url.expose()).await?;
    server.check_schema().await?;
    if let Some(id) = remove {
        let all = server.devices(membership.team).await?;
        let Some(device) = all.iter().find(|device| device.id.to_string() == id) else {
            anyhow::bail!("the team has no device {}; see `claude-mem sync devices`", harmless(id));
        };
        server.retire(membership.team, device.id).await?;
        eprintln!("Removed the device {}.", harmless(&device.label));
    }
    if let Some(login) = remove_member {
        server.remove_member(membership.team, login).await?;
        eprintln!("Removed {}, who keeps what was received until now.", harmless(login));
        if membership.is_sealed {
            let logins = new_key(here, &mut membership).await?;
            eprintln!(
                "Later records have a new key, which these logins get by themselves: {}.",
                harmless(&logins.join(", "))
            );
        }
    }
    let devices = server.devices(membership.team).await?;
    if as_json {
        let listed: Vec<Value> = devices.iter().map(|device| device_json(device, &known)).collect();
        outln!("{:#}", json!(listed));
    } else {
        print_devices(&devices, &known);
    }
    Ok(ExitCode::SUCCESS)
}
