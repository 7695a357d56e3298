//! The laws of a store over sealed values, on every engine.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod common;

use std::sync::Arc;

use insula_encryption::key_storage::FolderStorage;
use insula_store::Store;
use insula_store::memory::Memory;
use tempfile::TempDir;

/// A store that seals everything, and the folder of its keys.
async fn encrypted(inner: Arc<dyn Store>) -> (Arc<dyn Store>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(FolderStorage::open(folder.path().to_owned()).unwrap());
    let store = common::open(inner, storage, &["one"], "'*.*'").await;
    (store, folder)
}

mod memory {
    use super::*;

    async fn fresh() -> Option<(Arc<dyn Store>, TempDir)> {
        Some(encrypted(Arc::new(Memory::new())).await)
    }

    insula_store::store_laws!(fresh);
}

mod embedded {
    use insula_store::embedded::{Embedded, Options};

    use super::*;

    async fn fresh() -> Option<(Arc<dyn Store>, [TempDir; 2])> {
        let folder = tempfile::tempdir().unwrap();
        let engine = Embedded::open(folder.path().to_owned(), Options::default()).await;
        let (store, keys) = encrypted(Arc::new(engine.unwrap())).await;
        Some((store, [folder, keys]))
    }

    insula_store::store_laws!(fresh);
}

mod etcd {
    use insula_store::etcd::{Etcd, Options};
    use insula_testkit::etcd::EtcdServer;

    use super::*;

    async fn fresh() -> Option<(Arc<dyn Store>, (EtcdServer, TempDir))> {
        let server = EtcdServer::start()?;
        let engine = Etcd::connect(Options::new(vec![server.endpoint()])).await;
        let (store, keys) = encrypted(Arc::new(engine.unwrap())).await;
        Some((store, (server, keys)))
    }

    insula_store::store_laws!(fresh);
}
