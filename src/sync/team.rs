//! Founding and joining a team, and changing its key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::SyncError;
use super::exchange::{Identity, Sent};
use super::invitation::Invitation;
use super::keys::{Epochs, Key, random};
use super::membership::{Membership, host_name};
use super::server::{self, Hello, Proofs, ServerConnection};
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
    let server = ServerConnection::connect(team.url).await?;
    server.create_schema().await?;
    let id = Uuid::now_v7();
    let (team_keys, my_keys) = (Epochs::from([(1, Key::random())]), Epochs::from([(1, Key::random())]));
    let login = server.login().await?;
    let proofs = proofs(id, &login, &team_keys, &my_keys)?;
    server.create_team(id, team.name, team.is_sealed, &proofs).await?;
    Ok(Membership {
        url: secret(team.url)?,
        team: id,
        name: team.name.to_owned(),
        is_sealed: team.is_sealed,
        login,
        label: team.label.map_or_else(host_name, str::to_owned),
        team_keys,
        my_keys,
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
        return Err(SyncError::Membership(
            "this invitation has no login, because it is for another person; pass your own login with --url postgres://user:password@host/database"
                .into(),
        ));
    }
    let server = ServerConnection::connect(url).await?;
    server.check_schema().await?;
    let my_keys = match &invitation.my_keys {
        Some(keys) => keys.clone(),
        None => Epochs::from([(1, Key::random())]),
    };
    let login = server.login().await?;
    let proofs = proofs(invitation.team, &login, &invitation.team_keys, &my_keys)?;
    server.accept(invitation.team, &invitation.token_hash(), &proofs).await?;
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
    let server = ServerConnection::connect(membership.url.expose()).await?;
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

fn proofs(team: Uuid, login: &str, team_keys: &Epochs, my_keys: &Epochs) -> Result<Proofs, SyncError> {
    let proofs = || {
        Some(Proofs {
            team: team_keys.values().next()?.check(),
            newest: team_keys.values().next_back()?.check(),
            mine: my_keys.values().next()?.check(),
            public: Identity::new(team, my_keys)?.public(login, team_keys)?,
        })
    };
    proofs().ok_or_else(|| SyncError::WrongKey("a key is missing".into()))
}

/// Checks the keys of this device against the proofs on the server.
pub fn check_keys(membership: &Membership, checks: &(Vec<u8>, Vec<u8>)) -> Result<(), SyncError> {
    let is_right =
        |keys: &Epochs, check: &[u8]| keys.values().next().is_some_and(|key| key.check().as_slice() == check);
    if !is_right(&membership.team_keys, &checks.0) {
        return Err(SyncError::WrongKey("the key of this device is not the key of the team".into()));
    }
    if !is_right(&membership.my_keys, &checks.1) {
        return Err(SyncError::WrongKey(format!("login {} has another personal key", membership.login)));
    }
    Ok(())
}

/// Fetches the keys of the team that were made since this device got its own. True if there were any.
pub async fn renew_keys(
    server: &ServerConnection,
    membership: &mut Membership,
    hello: &Hello,
) -> Result<bool, SyncError> {
    let (newest, check) = &hello.epoch;
    let is_new = !membership.team_keys.contains_key(newest);
    if is_new {
        let members = server.members(membership.team).await?;
        for sealed in server.team_keys(membership.team).await? {
            let key = members
                .iter()
                .find(|member| member.login == sealed.sender)
                .filter(|member| {
                    member.public.is_genuine(membership.team, &member.login, &membership.team_keys)
                })
                .and_then(|sender| {
                    let sent = Sent { epoch: sealed.epoch, from: &sealed.sender, to: &membership.login };
                    Identity::new(membership.team, &membership.my_keys)?.open(
                        &sender.public,
                        &sent,
                        &sealed.wrapped,
                    )
                });
            if let Some(key) = key {
                membership.team_keys.entry(sealed.epoch).or_insert(key);
            }
        }
    }
    match membership.team_keys.get(newest) {
        Some(key) if key.check().as_slice() == check => Ok(is_new),
        _ => Err(SyncError::WrongKey("the team has a new key, which this device cannot open".into())),
    }
}

/// Attempts to change the key while members come and go.
const ATTEMPTS: usize = 5;

/// Makes a new key for everything that the team sends from now on, and seals it for each member.
/// Returns the logins that get it.
pub async fn rotate(membership: &mut Membership) -> Result<Vec<String>, SyncError> {
    let mut server = ServerConnection::connect(membership.url.expose()).await?;
    server.check_schema().await?;
    for _ in 1..ATTEMPTS {
        match rotate_once(&mut server, membership).await {
            // A member came or went meanwhile, or another owner changed the key.
            Err(SyncError::KeyChanged) => {}
            outcome => return outcome,
        }
    }
    rotate_once(&mut server, membership).await
}

async fn rotate_once(
    server: &mut ServerConnection,
    membership: &mut Membership,
) -> Result<Vec<String>, SyncError> {
    let hello = server.hello(membership.team, Uuid::nil()).await?;
    check_keys(membership, &hello.checks)?;
    renew_keys(server, membership, &hello).await?;
    let (epoch, key) = (hello.epoch.0 + 1, Key::random());
    let (mut logins, mut wrapped) = (Vec::new(), Vec::new());
    for member in server.members(membership.team).await?.into_iter().filter(|member| !member.is_removed) {
        let sent = Sent { epoch, from: &membership.login, to: &member.login };
        let is_genuine = member.public.is_genuine(membership.team, &member.login, &membership.team_keys);
        let identity = Identity::new(membership.team, &membership.my_keys).filter(|_| is_genuine);
        let sealed = identity.and_then(|identity| identity.seal(&member.public, &sent, &key));
        wrapped.push(sealed.ok_or_else(|| {
            let login = &member.login;
            SyncError::WrongKey(format!("the public key of {login} on the server is not one of this team's"))
        })?);
        logins.push(member.login);
    }
    server.rotate(membership.team, epoch, &key.check(), (&logins, &wrapped)).await?;
    membership.team_keys.insert(epoch, key);
    Ok(logins)
}

fn secret(url: &str) -> Result<Secret, SyncError> {
    Secret::new(url).ok_or_else(|| SyncError::Address("it is empty".into()))
}
