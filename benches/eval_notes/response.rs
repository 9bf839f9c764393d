//! The responses of a subagent's tools, of which the transcript keeps only the text.

use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Rebuilds the `tool_response` that the client had for this call.
pub fn rebuild(tool: &str, input: Option<&RawValue>, text: &str) -> Box<RawValue> {
    let input: Value = input.and_then(|input| serde_json::from_str(input.get()).ok()).unwrap_or_default();
    crate::transcript::json(&match (tool, input["output_mode"].as_str()) {
        ("Bash", _) => json!({"stdout": text, "stderr": "", "interrupted": false, "isImage": false}),
        ("Read", _) => read(&input, text),
        ("Grep", Some(mode @ ("content" | "count"))) => {
            let found = if text.starts_with("No matches") { "" } else { text };
            json!({"mode": mode, "filenames": [], "numFiles": u8::from(!found.is_empty()), "content": found,
                   "numLines": found.lines().count()})
        }
        ("Grep" | "Glob", _) => {
            let is_file = |line: &&str| {
                !line.is_empty() && !line.starts_with("Found ") && !line.starts_with("No files")
            };
            let files: Vec<&str> = text.lines().filter(is_file).collect();
            json!({"mode": "files_with_matches", "numFiles": files.len(), "filenames": files})
        }
        ("Edit", _) => json!({
            "filePath": input["file_path"], "oldString": input["old_string"], "newString": input["new_string"],
            "structuredPatch": [], "userModified": false, "replaceAll": input["replace_all"] == true,
        }),
        ("Write", _) => json!({
            "type": "create", "filePath": input["file_path"], "content": input["content"], "structuredPatch": [],
        }),
        _ => text.into(),
    })
}

fn read(input: &Value, text: &str) -> Value {
    let body = text.split("\n\n<system-reminder>").next().unwrap_or_default();
    let numbered: Option<Vec<(u64, &str)>> = body.split('\n').map(numbered_line).collect();
    let (content, first) = match &numbered {
        Some(lines) => (lines.iter().map(|line| line.1).collect::<Vec<_>>().join("\n"), lines[0].0),
        None => (body.to_owned(), 1),
    };
    let count = body.split('\n').count() as u64;
    json!({"type": "text", "file": {
        "filePath": input["file_path"], "content": content, "numLines": count, "startLine": first,
        "totalLines": first + count - 1,
    }})
}

/// The parts of `    12→text`.
fn numbered_line(line: &str) -> Option<(u64, &str)> {
    let (number, text) = line.split_once(['→', '\t'])?;
    Some((number.trim().parse().ok()?, text))
}
