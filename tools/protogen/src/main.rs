//! Makes the Rust code of etcd's wire types from `crates/store/proto`.
//!
//! The result is committed, so that building Insula needs neither `protoc` nor this tool.
//! After a change to a `.proto` file, run from the repository's root:
//!
//! ```sh
//! cargo run --manifest-path tools/protogen/Cargo.toml && cargo fmt -p insula-store
//! ```
//!
//! It is a workspace of its own: what it depends on is no part of Insula.

use std::path::Path;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let protos = root.join("crates/store/proto");
    let wire = root.join("crates/store/src/etcd/wire");

    let files = protox::compile(["etcd.proto"], [&protos]).context("cannot read the protos")?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        // What is sent shares the caller's bytes. What is received (`mvccpb`) is copied
        // out of the connection's buffer, so that a value that is kept does not keep a
        // whole answer.
        .bytes(".etcdserverpb")
        .out_dir(&wire)
        .compile_fds(files)
        .context("cannot write the Rust code")
}
