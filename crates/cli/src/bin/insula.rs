//! Insula: a multi-tenant Kubernetes control plane in one binary.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Each thread allocates from pages of its own: no thread waits for one of a lower priority, and
/// freed memory goes back to the system.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    insula_cli::insula::main()
}
