//! From turns to memories: notes by a model, corrections by hand, functions, learnings, and their project.

mod corrections;
mod function_map;
mod learnings;
mod project_identity;
mod project_keys;
mod provider;
