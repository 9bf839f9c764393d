//! Payloads of agents other than Claude Code, in the form of Claude Code's. Every agent calls the same hook; behind this
//! module nobody knows the difference, except that the session carries the agent's name.

use serde_json::{Map, Value, json};

use super::Input;
use super::tool_names::{patched_files, rebuilt_response, translated};
use crate::model::Agent;

/// The payload as Claude Code would have sent it; several for one call that changes several files. Input that is not a JSON
/// object stays as it is.
pub fn as_claude_code(input: Input) -> Vec<Input> {
    if input.agent == Agent::ClaudeCode {
        return vec![input];
    }
    let Ok(Value::Object(mut payload)) = serde_json::from_slice(&input.bytes) else { return vec![input] };
    match input.agent {
        Agent::Gemini => gemini(&mut payload),
        Agent::Copilot if payload.get("tool_name").is_some_and(|name| name == INTENT) => return Vec::new(),
        Agent::Copilot => copilot(&mut payload),
        _ => rename(&mut payload, "turn_id", "prompt_id"),
    }
    let calls = if payload.contains_key("tool_name") { calls(payload) } else { vec![payload] };
    let make = |payload: Map<String, Value>| Input {
        bytes: Value::Object(payload).to_string().into_bytes(),
        raw_bytes: input.raw_bytes,
        agent: input.agent,
    };
    calls.into_iter().map(make).collect()
}

/// The agent's own name of an event that Claude Code calls `name`.
pub fn event_name(agent: Agent, name: &str) -> &str {
    match (agent, name) {
        (Agent::Gemini, "UserPromptSubmit") => "BeforeAgent",
        (Agent::Gemini, "PreToolUse") => "BeforeTool",
        (Agent::Gemini, "PostToolUse" | "PostToolUseFailure") => "AfterTool",
        _ => name,
    }
}

fn rename(payload: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = payload.remove(from) {
        payload.insert(to.into(), value);
    }
}

/// Gemini CLI has other names, and puts context of hooks into the prompt.
fn gemini(payload: &mut Map<String, Value>) {
    rename(payload, "prompt_response", "last_assistant_message");
    let prompt = payload.get("prompt").and_then(Value::as_str).map(without_hook_context);
    if let Some(prompt) = prompt {
        payload.insert("prompt".into(), prompt.into());
    }
    let error =
        payload.get("tool_response").map(|response| &response["error"]).filter(|error| !error.is_null());
    match error.cloned() {
        Some(error) => {
            let message =
                error["message"].as_str().or(error.as_str()).map_or(error.to_string(), str::to_owned);
            payload.insert("error".into(), message.into());
            payload.insert("hook_event_name".into(), "PostToolUseFailure".into());
            payload.remove("tool_response");
        }
        None => {
            let text = payload.get("tool_response").map(shown_text);
            if let Some(text) = text {
                payload.insert("tool_response".into(), text.into());
            }
        }
    }
}

/// The tool with which Copilot announces its next step. It does nothing.
const INTENT: &str = "report_intent";

/// Copilot CLI reports Claude Code's names of tools, but its own arguments and results.
fn copilot(payload: &mut Map<String, Value>) {
    if payload.get("source").is_some_and(|source| source == "new") {
        payload.insert("source".into(), "startup".into());
    }
    let name = payload.get("tool_name").and_then(Value::as_str).unwrap_or_default();
    let input = payload.get("tool_input").cloned().unwrap_or_default();
    let own = match name {
        "Edit" if input["path"].is_null() => "apply_patch",
        "Edit" => "edit",
        "Write" => "create",
        "Read" => "view",
        "Bash" => "bash",
        "Grep" => "grep",
        "Glob" => "glob",
        other => other,
    };
    let own = own.to_owned();
    if let Value::String(patch) = input {
        payload.insert("tool_input".into(), json!({ "input": patch }));
    }
    if !own.is_empty() {
        payload.insert("tool_name".into(), own.into());
    }
    let Some(result) = payload.remove("tool_result") else { return };
    let text = result["text_result_for_llm"].as_str().unwrap_or_default();
    let (text, code) = without_exit_code(text);
    if code == 0 {
        payload.insert("tool_response".into(), text.into());
    } else {
        // A command that fails is a success of the tool.
        payload.insert("error".into(), format!("Exit code {code}\n{text}").into());
        payload.insert("hook_event_name".into(), "PostToolUseFailure".into());
    }
}

/// The output of Copilot's shell without its last line, and the exit code in it.
fn without_exit_code(text: &str) -> (&str, i64) {
    let parsed = || {
        let (output, last) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
        let code = last.strip_prefix("<shellId: ")?.strip_suffix('>')?.rsplit_once("exit code ")?.1;
        Some((output, code.parse().ok()?))
    };
    parsed().unwrap_or((text, 0))
}

/// The prompt without the context that hooks put in front of it.
fn without_hook_context(prompt: &str) -> String {
    const END: &str = "</hook_context>";
    match prompt.trim_start().strip_prefix("<hook_context>").and_then(|_| prompt.find(END)) {
        Some(end) => prompt[end + END.len()..].trim_start().to_owned(),
        None => prompt.to_owned(),
    }
}

/// The text of a response: as the user sees it, else as the model does.
fn shown_text(response: &Value) -> String {
    let texts = [&response["returnDisplay"], &response["llmContent"], response];
    let text = texts.into_iter().find_map(|text| text.as_str().filter(|text| !text.is_empty()));
    text.map_or_else(|| response.to_string(), str::to_owned)
}

/// The call by Claude Code's names: one for each file of a patch.
fn calls(payload: Map<String, Value>) -> Vec<Map<String, Value>> {
    let name = payload.get("tool_name").and_then(Value::as_str).unwrap_or_default();
    let input = payload.get("tool_input").cloned().unwrap_or_default();
    let patch = ["input", "patch", "command"].iter().find_map(|field| input[*field].as_str());
    let files = patch.filter(|_| name == "apply_patch").map(patched_files).unwrap_or_default();
    if files.is_empty() {
        let (name, input) = translated(name, &input);
        return vec![call(&payload, &name, input, "")];
    }
    let numbered = files.iter().enumerate().map(|(at, file)| {
        let suffix = if at == 0 { String::new() } else { format!("#{at}") };
        call(&payload, file.tool, file.input(), &suffix)
    });
    numbered.collect()
}

fn call(payload: &Map<String, Value>, name: &str, input: Value, suffix: &str) -> Map<String, Value> {
    let mut call = payload.clone();
    if let Some(text) = payload.get("tool_response").and_then(Value::as_str) {
        let rebuilt = rebuilt_response(name, &input.to_string(), text);
        call.insert("tool_response".into(), serde_json::from_str(&rebuilt).unwrap_or_else(|_| json!(text)));
    }
    if let Some(id) = payload.get("tool_use_id").and_then(Value::as_str) {
        call.insert("tool_use_id".into(), format!("{id}{suffix}").into());
    }
    call.insert("tool_name".into(), name.into());
    call.insert("tool_input".into(), input);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated_from(agent: Agent, payload: &Value) -> Vec<Value> {
        let bytes = payload.to_string().into_bytes();
        let inputs = as_claude_code(Input { raw_bytes: bytes.len() as u64, bytes, agent });
        inputs.iter().map(|input| serde_json::from_slice(&input.bytes).unwrap()).collect()
    }

    #[test]
    fn gemini_events_are_read_as_claude_codes() {
        let prompt = json!({"session_id": "s", "hook_event_name": "BeforeAgent",
                            "prompt": "<hook_context># Memory of x</hook_context>\n\nFix the greeting"});
        assert_eq!(translated_from(Agent::Gemini, &prompt)[0]["prompt"], "Fix the greeting");
        let tool = json!({"tool_name": "run_shell_command", "tool_input": {"command": "make"},
                          "tool_response": {"llmContent": "<untrusted_context>x", "returnDisplay": "built"}});
        let tool = &translated_from(Agent::Gemini, &tool)[0];
        assert_eq!((&tool["tool_name"], &tool["tool_response"]["stdout"]), (&json!("Bash"), &json!("built")));
        let failed = json!({"tool_name": "replace", "tool_input": {"file_path": "/a", "old_string": "x", "new_string": "y"},
                            "tool_response": {"llmContent": "no", "error": {"message": "no match", "type": "edit"}}});
        let failed = &translated_from(Agent::Gemini, &failed)[0];
        assert_eq!(
            (&failed["hook_event_name"], &failed["error"]),
            (&json!("PostToolUseFailure"), &json!("no match"))
        );
        let stop = json!({"hook_event_name": "AfterAgent", "prompt": "p", "prompt_response": "Done."});
        assert_eq!(translated_from(Agent::Gemini, &stop)[0]["last_assistant_message"], "Done.");
    }

    #[test]
    fn copilot_events_are_read_as_claude_codes() {
        let tool = |name: &str, input: Value, text: &str| {
            let payload = json!({"hook_event_name": "PostToolUse", "session_id": "s", "tool_name": name, "tool_input": input,
                                 "tool_result": {"result_type": "success", "text_result_for_llm": text}});
            translated_from(Agent::Copilot, &payload)
        };
        let ran =
            &tool("Bash", json!({"command": "make"}), "built\n<shellId: 0 completed with exit code 0>")[0];
        assert_eq!((&ran["tool_name"], &ran["tool_response"]["stdout"]), (&json!("Bash"), &json!("built")));
        let failed =
            &tool("Bash", json!({"command": "make"}), "no\n<shellId: 7 completed with exit code 3>")[0];
        assert_eq!(
            (&failed["hook_event_name"], &failed["error"], &failed["tool_response"]),
            (&json!("PostToolUseFailure"), &json!("Exit code 3\nno"), &Value::Null)
        );
        let edit = &tool("Edit", json!({"path": "/a", "old_str": "x", "new_str": "y"}), "done")[0];
        assert_eq!(
            (&edit["tool_input"]["file_path"], &edit["tool_input"]["new_string"]),
            (&json!("/a"), &json!("y"))
        );
        let patch = "*** Begin Patch\n*** Add File: a.rs\n+one\n*** End Patch";
        assert_eq!(tool("Edit", json!(patch), "done")[0]["tool_name"], "Write");
        assert!(tool("report_intent", json!({}), "").is_empty());
        let start = json!({"hook_event_name": "SessionStart", "session_id": "s", "source": "new"});
        assert_eq!(translated_from(Agent::Copilot, &start)[0]["source"], "startup");
    }

    #[test]
    fn a_patch_of_codex_is_one_event_per_file() {
        let patch =
            "*** Begin Patch\n*** Add File: a.rs\n+one\n*** Update File: b.rs\n-old\n+new\n*** End Patch";
        let tool = json!({"tool_name": "apply_patch", "tool_input": {"command": patch}, "tool_use_id": "c", "turn_id": "t",
                          "tool_response": "Success"});
        let calls = translated_from(Agent::Codex, &tool);
        let names: Vec<_> =
            calls.iter().map(|call| (call["tool_name"].clone(), call["tool_use_id"].clone())).collect();
        assert_eq!(names, [(json!("Write"), json!("c")), (json!("Edit"), json!("c#1"))]);
        assert_eq!(calls[0]["prompt_id"], "t");
    }

    #[test]
    fn noise_and_payloads_of_claude_code_stay_as_they_are() {
        for agent in [Agent::Gemini, Agent::ClaudeCode] {
            let inputs = as_claude_code(Input { bytes: b"no {json".to_vec(), raw_bytes: 8, agent });
            assert_eq!(inputs[0].bytes, b"no {json");
        }
        let odd = json!({"tool_name": 7, "tool_input": null, "tool_response": null, "prompt": ["x"]});
        assert_eq!(translated_from(Agent::Opencode, &odd).len(), 1);
    }
}
