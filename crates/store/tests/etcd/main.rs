//! The etcd engine against a real etcd, which each test starts for itself.
//!
//! General properties are in the law suite; these tests cover what is specific to this engine:
//! connections, members, certificates, etcd's own limits and its own bytes.

mod commit;
mod connect;
mod fake;
mod laws;
mod proxy;
mod range;
mod watch;

use std::time::Duration;

use insula_store::etcd::{Etcd, Options};
use insula_store::{Outcome, Revision, Store, Transaction, Watch, WatchItem};
use insula_testkit::etcd::EtcdServer;

/// Longer than any step takes, also on a machine under load.
const DEADLINE: Duration = Duration::from_secs(60);

/// An empty store in its own etcd; `None` if etcd is not installed.
async fn fresh() -> Option<(EtcdServer, Etcd)> {
    let server = EtcdServer::start()?;
    let store = connect_to(&server).await;
    Some((server, store))
}

async fn connect_to(server: &EtcdServer) -> Etcd {
    let options = Options::new([server.endpoint()]);
    Etcd::connect(options).await.expect("etcd has started")
}

/// Awaits a future with a deadline.
async fn within<T>(future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(DEADLINE, future).await;
    result.expect("it comes before the deadline")
}

/// Commits a transaction that must succeed, and returns the revision.
async fn committed(store: &Etcd, transaction: Transaction) -> Revision {
    match within(store.commit(transaction)).await {
        Ok(Outcome::Committed(revision)) => revision,
        other => panic!("not committed: {other:?}"),
    }
}

/// The next changes, which must be the next item, as their revision and keys.
async fn changes(watch: &mut dyn Watch) -> (Revision, Vec<String>) {
    match within(watch.next()).await {
        Ok(WatchItem::Changes { revision, changes }) => {
            let key = |change: &insula_store::Changed| change.key().escape_ascii().to_string();
            (revision, changes.iter().map(key).collect())
        }
        other => panic!("no changes: {other:?}"),
    }
}
