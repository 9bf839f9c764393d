//! Where things lie in the data directory. Knows names and permissions, not contents.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The data directory and the names inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither `CLAUDE_MEM_HOME` nor a home directory is known.
    #[error("no home directory is known: set HOME or CLAUDE_MEM_HOME")]
    Unknown,
    /// It would be another one in every directory, and inside of projects.
    #[error("CLAUDE_MEM_HOME is {0}, which is not absolute: name a directory from / on")]
    Relative(PathBuf),
    /// It belongs to somebody else, who could read or replace what is in it.
    #[error(
        "{path} belongs to user {owner}, not to you (user {me}): set CLAUDE_MEM_HOME to a directory of your own"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner's numeric id.
        owner: u32,
        /// The caller's numeric id.
        me: u32,
    },
    /// There is something else of that name.
    #[error("{0} is not a directory: move it away, or set CLAUDE_MEM_HOME")]
    NotADirectory(PathBuf),
    /// The operating system said no.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl Home {
    /// The data directory for these two environment values; an empty value counts as absent.
    pub fn locate(mem_home: Option<PathBuf>, user_home: Option<PathBuf>) -> Result<Self, HomeError> {
        let given = |path: &PathBuf| !path.as_os_str().is_empty();
        let home = mem_home
            .filter(given)
            .or_else(|| user_home.filter(given).map(|home| home.join(".claude-mem")))
            .ok_or(HomeError::Unknown)?;
        if home.is_absolute() { Ok(Self(home)) } else { Err(HomeError::Relative(home)) }
    }

    /// A data directory at exactly this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// The database. It has another name where a program of the same name had a database before us; its being there
    /// tells, because that is all that a hook has the time to look at.
    pub fn database(&self) -> PathBuf {
        let beside = self.database_beside();
        if beside.exists() { beside } else { self.usual_database() }
    }

    /// Where the database is on most machines, or that of another program.
    pub fn usual_database(&self) -> PathBuf {
        self.0.join("claude-mem.db")
    }

    /// Where ours is if the usual place is taken.
    pub fn database_beside(&self) -> PathBuf {
        self.0.join("claude-mem-rs.db")
    }

    /// The database's write-ahead log.
    pub fn log(&self) -> PathBuf {
        with_suffix(&self.database(), "-wal")
    }

    /// It is there while a damaged database is being replaced: nothing is written until it is gone.
    pub fn recovering(&self) -> PathBuf {
        self.0.join("recovering")
    }

    /// Databases that were damaged, as they were found.
    pub fn damaged(&self) -> PathBuf {
        self.0.join("damaged")
    }

    /// The user's settings.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// Where events wait that the database would not take.
    pub fn spool(&self) -> PathBuf {
        self.0.join("spool")
    }

    /// Where models lie.
    #[cfg(feature = "service")]
    pub fn models(&self) -> PathBuf {
        self.0.join("models")
    }

    /// Copies of the database.
    pub fn backups(&self) -> PathBuf {
        self.0.join("backups")
    }

    /// The worker's HTTP socket.
    pub fn socket(&self) -> PathBuf {
        self.0.join("worker.sock")
    }

    /// The worker's datagram socket: any datagram means "look at the queue".
    pub fn nudge_socket(&self) -> PathBuf {
        self.0.join("nudge.sock")
    }

    /// Held by the one worker of this directory for its life.
    pub fn lock(&self) -> PathBuf {
        self.0.join("worker.lock")
    }

    /// One line for each event that could be stored nowhere.
    pub fn dropped(&self) -> PathBuf {
        self.0.join("dropped.log")
    }

    /// What `install` did, and who starts the worker.
    pub fn install_record(&self) -> PathBuf {
        self.0.join("install.json")
    }

    /// Its time says when Claude Code last asked for our tools.
    pub fn tools_asked(&self) -> PathBuf {
        self.0.join("tools.asked")
    }

    /// Where a worker that no manager started writes its log.
    pub fn worker_log(&self) -> PathBuf {
        self.0.join("worker.log")
    }

    /// Its time says when a hook last tried to start the worker.
    pub fn start_attempt(&self) -> PathBuf {
        self.0.join("worker.started")
    }

    /// It is there while the user wants no worker.
    pub fn stopped(&self) -> PathBuf {
        self.0.join("worker.stopped")
    }

    /// Makes the directory if it is missing, and checks that it is ours alone.
    pub fn prepare(&self) -> Result<(), HomeError> {
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

/// Opens a file that lies where strangers may put things. A pipe or a device is refused, and not waited for.
pub fn open_plain(path: &Path) -> io::Result<fs::File> {
    const DO_NOT_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY).bits() as i32;
    let file = fs::OpenOptions::new().read(true).custom_flags(DO_NOT_WAIT).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// The path with this behind its name: how SQLite names the files beside a database.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a directory, and its parents, that only its owner can enter. One that is there already is fine.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let parents: Vec<&Path> =
        path.ancestors().take_while(|place| !place.is_dir()).filter_map(Path::parent).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Or a power cut takes the directory, with all that was synced in it. Not every file system can do this.
    for parent in parents.into_iter().filter(|parent| !parent.as_os_str().is_empty()) {
        let _ = fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

/// Which file a path leads to. Not given to another one while somebody has the file open.
#[cfg(feature = "service")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

#[cfg(feature = "service")]
impl FileIdentity {
    /// The file that is there now.
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
    fn without_mem_home_it_is_under_the_home_directory() {
        let home = Home::locate(Some("".into()), Some("/home/dev".into())).unwrap();
        assert_eq!(home.dir(), Path::new("/home/dev/.claude-mem"));
    }

    #[test]
    fn a_relative_directory_is_refused() {
        assert!(matches!(Home::locate(Some("mem".into()), None), Err(HomeError::Relative(_))));
    }

    #[test]
    fn without_any_home_the_error_says_what_to_set() {
        let error = Home::locate(None, None).unwrap_err();
        assert!(error.to_string().contains("CLAUDE_MEM_HOME"));
    }

    #[test]
    fn preparing_makes_the_directory_private() {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::at(scratch.path().join("a/b"));
        home.prepare().unwrap();
        fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o755)).unwrap();
        home.prepare().unwrap();
        assert_eq!(fs::metadata(home.dir()).unwrap().mode() & 0o777, 0o700);
    }
}
