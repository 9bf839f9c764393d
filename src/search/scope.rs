//! Where a search looks: in all projects or in one, at all rows or at the newest.

use std::borrow::Cow;

use rusqlite::Connection;

use crate::store::StoreError;
use crate::store::search::{self as index, IndexedProject, Kind, Place, Range};

/// Where the newest rows do not have what is wanted, so many times as many are looked at.
const MORE: f64 = 16.0;

/// A half of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Half {
    Older,
    Newer,
}

/// Where to look, and how much there is.
#[derive(Debug)]
pub struct Scope {
    /// The projects.
    pub projects: Vec<IndexedProject>,
    /// Their places; one range if it is one project, or all.
    pub range: Range,
    /// How many rows they have.
    pub rows: f64,
    /// What the index must say of every row.
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
        index::matching(database, &self.narrowed(expression), self.range, limit)
    }

    /// The newest places in it, those that an expression matches if there is one, newest first, and `most` of them if there
    /// are that many. Looks at the newest rows first, and then at more and more of the older ones.
    pub fn newest(
        &self,
        database: &Connection,
        expression: Option<&str>,
        most: usize,
    ) -> Result<Vec<Place>, StoreError> {
        let mut places = Vec::new();
        let mut younger = 0.0;
        let mut older = self.share(most);
        loop {
            for range in self.ranges(database, younger, older)? {
                places.extend(match (expression, &self.also) {
                    (Some(expression), _) => self.matching_in(database, expression, range)?,
                    (None, Some(also)) => index::matching(database, also, range, usize::MAX)?,
                    (None, None) => index::places(database, range)?,
                });
            }
            if places.len() >= most || older >= 1.0 {
                break;
            }
            (younger, older) = (older, (older * MORE).min(1.0));
        }
        places.sort_unstable_by(|a, b| self.age(*a).total_cmp(&self.age(*b)).then_with(|| b.cmp(a)));
        places.truncate(most);
        Ok(places)
    }

    /// The ranges of about so many of the newest rows, by project and kind.
    pub fn newest_ranges(&self, database: &Connection, rows: usize) -> Result<Vec<Range>, StoreError> {
        self.ranges(database, 0.0, self.share(rows))
    }

    /// The places of a range that an expression matches.
    pub fn matching_in(
        &self,
        database: &Connection,
        expression: &str,
        range: Range,
    ) -> Result<Vec<Place>, StoreError> {
        index::matching(database, &self.narrowed(expression), range, usize::MAX)
    }

    /// The older or the newer half of what is in it, by project and kind.
    pub fn half(&self, half: Half) -> Vec<Range> {
        let mut ranges = Vec::new();
        for project in self.projects.iter().filter(|project| project.rows > 0) {
            for kind in Kind::ALL {
                let (all, middle) = (Range::kind(project.number, kind), self.largest[kind as usize] / 2);
                ranges.push(match half {
                    Half::Older => Range::ids(project.number, kind, 0, middle),
                    Half::Newer => Range { from: Place::new(project.number, kind, middle + 1), ..all },
                });
            }
        }
        ranges
    }

    fn share(&self, rows: usize) -> f64 {
        (rows as f64 / self.rows.max(1.0)).min(1.0)
    }

    /// How much of its kind is newer than a place: kinds are told apart by their ids, but all grow with time.
    pub fn age(&self, place: Place) -> f64 {
        1.0 - place.id() as f64 / self.largest[place.kind() as usize].max(1) as f64
    }

    /// The places of such an age, by project and kind, where there are any: the index seeks every word in every range.
    fn ranges(&self, database: &Connection, younger: f64, older: f64) -> Result<Vec<Range>, StoreError> {
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

    fn narrowed<'e>(&self, expression: &'e str) -> Cow<'e, str> {
        match &self.also {
            Some(also) => Cow::Owned(format!("({expression}) AND {also}")),
            None => Cow::Borrowed(expression),
        }
    }
}
