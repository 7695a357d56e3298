//! The heading of every report: the machine and its disk.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::figures::{Figures, Quantiles};
use crate::machine;
use crate::report::{self, Column, Row, Unit, progress, text};
use crate::system::System;

/// Prints the date and the machine.
pub fn machine(date: Option<&str>, folder: &Path) -> Result<()> {
    let system = System::of(folder)?;
    if let Some(date) = date {
        text(&format!("- measured: {date}"));
    }
    text(&format!(
        "- on: {} CPUs, Linux {}, {}",
        system.cpus, system.kernel, system.file_system
    ));
    Ok(())
}

pub fn warn_of_slow_build() {
    if cfg!(debug_assertions) {
        progress("this is a debug build: the figures mean nothing");
        text("- built without optimizations: **these figures mean nothing**");
    }
}

pub fn raw_sync(folder: &Path, time: Duration) -> Result<()> {
    const COLUMNS: &[Column] = &[
        Column::new("p50", "sync p50", Unit::Time),
        Column::new("p99", "sync p99", Unit::Time),
        Column::new("max", "sync max", Unit::Time),
    ];
    let raw = Quantiles::of(machine::raw_sync(folder, time)?);
    let row = Row {
        of: "a write and a sync".to_owned(),
        figures: Figures::default().times("sync", raw),
    };
    let title = "The disk: 1 KiB over blocks that are there, and a sync";
    report::figures(title, "what", COLUMNS, &[row]);
    Ok(())
}
