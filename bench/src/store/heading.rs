//! What was measured, and on what.

use std::path::Path;

use anyhow::Result;

use super::keys;
use crate::figures::{Figures, Quantiles};
use crate::machine;
use crate::part::Limits;
use crate::report::{self, Column, Row, Unit, progress, text};
use crate::system::{LSM_TREE, System, data_folder};

const NOTES: &str = "
Every write is durable when it is answered. `embedded` runs in the process that calls it, \
so its CPU time and memory are those of both; for `etcd` they are those of the server \
process, and the CPU time of the caller, with our client in it, stands beside them. Memory \
is resident and anonymous. Each row is measured in a process and on a store of its own.";

pub fn print(date: Option<&str>, etcd: Option<&str>, limits: Limits) -> Result<()> {
    let folder = data_folder()?;
    let system = System::of(&folder)?;
    text("# The engines of the store, measured through its contract\n");
    if let Some(date) = date {
        text(&format!("- measured: {date}"));
    }
    text(&format!(
        "- on: {} CPUs, Linux {}, {}",
        system.cpus, system.kernel, system.file_system
    ));
    text(&format!("- embedded: on lsm-tree {LSM_TREE}"));
    if let Some(version) = etcd {
        let settings = "one member, its defaults and a quota of 8 GiB, synced, plain HTTP";
        text(&format!("- etcd: {version}, {settings}"));
    }
    text(&format!("- values: {} bytes", keys::VALUE_BYTES));
    warn_of_slow_build();
    text(NOTES);
    raw_sync(&folder, limits)
}

fn warn_of_slow_build() {
    if cfg!(debug_assertions) {
        progress("this is a debug build: the figures mean nothing");
        text("- built without optimizations: **these figures mean nothing**");
    }
}

fn raw_sync(folder: &Path, limits: Limits) -> Result<()> {
    const COLUMNS: &[Column] = &[
        Column::new("p50", "sync p50", Unit::Time),
        Column::new("p99", "sync p99", Unit::Time),
        Column::new("max", "sync max", Unit::Time),
    ];
    let raw = Quantiles::of(machine::raw_sync(folder, limits.time())?);
    let row = Row {
        of: "a write and a sync".to_owned(),
        figures: Figures::default().times("sync", raw),
    };
    let title = "The disk: 1 KiB over blocks that are there, and a sync";
    report::figures(title, "what", COLUMNS, &[row]);
    Ok(())
}
