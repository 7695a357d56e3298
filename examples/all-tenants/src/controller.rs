//! The watches, and the reconciliations that they trigger.

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
use crate::reconcile::{MANAGER, reconcile, retry};
use crate::site::Site;
use crate::spaces::Spaces;

/// Concurrent reconciliations, over all tenants.
const CONCURRENCY: u16 = 16;

type Triggered = Result<ReconcileRequest<Site>, watcher::Error>;

/// Runs the controller for all tenants, including those created later, with three watches in
/// total.
pub async fn run(spaces: Spaces) {
    let (sites, writer) = reflector::store();
    let triggers = stream::select_all([
        site_changes(&spaces, writer).boxed(),
        page_changes(&spaces).boxed(),
        claim_changes(&spaces, sites.clone()).boxed(),
    ]);
    let config = Config::default().concurrency(CONCURRENCY);
    let work = |site, spaces| Box::pin(reconcile(site, spaces));
    applier(work, retry, Arc::new(spaces), sites, triggers, config)
        .for_each(|done| async move {
            match done {
                Ok((site, _)) => debug!(%site, "site reconciled"),
                // It was deleted while it was queued, perhaps with its tenant.
                Err(controller::Error::ObjectNotFound(site)) => debug!(%site, "site deleted"),
                Err(error) => warn!(
                    error = &error as &dyn std::error::Error,
                    "site reconciliation failed"
                ),
            }
        })
        .await;
}

/// Triggers new and changed Sites, in any space.
fn site_changes(
    spaces: &Spaces,
    writer: reflector::store::Writer<Site>,
) -> impl Stream<Item = Triggered> + use<> {
    let sites = Api::<Site>::all(spaces.all());
    let changes = watcher(sites, watcher::Config::default().streaming_lists())
        .default_backoff()
        .modify(qualify)
        .reflect(writer)
        .applied_objects();
    trigger_self(changes, ())
}

/// Triggers the owner of a changed or deleted page, in any space. The owner reference has no
/// tenant, so the page's qualified namespace supplies it.
fn page_changes(spaces: &Spaces) -> impl Stream<Item = Triggered> + use<> {
    let pages = Api::<ConfigMap>::all(spaces.all());
    let ours = format!("app.kubernetes.io/managed-by={MANAGER}");
    let changes = watcher(pages, watcher::Config::default().labels(&ours))
        .default_backoff()
        .modify(qualify)
        .touched_objects();
    trigger_owners(changes, (), ())
}

/// Triggers the Sites that want the host of a changed claim, as it may have been released.
fn claim_changes(spaces: &Spaces, sites: Store<Site>) -> impl Stream<Item = Triggered> + use<> {
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
