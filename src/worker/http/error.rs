//! Errors as responses.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::extract::MAX_BODY_BYTES;
use crate::api::{ApiError, ErrorBody, ErrorCode};
use crate::store::StoreError;

/// The client may not use this socket.
pub fn forbidden() -> ApiError {
    ApiError::new(ErrorCode::Forbidden, "this socket belongs to another user")
}

/// The route does not exist.
pub fn unknown_route() -> ApiError {
    ApiError::new(ErrorCode::UnknownRoute, "there is no such route")
}

/// The route exists, but not for this method.
pub fn wrong_method() -> ApiError {
    ApiError::new(ErrorCode::MethodNotAllowed, "this route does not support this method")
}

/// The request took too long.
pub fn timeout() -> ApiError {
    ApiError::new(ErrorCode::Timeout, "the request took too long")
}

/// The body is too large.
pub fn too_large() -> ApiError {
    ApiError::new(ErrorCode::TooLarge, format!("the body is larger than {MAX_BODY_BYTES} bytes"))
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(_) | StoreError::Vetoed => Self::bad_request(error.to_string()),
            _ => Self::degraded(error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(ErrorBody { error: self })).into_response()
    }
}
