//! Asks the worker over its socket.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyperlocal::{UnixClientExt, UnixConnector, Uri};
use serde_json::Value;

/// A worker that does not answer within this is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// GETs a route and returns its JSON, whatever its status.
pub fn get(socket: &Path, route: &str) -> anyhow::Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client: Client<UnixConnector, Empty<Bytes>> = Client::unix();
        let answer = tokio::time::timeout(PATIENCE, async {
            let response = client.get(Uri::new(socket, route).into()).await?;
            Ok::<_, anyhow::Error>(response.into_body().collect().await?.to_bytes())
        });
        let bytes = answer.await.context("the worker does not answer")??;
        serde_json::from_slice(&bytes).context("the worker's answer makes no sense")
    })
}
