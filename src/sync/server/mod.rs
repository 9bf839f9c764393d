//! The PostgreSQL server: the only code that speaks to it.
//!
//! Every query is one round trip without a named statement, so that poolers between us and the
//! server do not matter.

mod address;
mod members;
mod queries;

pub use address::{Address, without_login};
pub use members::{Device, Hello, Member, Proofs, TeamKey};
pub use queries::{Forget, Head, NewRecord, StoredRecord, WrappedKey};

use std::future::poll_fn;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

use super::SyncError;
use crate::model::Millis;

/// The version of `schema.sql`.
pub const VERSION: i32 = 1;

const SCHEMA: &str = include_str!("schema.sql");

/// Maximum time for one query. A batch is small; a server that takes longer has a problem.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Values of a query, with their types.
type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A connection.
#[derive(Debug)]
pub struct ServerConnection {
    client: Client,
    /// The server, for messages.
    pub host: String,
    /// Ids of devices that sent something, from the server's notifications.
    pub news: UnboundedReceiver<String>,
    /// The server's clock, and the moment when it showed that time.
    clock: Option<(Millis, Instant)>,
}

impl ServerConnection {
    /// Connects.
    pub async fn connect(url: &str) -> Result<Self, SyncError> {
        let address = Address::parse(url)?;
        if address.is_encrypted {
            let tls = MakeRustlsConnect::new(address.tls()?);
            Self::connect_with(&address, tls).await
        } else {
            Self::connect_with(&address, NoTls).await
        }
    }

    async fn connect_with<T>(address: &Address, tls: T) -> Result<Self, SyncError>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connecting = tokio::time::timeout(QUERY_TIMEOUT, address.config.connect(tls)).await;
        let connected = connecting.map_err(|_| SyncError::Timeout(QUERY_TIMEOUT.as_secs()))?;
        let (client, mut connection) = connected.map_err(|error| match SyncError::from(error) {
            SyncError::Unreachable { reason, .. } => {
                SyncError::Unreachable { host: address.host.clone(), reason }
            }
            other => other,
        })?;
        let (sender, news) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(note) = message {
                    let _ = sender.send(note.payload().to_owned());
                }
            }
        });
        Ok(Self { client, host: address.host.clone(), news, clock: None })
    }

    /// True if the connection is lost.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Returns the version of the schema; `None` if the database has none.
    pub async fn schema_version(&self) -> Result<Option<i32>, SyncError> {
        let sql = "SELECT to_regclass('claude_mem.version') IS NOT NULL";
        let is_there = self.one(sql, &[]).await?.get::<_, bool>(0);
        if !is_there {
            return Ok(None);
        }
        let row = self.one("SELECT version FROM claude_mem.version", &[]).await?;
        Ok(Some(row.get(0)))
    }

    /// Checks that this program understands the schema.
    pub async fn check_schema(&self) -> Result<(), SyncError> {
        match self.schema_version().await? {
            None => Err(SyncError::NoSchema),
            Some(found) if found > VERSION => Err(SyncError::NewerSchema(found)),
            Some(_) => Ok(()),
        }
    }

    /// Creates the schema, all or nothing, if there is none.
    pub async fn create_schema(&self) -> Result<(), SyncError> {
        if self.schema_version().await?.is_some() {
            return self.check_schema().await;
        }
        let sql = format!("BEGIN;\n{SCHEMA}\nCOMMIT;");
        let created = self.timed(self.client.batch_execute(&sql)).await;
        if created.is_err() {
            let _ = self.timed(self.client.batch_execute("ROLLBACK")).await;
            // Another machine may have created it at the same moment.
            if self.schema_version().await?.is_some() {
                return self.check_schema().await;
            }
        }
        created
    }

    /// Returns the server's time.
    pub fn now(&self) -> Option<Millis> {
        let (at, since) = self.clock?;
        Some(at + Millis::try_from(since.elapsed().as_millis()).unwrap_or_default())
    }

    async fn one(&self, sql: &str, values: Values<'_>) -> Result<Row, SyncError> {
        self.timed(self.client.query_typed_one(sql, values)).await
    }

    async fn optional(&self, sql: &str, values: Values<'_>) -> Result<Option<Row>, SyncError> {
        self.timed(self.client.query_typed_opt(sql, values)).await
    }

    async fn rows(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>, SyncError> {
        self.timed(self.client.query_typed(sql, values)).await
    }

    async fn execute(&self, sql: &str, values: Values<'_>) -> Result<u64, SyncError> {
        self.timed(self.client.execute_typed(sql, values)).await
    }

    async fn timed<T>(
        &self,
        query: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, SyncError> {
        match tokio::time::timeout(QUERY_TIMEOUT, query).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(SyncError::Timeout(QUERY_TIMEOUT.as_secs())),
        }
    }
}

/// Parses an id that our own tables hold.
pub fn id(text: &str) -> Uuid {
    Uuid::parse_str(text).unwrap_or_default()
}
