//! The queries, one method each.

use std::time::Instant;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Server, Values};
use crate::model::Millis;
use crate::sync::SyncError;

/// The team as a member sees it.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The team's name.
    pub name: String,
    /// False: bodies are readable.
    pub is_sealed: bool,
    /// Proofs of the team's key and of the member's own.
    pub checks: (Vec<u8>, Vec<u8>),
    /// owner, write or read.
    pub role: String,
    /// The login.
    pub login: String,
    /// True if this device is registered and not retired.
    pub is_device: bool,
}

/// The newest record of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The device.
    pub device: Uuid,
    /// The record's number.
    pub seq: i64,
    /// Its id.
    pub id: Uuid,
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

/// A record to add to this device's log.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the columns' own names")]
pub struct NewRecord {
    pub seq: i64,
    pub id: Uuid,
    pub kind: i16,
    pub project: Vec<u8>,
    pub hlc: i64,
    pub epoch: i32,
    pub is_shared: bool,
    pub refers: Uuid,
    pub body: Vec<u8>,
}

/// A record of the server.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    /// The columns that its device wrote.
    pub record: NewRecord,
    /// Time of its arrival.
    pub received_at: Millis,
}

/// A sealed project key.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the columns' own names")]
pub struct WrappedKey {
    pub login: String,
    pub project: Vec<u8>,
    pub epoch: i32,
    pub id: Uuid,
    pub wrapped: Vec<u8>,
}

/// Maximum bytes of bodies that one query returns, beyond its first record.
const MAX_BATCH_BYTES: i64 = 1 << 20;

impl Server {
    /// Introduces this device; the error says if the login is no member.
    pub async fn hello(&mut self, team: Uuid, device: Uuid) -> Result<Hello, SyncError> {
        let sql = "SELECT name, sealed, team_check, my_check, role, login, is_device, server_ms FROM claude_mem.hello($1, $2)";
        let row = self.optional(sql, &[(&team, Type::UUID), (&device, Type::UUID)]).await?;
        let row = row.ok_or_else(|| SyncError::Role("this login is not a member of the team".into()))?;
        self.clock = Some((row.get(7), Instant::now()));
        Ok(Hello {
            name: row.get(0),
            is_sealed: row.get(1),
            checks: (row.get(2), row.get(3)),
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
        (team_check, my_check): (&[u8], &[u8]),
    ) -> Result<String, SyncError> {
        let sql = "SELECT session_user::text FROM claude_mem.create_team($1, $2, $3, $4, $5)";
        Ok(self
            .one(
                sql,
                &[
                    (&team, Type::UUID),
                    (&name, Type::TEXT),
                    (&is_sealed, Type::BOOL),
                    (&team_check, Type::BYTEA),
                    (&my_check, Type::BYTEA),
                ],
            )
            .await?
            .get(0))
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

    /// Uses an invitation. Returns the login; nothing is written if a key is wrong.
    pub async fn accept(
        &self,
        team: Uuid,
        token: &[u8],
        (team_check, my_check): (&[u8], &[u8]),
    ) -> Result<String, SyncError> {
        let sql = "SELECT session_user::text FROM claude_mem.accept($1, $2, $3, $4)";
        Ok(self
            .one(
                sql,
                &[
                    (&team, Type::UUID),
                    (&token, Type::BYTEA),
                    (&team_check, Type::BYTEA),
                    (&my_check, Type::BYTEA),
                ],
            )
            .await?
            .get(0))
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

    /// Retires a device. Returns the number of bodies removed.
    pub async fn retire(&self, team: Uuid, device: Uuid, forget: bool) -> Result<i64, SyncError> {
        let sql = "SELECT claude_mem.retire($1, $2, $3)";
        Ok(self.one(sql, &[(&team, Type::UUID), (&device, Type::UUID), (&forget, Type::BOOL)]).await?.get(0))
    }

    /// Removes a member.
    pub async fn remove_member(&self, team: Uuid, login: &str) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.remove_member($1, $2::name)";
        self.one(sql, &[(&team, Type::UUID), (&login, Type::NAME)]).await.map(drop)
    }

    /// Returns the newest record of each device: the poll.
    pub async fn heads(&self, team: Uuid) -> Result<Vec<Head>, SyncError> {
        let sql = "SELECT device, seq, id FROM claude_mem.head WHERE team = $1";
        let rows = self.rows(sql, &[(&team, Type::UUID)]).await?;
        Ok(rows.iter().map(|row| Head { device: row.get(0), seq: row.get(1), id: row.get(2) }).collect())
    }

    /// Returns the records of a device after `seq`, in order.
    pub async fn records(
        &self,
        team: Uuid,
        device: Uuid,
        seq: i64,
        limit: i64,
    ) -> Result<Vec<StoredRecord>, SyncError> {
        let sql = "SELECT seq, id, kind, project, hlc, epoch, shared, refers, body, (extract(epoch FROM recv_at) * 1000)::bigint
                   FROM (SELECT *, sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before
                         FROM (SELECT * FROM claude_mem.record WHERE team = $1 AND device = $2 AND seq > $3
                               ORDER BY seq LIMIT $4) AS next) AS batch
                   WHERE before <= $5 ORDER BY seq";
        let rows = self
            .rows(
                sql,
                &[
                    (&team, Type::UUID),
                    (&device, Type::UUID),
                    (&seq, Type::INT8),
                    (&limit, Type::INT8),
                    (&MAX_BATCH_BYTES, Type::INT8),
                ],
            )
            .await?;
        let read = |row: &tokio_postgres::Row| StoredRecord {
            record: NewRecord {
                seq: row.get(0),
                id: row.get(1),
                kind: row.get(2),
                project: row.get(3),
                hlc: row.get(4),
                epoch: row.get(5),
                is_shared: row.get(6),
                refers: row.get(7),
                body: row.get(8),
            },
            received_at: row.get(9),
        };
        Ok(rows.iter().map(read).collect())
    }

    /// Appends records to this device's log: all of them or none.
    pub async fn append(&self, team: Uuid, device: Uuid, records: &[NewRecord]) -> Result<(), SyncError> {
        let sql = "INSERT INTO claude_mem.record (team, device, seq, id, kind, project, hlc, epoch, shared, refers, body)
                   SELECT $1, $2, * FROM unnest($3::bigint[], $4::uuid[], $5::smallint[], $6::bytea[], $7::bigint[], $8::int[],
                                               $9::bool[], $10::uuid[], $11::bytea[])";
        fn column<'a, T>(records: &'a [NewRecord], value: impl Fn(&'a NewRecord) -> T) -> Vec<T> {
            records.iter().map(value).collect()
        }
        self.execute(
            sql,
            &[
                (&team, Type::UUID),
                (&device, Type::UUID),
                (&column(records, |record| record.seq), Type::INT8_ARRAY),
                (&column(records, |record| record.id), Type::UUID_ARRAY),
                (&column(records, |record| record.kind), Type::INT2_ARRAY),
                (&column(records, |record| record.project.as_slice()), Type::BYTEA_ARRAY),
                (&column(records, |record| record.hlc), Type::INT8_ARRAY),
                (&column(records, |record| record.epoch), Type::INT4_ARRAY),
                (&column(records, |record| record.is_shared), Type::BOOL_ARRAY),
                (&column(records, |record| record.refers), Type::UUID_ARRAY),
                (&column(records, |record| record.body.as_slice()), Type::BYTEA_ARRAY),
            ],
        )
        .await
        .map(drop)
    }

    /// Removes the bodies of these memories, up to this clock.
    pub async fn purge(&self, team: Uuid, memories: &[Uuid], hlc: i64) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.purge($1, $2, $3)";
        let values: Values<'_> = &[(&team, Type::UUID), (&memories, Type::UUID_ARRAY), (&hlc, Type::INT8)];
        self.one(sql, values).await.map(drop)
    }

    /// Removes all bodies of a project, and its keys.
    pub async fn purge_project(&self, team: Uuid, project: &[u8]) -> Result<(), SyncError> {
        let sql = "SELECT claude_mem.purge_project($1, $2)";
        self.one(sql, &[(&team, Type::UUID), (&project, Type::BYTEA)]).await.map(drop)
    }

    /// Returns the sealed keys with these ids that still exist.
    pub async fn keys_by_id(&self, team: Uuid, ids: &[Uuid]) -> Result<Vec<WrappedKey>, SyncError> {
        let sql = "SELECT login::text, project, epoch, id, wrapped FROM claude_mem.project_key WHERE team = $1 AND id = ANY ($2)";
        Ok(self
            .rows(sql, &[(&team, Type::UUID), (&ids, Type::UUID_ARRAY)])
            .await?
            .iter()
            .map(read_key)
            .collect())
    }

    /// Returns the sealed key of a project, which is `proposal` if there was none.
    pub async fn project_key(&self, team: Uuid, proposal: &WrappedKey) -> Result<WrappedKey, SyncError> {
        let WrappedKey { login, project, epoch, id, wrapped } = proposal;
        let sql = "SELECT login::text, project, epoch, id, wrapped FROM claude_mem.project_key
                   WHERE team = $1 AND login = $2 AND project = $3 AND epoch = $4";
        let place = [
            (&team as _, Type::UUID),
            (login as _, Type::NAME),
            (project as _, Type::BYTEA),
            (epoch as _, Type::INT4),
        ];
        if let Some(row) = self.optional(sql, &place).await? {
            return Ok(read_key(&row));
        }
        let add = "INSERT INTO claude_mem.project_key (team, login, project, epoch, id, wrapped) VALUES ($1, $2, $3, $4, $5, $6)
                   ON CONFLICT (team, login, project, epoch) DO NOTHING";
        let [team_value, login_value, project_value, epoch_value] = place.clone();
        let row = [
            team_value,
            login_value,
            project_value,
            epoch_value,
            (id as _, Type::UUID),
            (wrapped as _, Type::BYTEA),
        ];
        self.execute(add, &row).await?;
        let row = self.one(sql, &place).await?;
        Ok(read_key(&row))
    }
}

fn read_key(row: &tokio_postgres::Row) -> WrappedKey {
    WrappedKey {
        login: row.get(0),
        project: row.get(1),
        epoch: row.get(2),
        id: row.get(3),
        wrapped: row.get(4),
    }
}
