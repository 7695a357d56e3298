//! The laws on etcd, each on its own server.

use std::sync::Arc;

use insula_store::Store;
use insula_testkit::etcd::EtcdServer;

async fn fresh() -> Option<(Arc<dyn Store>, EtcdServer)> {
    let (server, store) = super::fresh().await?;
    Some((Arc::new(store), server))
}

insula_store::store_laws!(fresh);
