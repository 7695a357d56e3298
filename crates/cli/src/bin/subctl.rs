//! Submariner brokers for many tenants, with the command lines that Submariner's users know.

use std::process::ExitCode;

fn main() -> ExitCode {
    insula_cli::subctl::main()
}
