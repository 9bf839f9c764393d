//! Checks who compresses, and with `--online` whether they answer.

use std::time::Duration;

use super::Patient;
use super::finding::Finding;
use crate::cli::client;
use crate::llm::{Choice, Failure, Llm, Request, Tool, choose, guard};
use crate::privacy::Redacted;

const NAME: &str = "provider";

pub fn provider(patient: &Patient<'_>) -> Finding {
    let program = guard::own_program().unwrap_or_default();
    // The service may see other keys than this shell does: what it says counts.
    let health = client::get(&patient.home.socket(), "/api/health").unwrap_or_default();
    let served = health["provider"].as_str();
    match choose(&patient.config, patient.home, patient.environment, &program) {
        Choice::Local { why } if served.is_none_or(|served| served == "local") => {
            Finding::good(NAME, format!("local: {why}"))
        }
        Choice::Llm(llm) if served.is_some_and(|served| served != llm.name()) => Finding::note(
            NAME,
            format!("the service uses {}, this shell would use {}", served.unwrap_or_default(), llm.name()),
            "a service manager does not see the variables of your shell",
            format!(
                "put keys into {} (mode 0600), then claude-mem restart",
                patient.home.dir().join("credentials").display()
            ),
        ),
        Choice::Llm(llm) if patient.is_online => probe(&llm),
        Choice::Llm(llm) => {
            Finding::good(NAME, format!("{} with {}; --online asks it", llm.name(), llm.model()))
        }
        Choice::Local { why } => {
            Finding::good(NAME, format!("{} in the service; in this shell {why}", served.unwrap_or("none")))
        }
        Choice::Unusable { why } => {
            Finding::bad(NAME, why, "what is queued waits until it is repaired", "claude-mem config show")
        }
    }
}

/// Asks for a single token: whatever comes back shows that the key is good.
fn probe(llm: &Llm) -> Finding {
    let request = Request {
        system: "Answer with the word yes.".into(),
        prompt: Redacted::of_program("Are you there?"),
        tool: Tool { name: "answer", description: "Says yes", schema: serde_json::json!({"type": "object"}) },
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
        Ok(Ok(_) | Err(Failure::Item { .. })) => Finding::good(NAME, format!("{name} answers")),
        Ok(Err(Failure::Provider(failure))) => {
            Finding::bad(NAME, format!("{name}: {failure}"), "what is queued waits until it is repaired", "")
        }
        Err(_) => Finding::bad(
            NAME,
            format!("{name} does not answer within a minute"),
            "what is queued waits",
            "claude-mem logs",
        ),
    }
}
