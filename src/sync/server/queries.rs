//! Queries about records and the keys of their projects, one method each.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{ServerConnection, Values};
use crate::model::Millis;
use crate::sync::SyncError;

/// The newest record of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The device.
    pub device: Uuid,
    /// The record's number.
    pub seq: i64,
    /// Its id.
    pub id: Uuid,
    /// True if it is a device of this login.
    pub is_mine: bool,
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

/// The records whose bodies go.
#[derive(Debug, Clone, Copy)]
pub enum Forget<'a> {
    /// About these memories.
    Memories(&'a [Uuid]),
    /// Of a project.
    Project(&'a [u8]),
    /// Of a device's log.
    Device(Uuid),
}

/// Maximum bytes of bodies that one query returns, beyond its first record.
const MAX_BATCH_BYTES: i64 = 1 << 20;

impl ServerConnection {
    /// Returns the newest record of each device: the poll.
    pub async fn heads(&self, team: Uuid) -> Result<Vec<Head>, SyncError> {
        let sql = "SELECT device, seq, id, (team, device) IN (SELECT d.team, d.device FROM claude_mem.my_devices() d)
                   FROM claude_mem.head WHERE team = $1";
        let rows = self.rows(sql, &[(&team, Type::UUID)]).await?;
        let read = |row: &tokio_postgres::Row| Head {
            device: row.get(0),
            seq: row.get(1),
            id: row.get(2),
            is_mine: row.get(3),
        };
        Ok(rows.iter().map(read).collect())
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

    /// Removes bodies up to this clock, with the keys of a project. Returns their number.
    pub async fn forget(&self, team: Uuid, what: Forget<'_>, hlc: i64) -> Result<i64, SyncError> {
        let (memories, project, device) = match what {
            Forget::Memories(memories) => (Some(memories), None, None),
            Forget::Project(project) => (None, Some(project), None),
            Forget::Device(device) => (None, None, Some(device)),
        };
        let sql = "SELECT claude_mem.forget($1, $2, $3, $4, $5)";
        let values: Values<'_> = &[
            (&team, Type::UUID),
            (&memories, Type::UUID_ARRAY),
            (&project, Type::BYTEA),
            (&device, Type::UUID),
            (&hlc, Type::INT8),
        ];
        Ok(self.one(sql, values).await?.get(0))
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
