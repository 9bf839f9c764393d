//! Checks the provider that compresses, and with `--online` that it responds.

use std::time::Duration;

use super::Doctor;
use super::finding::Finding;
use crate::api::Health;
use crate::cli::client;
use crate::clock;
use crate::llm::{Choice, Failure, Llm, ModelRequest, Tool, choose, guard};
use crate::privacy::Redacted;
use crate::text::age::ago;

const NAME: &str = "provider";

pub fn provider(doctor: &Doctor<'_>) -> Finding {
    let program = guard::own_program().unwrap_or_default();
    // The service may see other keys than this shell: its report takes precedence.
    let health = client::health(doctor.home).unwrap_or_default();
    let served = health.provider.as_deref();
    match choose(&doctor.config, doctor.home, doctor.environment, &program) {
        Choice::Local { why } if served.is_none_or(|served| served == "local") => {
            Finding::good(NAME, format!("local: {why}"))
        }
        Choice::Llm(llm) if served.is_some_and(|served| served != llm.name()) => Finding::note(
            NAME,
            format!("the service uses {}, this shell would use {}", served.unwrap_or_default(), llm.name()),
            "a service manager does not see the variables of your shell",
            format!(
                "put keys into {} (mode 0600), then claude-mem restart",
                doctor.home.credentials().display()
            ),
        ),
        Choice::Llm(Llm::Session(_)) => session(&health),
        Choice::Llm(llm) if doctor.is_online => probe(&llm),
        Choice::Llm(llm) => {
            Finding::good(NAME, format!("{} with {}; not contacted (use --online)", llm.name(), llm.model()))
        }
        Choice::Local { why } => {
            Finding::good(NAME, format!("{} in the service; in this shell {why}", served.unwrap_or("none")))
        }
        Choice::Unusable { why } => {
            Finding::bad(NAME, why, "queued events wait until this is fixed", "claude-mem config show")
        }
    }
}

/// Reports whether running sessions ask for work, as the provider `session` needs it.
fn session(health: &Health) -> Finding {
    match health.session_asked_at {
        Some(at) => Finding::good(
            NAME,
            format!("session: a Claude Code session last asked for work {}", ago(at, clock::now())),
        ),
        None => Finding::note(
            NAME,
            "session: no Claude Code session has asked for work since the service started",
            "without one, rules write the notes; `claude-mem queue redo` repeats them later",
            "install the plugin into Claude Code 2.1.287 or later, leave its option \"mod\" on, and finish a turn in a terminal",
        ),
    }
}

/// Sends a request for a single token: any response proves that the key is valid.
fn probe(llm: &Llm) -> Finding {
    let request = ModelRequest {
        system: "Answer with the word yes.".into(),
        prompt: Redacted::of_program("Are you there?"),
        tool: Tool {
            name: "answer",
            description: "Answers yes",
            schema: serde_json::json!({"type": "object"}),
        },
        max_output_tokens: 1,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Finding::note(NAME, error.to_string(), "", ""),
    };
    let name = format!("{} with {}", llm.name(), llm.model());
    let answer = runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(60), llm.complete(&request)).await });
    match answer {
        Ok(Ok(_) | Err(Failure::Item { .. })) => Finding::good(NAME, format!("{name} responds")),
        Ok(Err(failure)) => {
            Finding::bad(NAME, format!("{name}: {failure}"), "queued events wait until this is fixed", "")
        }
        Err(_) => Finding::bad(
            NAME,
            format!("{name} did not respond within a minute"),
            "queued events wait until it responds",
            "claude-mem logs",
        ),
    }
}
