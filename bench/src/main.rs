//! Measures Insula, beside what it replaces, and prints the figures as Markdown.
//!
//! Figures go to stdout, what is going on to stderr. CPU time per operation is the
//! steadiest figure on a shared machine; wall time is worth what the machine's noise
//! leaves of it, which is why the raw cost of a sync on the same disk stands beside it.

mod machine;
mod report;
mod store;
mod subject;

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
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match args.what {
            What::Store(args) => store::run(args).await,
        }
    })
}
