//! The line that points Claude to search.

use std::time::Duration;

use serde::Deserialize;

use crate::paths::Home;

/// A way to look deeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hint {
    /// By our tools.
    Tools,
    /// By the command line.
    #[default]
    CommandLine,
}

/// The part of the record of `install` that matters here.
#[derive(Deserialize)]
struct McpRecord {
    #[serde(default)]
    mcp: serde_json::Value,
}

/// A client that asked for our tools within this still has them.
const TOOLS_HOLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);

fn has_asked(home: &Home) -> bool {
    let asked = std::fs::metadata(home.tools_asked()).and_then(|meta| meta.modified());
    asked.is_ok_and(|at| at.elapsed().is_ok_and(|since| since < TOOLS_HOLD))
}

impl Hint {
    /// The hint for this installation.
    pub fn of(home: &Home) -> Self {
        let record = std::fs::read(home.install_record()).ok();
        let record = record.and_then(|text| serde_json::from_slice::<McpRecord>(&text).ok());
        let has_tools = record.is_some_and(|record| {
            !matches!(record.mcp, serde_json::Value::Null | serde_json::Value::Bool(false))
        });
        if has_tools || has_asked(home) { Self::Tools } else { Self::CommandLine }
    }

    /// The line.
    pub fn line(self) -> &'static str {
        match self {
            Self::Tools => {
                "More: the claude-mem tool `search`, then `get` with the number of a memory for all of it."
            }
            Self::CommandLine => {
                "More: `claude-mem search WORDS`, then `claude-mem show NUMBER` for a memory in full."
            }
        }
    }
}
