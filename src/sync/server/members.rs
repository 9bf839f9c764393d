//! Queries about the team: its members, devices, invitations and keys, one method each.

use std::time::Instant;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{ServerConnection, Values};
use crate::model::Millis;
use crate::sync::SyncError;
use crate::sync::exchange::Public;

/// The team as a member sees it.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The team's name.
    pub name: String,
    /// False: bodies are readable.
    pub is_sealed: bool,
    /// Proofs of the team's first key and of the member's own.
    pub checks: (Vec<u8>, Vec<u8>),
    /// The number of the key that new records are sealed with, and its proof.
    pub epoch: (i32, Vec<u8>),
    /// owner, write or read.
    pub role: String,
    /// The login.
    pub login: String,
    /// True if this device is registered and not retired.
    pub is_device: bool,
}

/// A device of the team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its id.
    pub id: Uuid,
    /// Its owner.
    pub login: String,
    /// The owner's role.
    pub role: String,
    /// Its name.
    pub label: String,
    /// Time of its last connection or record.
    pub seen_at: Millis,
    /// True if it was retired, or its owner removed.
    pub is_gone: bool,
    /// The number of its records.
    pub seq: i64,
}

/// A member of the team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The login.
    pub login: String,
    /// The key that receives keys of the team.
    pub public: Public,
    /// True if an owner removed this member.
    pub is_removed: bool,
}

/// A key of the team, sealed for this login.
#[derive(Debug, Clone)]
pub struct TeamKey {
    /// Its number.
    pub epoch: i32,
    /// The login that made it.
    pub sender: String,
    /// The sealed key.
    pub wrapped: Vec<u8>,
}

/// The proofs that the server stores and compares.
#[derive(Debug)]
pub struct Proofs {
    /// Of the team's first key.
    pub team: [u8; 32],
    /// Of the team's newest key.
    pub newest: [u8; 32],
    /// Of the member's own key.
    pub mine: [u8; 32],
    /// The member's public key.
    pub public: Public,
}

impl ServerConnection {
    /// Introduces this device; the error says if the login is no member.
    pub async fn hello(&mut self, team: Uuid, device: Uuid) -> Result<Hello, SyncError> {
        let sql = "SELECT name, sealed, team_check, my_check, role, login, is_device, server_ms, epoch, epoch_check FROM claude_mem.hello($1, $2)";
        let row = self.optional(sql, &[(&team, Type::UUID), (&device, Type::UUID)]).await?;
        let row = row.ok_or_else(|| SyncError::Role("this login is not a member of the team".into()))?;
        self.clock = Some((row.get(7), Instant::now()));
        Ok(Hello {
            name: row.get(0),
            is_sealed: row.get(1),
            checks: (row.get(2), row.get(3)),
            epoch: (row.get(8), row.get(9)),
            role: row.get(4),
            login: row.get(5),
            is_device: row.get(6),
        })
    }

    /// Asks the server to send notifications about new records.
    pub async fn listen(&self) -> Result<(), SyncError> {
        self.timed(self.client.batch_execute("LISTEN claude_mem")).await
    }

    /// Creates a team with this login as its owner.
    pub async fn create_team(
        &self,
        team: Uuid,
        name: &str,
        is_sealed: bool,
        proofs: &Proofs,
    ) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.create_team($1, $2, $3, $4, $5, $6, $7)";
        let values: Values<'_> = &[
            (&team, Type::UUID),
            (&name, Type::TEXT),
            (&is_sealed, Type::BOOL),
            (&proofs.team.as_slice(), Type::BYTEA),
            (&proofs.mine.as_slice(), Type::BYTEA),
            (&proofs.public.key, Type::BYTEA),
            (&proofs.public.proof, Type::BYTEA),
        ];
        self.one(sql, values).await.map(drop)
    }

    /// Returns the login that the server authenticated.
    pub async fn login(&self) -> Result<String, SyncError> {
        Ok(self.one("SELECT session_user::text", &[]).await?.get(0))
    }

    /// Stores an invitation; without a role it is for this login's own machines.
    pub async fn invite(
        &self,
        team: Uuid,
        token: &[u8],
        role: Option<&str>,
        hours: i32,
    ) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.invite($1, $2, $3, $4)";
        self.one(
            sql,
            &[(&team, Type::UUID), (&token, Type::BYTEA), (&role, Type::TEXT), (&hours, Type::INT4)],
        )
        .await
        .map(drop)
    }

    /// Uses an invitation. Nothing is written if a key is wrong.
    pub async fn accept(&self, team: Uuid, token: &[u8], proofs: &Proofs) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.accept($1, $2, $3, $4, $5, $6, $7)";
        let values: Values<'_> = &[
            (&team, Type::UUID),
            (&token, Type::BYTEA),
            (&proofs.team.as_slice(), Type::BYTEA),
            (&proofs.newest.as_slice(), Type::BYTEA),
            (&proofs.mine.as_slice(), Type::BYTEA),
            (&proofs.public.key, Type::BYTEA),
            (&proofs.public.proof, Type::BYTEA),
        ];
        self.one(sql, values).await.map(drop)
    }

    /// Adds a device of this login.
    pub async fn register(&self, team: Uuid, device: Uuid, label: &str) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.register($1, $2, $3)";
        self.one(sql, &[(&team, Type::UUID), (&device, Type::UUID), (&label, Type::TEXT)]).await.map(drop)
    }

    /// Lists the devices of the team.
    pub async fn devices(&self, team: Uuid) -> Result<Vec<Device>, SyncError> {
        let sql = "SELECT id, login, role, label, seen_ms, is_gone, seq FROM claude_mem.devices($1)";
        let rows = self.rows(sql, &[(&team, Type::UUID)]).await?;
        let read = |row: &tokio_postgres::Row| Device {
            id: row.get(0),
            login: row.get(1),
            role: row.get(2),
            label: row.get(3),
            seen_at: row.get(4),
            is_gone: row.get(5),
            seq: row.get(6),
        };
        Ok(rows.iter().map(read).collect())
    }

    /// Retires a device.
    pub async fn retire(&self, team: Uuid, device: Uuid) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.retire($1, $2)";
        self.one(sql, &[(&team, Type::UUID), (&device, Type::UUID)]).await.map(drop)
    }

    /// Removes a member.
    pub async fn remove_member(&self, team: Uuid, login: &str) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.remove_member($1, $2::name)";
        self.one(sql, &[(&team, Type::UUID), (&login, Type::NAME)]).await.map(drop)
    }

    /// Lists the members of the team, with those who were removed.
    pub async fn members(&self, team: Uuid) -> Result<Vec<Member>, SyncError> {
        let sql = "SELECT login, public_key, proof, is_removed FROM claude_mem.members($1)";
        let rows = self.rows(sql, &[(&team, Type::UUID)]).await?;
        let read = |row: &tokio_postgres::Row| Member {
            login: row.get(0),
            public: Public { key: row.get(1), proof: row.get(2) },
            is_removed: row.get(3),
        };
        Ok(rows.iter().map(read).collect())
    }

    /// Starts a new epoch with a key that is sealed for each of these logins, the team's members.
    pub async fn rotate(
        &self,
        team: Uuid,
        epoch: i32,
        check: &[u8],
        (logins, wrapped): (&[String], &[Vec<u8>]),
    ) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.rotate($1, $2, $3, $4::text[]::name[], $5)";
        let values: Values<'_> = &[
            (&team, Type::UUID),
            (&epoch, Type::INT4),
            (&check, Type::BYTEA),
            (&logins, Type::TEXT_ARRAY),
            (&wrapped, Type::BYTEA_ARRAY),
        ];
        self.one(sql, values).await.map(drop)
    }

    /// Returns the keys of the team that were sealed for this login.
    pub async fn team_keys(&self, team: Uuid) -> Result<Vec<TeamKey>, SyncError> {
        let sql = "SELECT epoch, sender::text, wrapped FROM claude_mem.team_key WHERE team = $1 AND login = session_user ORDER BY epoch";
        let rows = self.rows(sql, &[(&team, Type::UUID)]).await?;
        let read = |row: &tokio_postgres::Row| TeamKey {
            epoch: row.get(0),
            sender: row.get(1),
            wrapped: row.get(2),
        };
        Ok(rows.iter().map(read).collect())
    }
}
