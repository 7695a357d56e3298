//! Room on the disk, and the writes that it is kept for.
//!
//! ```text
//! plenty      free ≥ hard + soft     every write
//! low         free ≥ hard            deletions, and updates that need no more room or little
//! exhausted   free < hard            deletions, and updates that need less room
//! ```
//!
//! *Hard* is what the disk must take for the writes that are acknowledged already: rows in memory
//! become tables, and the log continues in further segments. *Soft* is what it takes to give room
//! back: a merge writes the new tables before it removes the old ones. Both follow the sizes of the
//! store, so a small store needs little. The room is measured, not occupied by a file: the file
//! system also counts what other programs take, and the store cannot keep them from it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use nix::sys::statvfs::statvfs;

use super::table::Table;
use crate::{Change, DiskSpace, Error, Result, Transaction};

/// The most room that is kept for a merge. A larger store is merged in parts, and as a whole when
/// what is left of it fits.
const MAX_MERGE_BYTES: u64 = 1 << 30;
/// How much an update may need in addition when room is low: a condition, a finalizer.
const SMALL_GROWTH: i64 = 4 << 10;

/// The state of the disk, from bad to good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Exhausted,
    Low,
    Plenty,
}

/// How the stored bytes change with a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Growth {
    /// Whether a key is created.
    pub creates: bool,
    /// New keys and values less replaced and deleted ones.
    pub bytes: i64,
}

/// Whether a write has room.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WriteDecision {
    Fits,
    /// The caller must determine the growth first.
    GrowthNeeded,
}

/// The sizes that determine how much room is reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Rows that are only in memory.
    pub unwritten: u64,
    pub tables: u64,
}

impl Sizes {
    pub fn of(table: &Table) -> Self {
        Self {
            unwritten: table.unwritten_bytes(),
            tables: table.disk_bytes(),
        }
    }
}

impl Growth {
    /// Compares a transaction with the current values of its keys. They may change before it is
    /// committed, which is of no consequence: the room that is reserved is not exact either.
    pub fn of(transaction: &Transaction, table: &Table) -> Result<Self> {
        let mut growth = Self::default();
        for change in transaction.changes() {
            let key = change.key();
            let current = match table.head(key) {
                Some(head) => table.version(key, head)?,
                None => None,
            };
            if let Some(current) = &current {
                growth.bytes -= size(key.len() + current.value.len());
            }
            if let Change::Put { value, .. } = change {
                growth.bytes += size(key.len() + value.len());
                growth.creates |= current.is_none();
            }
        }
        Ok(growth)
    }
}

/// Keys and values are far smaller than that.
fn size(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Measures the room on the disk, and decides about writes.
pub(super) struct DiskRoom {
    folder: PathBuf,
    segment_bytes: u64,
    /// Kept for small updates and for the records of deletions.
    margin: u64,
    free: AtomicU64,
    reserved: AtomicU64,
    level: AtomicU8,
    /// The growth by small updates since room is low.
    small_growth: AtomicU64,
    refused: AtomicU64,
    unknown: AtomicBool,
}

impl DiskRoom {
    pub fn new(folder: &Path, segment_bytes: u64, memory_bytes: u64) -> Self {
        Self {
            folder: folder.to_path_buf(),
            segment_bytes,
            margin: segment_bytes.max(memory_bytes),
            free: AtomicU64::new(u64::MAX),
            reserved: AtomicU64::new(0),
            level: AtomicU8::new(Level::Plenty as u8),
            small_growth: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unknown: AtomicBool::new(false),
        }
    }

    /// Measures the room, and returns how many bytes may be written before the next measurement.
    pub fn measure(&self, sizes: Sizes) -> u64 {
        let free = free_bytes(&self.folder);
        self.unknown.store(free.is_none(), Ordering::Relaxed);
        // Without a measurement, a full disk is noticed when a file cannot be written.
        self.update(free.unwrap_or(u64::MAX), sizes)
    }

    fn update(&self, free: u64, sizes: Sizes) -> u64 {
        let hard = sizes.unwritten + 2 * self.segment_bytes;
        let reserved = hard + sizes.tables.min(MAX_MERGE_BYTES) + self.margin;
        let before = self.level();
        // Room comes back in steps, so that the level does not change with every write.
        let wanted = match before {
            Level::Plenty => reserved,
            Level::Low | Level::Exhausted => reserved + self.margin / 4,
        };
        let level = match free {
            free if free >= wanted => Level::Plenty,
            free if free >= hard => Level::Low,
            _ => Level::Exhausted,
        };
        self.free.store(free, Ordering::Relaxed);
        self.reserved.store(reserved, Ordering::Relaxed);
        self.level.store(level as u8, Ordering::Release);
        match (before, level) {
            (Level::Plenty, Level::Low | Level::Exhausted) => {
                tracing::warn!(free, reserved, "disk space low, growing writes refused");
            }
            (Level::Low | Level::Exhausted, Level::Plenty) => {
                self.small_growth.store(0, Ordering::Relaxed);
                tracing::info!(free, reserved, "disk space recovered");
            }
            _ => {}
        }
        free.saturating_sub(reserved) / 4
    }

    pub fn level(&self) -> Level {
        match self.level.load(Ordering::Acquire) {
            0 => Level::Exhausted,
            1 => Level::Low,
            _ => Level::Plenty,
        }
    }

    pub fn is_low(&self) -> bool {
        self.level() < Level::Plenty
    }

    /// Decides about a transaction after its checks have passed.
    pub fn check(
        &self,
        transaction: &Transaction,
        growth: Option<Growth>,
    ) -> Result<WriteDecision> {
        let level = self.level();
        let puts = |change: &Change| matches!(change, Change::Put { .. });
        if level == Level::Plenty
            || transaction.is_release()
            || !transaction.changes().iter().any(puts)
        {
            return Ok(WriteDecision::Fits);
        }
        let Some(growth) = growth else {
            return Ok(WriteDecision::GrowthNeeded);
        };
        let fits = match level {
            Level::Exhausted => growth.bytes < 0,
            _ if growth.bytes <= 0 => true,
            _ if growth.creates || growth.bytes > SMALL_GROWTH => false,
            _ => self.charge(growth.bytes.unsigned_abs()),
        };
        match fits {
            true => Ok(WriteDecision::Fits),
            false => Err(self.refusal()),
        }
    }

    /// Takes from the budget of small updates.
    fn charge(&self, bytes: u64) -> bool {
        // Only the sequencer decides about writes.
        let charged = self.small_growth.load(Ordering::Relaxed) + bytes;
        let within = charged <= self.margin / 2;
        if within {
            self.small_growth.store(charged, Ordering::Relaxed);
        }
        within
    }

    fn refusal(&self) -> Error {
        let free = self.free.load(Ordering::Relaxed);
        let reserved = self.reserved.load(Ordering::Relaxed);
        Error::Full(format!(
            "{free} bytes are free and {reserved} are reserved; \
             deletions, and updates that need no more room, still work"
        ))
    }

    /// Counts a write that was refused for lack of room.
    pub fn count_refusal(&self, error: &Error) {
        if matches!(error, Error::Full(_)) {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn report(&self) -> Option<DiskSpace> {
        if self.unknown.load(Ordering::Relaxed) {
            return None;
        }
        Some(DiskSpace {
            free_bytes: self.free.load(Ordering::Relaxed),
            reserved_bytes: self.reserved.load(Ordering::Relaxed),
            refused_writes: self.refused.load(Ordering::Relaxed),
            is_low: self.is_low(),
        })
    }
}

/// The room for this process on the file system of `folder`, if it can be determined.
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = statvfs(folder).ok()?;
    // Some file systems report no sizes at all.
    (found.blocks() > 0).then(|| found.blocks_available() * found.fragment_size())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SIZES: Sizes = Sizes {
        unwritten: MIB,
        tables: 10 * MIB,
    };
    /// Memory, two segments, a merge, and the margin.
    const RESERVED: u64 = (1 + 2 * 2 + 10 + 2) * MIB;

    fn disk_room() -> DiskRoom {
        DiskRoom::new(Path::new("/"), 2 * MIB, MIB)
    }

    fn update() -> Transaction {
        Transaction::new().put("a", "1")
    }

    fn growth(creates: bool, bytes: i64) -> Option<Growth> {
        Some(Growth { creates, bytes })
    }

    #[test]
    fn level_follows_the_room_and_comes_back_in_a_step() {
        let disk_room = disk_room();
        for (free, level) in [
            (RESERVED, Level::Plenty),
            (RESERVED - 1, Level::Low),
            (RESERVED, Level::Low),
            (5 * MIB, Level::Low),
            (5 * MIB - 1, Level::Exhausted),
            (0, Level::Exhausted),
            (RESERVED + MIB / 2, Level::Plenty),
            (u64::MAX, Level::Plenty),
        ] {
            disk_room.update(free, SIZES);
            assert_eq!(disk_room.level(), level, "{free}");
        }
        let allowance = disk_room.update(RESERVED + 4 * MIB, SIZES);
        assert_eq!(allowance, MIB);
    }

    #[test]
    fn low_room_is_kept_for_deletions_and_small_updates() {
        let disk_room = disk_room();
        assert_eq!(disk_room.check(&update(), None), Ok(WriteDecision::Fits));
        disk_room.update(RESERVED - 1, SIZES);
        let needed = Ok(WriteDecision::GrowthNeeded);
        assert_eq!(disk_room.check(&update(), None), needed);
        for deletion in [Transaction::new().delete("a"), update().releasing()] {
            assert_eq!(disk_room.check(&deletion, None), Ok(WriteDecision::Fits));
        }
        for (growth, fits) in [
            (growth(false, 0), true),
            (growth(false, SMALL_GROWTH), true),
            (growth(false, SMALL_GROWTH + 1), false),
            (growth(true, 1), false),
            (growth(true, -1), true),
        ] {
            let decided = disk_room.check(&update(), growth);
            assert_eq!(decided.is_ok(), fits, "{growth:?}: {decided:?}");
        }
        disk_room.update(0, SIZES);
        for (growth, fits) in [(growth(false, 0), false), (growth(false, -1), true)] {
            let decided = disk_room.check(&update(), growth);
            assert_eq!(decided.is_ok(), fits, "{growth:?}: {decided:?}");
        }
        assert_eq!(
            disk_room.check(&Transaction::new().delete("a"), None),
            Ok(WriteDecision::Fits)
        );
    }

    #[test]
    fn growth_by_small_updates_is_bounded_until_room_is_back() {
        let disk_room = disk_room();
        disk_room.update(RESERVED - 1, SIZES);
        let small = growth(false, SMALL_GROWTH);
        let fits = (0..10_000).take_while(|_| disk_room.check(&update(), small).is_ok());
        assert_eq!(fits.count(), 256, "1 MiB in parts of 4 KiB");
        disk_room.update(u64::MAX, SIZES);
        disk_room.update(RESERVED - 1, SIZES);
        assert_eq!(disk_room.check(&update(), small), Ok(WriteDecision::Fits));
    }
}
