//! Reads history from the log while it is being written.

use std::fs::File;
use std::io;
use std::sync::Arc;

use insula_core::Revision;

use super::catalog::Catalog;
use super::format::{self, HEADER_BYTES, Item, Record};
use super::segment::{self, Segment};
use crate::Result;

/// A position in the log.
#[derive(Debug)]
pub(in crate::embedded) struct Cursor {
    catalog: Arc<Catalog>,
    /// The next revision to read.
    next: Revision,
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    segment: Arc<Segment>,
    file: File,
    offset: u64,
}

impl Cursor {
    /// A cursor right after `after`.
    pub fn new(catalog: &Arc<Catalog>, after: Revision) -> Self {
        Self {
            catalog: Arc::clone(catalog),
            next: after.next(),
            place: None,
        }
    }

    /// The last revision that was read or passed.
    pub fn after(&self) -> Revision {
        self.next.previous()
    }

    /// Returns the next records, up to and including `through`, until they have about `budget`
    /// bytes. Empty only when `through` is reached.
    ///
    /// `through` must be durable: up to there the log can be neither torn nor incomplete, so any
    /// difference from what was written is damage. `None`: the segments were removed because their
    /// history was compacted.
    pub fn read(&mut self, through: Revision, budget: usize) -> Result<Option<Vec<Record>>> {
        let mut records = Vec::new();
        let mut bytes = 0;
        while self.next <= through && bytes < budget {
            let Some(place) = self.place()? else {
                return Ok(None);
            };
            let frame = place
                .segment
                .frame(&place.file, place.offset)
                .map_err(|error| segment::unreadable(&place.segment.path, &error))?;
            let Some(frame) = frame else {
                self.advance_segment()?;
                continue;
            };
            let (path, end) = (place.segment.path.clone(), frame.end);
            if frame.first > self.next {
                let (found, wanted) = (frame.first, self.next);
                let detail = format!("revision {found} stands where {wanted} should");
                return Err(segment::corrupt(&path, &detail));
            }
            let items = format::decode_body(frame.first, frame.body)
                .map_err(|detail| segment::corrupt(&path, detail))?;
            let mut whole = true;
            for item in items {
                let Item::Record(record) = item else { continue };
                if record.revision > through {
                    whole = false;
                } else if record.revision >= self.next {
                    self.next = record.revision.next();
                    bytes += record
                        .changes
                        .iter()
                        .map(format::Logged::bytes)
                        .sum::<usize>();
                    records.push(record);
                }
            }
            if whole && let Some(place) = &mut self.place {
                place.offset = end;
            }
        }
        Ok(Some(records))
    }

    fn place(&mut self) -> Result<Option<&mut Place>> {
        if self.place.is_none() {
            let Some(segment) = self.catalog.holding(self.next) else {
                return Ok(None);
            };
            let Some(place) = Place::at_start(segment)? else {
                return Ok(None);
            };
            self.place = Some(place);
        }
        Ok(self.place.as_mut())
    }

    /// There is no frame here, so the revision must begin the next segment.
    fn advance_segment(&mut self) -> Result<()> {
        let Some(place) = self.place.take() else {
            return Ok(());
        };
        let missing = || {
            let detail = format!("revision {} is not where it should be", self.next);
            segment::corrupt(&place.segment.path, &detail)
        };
        let following = self.catalog.following(place.segment.sequence);
        let following = following.ok_or_else(missing)?;
        if following.first.get() != Some(&self.next) {
            // Either damage, or compaction has removed the segments in between.
            let gone = self.catalog.first().is_none_or(|first| first > self.next);
            return if gone { Ok(()) } else { Err(missing()) };
        }
        self.place = Place::at_start(following)?;
        Ok(())
    }
}

impl Place {
    fn at_start(segment: Arc<Segment>) -> Result<Option<Self>> {
        match File::open(&segment.path) {
            Ok(file) => Ok(Some(Self {
                segment,
                file,
                offset: HEADER_BYTES,
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(segment::unreadable(&segment.path, &error)),
        }
    }
}
