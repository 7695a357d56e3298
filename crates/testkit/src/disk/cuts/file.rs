//! One file: its durable bytes, and the changes that a power cut may undo.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::content::Content;
use crate::disk::{Effect, Loss, Rng};

/// The unit that a disk writes atomically: never torn, but kept or lost independently of its
/// neighbours.
const SECTOR: u64 = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    durable: Arc<Content>,
    pending: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, data: Bytes },
    Truncate { len: u64 },
}

impl File {
    pub(super) fn write(&mut self, offset: u64, data: Bytes) {
        self.pending.push(Change::Write { offset, data });
    }

    pub(super) fn truncate(&mut self, len: u64) {
        self.pending.push(Change::Truncate { len });
    }

    pub(super) fn sync(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            // The kernel has marked the pages clean: no later sync will write them.
            Effect::Dropped => self.pending.clear(),
            Effect::Durable if self.pending.is_empty() => {}
            Effect::Durable => {
                let durable = Arc::make_mut(&mut self.durable);
                for change in self.pending.drain(..) {
                    match change {
                        Change::Write { offset, data } => durable.write(offset, &data),
                        Change::Truncate { len } => durable.set_len(len),
                    }
                }
            }
        }
    }

    /// The file as a power cut could leave it.
    ///
    /// Two things are decided independently, as on a real disk: which sectors were written, and up
    /// to which change the length is known. A lost sector holds its durable content, or zeros.
    pub(super) fn survive(&self, loss: Loss, rng: &mut Rng) -> Arc<Content> {
        if self.pending.is_empty() {
            return self.durable.clone();
        }
        let known = loss.metadata(self.pending.len(), rng);
        let surviving = SurvivingSectors::draw(loss, &self.pending, rng);
        let mut after = FileAfterCut {
            content: Content::clone(&self.durable),
            len: self.durable.len(),
            known_len: self.durable.len(),
            unreachable_from: u64::MAX,
            surviving,
        };
        for (number, change) in self.pending.iter().enumerate() {
            after.apply(change, number < known);
        }
        after.content.set_len(after.known_len);
        Arc::new(after.content)
    }
}

struct FileAfterCut {
    content: Content,
    /// The length as the program saw it after the changes so far.
    len: u64,
    /// The length as the disk will know it.
    known_len: u64,
    /// Where a lost shrink freed sectors: later writes of the program there went to sectors of a
    /// newer version of the file, which nothing refers to.
    unreachable_from: u64,
    surviving: SurvivingSectors,
}

impl FileAfterCut {
    fn apply(&mut self, change: &Change, known: bool) {
        match change {
            Change::Write { offset, data } => {
                for piece in pieces(*offset, data) {
                    if self.keeps(piece.sector) {
                        self.content.place(piece.offset, piece.data);
                    }
                }
                self.len = self.len.max(offset + data.len() as u64);
            }
            Change::Truncate { len } => self.truncate(*len, known),
        }
        if known {
            self.known_len = self.len;
        }
    }

    /// Whether the next write to `sector` survives and is reachable.
    fn keeps(&mut self, sector: u64) -> bool {
        self.surviving.keeps(sector) && sector * SECTOR < self.unreachable_from
    }

    fn truncate(&mut self, len: u64, known: bool) {
        let zeros = zeroed(len);
        let written = !zeros.is_empty() && self.keeps(len / SECTOR);
        if len < self.len && known {
            self.content.zero_from(len);
        } else if len < self.len {
            if written {
                self.content
                    .place(len, &[0; SECTOR as usize][..zeros.count()]);
            }
            self.unreachable_from = self.unreachable_from.min(len);
        }
        self.len = len;
    }
}

/// The un-synced sectors of a file that were written before the power cut.
///
/// A sector is written with its whole content in memory: of several writes to one sector, the first
/// ones survive, never a later one alone.
enum SurvivingSectors {
    /// This many sectors, in the order in which the program wrote them.
    InOrder(usize),
    /// Per sector, how many of the writes to it.
    Scattered(BTreeMap<u64, usize>),
}

impl SurvivingSectors {
    fn draw(loss: Loss, pending: &[Change], rng: &mut Rng) -> SurvivingSectors {
        match loss {
            Loss::Everything | Loss::Data => SurvivingSectors::InOrder(0),
            Loss::Nothing => SurvivingSectors::InOrder(usize::MAX),
            Loss::Mixture if rng.coin() => {
                SurvivingSectors::InOrder(rng.prefix(touched(pending).count()))
            }
            Loss::Mixture => {
                let mut kept = BTreeMap::new();
                for sector in touched(pending) {
                    *kept.entry(sector).or_default() += 1;
                }
                kept.values_mut().for_each(|n| *n = rng.prefix(*n));
                SurvivingSectors::Scattered(kept)
            }
        }
    }

    /// Whether the next write to `sector` survives. To be called once for each, in order.
    fn keeps(&mut self, sector: u64) -> bool {
        let left = match self {
            SurvivingSectors::InOrder(left) => Some(left),
            SurvivingSectors::Scattered(kept) => kept.get_mut(&sector),
        };
        let Some(left) = left.filter(|left| **left > 0) else {
            return false;
        };
        *left -= 1;
        true
    }
}

/// The part of a write within one sector.
struct Piece<'a> {
    sector: u64,
    offset: u64,
    data: &'a [u8],
}

fn pieces(offset: u64, data: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let end = offset + data.len() as u64;
    (offset / SECTOR..end.div_ceil(SECTOR)).map(move |sector| {
        let from = (sector * SECTOR).max(offset);
        let to = ((sector + 1) * SECTOR).min(end);
        Piece {
            sector,
            offset: from,
            data: &data[(from - offset) as usize..(to - offset) as usize],
        }
    })
}

/// The rest of the sector that contains a new end. It is zeroed in memory at once, and can be
/// written before the disk knows the new length.
fn zeroed(len: u64) -> std::ops::Range<u64> {
    len..len.next_multiple_of(SECTOR)
}

/// The sectors that the changes write to, once for each write.
fn touched(pending: &[Change]) -> impl Iterator<Item = u64> + '_ {
    pending.iter().flat_map(|change| match change {
        Change::Write { offset, data } => {
            offset / SECTOR..(offset + data.len() as u64).div_ceil(SECTOR)
        }
        Change::Truncate { len } if zeroed(*len).is_empty() => 0..0,
        Change::Truncate { len } => len / SECTOR..len / SECTOR + 1,
    })
}
