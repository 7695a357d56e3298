//! Insula: a multi-tenant Kubernetes control plane in one binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    insula_cli::insula::main()
}
