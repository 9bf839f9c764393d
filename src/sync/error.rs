//! The reasons why synchronisation fails, as sentences that a user can act on.

use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// An error of synchronisation.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// There is no membership.
    #[error("this machine does not synchronise; run `claude-mem sync init` or `claude-mem sync join`")]
    NotSetUp,
    /// The membership file cannot be used.
    #[error("{0}")]
    Membership(String),
    /// The address cannot be used.
    #[error("cannot use the address of the server: {0}")]
    Address(String),
    /// The server does not answer.
    #[error("cannot reach {host}: {reason}")]
    Unreachable {
        /// The server.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The server refuses the login.
    #[error("the server refuses the login: {0}; check user and password in the address")]
    Login(String),
    /// The login lacks a right in the database.
    #[error(
        "the login lacks a right on the server: {0}; let a login with the right to create schemas run `claude-mem sync init`"
    )]
    Rights(String),
    /// The database has no schema of ours.
    #[error("the database has no claude-mem schema; run `claude-mem sync init --url …` once")]
    NoSchema,
    /// The schema is newer than this program.
    #[error("the schema on the server has version {0}, this claude-mem supports {known}: upgrade claude-mem", known = super::server::VERSION)]
    NewerSchema(i32),
    /// The key is not the team's.
    #[error(
        "wrong key: {0}; nothing was written. Get a new invitation with `claude-mem sync invite` on a device that works"
    )]
    WrongKey(String),
    /// The login is not a member, or its role does not allow this.
    #[error("{0}; ask an owner of the team")]
    Role(String),
    /// The invitation cannot be used.
    #[error("{0}; get a new one with `claude-mem sync invite` on a device of the team")]
    Invitation(String),
    /// Another device writes the same log.
    #[error("another device writes under the id of this one; the next attempt continues as a new device")]
    Conflict,
    /// The team has a newer key than this device.
    #[error("the team's key was changed by somebody else at the same time; try again")]
    KeyChanged,
    /// This device was retired.
    #[error(
        "this device was removed from the team; run `claude-mem sync leave`, then join with a new invitation"
    )]
    Removed,
    /// The server did not answer in time.
    #[error("the server did not answer within {0} seconds")]
    Timeout(u64),
    /// Any other error of the server.
    #[error("the server reports: {0}")]
    Server(String),
    /// The local database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<tokio_postgres::Error> for SyncError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(refused) = error.as_db_error() else {
            let reason =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            return Self::Unreachable { host: "the server".into(), reason };
        };
        let message = refused.message().to_owned();
        match refused.code() {
            code if code.code() == "MEM01" => Self::WrongKey(message),
            code if code.code() == "MEM02" => Self::Role(message),
            code if code.code() == "MEM03" => Self::Invitation(message),
            code if code.code() == "MEM04" => Self::Conflict,
            code if code.code() == "MEM05" => Self::KeyChanged,
            code if *code == SqlState::UNIQUE_VIOLATION => Self::Conflict,
            code if *code == SqlState::INVALID_PASSWORD
                || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
            {
                Self::Login(message)
            }
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => Self::Rights(message),
            code if *code == SqlState::INVALID_SCHEMA_NAME || *code == SqlState::UNDEFINED_TABLE => {
                Self::NoSchema
            }
            _ => Self::Server(message),
        }
    }
}
