//! Locates our two programs and copies them to their install directory.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::record::Record;
use crate::hook_events::HOOK_NAME;
use crate::llm::guard;

/// Paths of the two programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// `claude-mem`.
    pub main: PathBuf,
    /// `claude-mem-hook`.
    pub hook: PathBuf,
}

impl Programs {
    /// The programs in that directory.
    pub fn in_directory(directory: &Path) -> Self {
        Self { main: directory.join("claude-mem"), hook: directory.join(HOOK_NAME) }
    }

    /// The running program and its hook; fails if the hook is missing.
    pub fn running() -> anyhow::Result<Self> {
        let main = lasting(guard::own_program().context("cannot find this program")?);
        let hook = main.with_file_name(HOOK_NAME);
        if !hook.is_file() {
            bail!(
                "{HOOK_NAME} is missing from the directory of {}; build both (`make build`), or run `make install`",
                main.display()
            );
        }
        Ok(Self { main, hook })
    }

    /// Copies both into a directory. Renames over a running program instead of overwriting it, so
    /// its process keeps the old file.
    pub fn copy_to(&self, directory: &Path, record: &mut Record) -> anyhow::Result<Self> {
        let there = Self::in_directory(directory);
        record.make_directory(directory)?;
        for (from, to) in [(&self.main, &there.main), (&self.hook, &there.hook)] {
            if is_same_file(from, to) {
                continue;
            }
            let unfinished = to.with_extension(format!("{}.tmp", std::process::id()));
            let copied = fs::copy(from, &unfinished).and_then(|_| fs::rename(&unfinished, to));
            if copied.is_err() {
                let _ = fs::remove_file(&unfinished);
            }
            copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
            if !record.programs.contains(to) {
                record.programs.push(to.clone());
            }
        }
        Ok(there)
    }
}

/// Returns the linkage of a Linux program; a static hook starts faster (docs/decisions/013-hook.md).
pub fn linkage(program: &Path) -> Option<&'static str> {
    const HEADER_BYTES: u64 = 4096;
    /// The segment that names the dynamic loader.
    const PT_INTERP: u32 = 3;
    let mut header = Vec::new();
    fs::File::open(program).ok()?.take(HEADER_BYTES).read_to_end(&mut header).ok()?;
    header.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let number =
        |at: usize| header.get(at..at + 2).map(|bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
    // Of a 64-bit ELF header: the offset (the low half of it), the size and the number of program headers.
    let (table, size, count) = (number(0x20)?, number(0x36)?, number(0x38)?);
    let types = (0..count).filter_map(|segment| header.get(table + segment * size..)?.first_chunk::<4>());
    let is_dynamic = types.into_iter().any(|bytes| u32::from_le_bytes(*bytes) == PT_INTERP);
    Some(if is_dynamic { "linked dynamically" } else { "linked statically" })
}

/// Returns Homebrew's stable link in `bin`, if there is one: the versioned directory is removed by
/// an upgrade.
fn lasting(main: PathBuf) -> PathBuf {
    let prefix = main.ancestors().find(|place| place.ends_with("Cellar")).and_then(Path::parent);
    let linked = prefix.zip(main.file_name()).map(|(prefix, name)| prefix.join("bin").join(name));
    linked.filter(|linked| is_same_file(linked, &main)).unwrap_or(main)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    fn linkage_is_read_from_the_program_headers() {
        let scratch = tempfile::tempdir().unwrap();
        let copy = scratch.path().join("program");
        let mut bytes = fs::read("/proc/self/exe").unwrap();
        fs::write(&copy, &bytes).unwrap();
        let is_static = cfg!(target_feature = "crt-static");
        assert_eq!(linkage(&copy), Some(if is_static { "linked statically" } else { "linked dynamically" }));
        // Without program headers nothing names a loader.
        bytes[0x38..0x3a].fill(0);
        fs::write(&copy, &bytes).unwrap();
        assert_eq!(linkage(&copy), Some("linked statically"));
        fs::write(&copy, "#!/bin/sh\n").unwrap();
        assert_eq!(linkage(&copy), None);
    }

    #[test]
    fn homebrew_programs_use_the_link_that_survives_upgrades() {
        let scratch = tempfile::tempdir().unwrap();
        let prefix = scratch.path().canonicalize().unwrap();
        let versioned = prefix.join("Cellar/claude-mem/0.1.0/bin/claude-mem");
        fs::create_dir_all(versioned.parent().unwrap()).unwrap();
        fs::create_dir(prefix.join("bin")).unwrap();
        fs::write(&versioned, "").unwrap();
        assert_eq!(lasting(versioned.clone()), versioned, "no link, no better name");
        std::os::unix::fs::symlink(&versioned, prefix.join("bin/claude-mem")).unwrap();
        assert_eq!(lasting(versioned), prefix.join("bin/claude-mem"));
        assert_eq!(lasting("/usr/bin/claude-mem".into()), Path::new("/usr/bin/claude-mem"));
    }
}
