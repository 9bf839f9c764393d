//! OpenCode: `storage/session/<project>/<session>.json` with its messages and their parts in directories of their own, or an
//! export, which is all of it in one document.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;

use super::dialogue::{CallResult, Dialogue, PendingCall, Subagent};
use super::json::Object;
use super::{FileSession, LeftOut, Reader, Sink, Stop, Transcript, documents};
use crate::capture::tool_names::{rebuilt_response, translated};
use crate::model::Millis;

pub struct Opencode;

impl Reader for Opencode {
    fn is_history(&self, path: &Path) -> bool {
        let is_session = |name: &str| name.starts_with("ses_") && name.ends_with(".json");
        path.file_name().and_then(|name| name.to_str()).is_some_and(is_session)
    }

    fn begins_like(&self, head: &str) -> bool {
        head.contains("\"directory\"") && head.contains("\"id\"") && head.contains("\"ses_")
    }

    fn survey(&self, _: &Path, head: &str, _: &str) -> Option<FileSession> {
        // The session's description comes first, and is short.
        let member = |name: &str| {
            let (_, rest) = head.split_once(&format!("\"{name}\""))?;
            Some(rest.split('"').nth(1)?.to_owned())
        };
        let session = member("id").filter(|id| id.starts_with("ses_"))?;
        let updated =
            head.split_once("\"updated\"").map(|(_, rest)| rest.trim_start_matches([':', ' ', '\n']));
        let digits = updated.map(|rest| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let last = digits.and_then(|digits| digits.parse::<Millis>().ok());
        // A subagent's session belongs to the one that started it.
        let session = member("parentID").unwrap_or(session);
        Some(FileSession { session, cwd: member("directory"), last })
    }

    fn read(&self, transcript: &Transcript, _: u64, sink: &mut dyn Sink) -> Result<bool, Stop> {
        let head = documents::small(&transcript.path).unwrap_or_default();
        let info = Object::parse(&head).map_or_else(String::new, |document| {
            document.get("info").map_or_else(|| head.clone(), |info| info.get().to_owned())
        });
        let info = Object::parse(&info).unwrap_or_default();
        let mut dialogue = Dialogue::new(sink);
        dialogue.cwd.clone_from(&transcript.cwd);
        if info.get("parentID").is_none() {
            info.text("title").into_iter().for_each(|title| dialogue.sink.title(title));
        }
        let id = info.text("id").unwrap_or_default();
        let agent = info.get("parentID").map(|_| Subagent { id: id.clone(), kind: info.text("agent") });
        let mut reading = OpencodeReading { dialogue, agent, last: String::new() };
        let is_whole = match storage_of(&transcript.path) {
            Some(storage) => reading.storage(&storage, &id)?,
            None => documents::read(
                &transcript.path,
                |_, _| {},
                |message| {
                    let message = Object::of(Some(message));
                    reading.message(&message.object("info"), &message.list("parts"))
                },
            )?,
        };
        reading.dialogue.sink.advance(transcript.size);
        if !is_whole {
            reading.dialogue.sink.leave_out(LeftOut::Broken);
        }
        let last = std::mem::take(&mut reading.last);
        match reading.agent {
            Some(_) => Ok(true),
            None => reading.dialogue.finish(&last),
        }
    }
}

/// The storage directory, if the file lies in one.
fn storage_of(path: &Path) -> Option<PathBuf> {
    let storage = path.parent()?.parent()?.parent()?;
    storage.join("message").is_dir().then(|| storage.to_owned())
}

struct OpencodeReading<'a> {
    dialogue: Dialogue<'a>,
    agent: Option<Subagent>,
    last: String,
}

impl OpencodeReading<'_> {
    /// Reads message by message. Their names, and those of their parts, sort by time.
    fn storage(&mut self, storage: &Path, session: &str) -> Result<bool, Stop> {
        let mut is_whole = true;
        for path in sorted(&storage.join("message").join(session)) {
            let text = documents::small(&path)?;
            let Some(info) = Object::parse(&text) else {
                is_whole = false;
                continue;
            };
            let folder = storage.join("part").join(info.text("id").unwrap_or_default());
            let texts =
                sorted(&folder).iter().map(|part| documents::small(part)).collect::<Result<Vec<_>, _>>()?;
            let parts: Vec<&RawValue> =
                texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
            is_whole &= parts.len() == texts.len();
            self.message(&info, &parts)?;
        }
        Ok(is_whole)
    }

    fn message(&mut self, info: &Object<'_>, parts: &[&RawValue]) -> Result<(), Stop> {
        let id = info.text("id").unwrap_or_default();
        let place = info.object("path").text("cwd");
        self.dialogue.at(info.object("time").time("created"), place, None);
        self.last.clone_from(&id);
        let parts: Vec<Object<'_>> = parts.iter().map(|part| Object::of(Some(part))).collect();
        let texts: Vec<String> = parts
            .iter()
            .filter(|part| part.is("type", "text") && !part.flag("synthetic"))
            .filter_map(|part| part.text("text"))
            .collect();
        if info.is("role", "user") {
            let text = texts.join("\n");
            return match &self.agent {
                None if !text.trim().is_empty() => self.dialogue.prompt(&text, &id, &id, None),
                _ => Ok(()),
            };
        }
        self.dialogue.drop_closing();
        for part in parts.iter().filter(|part| part.is("type", "tool")) {
            self.tool(part)?;
        }
        let completed = info.object("time").time("completed");
        self.dialogue.at(completed, None, None);
        if self.agent.is_none() {
            texts.into_iter().for_each(|text| self.dialogue.say(text, &id));
        }
        Ok(())
    }

    fn tool(&mut self, part: &Object<'_>) -> Result<(), Stop> {
        let state = part.object("state");
        let status = state.text("status").unwrap_or_default();
        let (Some(id), Some(name)) = (part.text("callID"), part.text("tool")) else { return Ok(()) };
        if status != "completed" && status != "error" {
            return Ok(());
        }
        self.dialogue.at(state.object("time").time("end"), None, None);
        let input: Value =
            state.get("input").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let (name, input) = translated(&name, &input);
        let input = input.to_string();
        let output = state.text("output").unwrap_or_default();
        let exit = state.object("metadata").number("exit").unwrap_or_default() as i64;
        let outcome = if status == "error" {
            CallResult::Failed(state.text("error").unwrap_or_default())
        } else if exit != 0 {
            CallResult::Failed(format!("Exit code {exit}\n{output}"))
        } else {
            CallResult::Response(rebuilt_response(&name, &input, &output))
        };
        self.dialogue.call(id.clone(), PendingCall { name, input, agent: self.agent.clone() });
        self.dialogue.result(&id, outcome, None)
    }
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
}
