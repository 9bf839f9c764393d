//! Paths and permissions in the data directory.

pub mod file_system;

use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use file_system::FileSystem;

/// The data directory and the names inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf, Option<FileSystem>);

/// The reason a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither `CLAUDE_MEM_HOME` nor a home directory is set.
    #[error("the home directory is unknown; set HOME or CLAUDE_MEM_HOME")]
    Unknown,
    /// A relative path, which would differ in every working directory and could be inside projects.
    #[error("CLAUDE_MEM_HOME must be an absolute path, but is {0}")]
    Relative(PathBuf),
    /// Owned by another user, who could read or replace its content.
    #[error(
        "{path} belongs to user {owner}, not to you (user {me}); set CLAUDE_MEM_HOME to a directory of your own"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner's numeric id.
        owner: u32,
        /// The caller's numeric id.
        me: u32,
    },
    /// On a file system that several machines can share.
    #[error(
        "{path} is on a network file system ({kind}), where SQLite's write-ahead log breaks as soon as two machines use \
         it; set CLAUDE_MEM_HOME to a directory on a local disk"
    )]
    Network {
        /// The directory.
        path: PathBuf,
        /// The file system's name.
        kind: String,
    },
    /// Not a directory.
    #[error("{0} is not a directory; move it away, or set CLAUDE_MEM_HOME")]
    NotADirectory(PathBuf),
    /// The operating system refused.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl Home {
    /// Returns the data directory for these two environment values; an empty value counts as
    /// absent.
    pub fn locate(mem_home: Option<PathBuf>, user_home: Option<PathBuf>) -> Result<Self, HomeError> {
        let given = |path: &PathBuf| !path.as_os_str().is_empty();
        let home = mem_home
            .filter(given)
            .or_else(|| user_home.filter(given).map(|home| home.join(".claude-mem")))
            .ok_or(HomeError::Unknown)?;
        if home.is_absolute() { Ok(Self(home, None)) } else { Err(HomeError::Relative(home)) }
    }

    /// Overrides the detected type of its file system.
    pub fn on(mut self, file_system: Option<FileSystem>) -> Self {
        self.1 = file_system;
        self
    }

    /// A data directory at exactly this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into(), None)
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// The database. Uses the alternate name if such a file exists, that is if another claude-mem
    /// owned the default name before us: a hook has no time for more than this check.
    pub fn database(&self) -> PathBuf {
        let alternate = self.database_beside();
        if alternate.exists() { alternate } else { self.usual_database() }
    }

    /// The default path of the database, which may belong to another program.
    pub fn usual_database(&self) -> PathBuf {
        self.0.join("claude-mem.db")
    }

    /// The path of our database if another program owns the default one.
    pub fn database_beside(&self) -> PathBuf {
        self.0.join("claude-mem-rs.db")
    }

    /// The database's write-ahead log.
    pub fn wal(&self) -> PathBuf {
        with_suffix(&self.database(), "-wal")
    }

    /// Marker file that exists while a damaged database is being replaced; nothing is written until
    /// it is gone.
    pub fn recovering(&self) -> PathBuf {
        self.0.join("recovering")
    }

    /// Directory of damaged databases, kept as they were found.
    pub fn damaged(&self) -> PathBuf {
        self.0.join("damaged")
    }

    /// File with the client's path, as found by `install`.
    pub fn client_path(&self) -> PathBuf {
        self.0.join("claude.path")
    }

    /// File with API keys.
    pub fn credentials(&self) -> PathBuf {
        self.0.join("credentials")
    }

    /// File with the membership in a team: address, keys, shares.
    #[cfg(feature = "service")]
    pub fn sync(&self) -> PathBuf {
        self.0.join("sync.json")
    }

    /// Lock file of the process that synchronises.
    #[cfg(feature = "service")]
    pub fn sync_lock(&self) -> PathBuf {
        self.0.join("sync.lock")
    }

    /// The user's settings.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// Directory of events that the database could not store.
    pub fn spool(&self) -> PathBuf {
        self.0.join("spool")
    }

    /// Directory of models.
    #[cfg(feature = "service")]
    pub fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    /// Directory of backups.
    pub fn backups(&self) -> PathBuf {
        self.0.join("backups")
    }

    /// The worker's HTTP socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("worker.sock")
    }

    /// The worker's datagram socket; any datagram means "check the queue".
    pub fn nudge_socket(&self) -> PathBuf {
        self.0.join("nudge.sock")
    }

    /// Socket on which a running viewer hands out further entries.
    pub fn viewer_socket(&self) -> PathBuf {
        self.0.join("viewer.sock")
    }

    /// Page that leads a browser to the viewer, so that the address is no argument of a process.
    pub fn viewer_entry(&self) -> PathBuf {
        self.0.join("viewer.html")
    }

    /// Lock file that the directory's one worker holds while it runs.
    pub fn lock(&self) -> PathBuf {
        self.0.join("worker.lock")
    }

    /// Log of events that could not be stored anywhere, one line each.
    pub fn dropped(&self) -> PathBuf {
        self.0.join("dropped.log")
    }

    /// File that a hook deletes to free space on a full disk.
    pub fn ballast(&self) -> PathBuf {
        self.0.join("reserve")
    }

    /// Size of the memories without raw events, as measured by the worker.
    pub fn memory_bytes(&self) -> PathBuf {
        self.0.join("memory.bytes")
    }

    /// Directory of spool files that hold no valid event.
    pub fn rejected(&self) -> PathBuf {
        self.spool().join("rejected")
    }

    /// The installation record: the changes made, and who starts the worker.
    pub fn install_record(&self) -> PathBuf {
        self.0.join("install.json")
    }

    /// File whose modification time is when Claude Code last listed our tools.
    pub fn tools_asked(&self) -> PathBuf {
        self.0.join("tools.asked")
    }

    /// Log file of a worker without a service manager.
    pub fn worker_log(&self) -> PathBuf {
        self.0.join("worker.log")
    }

    /// File whose modification time is when a hook last tried to start the worker.
    pub fn start_attempt(&self) -> PathBuf {
        self.0.join("worker.started")
    }

    /// Marker file that exists after `claude-mem stop`.
    pub fn stopped(&self) -> PathBuf {
        self.0.join("worker.stopped")
    }

    /// Checks that no other machine can have the database open.
    pub fn check_local(&self) -> Result<(), HomeError> {
        let file_system = self.1.or_else(|| FileSystem::of(&self.0));
        match file_system.and_then(|file_system| file_system.network_name(&self.0)) {
            Some(kind) => Err(HomeError::Network { path: self.0.clone(), kind }),
            None => Ok(()),
        }
    }

    /// Creates the directory if necessary, and checks that it is local and private.
    pub fn prepare(&self) -> Result<(), HomeError> {
        self.check_local()?;
        let meta = match fs::metadata(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private_dir(&self.0).map_err(|source| self.io(source))?;
                fs::metadata(&self.0).map_err(|source| self.io(source))?
            }
            other => other.map_err(|source| self.io(source))?,
        };
        self.check_ours(&meta)?;
        if meta.mode() & 0o077 != 0 {
            let private = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&self.0, private).map_err(|source| self.io(source))?;
        }
        Ok(())
    }

    fn check_ours(&self, meta: &fs::Metadata) -> Result<(), HomeError> {
        if !meta.is_dir() {
            return Err(HomeError::NotADirectory(self.0.clone()));
        }
        let me = rustix::process::geteuid().as_raw();
        if meta.uid() != me {
            return Err(HomeError::Foreign { path: self.0.clone(), owner: meta.uid(), me });
        }
        Ok(())
    }

    fn io(&self, source: io::Error) -> HomeError {
        if source.kind() == io::ErrorKind::NotADirectory {
            return HomeError::NotADirectory(self.0.clone());
        }
        HomeError::Io { path: self.0.clone(), source }
    }
}

/// Opens a regular file where other users may create files. Rejects pipes and devices without
/// blocking on them.
pub fn open_plain(path: &Path) -> io::Result<fs::File> {
    const NONBLOCKING: i32 = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY).bits() as i32;
    let file = fs::OpenOptions::new().read(true).custom_flags(NONBLOCKING).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Appends a suffix to the file name, as SQLite does for the files next to a database.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Creates a directory with its parents, accessible by the owner only. Succeeds if it exists.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let parents: Vec<&Path> =
        path.ancestors().take_while(|place| !place.is_dir()).filter_map(Path::parent).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Without this sync, a power cut could lose the directory and everything synced in it. Not
    // every file system supports it.
    for parent in parents.into_iter().filter(|parent| !parent.as_os_str().is_empty()) {
        let _ = fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

/// Identifies the file behind a path. Stays unique while the file is open.
#[cfg(feature = "service")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

#[cfg(feature = "service")]
impl FileIdentity {
    /// Identifies the file that is there now.
    pub fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|meta| Self::from(&meta))
    }
}

#[cfg(feature = "service")]
impl From<&fs::Metadata> for FileIdentity {
    fn from(meta: &fs::Metadata) -> Self {
        Self { device: meta.dev(), inode: meta.ino() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mem_home_wins_over_the_home_directory() {
        let home = Home::locate(Some("/data".into()), Some("/home/dev".into())).unwrap();
        assert_eq!(home.dir(), Path::new("/data"));
    }

    #[test]
    fn default_is_in_the_home_directory() {
        let home = Home::locate(Some("".into()), Some("/home/dev".into())).unwrap();
        assert_eq!(home.dir(), Path::new("/home/dev/.claude-mem"));
    }

    #[test]
    fn relative_directory_is_refused() {
        assert!(matches!(Home::locate(Some("mem".into()), None), Err(HomeError::Relative(_))));
    }

    #[test]
    fn error_without_a_home_names_the_variable() {
        let error = Home::locate(None, None).unwrap_err();
        assert!(error.to_string().contains("CLAUDE_MEM_HOME"));
    }

    #[test]
    fn prepare_makes_the_directory_private() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path().join("a/b"));
        home.prepare().unwrap();
        fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o755)).unwrap();
        home.prepare().unwrap();
        assert_eq!(fs::metadata(home.dir()).unwrap().mode() & 0o777, 0o700);
    }
}
