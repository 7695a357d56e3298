//! The watch of the hosts of a pool.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use futures_util::TryStreamExt;
use futures_util::stream::StreamExt;
use kube::ResourceExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use super::HostPool;

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
    let (mut names, mut unused) = (BTreeSet::new(), 0_usize);
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
                pool.observe_failing(true);
                continue;
            }
        };
        // A new list begins before its first request.
        if !matches!(event, Event::Init) {
            pool.observe_failing(false);
        }
        match event {
            Event::Init => {
                names.clear();
                unused = 0;
            }
            Event::InitApply(host) => {
                let name = host.name_any();
                match pool.observe(host) {
                    true => drop(names.insert(name)),
                    false => unused += 1,
                }
            }
            Event::InitDone => {
                if unused > 0 {
                    warn!(
                        namespace = pool.namespace,
                        unused, "some hosts are not used"
                    );
                }
                pool.observe_listed(&std::mem::take(&mut names));
                if let Some(listed) = listed.take() {
                    listed.send(()).ok();
                }
            }
            Event::Apply(host) => drop(pool.observe(host)),
            Event::Delete(host) => pool.observe_deleted(&host.name_any()),
        }
    }
}

/// Starts the watch. The receiver gets a signal when the hosts are listed.
pub(super) fn start(pool: &Arc<HostPool>) -> (AbortHandle, oneshot::Receiver<()>) {
    let (listed, is_listed) = oneshot::channel();
    let task = tokio::spawn(watch(Arc::downgrade(pool), listed));
    (task.abort_handle(), is_listed)
}
