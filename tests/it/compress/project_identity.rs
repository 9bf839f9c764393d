//! The project of a directory: a table of expectations, on repositories created by git itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use claude_mem::config::Config;
use claude_mem::project::Project;

struct Repositories {
    scratch: tempfile::TempDir,
}

impl Repositories {
    fn new() -> Self {
        Self { scratch: tempfile::tempdir().unwrap() }
    }

    /// The path without symbolic links, as projects are keyed.
    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.scratch.path()).unwrap().join(name)
    }

    fn git(&self, folder: &str, arguments: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"])
            .args(["-c", "init.defaultBranch=main"])
            .args(arguments)
            .current_dir(self.path(folder))
            .env("HOME", self.scratch.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(status.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&status.stderr));
    }

    fn repository(&self, name: &str) {
        fs::create_dir_all(self.path(name).join("src/deep")).unwrap();
        self.git(name, &["init", "--quiet"]);
        self.git(name, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    }

    fn project(&self, cwd: &str) -> Project {
        Project::of(&self.path(cwd), &Config::default().capture)
    }

    fn assert(&self, cwd: &str, name: &str, path: &str, branch: Option<&str>) {
        let project = self.project(cwd);
        let found = (project.name.as_str(), project.path.as_path(), project.branch.as_deref());
        assert_eq!(found, (name, self.path(path).as_path(), branch), "{cwd}");
    }
}

#[test]
fn every_kind_of_directory_has_the_expected_project() {
    let here = Repositories::new();
    here.repository("app");
    here.git("app", &["worktree", "add", "--quiet", "-b", "feature/x", "../elsewhere/wt"]);
    here.repository("library");
    here.git("app", &["submodule", "--quiet", "add", "../library", "vendor/library"]);
    here.git("", &["clone", "--quiet", "--bare", "app", "bare.git"]);
    here.git("bare.git", &["worktree", "add", "--quiet", "-b", "from-bare", "../bare-wt"]);
    fs::create_dir_all(here.path("plain/folder")).unwrap();
    std::os::unix::fs::symlink(here.path("app/src"), here.path("link")).unwrap();
    fs::create_dir_all(here.path("elsewhere/wt/sub")).unwrap();

    here.assert("app", "app", "app", Some("main"));
    here.assert("app/src/deep", "app", "app", Some("main"));
    here.assert("app/.git", "app", "app", Some("main"));
    here.assert("elsewhere/wt", "app", "app", Some("feature/x"));
    here.assert("elsewhere/wt/sub", "app", "app", Some("feature/x"));
    here.assert("app/vendor/library", "library", "app/vendor/library", Some("main"));
    here.assert("bare.git", "bare", "bare.git", Some("main"));
    here.assert("bare-wt", "bare", "bare.git", Some("from-bare"));
    here.assert("plain/folder", "folder", "plain/folder", None);
    here.assert("link/deep", "app", "app", Some("main"));
    here.assert("app/gone/for/good", "app", "app", Some("main"));
    here.assert("plain/gone", "gone", "plain/gone", None);
}

#[test]
fn a_worktree_of_a_submodule_belongs_to_the_submodule() {
    let here = Repositories::new();
    here.repository("app");
    here.repository("library");
    here.git("app", &["submodule", "--quiet", "add", "../library", "vendor/library"]);
    here.git("app/vendor/library", &["worktree", "add", "--quiet", "-b", "y", "../../../lib-wt"]);
    here.assert("lib-wt", "library", "app/vendor/library", Some("y"));
}

#[test]
fn a_detached_head_has_no_branch() {
    let here = Repositories::new();
    here.repository("app");
    here.git("app", &["checkout", "--quiet", "--detach"]);
    here.assert("app", "app", "app", None);
}

#[test]
fn a_hostile_repository_cannot_pose_as_another_project() {
    let here = Repositories::new();
    here.repository("victim");
    here.git("victim", &["worktree", "add", "--quiet", "-b", "w", "../real"]);
    fs::create_dir(here.path("hostile")).unwrap();
    fs::copy(here.path("real/.git"), here.path("hostile/.git")).unwrap();
    here.assert("hostile", "hostile", "hostile", Some("w"));
}

#[test]
fn a_malformed_git_file_is_harmless() {
    let here = Repositories::new();
    for (name, content) in [
        ("empty", String::new()),
        ("nonsense", "hello".into()),
        ("nowhere", "gitdir: /no/such/place".into()),
        ("itself", "gitdir: .git".into()),
        ("huge", format!("gitdir: {}", "x".repeat(10 << 20))),
    ] {
        fs::create_dir(here.path(name)).unwrap();
        fs::write(here.path(name).join(".git"), content).unwrap();
        here.assert(name, name, name, None);
    }
    fs::create_dir(here.path("pipe")).unwrap();
    assert!(Command::new("mkfifo").arg(here.path("pipe/.git")).status().unwrap().success());
    here.assert("pipe", "pipe", "pipe", None);
}

#[test]
fn aliases_rename_by_path_or_by_name() {
    let here = Repositories::new();
    here.repository("app");
    here.repository("other");
    let mut capture = Config::default().capture;
    capture.project_aliases.insert(here.path("app").to_string_lossy().into_owned(), "by path".into());
    capture.project_aliases.insert("other".into(), "by name".into());
    let name = |folder: &str| Project::of(Path::new(&here.path(folder)), &capture).name;
    assert_eq!((name("app"), name("other/src")), ("by path".into(), "by name".into()));
}
