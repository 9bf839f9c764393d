//! Real repositories, and what their branches mean for the notes made on them.

use std::path::PathBuf;
use std::process::Command;

use rusqlite::{Connection, params};

use super::*;
use crate::anchors::blob_id;
use crate::paths::Home;
use crate::store;
use crate::store::context::{self as table, Reach};
use crate::store::memory::anchors::{self, Anchor};
use crate::store::memory::branches;

/// The time of the first commit; each git command is a minute later than the one before.
const BEGAN: Millis = 1_780_000_000_000;

/// A repository with a database of notes about it.
struct Scene {
    scratch: tempfile::TempDir,
    root: PathBuf,
    database: Connection,
    now: Millis,
}

impl Scene {
    /// A repository with one commit on `main`.
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("harbor");
        std::fs::create_dir(&root).unwrap();
        let database = store::open_for_worker(&Home::at(scratch.path().join("mem")), 0).unwrap();
        let mut scene = Self { scratch, root, database, now: BEGAN };
        scene.git(&["init", "-q"]);
        scene.write("README.md", "Harbor\n");
        scene.commit("Begin");
        scene
    }

    fn git_in(&mut self, directory: &Path, arguments: &[&str]) -> String {
        self.now += 60_000;
        let date = format!("@{} +0000", self.now / 1000);
        let output = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"])
            .args(["-c", "protocol.file.allow=always"])
            .args(arguments)
            .current_dir(directory)
            .envs([
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_AUTHOR_DATE", &date),
                ("GIT_COMMITTER_DATE", &date),
            ])
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn git(&mut self, arguments: &[&str]) -> String {
        self.git_in(&self.root.clone(), arguments)
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.root.join(file), text).unwrap();
    }

    fn commit(&mut self, subject: &str) -> String {
        self.git(&["add", "."]);
        self.git(&["commit", "-q", "-m", subject]);
        self.git(&["rev-parse", "--short=8", "HEAD"])
    }

    /// A note of a turn on a branch that changed a file, with the commit that it made, if it made one.
    fn note(&mut self, branch: Option<&str>, file: &str, commit: Option<(&str, &str)>) -> i64 {
        self.now += 60_000;
        let session = format!("s{}", self.now);
        let path = self.root.to_string_lossy().into_owned();
        self.database
            .execute(
                "INSERT INTO sessions (id, project, project_path, branch, started_at, last_activity_at, prompt_count)
                 VALUES (?1, 'harbor', ?2, ?3, ?4, ?4, 1)",
                params![session, path, branch, self.now],
            )
            .unwrap();
        let facts =
            commit.map(|(id, subject)| serde_json::json!([format!("Commit {id}: {subject}")]).to_string());
        self.database
            .execute(
                "INSERT INTO observations (uid, session_id, project, title, facts, files_modified, branch, created_at)
                 VALUES (hex(randomblob(8)), ?1, 'harbor', 't', ?2, json_array(?3), ?4, ?5)",
                params![session, facts, file, branch, self.now],
            )
            .unwrap();
        let id = self.database.last_insert_rowid();
        let hash = std::fs::read(self.root.join(file)).map(|text| blob_id(&text)).unwrap_or_default();
        let anchor = Anchor { file_path: file.into(), hash, ..Anchor::default() };
        anchors::replace(&self.database, id, &[anchor]).unwrap();
        id
    }

    /// Looks at a clone of the repository, or at the repository itself.
    fn look_at(&mut self, root: &Path) {
        let survey = survey(root, BEGAN - 86_400_000).unwrap();
        let path = root.to_string_lossy();
        branches::record(&self.database, "harbor", &path, &survey, self.now).unwrap();
    }

    fn look(&mut self) {
        self.look_at(&self.root.clone());
    }

    fn reach(&self, note: i64, here: Option<&str>) -> Reach {
        table::memories(&self.database, "harbor", &[note]).unwrap()[0].reach(here)
    }

    /// A branch with a note, whose work is committed afterwards by hand.
    fn feature(&mut self) -> i64 {
        self.git(&["switch", "-q", "-c", "feature"]);
        self.write("feature.rs", "fn feature() {}\n");
        let note = self.note(Some("feature"), "feature.rs", None);
        self.commit("Add the feature");
        note
    }
}

#[test]
fn a_feature_branch_keeps_its_notes_until_it_is_merged() {
    let mut scene = Scene::new();
    let note = scene.feature();
    scene.look();
    assert_eq!(scene.reach(note, Some("feature")), Reach::Here);
    assert_eq!(scene.reach(note, Some("main")), Reach::Elsewhere);
    assert_eq!(scene.reach(note, None), Reach::Elsewhere, "a detached HEAD");
    scene.git(&["switch", "-q", "main"]);
    scene.git(&["merge", "-q", "--no-ff", "-m", "Merge the feature", "feature"]);
    scene.look();
    assert_eq!(scene.reach(note, Some("main")), Reach::Here);
    // Work on the same branch after the merge belongs to the branch again.
    scene.git(&["switch", "-q", "feature"]);
    scene.write("feature.rs", "fn feature() { more(); }\n");
    let later = scene.note(Some("feature"), "feature.rs", None);
    scene.look();
    assert_eq!(
        (scene.reach(note, Some("main")), scene.reach(later, Some("main"))),
        (Reach::Here, Reach::Elsewhere)
    );
}

#[test]
fn a_merged_branch_may_be_deleted_before_anybody_looks() {
    let mut scene = Scene::new();
    let note = scene.feature();
    scene.git(&["switch", "-q", "main"]);
    scene.git(&["merge", "-q", "feature"]);
    scene.git(&["branch", "-q", "-d", "feature"]);
    scene.look();
    assert_eq!(scene.reach(note, Some("main")), Reach::Here);
}

#[test]
fn a_squash_is_recognised_by_the_files_it_brings() {
    let mut scene = Scene::new();
    let first = scene.feature();
    scene.write("feature.rs", "fn feature() { better(); }\n");
    let last = scene.note(Some("feature"), "feature.rs", None);
    scene.commit("Improve the feature");
    scene.git(&["switch", "-q", "main"]);
    scene.git(&["merge", "-q", "--squash", "feature"]);
    scene.commit("The feature (#12)");
    scene.git(&["branch", "-q", "-D", "feature"]);
    scene.look();
    assert_eq!(
        (scene.reach(first, Some("main")), scene.reach(last, Some("main"))),
        (Reach::Here, Reach::Here)
    );
}

#[test]
fn a_squash_with_further_changes_is_doubtful() {
    let mut scene = Scene::new();
    let note = scene.feature();
    scene.git(&["switch", "-q", "main"]);
    scene.git(&["merge", "-q", "--squash", "feature"]);
    scene.write("feature.rs", "fn feature() { as_reviewed(); }\n");
    scene.commit("The feature (#12)");
    scene.git(&["branch", "-q", "-D", "feature"]);
    scene.look();
    assert_eq!(scene.reach(note, Some("main")), Reach::Doubtful);
}

#[test]
fn a_rebased_commit_is_recognised_by_its_subject_and_time() {
    let mut scene = Scene::new();
    scene.git(&["switch", "-q", "-c", "feature"]);
    scene.write("README.md", "Harbor\n\nA paragraph at the end\n");
    let id = scene.commit("Describe the harbor");
    let note = scene.note(Some("feature"), "README.md", Some((&id, "Describe the harbor")));
    scene.git(&["switch", "-q", "main"]);
    scene.write("README.md", "# Title\n\nHarbor\n");
    scene.commit("Add a title");
    scene.git(&["switch", "-q", "feature"]);
    scene.git(&["-c", "merge.conflictStyle=merge", "rebase", "-q", "-X", "theirs", "main"]);
    scene.git(&["switch", "-q", "main"]);
    scene.git(&["merge", "-q", "--ff-only", "feature"]);
    scene.git(&["branch", "-q", "-D", "feature"]);
    scene.look();
    assert_eq!(scene.reach(note, Some("main")), Reach::Here);
}

#[test]
fn notes_of_a_branch_that_was_deleted_unmerged_fade() {
    let mut scene = Scene::new();
    let note = scene.feature();
    scene.look();
    scene.git(&["switch", "-q", "main"]);
    scene.git(&["branch", "-q", "-D", "feature"]);
    scene.look();
    assert_eq!(scene.reach(note, Some("main")), Reach::Faded);
    // The branch comes back, from a remote or the reflog.
    scene.git(&["branch", "feature", "HEAD@{1}"]);
    scene.look();
    assert_eq!(scene.reach(note, Some("main")), Reach::Elsewhere);
}

#[test]
fn two_worktrees_share_their_branches() {
    let mut scene = Scene::new();
    let other = scene.scratch.path().join("other");
    scene.git(&["worktree", "add", "-q", "-b", "feature", other.to_str().unwrap()]);
    scene.write("main.rs", "fn main() {}\n");
    let here = scene.note(Some("main"), "main.rs", None);
    let there = scene.note(Some("feature"), "feature.rs", None);
    scene.look_at(&other);
    assert_eq!(scene.reach(here, Some("feature")), Reach::Here, "the default branch's are everybody's");
    assert_eq!(scene.reach(there, Some("main")), Reach::Elsewhere);
}

#[test]
fn notes_of_a_detached_head_have_no_branch() {
    let mut scene = Scene::new();
    scene.git(&["switch", "-q", "--detach"]);
    let note = scene.note(None, "README.md", None);
    scene.look();
    assert_eq!(scene.reach(note, Some("main")), Reach::Here);
}

#[test]
fn a_shallow_clone_and_another_clone_prove_no_deletion() {
    let mut scene = Scene::new();
    let note = scene.feature();
    scene.git(&["switch", "-q", "main"]);
    let address = format!("file://{}", scene.root.display());
    for (name, depth) in [("shallow", "--depth=1"), ("complete", "--no-single-branch")] {
        let clone = scene.scratch.path().join(name);
        let scratch = scene.scratch.path().to_owned();
        scene.git_in(&scratch, &["clone", "-q", depth, "--branch", "main", &address, name]);
        scene.git_in(&clone, &["update-ref", "-d", "refs/remotes/origin/feature"]);
        // The shallow clone is the notes' own, the other one is not.
        if name == "shallow" {
            let path = clone.to_string_lossy().into_owned();
            scene.database.execute("UPDATE sessions SET project_path = ?1", [path]).unwrap();
        }
        scene.look_at(&clone);
        assert_eq!(scene.reach(note, Some("main")), Reach::Doubtful, "{name}");
    }
}

#[test]
fn a_repository_without_a_default_branch_proves_nothing() {
    let mut scene = Scene::new();
    scene.git(&["branch", "-m", "main", "wip"]);
    let note = scene.note(Some("topic"), "README.md", None);
    scene.look();
    assert_eq!(scene.reach(note, Some("wip")), Reach::Doubtful);
}

#[test]
fn renames_are_listed_from_the_first_name_to_the_last() {
    let mut scene = Scene::new();
    let text: String = (0..40).map(|line| format!("line number {line} of this file\n")).collect();
    scene.write("old name.rs", &text);
    scene.commit("Add a file");
    scene.git(&["mv", "old name.rs", "middle.rs"]);
    scene.commit("Rename it");
    scene.git(&["mv", "middle.rs", "new.rs"]);
    scene.commit("Rename it again");
    let renames = renames(&scene.root).unwrap();
    assert_eq!(renames.get("old name.rs").map(String::as_str), Some("middle.rs"));
    assert_eq!(renames.get("middle.rs").map(String::as_str), Some("new.rs"));
}
