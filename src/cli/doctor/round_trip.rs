//! Sends a marked event the whole way: the installed hook command, the queue, the service, an observation, the context.
//!
//! In the real data directory, because that is what must work; under a session of its own, which is erased afterwards.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::Patient;
use super::finding::Finding;
use super::wired::wired_commands;
use crate::cli::install::hooks::unusual_data;
use crate::cli::install::programs::Programs;
use crate::cli::{client, service};
use crate::model::SessionId;
use crate::spool;
use crate::store::sessions::{SessionStatus, session_status};
use crate::store::{self, overview, queue_admin};
use crate::wiring::{self, WIRING};

const NAME: &str = "round trip";
const PATIENCE: Duration = Duration::from_secs(30);

/// One walk.
struct Walk<'a> {
    patient: &'a Patient<'a>,
    /// What the event, and all that is made of it, can be known by.
    mark: String,
    session: SessionId,
    /// Whether the service may make something of it: that may cost something where a model does it.
    is_whole: bool,
    /// What the hook told the user instead of us.
    message: Option<String>,
}

pub fn check(patient: &Patient<'_>) -> Finding {
    // Whoever answers may still be starting.
    let answers = client::get(&patient.home.socket(), "/api/health").is_ok();
    let health =
        if answers { service::wait_until_it_answers(patient.home).unwrap_or_default() } else { Value::Null };
    if health["status"] != "ok" {
        // Its hooks would start a service that is stopped, or leave their events where nobody takes them.
        let why = "what sessions do is remembered only by a service that is well";
        return Finding::note(NAME, "not tried: the service does not run, or is not well", why, "see above");
    }
    let mark = format!("probe-{}", uuid::Uuid::now_v7().simple());
    let mut walk = Walk {
        patient,
        session: SessionId(format!("claude-mem-doctor-{mark}")),
        mark,
        is_whole: health["provider"] == "local" || patient.is_online,
        message: None,
    };
    let began = Instant::now();
    let walked = walk.go();
    let erased = walk.erase();
    let told =
        walk.message.take().map(|message| format!("; waiting for you was: {message}")).unwrap_or_default();
    match walked.and_then(|way| erased.map(|()| way)) {
        Ok(way) => Finding::good(NAME, format!("{way}, in {:.1} s{told}", began.elapsed().as_secs_f64())),
        Err(error) => Finding::bad(
            NAME,
            format!("{error:#}{told}"),
            "what sessions do is not remembered, or not told to the next one",
            "see the checks above; claude-mem logs tells what the service did",
        ),
    }
}

impl Walk<'_> {
    fn go(&mut self) -> anyhow::Result<String> {
        self.record()?;
        let status = self.wait_until_settled()?;
        if !self.is_whole {
            return Ok(
                "hook, queue, service (with --online a model would be asked, too, which costs a little)"
                    .into(),
            );
        }
        ensure!(status.observations + status.summaries > 0, "the service made nothing of the event");
        if !self.patient.config.context.enabled {
            return Ok("hook, queue, service, observation (context.enabled is false)".into());
        }
        let context = self.hook("SessionStart", &self.other(), json!({"source": "startup"}))?;
        ensure!(context.contains(&self.mark), "the context of the next session does not tell of it");
        Ok("hook, queue, service, observation, context".into())
    }

    /// What a small session does. Where a model would be asked, only what rules settle without one.
    fn record(&mut self) -> anyhow::Result<()> {
        let session = self.session.clone();
        let prompt = |text: String| json!({ "prompt": text });
        self.hook("SessionStart", &session, json!({"source": "startup"}))?;
        self.hook(
            "UserPromptSubmit",
            &session,
            prompt(format!("claude-mem doctor looks whether all is well ({})", self.mark)),
        )?;
        if self.is_whole {
            self.hook("PostToolUse", &session, self.write_of_a_file())?;
            let closing = format!("Wrote {}.md to see whether it is remembered.", self.mark);
            self.hook(
                "Stop",
                &session,
                json!({"stop_hook_active": false, "last_assistant_message": closing}),
            )?;
        } else {
            self.hook("PostToolUse", &session, listing())?;
            self.hook("UserPromptSubmit", &session, prompt("That is all.".into()))?;
        }
        let status = self.status()?.context("the hook ran, but recorded nothing")?;
        ensure!(status.session.prompt_count > 0, "the hook recorded no prompt");
        Ok(())
    }

    fn write_of_a_file(&self) -> Value {
        let (path, content) = (self.patient.home.dir().join(format!("{}.md", self.mark)), "All is well.\n");
        json!({
            "tool_name": "Write", "tool_use_id": self.mark, "tool_input": {"file_path": path, "content": content},
            "tool_response": {"type": "create", "filePath": path, "content": content, "structuredPatch": [], "originalFile": null},
        })
    }

    fn wait_until_settled(&self) -> anyhow::Result<SessionStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status()?.context("the session is gone")?;
            if status.error > 0 {
                let why = self.failure()?.unwrap_or_else(|| "it does not tell why".into());
                bail!("the service failed at the event: {why}");
            }
            if status.raw + status.processing == 0 {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!(
                    "the event reached the queue, but the service did not take it within {} s",
                    PATIENCE.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Why an event of this walk failed. Told here, because the events are erased in the end.
    fn failure(&self) -> anyhow::Result<Option<String>> {
        let database = store::open_to_read(self.patient.home, 5000)?;
        let mut errors = queue_admin::list(&database, &["error"], 100)?.into_iter();
        let own = errors.find(|error| error.session_id.as_deref() == Some(self.session.as_str()));
        let told = own.and_then(|error| error.last_error);
        Ok(told.map(|told| told.lines().next().unwrap_or_default().to_owned()))
    }

    fn status(&self) -> anyhow::Result<Option<SessionStatus>> {
        let database = store::open_to_read(self.patient.home, 5000)
            .context("the hook ran, but there is nothing to read")?;
        Ok(session_status(&database, &self.session)?)
    }

    /// A second session, which is told of the first.
    fn other(&self) -> SessionId {
        SessionId(format!("{}-next", self.session.as_str()))
    }

    /// Calls the hook as the client would: the command from the settings, by a shell, with the payload. Returns the context.
    fn hook(&mut self, event: &str, session: &SessionId, own: Value) -> anyhow::Result<String> {
        let mut payload = json!({
            "session_id": session.as_str(), "cwd": self.patient.home.dir(), "hook_event_name": event,
            "transcript_path": "", "permission_mode": "default",
        });
        if let (Some(all), Value::Object(own)) = (payload.as_object_mut(), own) {
            all.extend(own);
        }
        let command = self.command(event)?;
        let printed = run(&command, &payload.to_string()).with_context(|| format!("`{command}`"))?;
        if printed.is_empty() {
            return Ok(String::new());
        }
        let answer: Value =
            serde_json::from_str(&printed).with_context(|| format!("`{command}` printed no JSON"))?;
        self.message = answer["systemMessage"].as_str().map(str::to_owned).or(self.message.take());
        Ok(answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned())
    }

    fn command(&self, event: &str) -> anyhow::Result<String> {
        let wired = wired_commands(self.patient).into_iter().find(|found| found.event == event);
        if let Some(found) = wired {
            return Ok(found.command);
        }
        let verb = WIRING.iter().find(|wire| wire.event == event).map_or("", |wire| wire.verb);
        let data = unusual_data(self.patient.home, self.patient.environment);
        Ok(wiring::command(&Programs::running()?.hook, verb, data))
    }

    fn erase(&self) -> anyhow::Result<()> {
        for file in spool::waiting(self.patient.home)? {
            let session = spool::read(&file).ok().and_then(|event| event.session);
            if session.is_some_and(|session| session.id == self.session || session.id == self.other()) {
                std::fs::remove_file(&file)?;
            }
        }
        if !self.patient.home.database().exists() {
            return Ok(());
        }
        let mut database = store::open_to_change(self.patient.home, 5000)?;
        for session in [&self.session, &self.other()] {
            overview::erase_session(&mut database, session)
                .context("the doctor's own session could not be removed")?;
        }
        Ok(())
    }
}

fn listing() -> Value {
    json!({
        "tool_name": "Bash", "tool_use_id": "listing", "tool_input": {"command": "ls"},
        "tool_response": {"stdout": "", "stderr": "", "interrupted": false, "isImage": false},
    })
}

fn run(command: &str, payload: &str) -> anyhow::Result<String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = shell.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that is not there reads nothing; how it ends tells why.
        let _ = stdin.write_all(payload.as_bytes());
    }
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && complaint.is_empty(), "{} {}", output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
