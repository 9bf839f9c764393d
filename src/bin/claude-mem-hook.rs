//! `claude-mem-hook VERB`: the hook that Claude Code calls. Always exits 0, whatever happens.

use std::io::{self, Write};
use std::process::ExitCode;

use claude_mem::config::Environment;
use claude_mem::hook::{self, Verb};

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let environment = Environment::capture();
    let debug = environment.hook_debug;
    std::panic::set_hook(Box::new(move |panic| {
        tell(debug, &panic.to_string());
        std::process::exit(0);
    }));
    let word = std::env::args().nth(1).unwrap_or_default();
    match Verb::from_word(&word) {
        Some(verb) => {
            if let Err(error) = hook::run(verb, &environment, io::stdin().lock(), io::stdout().lock()) {
                tell(debug, &error.to_string());
            }
        }
        // For `claude-mem doctor`: no event is called so.
        None if word == "--version" => {
            let _ = writeln!(io::stdout(), "claude-mem-hook {}", env!("CARGO_PKG_VERSION"));
        }
        None => {
            tell(debug, &format!("'{word}' is not a verb: context, new, save, file, summary, compact, end"))
        }
    }
    ExitCode::SUCCESS
}

/// Claude Code shows a hook's stderr to its user, so it stays empty unless somebody asked for it.
#[allow(clippy::print_stderr, reason = "the one place where the hook may speak")]
fn tell(debug: bool, message: &str) {
    if debug {
        eprintln!("claude-mem-hook: {message}");
    }
}
