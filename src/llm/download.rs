//! Fetches a large file, and goes on where an earlier try stopped. Whether it is the right file is for the caller to check.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::RANGE;

use super::http::Endpoint;
use crate::config::Proxies;

/// Why a file could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The address is none.
    #[error("the address {0}")]
    Address(&'static str),
    /// The other side did not give it.
    #[error("{0}")]
    Refused(String),
    /// This side cannot keep it.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Where to.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// Nothing for so long is the end of a try; the next one goes on from there.
const SILENCE: Duration = Duration::from_secs(30);

/// Fetches `url` into `file`, after what is there already. `tell` hears how much there is, and of how much.
pub async fn download(
    url: &str,
    file: &Path,
    proxies: &Proxies,
    mut tell: impl FnMut(u64, Option<u64>),
) -> Result<(), DownloadError> {
    let endpoint = Endpoint::new(url, None, proxies, SILENCE).map_err(DownloadError::Address)?;
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
        // All of it is there.
        StatusCode::RANGE_NOT_SATISFIABLE if there > 0 => return Ok(()),
        status if status.is_success() => false,
        status => return Err(DownloadError::Refused(format!("the server answered {status}"))),
    };
    let mut got = if goes_on { there } else { 0 };
    let all = response.content_length().map(|rest| rest + got);
    let unwritable = |source| DownloadError::Write { path: file.display().to_string(), source };
    let mut out = open(file, goes_on).map_err(unwritable)?;
    loop {
        let chunk = tokio::time::timeout(SILENCE, response.chunk()).await;
        let chunk =
            chunk.map_err(|_| DownloadError::Refused(format!("no more came for {} s", SILENCE.as_secs())))?;
        let Some(chunk) = chunk.map_err(|error| refused(endpoint.broken(error)))? else { break };
        out.write_all(&chunk).map_err(unwritable)?;
        got += chunk.len() as u64;
        tell(got, all);
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

    /// Answers one request after the other: with so much of what is asked for, ranges understood or not.
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
    async fn a_broken_download_goes_on_where_it_stopped() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("part");
        let (url, serving) = server(vec![(8, true), (99, true), (99, true)]);
        let proxies = Proxies::default();
        download(&url, &file, &proxies, |_, _| ()).await.unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), &WHOLE[..8]);
        let mut told = Vec::new();
        download(&url, &file, &proxies, |got, all| told.push((got, all))).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), WHOLE);
        assert_eq!(told.last(), Some(&(20, Some(20))));
        download(&url, &file, &proxies, |_, _| ()).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), WHOLE, "nothing is added to what is whole");
        assert_eq!(serving.join().unwrap(), ["", "bytes=8-", "bytes=20-"]);
    }

    #[tokio::test]
    async fn a_server_without_ranges_starts_over() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("part");
        std::fs::write(&file, "something longer than what comes now").unwrap();
        let (url, serving) = server(vec![(99, false)]);
        download(&url, &file, &Proxies::default(), |_, _| ()).await.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), WHOLE);
        serving.join().unwrap();
    }
}
