//! No export file makes `claude-mem import` panic, breaks the database, or adds something when it is imported a second time.

#![no_main]

use claude_mem_fuzz::importing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Without this first line nothing is read at all; a fuzzer would spend its life on finding it.
    let mut file = b"{\"format\":\"claude-mem-export\",\"schema\":1,\"rows\":1}\n".to_vec();
    file.extend_from_slice(bytes);
    importing::twice(&file);
});
