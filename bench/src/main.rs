//! Benchmarks Insula against the programs it replaces, and prints the figures as Markdown.
//!
//! Figures go to stdout, progress to stderr. CPU time per operation is the most stable figure
//! on a shared machine; wall time depends on the machine's noise, so the raw cost of a sync on
//! the same disk is printed beside it.
//!
//! Each row of a table is measured in its own process, so that memory is not carried over.

mod api;
mod figures;
mod heading;
mod machine;
mod part;
mod plot;
mod report;
mod store;
mod subject;
mod system;

use clap::{Parser, Subcommand};

/// Benchmarks of Insula and the programs it replaces.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Benchmark the engines of the store through its contract.
    Store(store::Args),
    /// Benchmark the API server over TLS and HTTP/2, as a client sees it.
    Api(api::Args),
    /// Benchmark what a noisy tenant does to a quiet one.
    Neighbours(api::NeighboursArgs),
    /// Flood a server as one tenant, for the process that measures another.
    #[command(hide = true)]
    Flood(api::FloodArgs),
    /// Run the floor: a minimal server that the API server is compared to.
    #[command(hide = true, alias = "serve")]
    Floor(api::FloorArgs),
    /// Print a kubeconfig for the floor.
    #[command(hide = true)]
    Tenant(api::KubeconfigArgs),
    /// Run one measurement for the process that prints the tables.
    #[command(hide = true)]
    Part(part::Part),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().what {
        What::Store(args) => store::run(&args),
        What::Api(args) => runtime()?.block_on(api::run(&args)),
        What::Neighbours(args) => runtime()?.block_on(api::run_neighbours(&args)),
        What::Flood(args) => runtime()?.block_on(api::run_flood(&args)),
        What::Floor(args) => runtime()?.block_on(api::serve_floor(&args)),
        What::Tenant(args) => api::print_kubeconfig(&args),
        What::Part(part) => runtime()?.block_on(store::measure(&part)),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
