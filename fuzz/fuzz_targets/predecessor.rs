//! No database file, whole or damaged, of ours or of the TypeScript program, makes `claude-mem import` panic or breaks our own.

#![no_main]

use claude_mem_fuzz::importing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    importing::twice(bytes);
});
