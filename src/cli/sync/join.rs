//! `sync init`, `sync invite`, `sync join` and `sync rotate`.

use std::io::Read;
use std::process::ExitCode;

use anyhow::bail;

use super::{Here, cycle, summary};
use crate::cli::output::style::harmless;
use crate::sync::invitation::Invitation;
use crate::sync::team::{self, NewTeam};
use crate::sync::{Membership, SyncError};

pub async fn init(
    here: &Here<'_>,
    url: &str,
    name: &str,
    label: Option<&str>,
    is_sealed: bool,
) -> anyhow::Result<ExitCode> {
    refuse_second_membership(here)?;
    here.home.prepare()?;
    let url = given(url)?;
    let membership = team::create(&NewTeam { url: &url, name, is_sealed, label }).await?;
    membership.save(here.home)?;
    let invitation = team::invite(&membership, None, FIRST_INVITATION_HOURS).await?;
    let sealed = match is_sealed {
        true => "Texts are sealed on your machines: the server sees sizes and times only.",
        false => "Texts are readable on the server, as you chose.",
    };
    outln!("Created the team {} on the server. {sealed}", harmless(name));
    let report = cycle(here).await;
    here.reload_service();
    match report {
        Ok(report) => outln!("{}", summary(&report)),
        Err(error) => {
            eprintln!("claude-mem: the first synchronisation failed and will be repeated: {error:#}")
        }
    }
    outln!(
        "\nOn your next machine, within {FIRST_INVITATION_HOURS} hours (it contains your login and keys; keep it secret):\n"
    );
    outln!("claude-mem sync join {}", invitation.to_line());
    Ok(ExitCode::SUCCESS)
}

/// Hours for which the invitation that `init` prints holds.
const FIRST_INVITATION_HOURS: i32 = 72;

pub async fn invite(here: &Here<'_>, role: Option<&str>, hours: i32) -> anyhow::Result<ExitCode> {
    let membership = here.membership()?;
    let invitation = team::invite(&membership, role, hours).await?;
    match role {
        None => {
            outln!("For another machine of yours, within {hours} hours (it contains your login and keys):\n")
        }
        Some(_) => outln!(
            "For another person with a login of their own on the same database, once, within {hours} hours (it contains the team's \
             key); they add --url postgres://THEIR-LOGIN@…:\n"
        ),
    }
    outln!("claude-mem sync join {}", invitation.to_line());
    Ok(ExitCode::SUCCESS)
}

pub async fn join(
    here: &Here<'_>,
    invitation: &str,
    url: Option<&str>,
    label: Option<&str>,
) -> anyhow::Result<ExitCode> {
    refuse_second_membership(here)?;
    here.home.prepare()?;
    let invitation = Invitation::from_line(&given(invitation)?)?;
    let url = url.map(given).transpose()?;
    let membership = team::join(invitation, url.as_deref(), label).await?;
    membership.save(here.home)?;
    outln!("Joined the team {} as {}.", harmless(&membership.name), harmless(&membership.login));
    let report = cycle(here).await;
    here.reload_service();
    outln!("{}", summary(&report?));
    Ok(ExitCode::SUCCESS)
}

pub async fn rotate(here: &Here<'_>) -> anyhow::Result<ExitCode> {
    let mut membership = here.membership()?;
    let logins = new_key(here, &mut membership).await?;
    outln!("The team has a new key, which these logins get by themselves: {}.", harmless(&logins.join(", ")));
    Ok(ExitCode::SUCCESS)
}

/// Gives the team a new key. Returns the logins that get it.
pub async fn new_key(here: &Here<'_>, membership: &mut Membership) -> anyhow::Result<Vec<String>> {
    if !membership.is_sealed {
        bail!("the texts of this team are readable on the server: there is no key to change");
    }
    let logins = team::rotate(membership).await?;
    membership.save_team_keys(here.home)?;
    here.reload_service();
    Ok(logins)
}

fn refuse_second_membership(here: &Here<'_>) -> anyhow::Result<()> {
    match Membership::load(here.home, here.environment) {
        Ok(Some(membership)) => bail!(
            "this machine already synchronises with the team {}; run `claude-mem sync leave` first",
            harmless(&membership.name)
        ),
        Ok(None) => Ok(()),
        Err(error @ SyncError::Membership(_)) => bail!("{error}"),
        Err(error) => Err(error.into()),
    }
}

/// Returns the argument, or standard input if it is `-`: other users can see the arguments of a
/// process.
fn given(argument: &str) -> anyhow::Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}
