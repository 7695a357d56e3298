//! The commit log, which makes writes durable and holds the history for watchers.
//!
//! Groups of transactions are appended as frames to segments of a fixed size, with one sync each.
//! The next segment is created ahead of need by [`Supply`]. Old segments are removed once they are
//! needed neither to rebuild the table after a crash nor as history for watchers.
//!
//! A frame is written only after the previous one was synced. So after a crash at most the last
//! frame is incomplete, and nothing in it was acknowledged; any other difference from what was
//! written is damage, and is refused.

mod catalog;
mod cursor;
mod format;
mod recover;
mod segment;
mod supply;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use insula_core::Revision;

use crate::permissions::create_folder;
use crate::{Error, Result};

pub(super) use catalog::Catalog;
pub(super) use cursor::Cursor;
pub(super) use format::{FrameBuilder, Item, Logged, Record};
pub(super) use recover::{TableState, recover};
use segment::Segment;
use supply::Supply;

/// The smallest segment: it holds the largest transaction.
pub(super) const MIN_SEGMENT_BYTES: u64 = 2 << 20;

/// The number of a log's first segment. Only a used segment is followed by others.
const FIRST_SEQUENCE: u64 = 1;

/// The end of the log, where frames are appended.
pub(super) struct Log {
    catalog: Arc<Catalog>,
    supply: Supply,
    segment: Arc<Segment>,
    file: File,
    offset: u64,
    /// Set by the first failure of unknown extent. From then on nothing is appended: the state of
    /// the disk after a failed sync is unknown, and a later successful sync says nothing about the
    /// first.
    broken: Option<String>,
    syncs: u64,
}

impl Log {
    /// Creates an empty log in `folder`, durably.
    pub fn create(folder: &Path, segment_bytes: u64) -> Result<Self> {
        let make = || {
            create_folder(folder)?;
            Segment::create(folder, FIRST_SEQUENCE, segment_bytes)
        };
        let segment = make().map_err(|error| segment_error(&error))?;
        Self::append_to(
            folder,
            vec![],
            Arc::new(segment),
            format::HEADER_BYTES,
            segment_bytes,
        )
    }

    /// A log that continues at `offset` of `segment`, after the segments `before`.
    fn append_to(
        folder: &Path,
        before: Vec<Arc<Segment>>,
        segment: Arc<Segment>,
        offset: u64,
        segment_bytes: u64,
    ) -> Result<Self> {
        let file = segment
            .open_for_writing()
            .map_err(|error| segment::unreadable(&segment.path, &error))?;
        let next = segment.sequence + 1;
        let mut segments = before;
        segments.push(Arc::clone(&segment));
        Ok(Self {
            catalog: Arc::new(Catalog::new(segments)),
            supply: Supply::start(folder, next, segment_bytes),
            segment,
            file,
            offset,
            broken: None,
            syncs: 0,
        })
    }

    /// The segments, for readers.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The number of syncs.
    pub const fn syncs(&self) -> u64 {
        self.syncs
    }

    /// Appends a frame, with `first` as the revision of its first transaction, and syncs.
    ///
    /// [`Error::Full`]: nothing was written, and it may be retried.
    /// [`Error::Indeterminate`]: the frame may be there after a restart, and the log accepts no
    /// more.
    pub fn append(&mut self, frame: &mut FrameBuilder, first: Revision) -> Result<()> {
        if let Some(reason) = &self.broken {
            return Err(Error::Unavailable(reason.clone()));
        }
        if self.offset + frame.len() as u64 + 8 > self.segment.size {
            self.next_u64()?;
        }
        let bytes = frame.seal(self.segment.salt, first);
        let written = self
            .file
            .write_all_at(bytes, self.offset)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            let reason = format!(
                "writing {} failed: {error}; \
                 the store is read-only until it is opened again",
                self.segment.path.display()
            );
            self.broken = Some(reason.clone());
            return Err(Error::Indeterminate(reason));
        }
        self.syncs += 1;
        self.offset += bytes.len() as u64;
        self.segment.first.get_or_init(|| first);
        Ok(())
    }

    /// Continues in a new segment.
    fn next_u64(&mut self) -> Result<()> {
        let segment = self.supply.take().map_err(|error| segment_error(&error))?;
        let file = segment
            .open_for_writing()
            .map_err(|error| segment_error(&error))?;
        self.segment = Arc::new(segment);
        self.catalog.push(Arc::clone(&self.segment));
        self.file = file;
        self.offset = format::HEADER_BYTES;
        Ok(())
    }
}

/// Without a segment nothing was written yet.
fn segment_error(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::Full(format!("no room for another log segment: {error}"))
        }
        _ => Error::Unavailable(format!("cannot make a log segment: {error}")),
    }
}
