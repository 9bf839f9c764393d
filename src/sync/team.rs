//! Founding, joining and leaving a team.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::SyncError;
use super::invitation::Invitation;
use super::keys::{Epochs, Key, random};
use super::membership::{Membership, host_name};
use super::server::{self, Server};
use crate::config::Secret;

/// A new team.
#[derive(Debug)]
pub struct NewTeam<'a> {
    /// The server's address.
    pub url: &'a str,
    /// The team's name.
    pub name: &'a str,
    /// False: bodies are readable on the server.
    pub is_sealed: bool,
    /// The name of this device; that of the machine if missing.
    pub label: Option<&'a str>,
}

/// Creates the schema, if there is none, and a team with this login as its owner.
pub async fn create(team: &NewTeam<'_>) -> Result<Membership, SyncError> {
    let server = Server::connect(team.url).await?;
    server.create_schema().await?;
    let id = Uuid::now_v7();
    let (team_key, my_key) = (Key::random(), Key::random());
    let checks = (team_key.check(), my_key.check());
    let login = server.create_team(id, team.name, team.is_sealed, (&checks.0, &checks.1)).await?;
    Ok(Membership {
        url: secret(team.url)?,
        team: id,
        name: team.name.to_owned(),
        is_sealed: team.is_sealed,
        login,
        label: team.label.map_or_else(host_name, str::to_owned),
        team_keys: [(1, team_key)].into(),
        my_keys: [(1, my_key)].into(),
        shares: Default::default(),
    })
}

/// Joins a team: the server checks invitation and keys before anything is written. `url` replaces
/// the address in the invitation.
pub async fn join(
    invitation: Invitation,
    url: Option<&str>,
    label: Option<&str>,
) -> Result<Membership, SyncError> {
    let url = url.unwrap_or(&invitation.url);
    if invitation.my_keys.is_none() && url == invitation.url {
        return Err(SyncError::Address(
            "this invitation is for another person; pass your own login with --url postgres://user:password@host/database"
                .into(),
        ));
    }
    let server = Server::connect(url).await?;
    server.check_schema().await?;
    let my_keys = match &invitation.my_keys {
        Some(keys) => keys.clone(),
        None => Epochs::from([(1, Key::random())]),
    };
    let check = |keys: &Epochs| keys.values().next().map(Key::check).unwrap_or_default();
    let checks = (check(&invitation.team_keys), check(&my_keys));
    let login = server.accept(invitation.team, &invitation.token_hash(), (&checks.0, &checks.1)).await?;
    Ok(Membership {
        url: secret(url)?,
        team: invitation.team,
        name: invitation.name,
        is_sealed: invitation.is_sealed,
        login,
        label: label.map_or_else(host_name, str::to_owned),
        team_keys: invitation.team_keys,
        my_keys,
        shares: Default::default(),
    })
}

/// Makes an invitation: for another machine of this login, or with a role for another person.
pub async fn invite(
    membership: &Membership,
    role: Option<&str>,
    hours: i32,
) -> Result<Invitation, SyncError> {
    let server = Server::connect(membership.url.expose()).await?;
    server.check_schema().await?;
    let invitation = Invitation {
        url: match role {
            Some(_) => server::without_login(membership.url.expose()),
            None => membership.url.expose().to_owned(),
        },
        team: membership.team,
        name: membership.name.clone(),
        is_sealed: membership.is_sealed,
        token: URL_SAFE_NO_PAD.encode(random::<24>()),
        team_keys: membership.team_keys.clone(),
        my_keys: role.is_none().then(|| membership.my_keys.clone()),
    };
    server.invite(membership.team, &invitation.token_hash(), role, hours).await?;
    Ok(invitation)
}

fn secret(url: &str) -> Result<Secret, SyncError> {
    Secret::new(url).ok_or_else(|| SyncError::Address("it is empty".into()))
}
