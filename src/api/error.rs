//! Errors of the API: `{"error": {"code": …, "message": …}}`.

use serde::{Deserialize, Serialize};

/// The kind of an error, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is invalid (400).
    BadRequest,
    /// The socket belongs to another user (403).
    Forbidden,
    /// The memory or session does not exist (404).
    NotFound,
    /// The route does not exist, for example in a worker of an earlier version (404).
    UnknownRoute,
    /// The route exists, but not for this method (405).
    MethodNotAllowed,
    /// The request took too long (408).
    Timeout,
    /// The body is too large (413).
    TooLarge,
    /// The worker cannot use its database, or is stopping (503).
    Degraded,
    /// A code that this version does not know.
    #[serde(other)]
    Unknown,
}

impl ErrorCode {
    /// All codes that a worker sends.
    pub const ALL: [Self; 8] = [
        Self::BadRequest,
        Self::Forbidden,
        Self::NotFound,
        Self::UnknownRoute,
        Self::MethodNotAllowed,
        Self::Timeout,
        Self::TooLarge,
        Self::Degraded,
    ];

    /// The HTTP status that goes with it.
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Forbidden => 403,
            Self::NotFound | Self::UnknownRoute => 404,
            Self::MethodNotAllowed => 405,
            Self::Timeout => 408,
            Self::TooLarge => 413,
            Self::Degraded => 503,
            Self::Unknown => 500,
        }
    }

    /// True if the database may answer although this worker cannot: it is degraded or slow, or of
    /// a version that lacks the route.
    pub fn permits_fallback(self) -> bool {
        matches!(self, Self::Degraded | Self::Timeout | Self::UnknownRoute | Self::MethodNotAllowed)
    }
}

/// An error with its explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Its kind.
    pub code: ErrorCode,
    /// The explanation for a person.
    pub message: String,
}

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}

impl ApiError {
    /// An error of that kind.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    /// The memory or session does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// The worker cannot answer now.
    pub fn degraded(reason: impl Into<String>) -> Self {
        Self::new(ErrorCode::Degraded, reason)
    }
}
