//! `subctl`: Submariner brokers for many tenants.

use std::process::ExitCode;

use clap::Parser;

use crate::{exit, log_to_stderr};

/// Submariner brokers for many tenants.
#[derive(Parser)]
#[command(name = "subctl", version)]
struct Args {}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let Args {} = Args::parse();
    log_to_stderr();
    exit(Ok(()))
}
