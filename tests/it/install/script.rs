//! The install script of a release: it checks what it downloads, and leaves nothing behind if it fails.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::sandbox::{Ran, Sandbox, run};

/// A published release whose `claude-mem` notes its arguments, and the machine that installs it.
struct Release {
    sandbox: Sandbox,
    script: PathBuf,
}

const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/install.sh.in");

impl Release {
    fn publish() -> Self {
        let sandbox = Sandbox::new();
        let published = sandbox.path().join("published");
        let name = format!("claude-mem-1.2.3-{}-{}", uname("-m"), uname("-s").to_lowercase());
        let program = sandbox.path().join(&name).join("bin/claude-mem");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::create_dir_all(&published).unwrap();
        fs::create_dir(sandbox.path().join("tmp")).unwrap();
        fs::write(&program, "#!/bin/sh\necho \"$@\" > \"$HOME/arguments\"\n").unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let pack = format!(
            "tar -czf published/{name}.tar.gz {name} && cd published && \
             {{ sha256sum {name}.tar.gz || shasum -a 256 {name}.tar.gz; }} > {name}.tar.gz.sha256"
        );
        let packed = Command::new("sh").args(["-c", &pack]).current_dir(sandbox.path()).status().unwrap();
        assert!(packed.success());
        let script = sandbox.path().join("install.sh");
        let from = format!("file://{}", published.display());
        let text = fs::read_to_string(TEMPLATE).unwrap();
        fs::write(&script, text.replace("@RELEASE@", &from).replace("@VERSION@", "1.2.3")).unwrap();
        Self { sandbox, script }
    }

    fn install(&self, arguments: &[&str]) -> Ran {
        let mut command = self.sandbox.command("sh");
        command.arg(&self.script).args(arguments).env("TMPDIR", self.sandbox.path().join("tmp"));
        run(command, b"")
    }

    /// The arguments that the program of the release was run with.
    fn installed(&self) -> Option<String> {
        fs::read_to_string(self.sandbox.path().join("arguments")).ok()
    }

    fn is_clean(&self) -> bool {
        fs::read_dir(self.sandbox.path().join("tmp")).unwrap().next().is_none()
    }
}

fn uname(option: &str) -> String {
    let output = Command::new("uname").arg(option).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_release_with_the_right_checksum_is_installed() {
    let release = Release::publish();
    let ran = release.install(&["--bin-dir", "/programs", "--no-service"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(release.installed().as_deref(), Some("install --bin-dir /programs --no-service\n"));
    assert!(release.is_clean());
}

#[test]
fn a_wrong_checksum_is_refused() {
    let release = Release::publish();
    for entry in fs::read_dir(release.sandbox.path().join("published")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "gz") {
            fs::OpenOptions::new().append(true).open(file).unwrap().write_all(b"x").unwrap();
        }
    }
    let ran = release.install(&[]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("SHA-256") && ran.stderr.contains("nothing was installed"), "{}", ran.stderr);
    let pinned = Release::publish();
    assert_eq!(pinned.install(&["--sha256", "00"]).code, Some(1), "the user's own checksum counts");
    for release in [release, pinned] {
        assert_eq!(release.installed(), None);
        assert!(release.is_clean());
    }
}

#[test]
fn an_interrupted_download_leaves_nothing() {
    let release = Release::publish();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let from = format!("http://{}", listener.local_addr().unwrap());
    // Announces more than it sends, to every attempt.
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
        }
    });
    let ran = release.install(&["--from", &from]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("nothing was installed"), "{}", ran.stderr);
    assert_eq!(release.installed(), None);
    assert!(release.is_clean());
}

#[test]
fn an_unprotected_address_and_half_a_script_do_nothing() {
    let release = Release::publish();
    for address in ["http://example.org/releases", "http://127.0.0.1.example.org/x", "ftp://example.org"] {
        let ran = release.install(&["--from", address]);
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("is not an https address"), "{}", ran.stderr);
    }
    let text = fs::read_to_string(&release.script).unwrap();
    let (all_but_the_call, _) = text.rsplit_once("main \"$@\"").unwrap();
    fs::write(&release.script, all_but_the_call).unwrap();
    release.install(&[]);
    assert_eq!(release.installed(), None);
}
