//! Bodies, path parameters and query strings of requests.

use std::time::Duration;

use axum::body::{Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{timeout, too_large};
use crate::api::ApiError;

/// Maximum size of a request body.
pub const MAX_BODY_BYTES: usize = 8 << 20;

/// Maximum time to receive a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A body that must be a JSON value.
pub struct JsonBody(pub Value);

impl JsonBody {
    /// Parses the value as a request.
    pub fn parse<T: DeserializeOwned>(self) -> Result<T, ApiError> {
        serde_json::from_value(self.0).map_err(|error| ApiError::bad_request(error.to_string()))
    }
}

impl<S: Send + Sync> FromRequest<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // Reject a body with a known excessive size before reading any of it.
        if request.body().size_hint().lower() > MAX_BODY_BYTES as u64 {
            return Err(too_large());
        }
        let reading = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state));
        let bytes = reading.await.map_err(|_| timeout())?.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => ApiError::bad_request(rejection.body_text()),
        })?;
        let value = serde_json::from_slice(&bytes);
        value.map(Self).map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))
    }
}

/// A path parameter.
pub struct Named(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name)).map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}

/// The query string, parsed into a structure.
pub struct Parameters<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|Query(value)| Self(value))
            .map_err(|rejection| ApiError::bad_request(rejection.body_text()))
    }
}
