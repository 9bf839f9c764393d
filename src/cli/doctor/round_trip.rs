//! Sends a marked event through every stage: installed hook command, queue, service, observation,
//! context.
//!
//! Uses the real data directory, because that is the one that must work, with a session of its own
//! that is deleted afterwards.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::Doctor;
use super::finding::Finding;
use super::hooks::wired_commands;
use crate::api::{Health, SessionStatus};
use crate::cli::install::hooks::unusual_data;
use crate::cli::install::programs::Programs;
use crate::cli::{client, service};
use crate::hook_events::{self, WIRING};
use crate::model::SessionId;
use crate::protocol::HookOutput;
use crate::spool;
use crate::store::queue::{OVER_CEILING, admin};
use crate::store::sessions::session_status;
use crate::store::{self, overview};

const NAME: &str = "round trip";
const TIMEOUT: Duration = Duration::from_secs(30);

/// One round trip.
struct RoundTrip<'a> {
    doctor: &'a Doctor<'a>,
    /// Token that identifies the event and everything derived from it.
    mark: String,
    session: SessionId,
    /// True if the service may compress the event: with a model as provider that costs money.
    is_whole: bool,
    /// User-facing message that the hook printed during the check.
    message: Option<String>,
}

pub fn check(doctor: &Doctor<'_>) -> Finding {
    // A service that responds may still be starting.
    let answers = client::health(doctor.home).is_ok();
    let health = if answers {
        service::wait_until_responsive(doctor.home).unwrap_or_default()
    } else {
        Health::default()
    };
    if !health.is_ok() {
        // The hooks would start a stopped service, or leave events that no service claims.
        let why = "sessions are remembered only while the service is healthy";
        return Finding::note(NAME, "skipped: the service is down or degraded", why, "see above");
    }
    let mark = format!("probe-{}", uuid::Uuid::now_v7().simple());
    let mut trip = RoundTrip {
        doctor,
        session: SessionId(format!("claude-mem-doctor-{mark}")),
        mark,
        is_whole: health.provider.as_deref() == Some("local") || doctor.is_online,
        message: None,
    };
    let began = Instant::now();
    let outcome = trip.run();
    let erased = trip.erase();
    let pending =
        trip.message.take().map(|message| format!("; the hook also printed: {message}")).unwrap_or_default();
    match outcome.and_then(|stages| erased.map(|()| stages)) {
        Ok(stages) => {
            Finding::good(NAME, format!("{stages}, in {:.1} s{pending}", began.elapsed().as_secs_f64()))
        }
        Err(error) => Finding::bad(
            NAME,
            format!("{error:#}{pending}"),
            "sessions are not remembered, or the next session gets no context",
            "see the checks above and `claude-mem logs`",
        ),
    }
}

impl RoundTrip<'_> {
    fn run(&mut self) -> anyhow::Result<String> {
        self.record()?;
        let status = self.wait_until_settled()?;
        if !self.is_whole {
            return Ok("hook, queue, service (--online also tests the model, at a small cost)".into());
        }
        if let Some(why) = self.failure()? {
            bail!("the service failed to process the event: {why}");
        }
        ensure!(status.observations + status.summaries > 0, "the service derived nothing from the event");
        if !self.doctor.config.context.enabled {
            return Ok("hook, queue, service, observation (context.enabled is false)".into());
        }
        let context = self.hook("SessionStart", &self.other(), json!({"source": "startup"}))?;
        ensure!(context.contains(&self.mark), "the event is missing from the next session's context");
        Ok("hook, queue, service, observation, context".into())
    }

    /// Plays a small session. If the provider is a model, sends only events that rules settle
    /// without one.
    fn record(&mut self) -> anyhow::Result<()> {
        let session = self.session.clone();
        let prompt = |text: String| json!({ "prompt": text });
        self.hook("SessionStart", &session, json!({"source": "startup"}))?;
        self.hook(
            "UserPromptSubmit",
            &session,
            prompt(format!("claude-mem doctor checks the installation ({})", self.mark)),
        )?;
        if self.is_whole {
            self.hook("PostToolUse", &session, self.write_of_a_file())?;
            let closing = format!("Wrote {}.md to check that it is remembered.", self.mark);
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
        let (path, content) = (self.doctor.home.dir().join(format!("{}.md", self.mark)), "All good.\n");
        json!({
            "tool_name": "Write", "tool_use_id": self.mark, "tool_input": {"file_path": path, "content": content},
            "tool_response": {"type": "create", "filePath": path, "content": content, "structuredPatch": [], "originalFile": null},
        })
    }

    fn wait_until_settled(&self) -> anyhow::Result<SessionStatus> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let status = self.status()?.context("the session is gone")?;
            if status.error > 0 {
                let why = self.failure()?.unwrap_or_else(|| "no reason given".into());
                bail!("the service failed to process the event: {why}");
            }
            if status.raw + status.processing == 0 {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                bail!(
                    "the event reached the queue, but the service did not process it within {} s",
                    TIMEOUT.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns why an event of this round trip failed or had to do without the model. Reported
    /// here, because the events are deleted at the end.
    fn failure(&self) -> anyhow::Result<Option<String>> {
        let database = store::open_to_read(self.doctor.home, 5000)?;
        let rows = admin::list(&database, &["error", "done"], 100)?.into_iter();
        let mut own = rows.filter(|row| row.session_id.as_deref() == Some(self.session.as_str()));
        let reason = own.find_map(|row| row.last_error.filter(|reason| !reason.ends_with(OVER_CEILING)));
        Ok(reason.map(|reason| reason.lines().next().unwrap_or_default().to_owned()))
    }

    fn status(&self) -> anyhow::Result<Option<SessionStatus>> {
        let database = store::open_to_read(self.doctor.home, 5000)
            .context("the hook ran, but the database cannot be read")?;
        Ok(session_status(&database, &self.session)?)
    }

    /// A second session, whose context must contain the first.
    fn other(&self) -> SessionId {
        SessionId(format!("{}-next", self.session.as_str()))
    }

    /// Runs the hook as the client would: the command from the settings, in a shell, with the
    /// payload on stdin. Returns the context.
    fn hook(&mut self, event: &str, session: &SessionId, own: Value) -> anyhow::Result<String> {
        let mut payload = json!({
            "session_id": session.as_str(), "cwd": self.doctor.home.dir(), "hook_event_name": event,
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
        let answer: HookOutput<'_> =
            serde_json::from_str(&printed).with_context(|| format!("`{command}` printed no JSON"))?;
        self.message = answer.system_message.map(Into::into).or(self.message.take());
        let context = answer.hook_specific_output.map(|output| output.additional_context.into_owned());
        Ok(context.unwrap_or_default())
    }

    fn command(&self, event: &str) -> anyhow::Result<String> {
        let wired = wired_commands(self.doctor).into_iter().find(|found| found.event == event);
        if let Some(found) = wired {
            return Ok(found.command);
        }
        let verb = WIRING.iter().find(|wire| wire.event == event).map_or("", |wire| wire.verb);
        let data = unusual_data(self.doctor.home, self.doctor.environment);
        Ok(hook_events::command(&Programs::running()?.hook, verb, data))
    }

    fn erase(&self) -> anyhow::Result<()> {
        for file in spool::waiting(self.doctor.home)? {
            let session = spool::read(&file).ok().and_then(|event| event.session);
            if session.is_some_and(|session| session.id == self.session || session.id == self.other()) {
                std::fs::remove_file(&file)?;
            }
        }
        if !self.doctor.home.database().exists() {
            return Ok(());
        }
        let mut database = store::open_to_change(self.doctor.home, 5000)?;
        for session in [&self.session, &self.other()] {
            overview::erase_session(&mut database, session)
                .context("cannot delete the doctor's own session")?;
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
        // A missing command reads nothing; its exit status explains why.
        let _ = stdin.write_all(payload.as_bytes());
    }
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && complaint.is_empty(), "{} {}", output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
