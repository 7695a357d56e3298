//! Finds the end of the log after a restart, and the changes that the table lacks.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use insula_core::Revision;

use super::format::{self, HEADER_BYTES, Item};
use super::segment::{self, Rest, Segment};
use super::{FIRST_SEQUENCE, Log};
use crate::Result;
use crate::embedded::FIRST;

/// The state of the table, which determines what the log must contain.
pub(in crate::embedded) struct TableState {
    /// The table has every change up to this revision.
    pub applied: Revision,
    /// The history before this revision is not needed.
    pub floor: Revision,
}

/// Opens the log in `folder`, and passes every item that the table may lack to `apply`, in order. A
/// torn end is cleared, so that it cannot reappear; every item that was passed is durable when this
/// returns.
pub(in crate::embedded) fn recover(
    folder: &Path,
    segment_bytes: u64,
    TableState { applied, floor }: TableState,
    mut apply: impl FnMut(Item),
) -> Result<Log> {
    let SegmentFiles {
        mut segments,
        stale,
    } = open_segments(folder)?;
    if segments.is_empty() {
        let detail = "it holds no segment, although the store was made";
        return Err(segment::corrupt(folder, detail));
    }
    let used = find_used(&segments)?;
    if used == 0 && segments[0].sequence != FIRST_SEQUENCE {
        let detail = "it was never written to, and there is none before it that was";
        return Err(segment::corrupt(&segments[0].path, detail));
    }
    let mut next = None;
    let mut ends = Ends::NOTHING;
    for (index, segment) in segments.iter().enumerate().take(used) {
        let is_last = index + 1 == used;
        let following = segments.get(index + 1).filter(|_| !is_last);
        let following = following.and_then(|segment| segment.first.get().copied());
        // One that ends right at `applied` may hold a floor that is newer than the table.
        if following.is_some_and(|first| first <= applied) {
            continue;
        }
        let scanned = scan(segment, next, applied, &mut apply)?;
        if let Some(expected) = following
            && scanned.next != Some(expected)
        {
            let found = scanned.next.unwrap_or_default();
            let detail =
                format!("it ends before revision {found}; the next begins with {expected}");
            return Err(segment::corrupt(&segment.path, &detail));
        }
        (next, ends) = (scanned.next, scanned.ends);
    }
    if let Some(first) = segments[0].first.get()
        && *first > applied.min(floor).next()
    {
        let detail = format!(
            "the log begins with revision {first}; \
             the table ends at {applied} and history is kept from {floor}"
        );
        return Err(segment::corrupt(&segments[0].path, &detail));
    }
    let last = &segments[used.saturating_sub(1)];
    // The log is synced before the table gets any change, so it cannot be behind.
    let head = next.unwrap_or(FIRST.next()).previous();
    if head < applied {
        let detail = format!("the log ends at revision {head}; the table is at {applied}");
        return Err(segment::corrupt(&last.path, &detail));
    }
    repair_end(last, ends)?;
    remove_segments(stale)?;
    remove_segments(segments.split_off(used.max(1)).into_iter().rev())?;
    let last = segments.len() - 1;
    let segment = segments.remove(last);
    Log::append_to(folder, segments, segment, ends.last_end, segment_bytes)
}

/// The segments in a folder.
struct SegmentFiles {
    /// In order, without a gap.
    segments: Vec<Arc<Segment>>,
    /// Those before a gap, which should have been removed.
    stale: Vec<Arc<Segment>>,
}

/// Opens the segments in the folder. Unfinished ones are removed.
fn open_segments(folder: &Path) -> Result<SegmentFiles> {
    let unreadable = |error: io::Error| segment::unreadable(folder, &error);
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    for found in fs::read_dir(folder).map_err(unreadable)? {
        let found = found.map_err(unreadable)?;
        let name = found.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(".making") {
            fs::remove_file(found.path()).map_err(unreadable)?;
        } else if let Some(sequence) = Segment::parse_name(name) {
            segments.push(Arc::new(Segment::open(found.path(), sequence)?));
        }
    }
    segments.sort_by_key(|segment| segment.sequence);
    // A power cut can undo some of the removals of old segments. If a segment before a gap was
    // needed, the check of where the log begins fails; until then they stay.
    let gap = |pair: &[Arc<Segment>]| pair[0].sequence + 1 != pair[1].sequence;
    let stale = segments.windows(2).rposition(gap);
    let kept = segments.split_off(stale.map_or(0, |before| before + 1));
    Ok(SegmentFiles {
        segments: kept,
        stale: segments,
    })
}

/// Records where each segment begins, and returns how many are in use: those up to the last one
/// with a frame. A segment without one before that is damage.
fn find_used(segments: &[Arc<Segment>]) -> Result<usize> {
    let mut used = 0;
    for (index, segment) in segments.iter().enumerate() {
        let read = || {
            let file = fs::File::open(&segment.path)?;
            segment.frame(&file, HEADER_BYTES)
        };
        let frame = read().map_err(|error| segment::unreadable(&segment.path, &error))?;
        let Some(frame) = frame else {
            check_unused(segment)?;
            continue;
        };
        if index > used {
            let detail = "its first frame is not whole, although later segments were written";
            return Err(segment::corrupt(&segments[used].path, detail));
        }
        segment.first.get_or_init(|| frame.first);
        used = index + 1;
    }
    Ok(used)
}

/// A segment with an incomplete first frame must have no other frame.
fn check_unused(segment: &Segment) -> Result<()> {
    let read = || segment.rest(&fs::File::open(&segment.path)?, HEADER_BYTES);
    let rest = read().map_err(|error| segment::unreadable(&segment.path, &error))?;
    match rest {
        Rest::Frames { next } => {
            let detail = format!("its first frame is damaged; revision {next} follows it");
            Err(segment::corrupt(&segment.path, &detail))
        }
        Rest::Clean | Rest::Torn { .. } => Ok(()),
    }
}

struct Scanned {
    /// The first revision of the next frame.
    next: Option<Revision>,
    ends: Ends,
}

/// Where the complete frames of a segment end.
#[derive(Clone, Copy)]
struct Ends {
    /// The end of the last but one frame.
    penultimate_end: u64,
    /// The end of the last frame. The next frame is written here.
    last_end: u64,
}

impl Ends {
    const NOTHING: Self = Self {
        penultimate_end: HEADER_BYTES,
        last_end: HEADER_BYTES,
    };
}

/// Reads a segment from its start. Its first revision must be `next` if that is known.
fn scan(
    segment: &Segment,
    mut next: Option<Revision>,
    applied: Revision,
    apply: &mut impl FnMut(Item),
) -> Result<Scanned> {
    let unreadable = |error: io::Error| segment::unreadable(&segment.path, &error);
    let file = fs::File::open(&segment.path).map_err(unreadable)?;
    let mut ends = Ends::NOTHING;
    while let Some(frame) = segment.frame(&file, ends.last_end).map_err(unreadable)? {
        if next.is_some_and(|next| next != frame.first) {
            let (found, at) = (frame.first, ends.last_end);
            let wanted = next.unwrap_or_default();
            let detail = format!("at byte {at} stands revision {found} where {wanted} should");
            return Err(segment::corrupt(&segment.path, &detail));
        }
        let mut revision = frame.first;
        ends = Ends {
            penultimate_end: ends.last_end,
            last_end: frame.end,
        };
        let items = format::decode_body(frame.first, frame.body)
            .map_err(|detail| segment::corrupt(&segment.path, detail))?;
        for item in items {
            if let Item::Record(record) = &item {
                revision = record.revision.next();
                if record.revision <= applied {
                    continue;
                }
            }
            apply(item);
        }
        next = Some(revision);
    }
    let end = ends.last_end;
    if end < segment.size
        && let Rest::Frames { next } = segment.rest(&file, end).map_err(unreadable)?
    {
        let detail = format!("the frame at byte {end} is damaged; revision {next} follows it");
        return Err(segment::corrupt(&segment.path, &detail));
    }
    Ok(Scanned { next, ends })
}

/// Overwrites an incomplete frame with zeros, and syncs. The last complete frame may never have
/// been synced by the process that wrote it, and is about to become visible. It is written once
/// more: if its sync was tried and failed, the kernel considers it written, shows it, and would
/// never bring it to the disk.
fn repair_end(segment: &Segment, ends: Ends) -> Result<()> {
    let end = ends.last_end;
    let settle = || {
        let file = segment.open_for_writing()?;
        let mut last = vec![0; usize::try_from(end - ends.penultimate_end).unwrap_or(0)];
        file.read_exact_at(&mut last, ends.penultimate_end)?;
        file.write_all_at(&last, ends.penultimate_end)?;
        if end < segment.size
            && let Rest::Torn { length } = segment.rest(&file, end)?
        {
            file.write_all_at(&vec![0; length], end)?;
            tracing::info!(path = %segment.path.display(), length, "torn write cleared");
        }
        file.sync_data()
    };
    settle().map_err(|error: io::Error| segment::unreadable(&segment.path, &error))
}

/// Removes segments that are not needed: those of undone removals, and unused ones created ahead,
/// which are created again.
fn remove_segments(segments: impl IntoIterator<Item = Arc<Segment>>) -> Result<()> {
    for segment in segments {
        fs::remove_file(&segment.path)
            .map_err(|error| segment::unreadable(&segment.path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::log::{FrameBuilder, Logged, Record};

    fn put(log: &mut Log, revision: Revision, bytes: usize) {
        let change = Logged {
            key: "a".into(),
            value: Some(vec![7; bytes].into()),
            created: revision,
            previous: Revision::ZERO,
        };
        let mut frame = FrameBuilder::default();
        frame.clear();
        frame.record(&Record {
            revision,
            changes: vec![change],
        });
        log.append(&mut frame, revision).unwrap();
    }

    /// The table was sealed before the floor moved, and the next write went to a new segment: all
    /// that the table lacks of the old one is the floor.
    #[test]
    fn floor_at_the_end_of_a_segment_is_recovered() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::create(folder.path(), super::super::MIN_SEGMENT_BYTES).unwrap();
        let [first, second] = [2, 3].map(Revision::new);
        put(&mut log, first, 1 << 20);
        let mut frame = FrameBuilder::default();
        frame.clear();
        frame.floor(first);
        log.append(&mut frame, second).unwrap();
        put(&mut log, second, 1 << 20);
        drop(log);

        let known = TableState {
            applied: first,
            floor: FIRST,
        };
        let mut floors = vec![];
        let size = super::super::MIN_SEGMENT_BYTES;
        recover(folder.path(), size, known, |item| {
            if let Item::Floor(floor) = item {
                floors.push(floor);
            }
        })
        .unwrap();
        assert_eq!(floors, [first]);
    }
}
