//! How much of the un-synced a power cut takes.

use super::Rng;

/// How a power cut treats un-synced changes. Synced ones always survive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// All of them are lost.
    Everything,
    /// All of them survive: the program died, the disk did not.
    Nothing,
    /// Names and lengths survive, bytes do not: un-synced sectors keep their old content, or read
    /// as zeros where there was none.
    Data,
    /// Decided per file and directory: sectors survive or not, in order or out of it, names and
    /// lengths up to some operation.
    Mixture,
}

impl Loss {
    /// Any of them at random, the mixture most often.
    pub fn pick(rng: &mut Rng) -> Loss {
        match rng.below(8) {
            0 => Loss::Everything,
            1 => Loss::Nothing,
            2 => Loss::Data,
            _ => Loss::Mixture,
        }
    }

    /// How many of `count` un-synced metadata operations survive: the first ones, because file
    /// systems keep them in order.
    pub(super) fn metadata(self, count: usize, rng: &mut Rng) -> usize {
        match self {
            Loss::Everything => 0,
            Loss::Nothing | Loss::Data => count,
            Loss::Mixture => rng.prefix(count),
        }
    }
}
