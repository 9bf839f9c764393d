//! The MCP server as a client sees it: JSON-RPC, line by line, with the real binary.

mod protocol;
mod recall;
