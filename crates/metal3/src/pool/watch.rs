//! The watch of the hosts of a pool.

use std::sync::{Arc, Weak};

use futures_util::TryStreamExt;
use futures_util::stream::StreamExt;
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::HostPool;
use crate::kinds::host::BareMetalHost;

/// The number of hosts of a namespace that are used. A server that a tenant chose may list any
/// number, and all of them are kept in memory.
const MAX_HOSTS: usize = 10_000;
/// How many hosts are listed per request.
const PAGE_SIZE: u32 = 100;

/// Watches the hosts until the pool is dropped. The signal is sent after the first list.
pub(super) async fn watch(pool: Weak<HostPool>, listed: oneshot::Sender<()>) {
    let Some(hosts) = pool.upgrade().map(|pool| pool.hosts()) else {
        return;
    };
    let config = watcher::Config::default().page_size(PAGE_SIZE);
    let mut events = watcher::watcher(hosts, config).default_backoff().boxed();
    let mut listed = Some(listed);
    let mut page: Vec<BareMetalHost> = Vec::new();
    let mut is_failing = false;
    loop {
        let event = events.try_next().await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(error) => {
                debug!(namespace = pool.namespace, %error, "watch of hosts failed");
                if !is_failing {
                    pool.observe_failure();
                }
                is_failing = true;
                continue;
            }
        };
        is_failing = false;
        match event {
            Event::Init => page.clear(),
            Event::InitApply(host) if page.len() < MAX_HOSTS => page.push(host),
            Event::InitApply(_) => {}
            Event::InitDone => {
                if page.len() == MAX_HOSTS {
                    warn!(
                        namespace = pool.namespace,
                        max = MAX_HOSTS,
                        "some hosts are not used"
                    );
                }
                pool.observe_all(std::mem::take(&mut page));
                if let Some(listed) = listed.take() {
                    listed.send(()).ok();
                }
            }
            Event::Apply(host) => pool.observe_limited(host),
            Event::Delete(host) => pool.observe_deleted(&host.name_any()),
        }
    }
}

impl HostPool {
    fn observe_limited(&self, host: BareMetalHost) {
        let is_known = self.state().hosts.contains_key(&host.name_any());
        if is_known || self.state().hosts.len() < MAX_HOSTS {
            self.observe(host);
        }
    }
}

/// Starts the watch, and returns when the hosts are listed.
pub(super) async fn start(pool: &Arc<HostPool>) -> tokio::task::JoinHandle<()> {
    let (listed, is_listed) = oneshot::channel();
    let task = tokio::spawn(watch(Arc::downgrade(pool), listed));
    // The caller has a timeout, and a failed watch is retried.
    is_listed.await.ok();
    task
}
