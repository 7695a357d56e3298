//! The watches, and what they set going.

use std::sync::Arc;

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::controller::{
    self, Config, ReconcileRequest, applier, trigger_owners, trigger_self, trigger_with,
};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tracing::{debug, warn};

use crate::claim;
use crate::place::{Space, qualify};
use crate::reconcile::{MANAGER, again, reconcile};
use crate::site::Site;
use crate::spaces::Spaces;

/// How many Sites are worked on at the same time, of however many tenants.
const CONCURRENCY: u16 = 16;

type Triggered = Result<ReconcileRequest<Site>, watcher::Error>;

/// Serves all tenants: those that are there, and those that come. Three watches are open,
/// however many they are.
pub async fn run(spaces: Spaces) {
    let (sites, kept) = reflector::store();
    let triggers = stream::select_all([
        of_sites(&spaces, kept).boxed(),
        of_pages(&spaces).boxed(),
        of_claims(&spaces, sites.clone()).boxed(),
    ]);
    let config = Config::default().concurrency(CONCURRENCY);
    let work = |site, spaces| Box::pin(reconcile(site, spaces));
    applier(work, again, Arc::new(spaces), sites, triggers, config)
        .for_each(|done| async move {
            match done {
                Ok((site, _)) => debug!(%site, "as it should be"),
                // It was deleted before its turn came, perhaps with its tenant.
                Err(controller::Error::ObjectNotFound(site)) => debug!(%site, "gone"),
                Err(error) => warn!(error = &error as &dyn std::error::Error, "tried again"),
            }
        })
        .await;
}

/// A Site that is new or has changed, in any space.
fn of_sites(
    spaces: &Spaces,
    kept: reflector::store::Writer<Site>,
) -> impl Stream<Item = Triggered> + use<> {
    let sites = Api::<Site>::all(spaces.all());
    let changes = watcher(sites, watcher::Config::default().streaming_lists())
        .default_backoff()
        .modify(qualify)
        .reflect(kept)
        .applied_objects();
    trigger_self(changes, ())
}

/// A page that somebody changed or deleted, in any space: its owner puts it right. The
/// owner's name is only good within the page's own space, which its namespace says here.
fn of_pages(spaces: &Spaces) -> impl Stream<Item = Triggered> + use<> {
    let pages = Api::<ConfigMap>::all(spaces.all());
    let ours = format!("app.kubernetes.io/managed-by={MANAGER}");
    let changes = watcher(pages, watcher::Config::default().labels(&ours))
        .default_backoff()
        .modify(qualify)
        .touched_objects();
    trigger_owners(changes, (), ())
}

/// A host that has become free: whoever waits for it may try again.
fn of_claims(spaces: &Spaces, sites: Store<Site>) -> impl Stream<Item = Triggered> + use<> {
    let claims = Api::<ConfigMap>::namespaced(spaces.of(&Space::System), claim::NAMESPACE);
    let changes = watcher(claims, watcher::Config::default().labels(claim::HOLDER))
        .default_backoff()
        .touched_objects();
    trigger_with(changes, move |claim| {
        let host = claim.name_any();
        let wanting = sites
            .state()
            .into_iter()
            .filter(move |site| site.spec.host == host);
        wanting.map(|site| ReconcileRequest::from(ObjectRef::from_obj(&*site)))
    })
}
