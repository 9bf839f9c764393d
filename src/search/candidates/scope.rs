//! The rows that a search looks at: of all projects or of one, all of them or the newest.

use rusqlite::Connection;

use crate::store::StoreError;
use crate::store::index::search as index;
use crate::store::index::search::{IndexedProject, Kind, Place, Range};

/// The ranges to look at, and their size.
#[derive(Debug)]
pub struct Scope {
    /// The projects.
    pub projects: Vec<IndexedProject>,
    /// Their places; one range if it is one project, or all.
    pub range: Range,
    /// The number of their rows.
    pub rows: f64,
    /// The expression that every row must match.
    also: Option<String>,
    /// The largest ids, by kind.
    largest: [i64; 3],
}

impl Scope {
    /// One project, or all; nothing if the project has no rows.
    pub fn new(
        database: &Connection,
        project: Option<&str>,
        also: Option<String>,
    ) -> Result<Option<Self>, StoreError> {
        let mut projects = index::projects(database)?;
        let range = match project {
            None => Range::ALL,
            Some(name) => {
                projects.retain(|project| project.name == name);
                match projects.first() {
                    Some(project) => Range::project(project.number),
                    None => return Ok(None),
                }
            }
        };
        let rows = projects.iter().map(|project| project.rows).sum::<i64>();
        Ok(Some(Self { projects, range, rows: rows as f64, also, largest: index::largest_ids(database)? }))
    }

    /// The places in it that an expression matches, in their order, at most `limit`.
    pub fn matching(
        &self,
        database: &Connection,
        expression: &str,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        self.matching_in(database, expression, self.range, limit)
    }

    /// The same in a range.
    pub fn matching_in(
        &self,
        database: &Connection,
        expression: &str,
        range: Range,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        match &self.also {
            Some(also) => index::matching(database, &format!("({expression}) AND {also}"), range, limit),
            None => index::matching(database, expression, range, limit),
        }
    }

    /// The share of its kind that is newer than a place: kinds have ids of their own, but all grow with time.
    pub fn age(&self, place: Place) -> f64 {
        1.0 - place.id() as f64 / self.largest[place.kind() as usize].max(1) as f64
    }

    /// The places of such an age, by project and kind, where there are any: the index seeks every word in every range.
    pub fn ranges(&self, database: &Connection, younger: f64, older: f64) -> Result<Vec<Range>, StoreError> {
        let mut ranges = Vec::new();
        for project in self.projects.iter().filter(|project| project.rows > 0) {
            for kind in Kind::ALL {
                let largest = self.largest[kind as usize] as f64;
                let id = |age: f64| ((1.0 - age) * largest).floor() as i64;
                let range = Range::ids(project.number, kind, id(older) + i64::from(older < 1.0), id(younger));
                if index::has_places(database, range)? {
                    ranges.push(range);
                }
            }
        }
        Ok(ranges)
    }

    /// Every row that fits the filter as far as the index has it, in the order of places.
    pub fn all(&self, database: &Connection) -> Result<Vec<Place>, StoreError> {
        match &self.also {
            Some(also) => index::matching(database, also, self.range, usize::MAX),
            None => index::places(database, self.range),
        }
    }
}
