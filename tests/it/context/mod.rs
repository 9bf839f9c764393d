//! The context of a session, at its start and later, and the embedding model behind it.

mod embedding_model;
mod in_session;
mod session_start;
mod truth;
