//! Programs that ask for memories: the command line, MCP, the viewer.

mod mcp;
mod search;
mod viewer;
