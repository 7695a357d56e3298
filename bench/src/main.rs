//! Measures Insula, beside what it replaces, and prints the figures as Markdown.
//!
//! Figures go to stdout, what is going on to stderr. CPU time per operation is the
//! steadiest figure on a shared machine; wall time is worth what the machine's noise
//! leaves of it, which is why the raw cost of a sync on the same disk stands beside it.
//!
//! Each row of a table is measured in a process of its own, so that none carries the
//! memory of another.

mod api;
mod figures;
mod heading;
mod machine;
mod part;
mod report;
mod store;
mod subject;
mod system;

use clap::{Parser, Subcommand};

/// Measures Insula, beside what it replaces.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The engines of the store, through the contract.
    Store(store::Args),
    /// The API server, over TLS and HTTP/2, as a client sees it.
    Api(api::Args),
    /// The least that answers as a server does: what the server is compared to.
    #[command(hide = true, alias = "serve")]
    Floor(api::FloorArgs),
    /// What the floor answers who asks for a kubeconfig.
    #[command(hide = true)]
    Tenant(api::KubeconfigArgs),
    /// One measurement, for the process that prints the tables.
    #[command(hide = true)]
    Part(part::Part),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().what {
        What::Store(args) => store::run(&args),
        What::Api(args) => runtime()?.block_on(api::run(&args)),
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
