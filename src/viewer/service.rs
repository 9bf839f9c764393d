//! The service behind its socket: the only source of memories.

use std::path::PathBuf;

use axum::body::Body;
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::{ApiError, ErrorCode};
use crate::client::Call;

/// The reason why a page cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageError {
    /// The service does not respond.
    Down,
    /// The service refuses.
    Refused(ApiError),
}

impl PageError {
    /// True if the thing asked for does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused(error) if error.code == ErrorCode::NotFound)
    }

    /// The explanation for a person.
    pub fn message(&self) -> String {
        match self {
            Self::Down => "The service is not running. Start it with `claude-mem start`.".into(),
            Self::Refused(error) => error.message.clone(),
        }
    }
}

/// The result of a request.
pub type Asked<T> = Result<T, PageError>;

/// Access to the service.
#[derive(Debug, Clone)]
pub struct Service {
    socket: PathBuf,
}

impl Service {
    /// The service behind this socket.
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Reads.
    pub async fn get<T: DeserializeOwned>(&self, route: &str, query: &impl Serialize) -> Asked<T> {
        self.send(&Call::get(route, query)).await
    }

    /// Reads something by its id.
    pub async fn get_by_id<T: DeserializeOwned>(
        &self,
        route: &str,
        id: &str,
        query: &impl Serialize,
    ) -> Asked<T> {
        self.send(&Call::on(Method::GET, route, id, query)).await
    }

    /// Writes.
    pub async fn post<T: DeserializeOwned>(&self, route: &str, body: &impl Serialize) -> Asked<T> {
        self.send(&Call::post(route, body)).await
    }

    /// Writes to something by its id.
    pub async fn post_by_id<T: DeserializeOwned>(
        &self,
        route: &str,
        id: &str,
        body: &impl Serialize,
    ) -> Asked<T> {
        self.send(&Call::post_on(route, id, body)).await
    }

    /// Deletes something by its id.
    pub async fn delete<T: DeserializeOwned>(&self, route: &str, id: &str) -> Asked<T> {
        self.send(&Call::on(Method::DELETE, route, id, &())).await
    }

    /// Opens a stream.
    pub async fn stream(&self, route: &str) -> Asked<Body> {
        let body = Call::get(route, &()).stream(&self.socket).await;
        body.map(Body::new).map_err(|_| PageError::Down)
    }

    async fn send<T: DeserializeOwned>(&self, call: &Call) -> Asked<T> {
        match call.send(&self.socket).await {
            Ok(answer) => answer.map_err(PageError::Refused),
            Err(_) => Err(PageError::Down),
        }
    }
}
