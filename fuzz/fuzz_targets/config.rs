#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claude_mem_fuzz::config::check(bytes));
