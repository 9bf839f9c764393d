//! A PostgreSQL server in a temporary directory: on a Unix socket, and with TLS on loopback.

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::harness::sandbox::fixture;
use crate::harness::wait::{skip, wait_until};

pub struct Postgres {
    folder: tempfile::TempDir,
    programs: PathBuf,
    /// PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
    port: u16,
    server: Option<Child>,
    /// Settings that replace the usual ones.
    settings: &'static [&'static str],
}

impl Postgres {
    /// Starts a server with the logins alice, bob, carol and eve, and the database `memory`, which alice
    /// owns. None if PostgreSQL is not installed; in CI that is a failure.
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same with these settings.
    pub fn start_with(settings: &'static [&'static str]) -> Option<Self> {
        let Some(programs) = programs() else {
            skip("PostgreSQL is not installed (Debian: apt-get install postgresql)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let user = rustix::process::geteuid().is_root().then(unprivileged_user);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut postgres = Self { folder, programs, user, port, server: None, settings };
        postgres.create();
        postgres.run();
        for login in ["alice", "bob", "carol", "eve"] {
            postgres.admin(&format!("CREATE ROLE {login} LOGIN PASSWORD 'pw-{login}'"));
        }
        postgres.admin("CREATE DATABASE memory OWNER alice");
        Some(postgres)
    }

    fn create(&self) {
        let folder = self.folder.path();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        self.own(folder);
        let mut initdb = self.command("initdb");
        initdb.args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]);
        let output = initdb.arg(self.data()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for (from, to) in [("tls/localhost.pem", "server.crt"), ("tls/localhost.key", "server.key")] {
            let to = self.data().join(to);
            std::fs::copy(fixture(from), &to).unwrap();
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
            self.own(&to);
        }
        let access = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all all ::1/128 scram-sha-256\n";
        std::fs::write(self.data().join("pg_hba.conf"), access).unwrap();
    }

    fn own(&self, path: &Path) {
        if let Some((user, group)) = self.user {
            chown(path, Some(user), Some(group)).unwrap();
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir(self.folder.path());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Starts the server and waits until it answers.
    pub fn run(&mut self) {
        wait_until("the server starts", || {
            // After a kill, the remains of the old server may block the new one for a moment.
            if self.server.as_mut().is_none_or(|server| server.try_wait().unwrap().is_some()) {
                self.server = Some(self.spawn());
            }
            self.is_ready()
        });
    }

    fn spawn(&self) -> Child {
        let folder = self.folder.path();
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
        let mut server = self.command("postgres");
        server.arg("-D").arg(self.data()).arg("-k").arg(folder).args(["-p", &self.port.to_string()]);
        let settings = [
            "listen_addresses=localhost",
            "ssl=on",
            "fsync=off",
            "max_connections=60",
            "shared_buffers=16MB",
        ];
        for setting in settings.iter().chain(self.settings) {
            server.args(["-c", setting]);
        }
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }

    fn is_ready(&self) -> bool {
        let socket = self.folder.path().join(format!(".s.PGSQL.{}", self.port));
        UnixStream::connect(socket).is_ok() && self.query("postgres", "postgres", "SELECT 1").is_ok()
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// The address for a login, on the Unix socket.
    pub fn url(&self, login: &str) -> String {
        let folder = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://{login}@{folder}:{}/memory", self.port)
    }

    /// The address for a login with TLS on loopback.
    pub fn tls_url(&self, login: &str, host: &str, authority: &Path) -> String {
        let (port, authority) = (self.port, authority.display());
        format!(
            "postgres://{login}:pw-{login}@{host}:{port}/memory?sslmode=verify-full&sslrootcert={authority}"
        )
    }

    /// Runs SQL as a login in the database `memory`; the result's lines, or the error.
    pub fn sql(&self, login: &str, sql: &str) -> Result<String, String> {
        self.query(login, "memory", sql)
    }

    /// A session of a login that reads SQL from its input until that is closed.
    pub fn session(&self, login: &str) -> Child {
        let mut psql = self.command("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", login, "-d", "memory"]);
        psql.arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        psql.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Runs SQL as the superuser.
    pub fn admin(&self, sql: &str) -> String {
        let database =
            if sql.starts_with("CREATE") || sql.starts_with("ALTER SYSTEM") { "postgres" } else { "memory" };
        self.query("postgres", database, sql).unwrap()
    }

    fn query(&self, login: &str, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = self.command("psql");
        psql.args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-U", login, "-d", database, "-c", sql]);
        psql.arg("-h").arg(self.folder.path()).args(["-p", &self.port.to_string()]);
        let output = psql.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// Everything that the server stores, as a superuser dumps it.
    pub fn dump(&self) -> Vec<u8> {
        let mut dump = self.command("pg_dump");
        dump.args(["-U", "postgres", "-d", "memory", "-p", &self.port.to_string()])
            .arg("-h")
            .arg(self.folder.path());
        let output = dump.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        // SIGQUIT ends it and its children at once; there is nothing to save.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&server),
            rustix::process::Signal::QUIT,
        );
        let _ = server.wait();
    }
}

/// The folder of PostgreSQL's programs.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    folders
        .into_iter()
        .find(|folder| ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).exists()))
}

fn unprivileged_user() -> (u32, u32) {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2).map(|field| field.parse().ok());
        Some((fields.next()??, fields.next()??))
    };
    find("postgres").or_else(|| find("nobody")).unwrap_or((65534, 65534))
}
