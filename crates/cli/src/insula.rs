//! `insula`: a multi-tenant Kubernetes control plane in one binary.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    azure_import, encryption, exit, identity, keys, log_to_stderr, operator, relocate, serve,
    tenant,
};

/// A multi-tenant Kubernetes control plane in one binary.
#[derive(Parser)]
#[command(name = "insula", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the control plane
    Serve(Box<serve::Args>),
    /// Create, show and delete tenants
    Tenant(tenant::Args),
    /// Show and rotate the keys of service account tokens
    Keys(keys::Args),
    /// Create configurations of encryption at rest, and show the keys in use
    Encryption(encryption::Args),
    /// Run an operator against this or any other Kubernetes
    Operator(operator::Args),
    /// Show which credentials an object gets, and which objects use an identity
    Identity(identity::Args),
    /// Work with resources that exist in Azure
    Azure(azure_import::Args),
    /// Move Cluster API clusters to another server, with the identities they use
    Move(Box<relocate::Args>),
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let args = Args::parse();
    log_to_stderr();
    exit(match args.command {
        Command::Serve(args) => serve::run(*args),
        Command::Tenant(args) => tenant::run(args),
        Command::Keys(args) => keys::run(args),
        Command::Encryption(args) => encryption::run(args),
        Command::Operator(args) => operator::run(args),
        Command::Identity(args) => identity::run(args),
        Command::Azure(args) => azure_import::run(args),
        Command::Move(args) => relocate::run(*args),
    })
}
