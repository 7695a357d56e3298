//! Keys and values of typical shape and size.

use std::sync::Arc;

use anyhow::{Result, bail};
use bytes::Bytes;
use insula_store::{Outcome, Revision, Store, Transaction};
use tokio::task::JoinSet;

pub const VALUE_BYTES: usize = 1024;

/// Returns a key as the API server builds it, spread over a thousand tenants.
pub fn key(n: usize) -> Bytes {
    let tenant = n % 1000;
    Bytes::from(format!(
        "/registry/configmaps/tenant-{tenant:04}/default/object-{n:08}"
    ))
}

pub fn tenant_prefix(tenant: usize) -> Bytes {
    Bytes::from(format!("/registry/configmaps/tenant-{tenant:04}/"))
}

/// Returns incompressible bytes, different for each seed.
pub fn value(seed: u64) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = Vec::with_capacity(VALUE_BYTES);
    while value.len() < VALUE_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        value.extend_from_slice(&state.to_le_bytes());
    }
    value.into()
}

pub async fn commit(store: &dyn Store, transaction: Transaction) -> Result<Revision> {
    match store.commit(transaction).await? {
        Outcome::Committed(revision) => Ok(revision),
        other => bail!("not committed: {other:?}"),
    }
}

/// Creates the keys `0..count` with many writers.
pub async fn fill(store: &Arc<dyn Store>, count: usize) -> Result<()> {
    const WRITERS: usize = 128;
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for n in (writer..count).step_by(WRITERS) {
                commit(&*store, Transaction::create(key(n), value(n as u64))).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
