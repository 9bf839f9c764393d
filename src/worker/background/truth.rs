//! Keeps memories true: at a session's start, asks git which branches reached the default one, and compares the latest notes with
//! the working tree. The session does not wait; the results serve the next one, and readers without a working tree.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use crate::anchors::WorkingTree;
use crate::api::ContextQuery;
use crate::clock;
use crate::model::{Millis, Standing};
use crate::project::Project;
use crate::repository::survey;
use crate::store::context::{self as table, ContextMemory, Reach};
use crate::store::memory::anchors::{self, Anchor};
use crate::store::memory::branches;
use crate::store::{StoreError, projects};
use crate::worker::state::Running;

/// Maximum notes that are compared with the working tree at a start, the newest.
const MOST_NOTES: u32 = 400;

/// Time between a session's start and the refresh.
const DELAY: Duration = Duration::from_millis(500);

/// Starts the refresh for the project of a query. Git is asked at most once a minute.
pub fn refresh(running: &Arc<Running>, query: &ContextQuery) {
    let directory = query.cwd.as_deref().unwrap_or(&query.project_path);
    let place = Project::of(Path::new(directory), &running.config.capture);
    if !place.is_repository {
        return;
    }
    if !running.repositories.begin_refresh(&place.root) {
        return;
    }
    let running = Arc::clone(running);
    tokio::spawn(async move {
        // The session that begins has the machine to itself; others that begin meanwhile share this refresh.
        tokio::time::sleep(DELAY).await;
        running.repositories.end_refresh(&place.root);
        if let Err(error) = run(&running, place).await {
            tracing::warn!(%error, "cannot compare memories with the working tree: {error}");
        }
    });
}

async fn run(running: &Arc<Running>, place: Project) -> Result<(), StoreError> {
    let now = clock::now();
    let asked = place.clone();
    let project = running.database.read(move |database| projects::name_of(database, &asked)).await?;
    if running.repositories.is_survey_due(&place.root) {
        ask_git(running, &project, &place, now).await?;
    }
    let (tree, branch) = (running.repositories.tree(&place.root), place.branch.clone());
    let notes =
        running.database.read(move |database| anchored(database, &project, branch.as_deref())).await?;
    // Reading files takes long: no reader of the database waits for it.
    let compared = tokio::task::spawn_blocking(move || compare(&notes, &tree)).await;
    let Some(found) = compared.ok().filter(|found| !found.is_empty()) else { return Ok(()) };
    running.database.write(move |database| record(database, &found, now)).await
}

/// Records the branches, and keeps the renames.
async fn ask_git(
    running: &Arc<Running>,
    project: &str,
    place: &Project,
    now: Millis,
) -> Result<(), StoreError> {
    let asked = project.to_owned();
    let since =
        running.database.read(move |database| branches::oldest_waiting(database, &asked, now)).await?;
    let root = place.root.clone();
    let looked =
        tokio::task::spawn_blocking(move || (survey::survey(&root, since), survey::renames(&root))).await;
    let Ok((survey, renames)) = looked else { return Ok(()) };
    if let Some(renames) = renames {
        running.repositories.keep_renames(&place.root, renames);
    }
    let Some(survey) = survey else { return Ok(()) };
    let (project, path) = (project.to_owned(), place.path.to_string_lossy().into_owned());
    let record = move |database: &mut Connection| branches::record(database, &project, &path, &survey, now);
    running.database.write(record).await
}

/// A note with its recorded standing and its anchors.
type Anchored = (i64, Standing, Vec<Anchor>);

/// The latest notes that hold on this branch.
fn anchored(database: &Connection, project: &str, branch: Option<&str>) -> Result<Vec<Anchored>, StoreError> {
    let ids = anchors::anchored(database, project, MOST_NOTES)?;
    let mut memories = table::memories(database, project, &ids)?;
    memories.retain(|memory| memory.reach(branch) == Reach::Here);
    let anchored =
        |memory: ContextMemory| Ok((memory.id, memory.standing, anchors::of_note(database, memory.id)?));
    memories.into_iter().map(anchored).collect()
}

/// Returns the notes whose standing differs from the recorded one.
fn compare(notes: &[Anchored], tree: &WorkingTree) -> Vec<(i64, Standing)> {
    let standings = notes.iter().map(|(note, known, anchors)| (*note, *known, tree.standing(anchors)));
    standings.filter(|(_, known, found)| known != found).map(|(note, _, found)| (note, found)).collect()
}

fn record(database: &mut Connection, found: &[(i64, Standing)], now: Millis) -> Result<(), StoreError> {
    let transaction = database.transaction()?;
    for (note, standing) in found {
        anchors::record_standing(&transaction, *note, *standing, now)?;
    }
    Ok(transaction.commit()?)
}
