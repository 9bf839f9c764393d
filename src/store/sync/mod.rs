//! The local side of synchronisation: versions of memories, the outbox, and tombstones.
//!
//! Triggers list the rows that change (`sync_dirty`). `collect` turns them into records of this
//! device's log, [`apply`] stores the records of other devices. Both are idempotent, and the result
//! does not depend on the order of arrival: the highest (clock, device) of an item wins, and a
//! tombstone wins over everything.

mod apply;
mod burial;
mod collect;
mod content;
mod forgotten;
mod hlc;
mod refused;
mod state;
mod veto;

pub use apply::{ApplyReport, Incoming, apply};
pub use collect::{
    Collector, NextBatch, OutgoingRecord, acknowledge, enqueue_everything, next_batch, outbox, withhold,
};
pub use content::{RecordKind, Shares};
pub use forgotten::{Forgetting, note as note_forgotten, note_digests, project_keys, purged};
pub use hlc::{Hlc, MAX_AHEAD_MS};
pub use refused::{Refused, list_refused, retry_refused};
pub use state::{
    DeviceState, become_device, cursors, dirty, finish_cycle, is_cycle_news, is_set_up, mark_cursor,
    set_problem, set_up, state, tear_down,
};
