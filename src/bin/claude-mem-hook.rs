//! `claude-mem-hook VERB [--agent NAME]`: the hook that Claude Code and other agents run. Always exits with 0.

use std::io::{self, Write};
use std::process::ExitCode;

use claude_mem::capture::Verb;
use claude_mem::config::Environment;
use claude_mem::hook;
use claude_mem::model::Agent;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let environment = Environment::capture();
    let debug = environment.hook_debug;
    std::panic::set_hook(Box::new(move |panic| {
        debug_log(debug, &panic.to_string());
        std::process::exit(0);
    }));
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = words.first().cloned().unwrap_or_default();
    let agent = match &words[..] {
        [_, flag, agent, ..] if flag == "--agent" => Agent::from_word(agent).unwrap_or_default(),
        _ => Agent::default(),
    };
    match Verb::from_word(&word) {
        Some(verb) => {
            if let Err(error) = hook::run(verb, agent, &environment, io::stdin().lock(), io::stdout().lock())
            {
                debug_log(debug, &error.to_string());
            }
        }
        // For `claude-mem doctor`; no event uses this verb.
        None if word == "--version" => {
            let _ = writeln!(io::stdout(), "claude-mem-hook {}", env!("CARGO_PKG_VERSION"));
        }
        None => debug_log(
            debug,
            &format!("unknown verb '{word}'; expected context, new, save, file, summary, compact or end"),
        ),
    }
    ExitCode::SUCCESS
}

/// Prints to stderr if debugging is on. Otherwise stderr stays empty, because Claude Code shows it
/// to the user.
#[allow(clippy::print_stderr, reason = "debug output only")]
fn debug_log(debug: bool, message: &str) {
    if debug {
        eprintln!("claude-mem-hook: {message}");
    }
}
