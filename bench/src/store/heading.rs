//! The heading of the report: engines, machine and settings.

use anyhow::Result;

use super::keys;
use crate::heading;
use crate::part::Limits;
use crate::report::text;
use crate::system::{LSM_TREE, data_folder};

const NOTES: &str = "
Every write is durable when it is answered. `embedded` runs in the process that calls it, \
so its CPU time and memory are those of both; for `etcd` they are those of the server \
process, and the CPU time of the caller, with our client in it, stands beside them. Memory \
is resident and anonymous. Each row is measured in a process and on a store of its own.";

pub fn print(date: Option<&str>, etcd: Option<&str>, limits: Limits) -> Result<()> {
    let folder = data_folder()?;
    text("# The engines of the store, measured through its contract\n");
    heading::machine(date, &folder)?;
    text(&format!("- embedded: on lsm-tree {LSM_TREE}"));
    if let Some(version) = etcd {
        let settings = "one member, its defaults and a quota of 8 GiB, synced, plain HTTP";
        text(&format!("- etcd: {version}, {settings}"));
    }
    text(&format!("- values: {} bytes", keys::VALUE_BYTES));
    heading::warn_of_slow_build();
    text(NOTES);
    heading::raw_sync(&folder, limits.time())
}
