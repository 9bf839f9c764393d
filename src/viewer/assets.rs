//! The stylesheet and the script, compiled in. Their addresses contain a hash of their bytes, so browsers keep them for good.

use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use xxhash_rust::xxh3::xxh3_64;

use super::reply;

/// Bytes with their address.
pub struct Asset {
    /// Its path.
    pub path: String,
    bytes: &'static str,
    kind: &'static str,
}

impl Asset {
    fn new(name: &str, bytes: &'static str, kind: &'static str) -> Self {
        let (stem, end) = name.split_once('.').unwrap_or((name, ""));
        Self { path: format!("/assets/{stem}-{:016x}.{end}", xxh3_64(bytes.as_bytes())), bytes, kind }
    }
}

/// The stylesheet.
pub static STYLE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("style.css", include_str!("assets/style.css"), "text/css; charset=utf-8"));
/// The script.
pub static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("viewer.js", include_str!("assets/viewer.js"), "text/javascript; charset=utf-8")
});
/// The icon.
pub static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon.svg", include_str!("assets/icon.svg"), "image/svg+xml"));

/// Serves the asset with exactly this path. No path leads to a file.
pub fn serve(path: &str) -> Response {
    let found = [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(|asset| asset.path == path);
    match found {
        Some(asset) => {
            let headers =
                [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, "private, max-age=31536000, immutable")];
            (headers, asset.bytes).into_response()
        }
        None => reply::refused(StatusCode::NOT_FOUND, "There is no such page."),
    }
}
