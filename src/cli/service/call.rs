//! `claude-mem call`: one request to the service, for the plugin's mod. Unlike the client's own requests, a process has a deadline
//! and can be ended, so that a service that hangs does not hold up the client.

use std::process::ExitCode;

use anyhow::Context as _;
use hyper::Method;
use serde_json::Value;

use crate::api::{ApiError, ErrorBody};
use crate::client::{Call, block_on};
use crate::paths::Home;

/// Send one request to the service and print the JSON response
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  claude-mem call GET /api/health")]
pub struct Arguments {
    /// GET, POST or DELETE
    method: Method,
    /// The path with its query string
    target: String,
    /// Send the JSON on stdin as the body
    #[arg(long)]
    stdin: bool,
}

pub fn run(home: &Home, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let body = arguments.stdin.then(|| serde_json::from_reader(std::io::stdin().lock()));
    let body = body.transpose().context("stdin is not JSON")?;
    let call = Call::raw(arguments.method.clone(), arguments.target.clone(), body);
    let answer = block_on(call.send::<Value>(&home.socket()))?;
    let answer = answer
        .unwrap_or_else(|_| Err(ApiError::degraded("the service does not answer; run `claude-mem doctor`")));
    match answer {
        Ok(answer) => outln!("{answer}"),
        Err(error) => {
            outln!("{}", serde_json::to_string(&ErrorBody { error })?);
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
