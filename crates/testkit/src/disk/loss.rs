//! How much of the un-synced a power cut takes.

use super::Rng;

/// How a power cut treats what was not synced. What was synced always survives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// All of it is lost.
    Everything,
    /// All of it survives: the program died, the disk did not.
    Nothing,
    /// Names and lengths survive, bytes do not: un-synced sectors read as they were
    /// before, or as zeros where there was nothing.
    Data,
    /// Each file and directory has a fate of its own: sectors survive or not, in order
    /// or out of it, names and lengths up to some operation.
    Mixture,
}

impl Loss {
    /// Each of them from time to time, the mixture most often.
    pub fn pick(rng: &mut Rng) -> Loss {
        match rng.below(8) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 => Loss::Data,
            _ => Loss::Mixture,
        }
    }

    /// How many of `count` un-synced metadata operations survive: the first ones,
    /// because file systems keep them in order.
    pub(super) fn metadata(self, count: usize, rng: &mut Rng) -> usize {
        match self {
            Loss::Everything => 0,
            Loss::Nothing | Loss::Data => count,
            Loss::Mixture => rng.prefix(count),
        }
    }
}
