//! Downloads a large file, and resumes an interrupted download. The caller verifies the content.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::RANGE;

use super::http::Endpoint;
use crate::config::Proxies;
use crate::files::disk;

/// An error while downloading.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The URL is invalid.
    #[error("the address {0}")]
    Address(&'static str),
    /// The server did not deliver the file.
    #[error("{0}")]
    Refused(String),
    /// The disk has too little free space.
    #[error(transparent)]
    NoRoom(#[from] disk::NoRoom),
    /// The file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
}

/// Maximum time without data before a download fails; the next attempt resumes it.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Downloads `url` into `file`, appending to the part that exists. Reports the bytes so far and the
/// total to `progress`.
pub async fn download(
    url: &str,
    file: &Path,
    proxies: &Proxies,
    mut progress: impl FnMut(u64, Option<u64>),
) -> Result<(), DownloadError> {
    let endpoint = Endpoint::new(url, None, proxies, READ_TIMEOUT).map_err(DownloadError::Address)?;
    let refused = |failure: super::Failure| DownloadError::Refused(failure.to_string());
    let there = std::fs::metadata(file).map_or(0, |meta| meta.len());
    let client = endpoint.client().await.map_err(refused)?;
    let mut request = client.get(endpoint.url(""));
    if there > 0 {
        request = request.header(RANGE, format!("bytes={there}-"));
    }
    let mut response = request.send().await.map_err(|error| refused(endpoint.broken(error)))?;
    let goes_on = match response.status() {
        StatusCode::PARTIAL_CONTENT => true,
        // The file is complete.
        StatusCode::RANGE_NOT_SATISFIABLE if there > 0 => return Ok(()),
        status if status.is_success() => false,
        status => return Err(DownloadError::Refused(format!("the server returned {status}"))),
    };
    let mut got = if goes_on { there } else { 0 };
    let all = response.content_length().map(|rest| rest + got);
    // Twice the size, for the model that is unpacked from it.
    disk::check_room(file, all.map_or(0, |all| 2 * all - got))?;
    let unwritable = |source| DownloadError::Write { path: file.display().to_string(), source };
    let mut out = open(file, goes_on).map_err(unwritable)?;
    loop {
        let chunk = tokio::time::timeout(READ_TIMEOUT, response.chunk()).await;
        let chunk = chunk.map_err(|_| {
            DownloadError::Refused(format!("no data received for {} s", READ_TIMEOUT.as_secs()))
        })?;
        let Some(chunk) = chunk.map_err(|error| refused(endpoint.broken(error)))? else { break };
        out.write_all(&chunk).map_err(unwritable)?;
        got += chunk.len() as u64;
        progress(got, all);
    }
    out.sync_all().map_err(unwritable)
}

fn open(file: &Path, goes_on: bool) -> std::io::Result<File> {
    OpenOptions::new().create(true).write(true).append(goes_on).truncate(!goes_on).open(file)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    const WHOLE: &[u8] = b"0123456789abcdefghij";

    /// Answers one request after the other: with a limited part of the requested bytes, with or
    /// without support for ranges.
    fn server(answers: Vec<(usize, bool)>) -> (String, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/model", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let mut ranges = Vec::new();
            for (most, knows_ranges) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let head: Vec<String> = BufReader::new(stream.try_clone().unwrap())
                    .lines()
                    .map(Result::unwrap)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let range = head
                    .iter()
                    .find_map(|line| line.to_lowercase().strip_prefix("range: ").map(str::to_owned));
                let from = range
                    .as_deref()
                    .and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
                let from: usize = if knows_ranges { from.unwrap_or(0) } else { 0 };
                ranges.push(range.unwrap_or_default());
                if from >= WHOLE.len() {
                    write!(stream, "HTTP/1.1 416 No\r\ncontent-length: 0\r\n\r\n").unwrap();
                    continue;
                }
                let status = if from > 0 { "206 Partial" } else { "200 OK" };
                let rest = &WHOLE[from..];
                write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", rest.len()).unwrap();
                stream.write_all(&rest[..most.min(rest.len())]).unwrap();
            }
            ranges
        });
        (url, serving)
    }

    #[tokio::test]
    async fn an_interrupted_download_resumes() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("part");
        let (url, serving) = server(vec![(8, true), (99, true), (99, true)]);
        let proxies = Proxies::default();
        download(&url, &file, &proxies, |_, _| ()).await.unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), &WHOLE[..8]);
        let mut reports = Vec::new();
        download(&url, &file, &proxies, |got, all| reports.push((got, all))).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), WHOLE);
        assert_eq!(reports.last(), Some(&(20, Some(20))));
        download(&url, &file, &proxies, |_, _| ()).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), WHOLE, "a complete file is not extended");
        assert_eq!(serving.join().unwrap(), ["", "bytes=8-", "bytes=20-"]);
    }

    #[tokio::test]
    async fn a_server_without_ranges_restarts_the_download() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("part");
        std::fs::write(&file, "longer than the new content").unwrap();
        let (url, serving) = server(vec![(99, false)]);
        download(&url, &file, &Proxies::default(), |_, _| ()).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), WHOLE);
        serving.join().unwrap();
    }
}
