//! Claude Code's settings files: locates them, and replaces one atomically without losing
//! concurrent changes by the client. [`settings`](super::settings) edits their content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::settings::SettingsError;
use crate::config::Environment;

/// The reason a settings file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Its content does not allow the edit.
    #[error("{path} was not changed: {source}")]
    Settings {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SettingsError,
    },
    /// Not text.
    #[error("{0} was not changed: not UTF-8 text")]
    NotText(PathBuf),
    /// Read-only, so its owner does not want it changed.
    #[error("{path} was not changed: it is read-only{managed}", managed = if *.is_link { " and a symlink, so another program seems to manage it" } else { "" })]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// True if the client's path is a symlink to it.
        is_link: bool,
    },
    /// The client keeps writing it.
    #[error("{0} was not changed: another program keeps changing it; close Claude Code and try again")]
    KeepsChanging(PathBuf),
    /// The operating system refused.
    #[error("cannot change {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A file's content before and after an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The former content; none if there was no file.
    pub before: Option<String>,
    /// The new content.
    pub after: String,
}

impl Replaced {
    /// True if anything was written.
    pub fn is_changed(&self) -> bool {
        self.before.as_deref() != Some(&self.after)
    }
}

/// Returns the path of the user's settings, or of those of the project in that directory.
pub fn locate(environment: &Environment, project: Option<&Path>) -> Option<PathBuf> {
    let directory = match project {
        Some(project) => project.join(".claude"),
        None => client_directory(environment)?,
    };
    Some(directory.join("settings.json"))
}

/// Returns the client's directory.
pub fn client_directory(environment: &Environment) -> Option<PathBuf> {
    let moved = environment.outgoing.claude_config_dir.clone();
    moved.or_else(|| Some(environment.user_home.as_ref()?.join(".claude")))
}

/// Attempts to replace a file that others keep changing.
const TRIES: usize = 10;

/// Passes the text of the file to `edit` and atomically writes the result. If the file changes
/// meanwhile, `edit` gets the new text. Follows symlinks and keeps them. With `backup`, saves the
/// former text there.
pub fn replace(
    path: &Path,
    backup: Option<&Path>,
    mut edit: impl FnMut(&str) -> Result<String, SettingsError>,
) -> Result<Replaced, FileError> {
    let io_error = |source| FileError::Io { path: path.to_owned(), source };
    let target = follow(path).map_err(io_error)?;
    for _ in 0..TRIES {
        let before = read(&target)?;
        let after = edit(before.as_deref().unwrap_or_default())
            .map_err(|source| FileError::Settings { path: path.to_owned(), source })?;
        let replaced = Replaced { before, after };
        if !replaced.is_changed() {
            return Ok(replaced);
        }
        let mode = writable_mode(&target, path)?;
        if let (Some(backup), Some(before)) = (backup, &replaced.before) {
            write_whole(backup, before, mode).map_err(io_error)?;
        }
        let unfinished = temp_path(&target);
        let written = write_synced(&unfinished, &replaced.after, mode);
        // Last check that the client did not write in the meantime.
        let is_as_read = written.is_ok() && read(&target)? == replaced.before;
        let done = written.and_then(|()| if is_as_read { commit(&unfinished, &target) } else { Ok(()) });
        if done.is_err() || !is_as_read {
            let _ = fs::remove_file(&unfinished);
        }
        done.map_err(io_error)?;
        if is_as_read {
            return Ok(replaced);
        }
    }
    Err(FileError::KeepsChanging(path.to_owned()))
}

/// Fails if the file is read-only.
pub fn check_writable(path: &Path) -> Result<(), FileError> {
    let target = follow(path).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    writable_mode(&target, path).map(drop)
}

/// Returns the text of the file; none if there is no file.
pub fn read(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| FileError::NotText(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileError::Io { path: path.to_owned(), source }),
    }
}

/// Writes a file atomically.
pub fn write_whole(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let unfinished = temp_path(path);
    let written = write_synced(&unfinished, text, mode).and_then(|()| commit(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Resolves symlinks; the target need not exist.
fn follow(path: &Path) -> io::Result<PathBuf> {
    const MAX_LINKS: usize = 40;
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("/")).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// Returns the mode for the new file, which is that of the old one.
fn writable_mode(target: &Path, path: &Path) -> Result<u32, FileError> {
    let meta = match fs::metadata(target) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0o600),
        Err(source) => return Err(FileError::Io { path: path.to_owned(), source }),
    };
    // A rename would still work on a read-only file, but its owner does not want that.
    if meta.permissions().readonly() {
        return Err(FileError::ReadOnly { path: path.to_owned(), is_link: target != path });
    }
    Ok(meta.mode() & 0o777)
}

fn temp_path(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn write_synced(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    // An existing file is left over from a crash, or is a planted symlink.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}

fn commit(unfinished: &Path, target: &Path) -> io::Result<()> {
    fs::rename(unfinished, target)?;
    // The rename is done; failing to make it durable is not worth an error.
    if let Some(directory) = target.parent() {
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_client_write_is_not_lost() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("settings.json");
        fs::write(&file, "one").unwrap();
        let mut seen = Vec::new();
        let replaced = replace(&file, None, |text| {
            seen.push(text.to_owned());
            if seen.len() == 1 {
                fs::write(&file, "two").unwrap();
            }
            Ok(format!("{text} and ours"))
        });
        assert_eq!(replaced.unwrap().before.as_deref(), Some("two"));
        assert_eq!(seen, ["one", "two"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "two and ours");
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn file_that_keeps_changing_is_not_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("settings.json");
        let mut count = 0;
        let refused = replace(&file, None, |_| {
            count += 1;
            fs::write(&file, count.to_string()).unwrap();
            Ok("ours".into())
        });
        assert!(matches!(refused, Err(FileError::KeepsChanging(_))));
        assert_eq!(fs::read_to_string(&file).unwrap(), TRIES.to_string());
    }

    #[test]
    fn file_created_meanwhile_is_not_overwritten() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("settings.json");
        let replaced = replace(&file, None, |text| {
            if text.is_empty() {
                fs::write(&file, "theirs").unwrap();
            }
            Ok(format!("{text}, ours"))
        });
        assert_eq!(replaced.unwrap().after, "theirs, ours");
    }

    #[test]
    fn backup_has_the_former_text_and_mode_is_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let (file, backup) = (scratch.path().join("settings.json"), scratch.path().join("backup"));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        replace(&file, Some(&backup), |_| Ok("after".into())).unwrap();
        assert_eq!(fs::read_to_string(&backup).unwrap(), "before");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o604);
    }

    #[test]
    fn dangling_links_are_followed_and_loops_fail() {
        let scratch = tempfile::tempdir().unwrap();
        let link = scratch.path().join("settings.json");
        std::os::unix::fs::symlink("real.json", &link).unwrap();
        replace(&link, None, |_| Ok("{}".into())).unwrap();
        assert_eq!(fs::read_to_string(scratch.path().join("real.json")).unwrap(), "{}");
        let circle = scratch.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        assert!(replace(&circle, None, |_| Ok("{}".into())).is_err());
    }
}
