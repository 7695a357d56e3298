//! The topics of the benchmark, and their tables.

use super::{compaction, ranges, size, watches, writes};
use crate::part::{Limits, What};
use crate::report::Column;
use crate::subject::Engine;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Topic {
    Writes,
    Ranges,
    Watches,
    Compaction,
    Size,
}

impl Topic {
    pub const ALL: [Self; 5] = [
        Self::Writes,
        Self::Ranges,
        Self::Watches,
        Self::Compaction,
        Self::Size,
    ];

    pub const fn part(self, engine: Engine) -> What {
        match (self, engine) {
            (Self::Writes, _) => What::Writes,
            (Self::Ranges, _) => What::Ranges,
            (Self::Watches, _) => What::Watches,
            (Self::Compaction, _) => What::Compaction,
            (Self::Size, Engine::Embedded) => What::Fill,
            (Self::Size, Engine::Etcd) => What::Restart,
        }
    }

    /// Returns the size parameter of each row of an engine.
    pub fn sizes(self, limits: Limits) -> Vec<usize> {
        match self {
            Self::Writes => vec![1, 16, 64, 256],
            Self::Ranges => vec![ranges::keys(limits)],
            Self::Watches => vec![0, watches::WATCHERS],
            Self::Compaction => vec![0, 1],
            Self::Size => size::sizes(limits),
        }
    }

    pub fn title(self, limits: Limits) -> String {
        match self {
            Self::Writes => writes::title(limits),
            Self::Ranges => ranges::title(limits),
            Self::Watches => watches::title(limits),
            Self::Compaction => compaction::TITLE.to_owned(),
            Self::Size => size::TITLE.to_owned(),
        }
    }

    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Writes => writes::COLUMNS,
            Self::Ranges => ranges::COLUMNS,
            Self::Watches => watches::COLUMNS,
            Self::Compaction => compaction::COLUMNS,
            Self::Size => size::COLUMNS,
        }
    }
}
