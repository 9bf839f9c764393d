//! `claude-mem install` and `uninstall`.

pub mod record;
pub mod settings;
pub mod settings_file;
