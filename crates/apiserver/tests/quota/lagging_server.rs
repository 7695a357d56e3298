//! Quotas on a server that lags behind the writes of another server.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use insula_core::Revision;
use insula_store::memory::Memory;
use insula_store::{At, KeyRange, Outcome, Page, Result, Store, Transaction, Watch, WatchItem};
use insula_testkit::server::{Answer, Client, Setup, TestServer};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{ADVICE, MAPS, create, create_quota, forbidden, map};

/// A store that delays watch events while it is held.
struct HeldStore {
    inner: Arc<Memory>,
    held: watch::Receiver<bool>,
    /// The number of commits attempted.
    commits: watch::Sender<usize>,
}

struct HeldWatch {
    inner: Box<dyn Watch>,
    held: watch::Receiver<bool>,
    /// The item to deliver when the store is released.
    next: Option<WatchItem>,
}

#[async_trait]
impl Store for HeldStore {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn range(&self, range: &KeyRange, at: At, limit: Option<NonZeroUsize>) -> Result<Page> {
        self.inner.range(range, at, limit).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        let outcome = self.inner.commit(transaction).await;
        self.commits.send_modify(|commits| *commits += 1);
        outcome
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Box<dyn Watch>> {
        Ok(Box::new(HeldWatch {
            inner: self.inner.watch(range, after).await?,
            held: self.held.clone(),
            next: None,
        }))
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.inner.compact(floor).await
    }
}

#[async_trait]
impl Watch for HeldWatch {
    async fn next(&mut self) -> Result<WatchItem> {
        if self.next.is_none() {
            self.next = Some(self.inner.next().await?);
        }
        // The sender is dropped when the test is over.
        self.held.wait_for(|held| !held).await.ok();
        match self.next.take() {
            Some(item) => Ok(item),
            None => self.inner.next().await,
        }
    }

    async fn request_progress(&mut self) -> Result<()> {
        self.inner.request_progress().await
    }
}

/// How long a write may take to be attempted.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Two servers over one store, of which the second can be held back.
struct Pair {
    first: TestServer,
    second: TestServer,
    hold: watch::Sender<bool>,
    commits: watch::Receiver<usize>,
}

impl Pair {
    async fn start() -> anyhow::Result<Self> {
        let inner = Arc::new(Memory::new());
        let first = TestServer::start_on_store(inner.clone(), Setup::default()).await?;
        let (hold, held) = watch::channel(false);
        let (counter, commits) = watch::channel(0);
        let store = HeldStore {
            inner,
            held,
            commits: counter,
        };
        let second = TestServer::start_on_store(Arc::new(store), Setup::default()).await?;
        Ok(Self {
            first,
            second,
            hold,
            commits,
        })
    }

    /// The second server's response to a write that it starts without having seen concurrent
    /// writes; they are delivered once it has attempted the commit.
    async fn write_with_stale_cache<'a, F: Future<Output = anyhow::Result<Answer>> + 'a>(
        &mut self,
        meanwhile: impl Future<Output = anyhow::Result<()>>,
        write: impl FnOnce() -> F,
    ) -> anyhow::Result<Answer> {
        self.second.registry().catch_up().await?;
        self.hold.send_replace(true);
        meanwhile.await?;
        self.commits.mark_unchanged();
        let (answer, _) = tokio::join!(write(), async {
            // If the server does not attempt a commit, its response fails the test.
            let tried = self.commits.changed();
            tokio::time::timeout(TIMEOUT, tried).await.ok();
            self.hold.send_replace(false);
        });
        answer
    }
}

async fn create_map(client: &Client, name: &str) -> anyhow::Result<()> {
    create(client, MAPS, &map(name)).await.map(drop)
}

#[tokio::test]
async fn last_place_in_a_namespace_is_used_once() -> anyhow::Result<()> {
    let mut pair = Pair::start().await?;
    let one = pair.first.tenant("t1").await?;
    create_quota(&one, "q1", json!({"configmaps": "2"})).await?;
    create_map(&one, "c1").await?;
    pair.second.registry().catch_up().await?;
    let other = pair.second.client("t1").await?;
    let write_with_stale_cache = map("c3");
    let answer = pair
        .write_with_stale_cache(create_map(&one, "c2"), || {
            other.post(MAPS, &write_with_stale_cache)
        })
        .await?;
    forbidden(
        &answer,
        "configmaps \"c3\" is forbidden: exceeded quota: q1, requested: configmaps=1, used: \
         configmaps=2, limited: configmaps=2",
    );
    Ok(())
}

#[tokio::test]
async fn last_place_in_a_tenant_is_used_once() -> anyhow::Result<()> {
    // With an existing fence object and without.
    for before in [true, false] {
        let mut pair = Pair::start().await?;
        let one = pair.first.tenant("t1").await?;
        let most = count(&pair.first).await? + 1 + u64::from(before);
        set_quota(&pair.first, json!({"objects": most})).await?;
        if before {
            create_map(&one, "c1").await?;
        }
        pair.second.registry().catch_up().await?;
        let other = pair.second.client("t1").await?;
        let write_with_stale_cache = map("c3");
        let answer = pair
            .write_with_stale_cache(create_map(&one, "c2"), || {
                other.post(MAPS, &write_with_stale_cache)
            })
            .await?;
        forbidden(
            &answer,
            &format!(
                "configmaps \"c3\" is forbidden: exceeded quota of tenant t1: requested: \
                 objects=1, used: objects={most}, limited: objects={most}{ADVICE}"
            ),
        );
    }
    Ok(())
}

#[tokio::test]
async fn last_bytes_are_used_once() -> anyhow::Result<()> {
    let mut pair = Pair::start().await?;
    let one = pair.first.tenant("t1").await?;
    create_map(&one, "c1").await?;
    create_map(&one, "c2").await?;
    let space = insula_core::Space::parse("t1")?;
    pair.first.registry().catch_up().await?;
    let life = pair.first.registry().cache().space_state(&space).unwrap();
    set_quota(&pair.first, json!({"bytes": life.usage().bytes + 150})).await?;
    pair.second.registry().catch_up().await?;
    let other = pair.second.client("t1").await?;
    let larger = json!({"data": {"a": "x".repeat(100)}});
    let path = format!("{MAPS}/c1");
    let grown = async {
        let grown = one.patch(&path, "merge", &larger).await?;
        anyhow::ensure!(grown.status == 200, "{}", grown.text());
        Ok(())
    };
    let write_with_stale_cache = format!("{MAPS}/c2");
    let answer = pair
        .write_with_stale_cache(grown, || {
            other.patch(&write_with_stale_cache, "merge", &larger)
        })
        .await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(
        answer.message().contains("requested: bytes=99, used: "),
        "{}",
        answer.message()
    );
    Ok(())
}

#[tokio::test]
async fn lowered_quota_applies_on_a_lagging_server() -> anyhow::Result<()> {
    let mut pair = Pair::start().await?;
    let one = pair.first.tenant("t1").await?;
    let most = count(&pair.first).await?;
    pair.second.registry().catch_up().await?;
    let other = pair.second.client("t1").await?;
    let write_with_stale_cache = map("c1");
    let first = pair.first.system().await?;
    let lowered = async {
        let quota = json!({"spec": {"quota": {"objects": most}}});
        let lowered = first.patch("/api/v1/tenants/t1", "merge", &quota).await?;
        anyhow::ensure!(lowered.status == 200, "{}", lowered.text());
        Ok(())
    };
    let answer = pair
        .write_with_stale_cache(lowered, || other.post(MAPS, &write_with_stale_cache))
        .await?;
    assert_eq!(answer.status, 403, "{}", answer.text());
    drop(one);
    Ok(())
}

/// The number of objects in the tenant.
async fn count(server: &TestServer) -> anyhow::Result<u64> {
    server.registry().catch_up().await?;
    let space = insula_core::Space::parse("t1")?;
    Ok(server
        .registry()
        .cache()
        .space_state(&space)
        .unwrap()
        .usage()
        .objects)
}

async fn set_quota(server: &TestServer, quota: Value) -> anyhow::Result<()> {
    let patch = json!({"spec": {"quota": quota}});
    let system = server.system().await?;
    let changed = system.patch("/api/v1/tenants/t1", "merge", &patch).await?;
    anyhow::ensure!(changed.status == 200, "{}", changed.text());
    Ok(())
}
