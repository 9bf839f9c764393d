//! Installs shell completions and man pages for programs in the user's own directories. Packages bring theirs.

use std::path::{Path, PathBuf};

use clap_complete::Shell;

use super::Installation;
use super::programs::Programs;
use crate::cli::completions;

impl Installation<'_> {
    pub(super) fn shell(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let Some(home) = self.environment.user_home.clone() else { return Ok(()) };
        if !programs.main.starts_with(&home) {
            return Ok(());
        }
        let data = self.environment.data_dir.clone().unwrap_or_else(|| home.join(".local/share"));
        let config = self.environment.config_dir.clone().unwrap_or_else(|| home.join(".config"));
        let scripts = scripts(&data, &config);
        // Scripts and pages are generated together, from the same definitions.
        let is_current = |(file, text): &(PathBuf, String)| {
            std::fs::read_to_string(file).is_ok_and(|there| there == *text)
        };
        if scripts.iter().all(is_current) {
            return Ok(());
        }
        self.report.step("shell", "add completions for bash, zsh and fish, and man pages");
        self.really(|record| {
            record.write_extras(&scripts)?;
            let directory = data.join("man/man1");
            record.make_directory(&directory)?;
            for page in completions::write_man(&directory)? {
                record.add_extra(page);
            }
            Ok(())
        })
    }
}

/// The completion scripts, at the paths where the shells look for them.
fn scripts(data: &Path, config: &Path) -> Vec<(PathBuf, String)> {
    [
        (data.join("bash-completion/completions/claude-mem"), Shell::Bash),
        (data.join("zsh/site-functions/_claude-mem"), Shell::Zsh),
        (config.join("fish/completions/claude-mem.fish"), Shell::Fish),
    ]
    .map(|(file, shell)| (file, completions::script(shell)))
    .to_vec()
}
