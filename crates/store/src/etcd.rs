//! Several replicas over one etcd v3 cluster.
//!
//! The store's keys, values and revisions are etcd's own, byte for byte and number for number. The
//! process keeps nothing but connections, so any number of processes may use one cluster
//! concurrently.
//!
//! | the contract requires | etcd provides |
//! |---|---|
//! | a fresh read | a linearizable `Range`; larger ones in pages pinned at one revision |
//! | the revision | the same; readers that come while one is on its way share the next |
//! | a commit | one `Txn` that compares modification revisions, never sent twice |
//! | a watch without gaps | a stream per watch, resumed where it was lost |
//! | progress | a progress request, compared with a fresh revision |
//!
//! The minimum version of etcd is 3.5.13, which is checked on connecting.

mod backoff;
mod client;
mod commit;
mod errors;
mod floor;
mod options;
mod range;
mod revision_reads;
mod stream;
mod version;
mod watch;
pub mod wire;

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use insula_core::Revision;

use self::client::Client;
use self::revision_reads::RevisionReads;
use self::watch::Cursor;
use crate::{At, KeyRange, Outcome, Page, Result, Store, Transaction, Watch};

pub use self::options::{ClientCertificate, ConnectError, Options, Tls};
pub use self::version::Version;

/// A store in etcd.
#[derive(Clone, Debug)]
pub struct Etcd {
    client: Arc<Client>,
    revision_reads: Arc<RevisionReads>,
}

impl Etcd {
    /// Connects to this etcd, if at least one member answers and none that answers is too old.
    /// Members that do not answer now may be used later.
    pub async fn connect(options: Options) -> Result<Self, ConnectError> {
        let client = Arc::new(Client::connect(&options).await?);
        Ok(Self {
            client,
            revision_reads: Arc::default(),
        })
    }
}

#[async_trait]
impl Store for Etcd {
    async fn revision(&self) -> Result<Revision> {
        let client = Arc::clone(&self.client);
        let request = move || {
            let client = Arc::clone(&client);
            async move { range::revision(&client).await }
        };
        self.revision_reads.read(request).await
    }

    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        range::range(&self.client, range, at, limit).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        commit::commit(&self.client, &transaction).await
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        let cursor = Cursor::open(Arc::clone(&self.client), range, after).await?;
        Ok(Box::new(cursor))
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        floor::compact(&self.client, floor).await
    }
}
