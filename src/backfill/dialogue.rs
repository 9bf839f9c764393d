//! A session as its history is read: prompts, calls and their results, closing messages. What all agents have in common.

use std::collections::HashMap;

use super::json::{push_member, quoted};
use super::{Happening, LeftOut, Sink, Stop};
use crate::capture::Verb;
use crate::model::Millis;

/// A session without a new record for this long is over. Transcripts have no record of the end.
const OVER_AFTER: Millis = 60 * 60_000;

/// A subagent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subagent {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: Option<String>,
}

/// A call of a tool that waits for its result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingCall {
    /// The tool's name, as hooks have it.
    pub name: String,
    /// Its input, as JSON.
    pub input: String,
    /// The subagent that made it.
    pub agent: Option<Subagent>,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallResult {
    /// The response, as JSON.
    Response(String),
    /// The same for something that the client fires no hook for.
    Unhooked(String),
    /// It failed with this text.
    Failed(String),
    /// The user refused it, and the client reported this text.
    Refused(String),
}

/// The state of a session, from record to record.
pub struct Dialogue<'a> {
    /// Takes the events.
    pub sink: &'a mut dyn Sink,
    /// The time of the latest record.
    pub clock: Millis,
    /// The working directory.
    pub cwd: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    calls: HashMap<String, PendingCall>,
    /// Calls of subagents that were open at the latest prompt.
    stale: Vec<String>,
    closing: Vec<String>,
    closing_record: Option<String>,
    notes: Vec<String>,
    is_open: bool,
    is_interrupted: bool,
    is_copied: bool,
    has_events: bool,
}

impl<'a> Dialogue<'a> {
    /// A session of which nothing was read yet.
    pub fn new(sink: &'a mut dyn Sink) -> Self {
        Self {
            sink,
            clock: 0,
            cwd: None,
            branch: None,
            calls: HashMap::new(),
            stale: Vec::new(),
            closing: Vec::new(),
            closing_record: None,
            notes: Vec::new(),
            is_open: false,
            is_interrupted: false,
            is_copied: false,
            has_events: false,
        }
    }

    /// Notes time and place of a record. Time never goes back.
    pub fn at(&mut self, time: Option<Millis>, cwd: Option<String>, branch: Option<String>) {
        let now = self.sink.now();
        self.clock = self.clock.max(time.unwrap_or_default().min(now));
        self.cwd = cwd.or(self.cwd.take());
        self.branch = branch.or(self.branch.take());
    }

    /// The user asks something. `offset` is where its record begins.
    pub fn prompt(&mut self, text: &str, id: &str, record: &str, offset: Option<u64>) -> Result<(), Stop> {
        if self.sink.is_copy(record)? {
            self.sink.leave_out(LeftOut::Copy);
            self.is_copied = true;
            self.is_open = false;
            return Ok(());
        }
        self.end_turn()?;
        self.settle_calls();
        if let Some(offset) = offset.filter(|_| self.calls.is_empty()) {
            self.sink.restart_at(offset);
        }
        self.is_open = true;
        self.submit(text, id, record)
    }

    /// A prompt that was typed during a turn.
    pub fn queued_prompt(&mut self, text: &str, id: &str, record: &str) -> Result<(), Stop> {
        if self.sink.is_copy(record)? {
            self.sink.leave_out(LeftOut::Copy);
            return Ok(());
        }
        self.submit(text, id, record)
    }

    fn submit(&mut self, text: &str, id: &str, record: &str) -> Result<(), Stop> {
        (self.is_interrupted, self.is_copied) = (false, false);
        self.drop_closing();
        let mut happening = self.happening(Verb::New, "UserPromptSubmit");
        push_member(&mut happening.members, "prompt", &quoted(text));
        push_member(&mut happening.members, "prompt_id", &quoted(id));
        happening.record = Some(record.to_owned());
        self.emit(happening)
    }

    /// The results of all calls of a turn come before the next prompt. What has none by then was interrupted; a subagent's may
    /// go on for one more turn.
    fn settle_calls(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        self.calls.retain(|id, call| call.agent.is_some() && !stale.contains(id));
        self.stale = self.calls.keys().cloned().collect();
    }

    /// A tool is called.
    pub fn call(&mut self, id: String, call: PendingCall) {
        if call.agent.is_none() {
            self.drop_closing();
        }
        self.calls.insert(id, call);
    }

    /// The call of that id.
    pub fn open_call(&self, id: &str) -> Option<&PendingCall> {
        self.calls.get(id)
    }

    /// A call has its result.
    pub fn result(&mut self, id: &str, outcome: CallResult, record: Option<&str>) -> Result<(), Stop> {
        let Some(call) = self.calls.remove(id) else {
            self.sink.leave_out(LeftOut::NoCall);
            return Ok(());
        };
        if let Some(record) = record
            && self.sink.is_copy(record)?
        {
            self.sink.leave_out(LeftOut::Copy);
            return Ok(());
        }
        if call.agent.is_none() && std::mem::take(&mut self.is_copied) {
            self.is_open = true;
        }
        let name = if matches!(outcome, CallResult::Response(_) | CallResult::Unhooked(_)) {
            "PostToolUse"
        } else {
            "PostToolUseFailure"
        };
        let mut happening = self.happening(Verb::Save, name);
        let members = &mut happening.members;
        push_member(members, "tool_name", &quoted(&call.name));
        push_member(members, "tool_use_id", &quoted(id));
        push_member(members, "tool_input", &call.input);
        match &outcome {
            CallResult::Response(json) | CallResult::Unhooked(json) => {
                push_member(members, "tool_response", json)
            }
            CallResult::Failed(error) | CallResult::Refused(error) => {
                push_member(members, "error", &quoted(error))
            }
        }
        if let Some(agent) = &call.agent {
            push_member(members, "agent_id", &quoted(&agent.id));
            if let Some(kind) = &agent.kind {
                push_member(members, "agent_type", &quoted(kind));
            }
        }
        happening.is_unhooked = matches!(outcome, CallResult::Refused(_) | CallResult::Unhooked(_));
        happening.record = record.map(str::to_owned);
        self.emit(happening)
    }

    /// The assistant says something; what it says last closes the turn.
    pub fn say(&mut self, text: String, record: &str) {
        if !text.trim().is_empty() {
            self.closing.push(text);
            self.closing_record = Some(record.to_owned());
        }
    }

    /// The assistant begins another message.
    pub fn drop_closing(&mut self) {
        self.closing.clear();
        self.closing_record = None;
    }

    /// Something to be added to the turn's closing message.
    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// The user interrupted the turn, which has no closing message then.
    pub fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// The turn is over, as the next prompt shows: clients without a Stop hook record no stop.
    pub fn end_turn(&mut self) -> Result<(), Stop> {
        if self.is_open && !self.is_interrupted { self.stop() } else { Ok(()) }
    }

    /// The turn is over, with what was said last.
    pub fn stop(&mut self) -> Result<(), Stop> {
        let record = self.closing_record.take();
        let mut text = std::mem::take(&mut self.closing).join("\n").trim().to_owned();
        let Some(record) = record.filter(|_| !text.is_empty() && !self.is_copied) else { return Ok(()) };
        let record = format!("stop:{record}");
        if self.sink.is_copy(&record)? {
            return Ok(());
        }
        for note in self.notes.drain(..) {
            if !text.contains(&note) {
                text = format!("{text}\n\n{note}");
            }
        }
        self.is_open = false;
        let mut happening = self.happening(Verb::Summary, "Stop");
        push_member(&mut happening.members, "last_assistant_message", &quoted(&text));
        happening.key = Some(record.clone());
        happening.record = Some(record);
        self.emit(happening)
    }

    /// The history has no more records. True if the session is over.
    pub fn finish(&mut self, last_record: &str) -> Result<bool, Stop> {
        if self.clock > self.sink.now() - OVER_AFTER {
            return Ok(false);
        }
        self.end_turn()?;
        if self.has_events {
            let mut happening = self.happening(Verb::End, "SessionEnd");
            push_member(&mut happening.members, "reason", "\"other\"");
            happening.key = Some(format!("end:{last_record}"));
            self.emit(happening)?;
        }
        Ok(true)
    }

    fn happening(&self, verb: Verb, name: &str) -> Happening {
        let mut members = String::new();
        push_member(&mut members, "hook_event_name", &quoted(name));
        Happening {
            verb,
            at: self.clock,
            members,
            key: None,
            record: None,
            cwd: self.cwd.clone(),
            branch: self.branch.clone(),
            is_unhooked: false,
        }
    }

    fn emit(&mut self, happening: Happening) -> Result<(), Stop> {
        self.has_events = true;
        self.sink.take(happening)
    }
}
