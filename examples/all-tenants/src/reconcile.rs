//! Reconciliation of one Site.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{self, Event, finalizer};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use crate::claim::{Claims, if_unchanged};
use crate::place::Place;
use crate::site::Site;
use crate::spaces::Spaces;

/// The field manager of this controller; also the value of the label that selects pages.
pub const MANAGER: &str = "all-tenants";

/// Keeps a deleted Site until its host is released.
const FINALIZER: &str = "example.com/host";

/// The delay after a failed reconciliation.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The interval of reconciliations without a change.
const RESYNC_INTERVAL: Duration = Duration::from_secs(3600);

/// A failed reconciliation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused a request, or did not answer.
    #[error("cannot serve the site")]
    Server(#[from] kube::Error),
    /// The finalizer could not be added or removed, or the reconciliation under it failed.
    #[error("cannot claim or release the host")]
    Finalizer(#[source] Box<finalizer::Error<kube::Error>>),
}

/// Brings the page, the claim and the status of a Site up to date.
pub async fn reconcile(site: Arc<Site>, spaces: Arc<Spaces>) -> Result<Action, Error> {
    let place = Place::of(&*site);
    let client = spaces.of(&place.space);
    let sites = Api::<Site>::namespaced(client.clone(), &place.namespace);
    let spaces = &*spaces;
    let done = finalizer(&sites, FINALIZER, site, |event| async move {
        match event {
            Event::Apply(site) => serve(&site, &place, client, spaces).await,
            Event::Cleanup(site) => {
                Claims::new(spaces).release(&site, None).await?;
                Ok(Action::await_change())
            }
        }
    });
    done.await
        .map_err(|error| Error::Finalizer(Box::new(error)))
}

/// Retries after every error; a Site that was deleted meanwhile is not found then.
pub fn retry(_: Arc<Site>, _: &Error, _: Arc<Spaces>) -> Action {
    Action::requeue(RETRY_INTERVAL)
}

async fn serve(
    site: &Site,
    place: &Place,
    client: Client,
    spaces: &Spaces,
) -> kube::Result<Action> {
    let claims = Claims::new(spaces);
    let host = Some(site.spec.host.as_str());
    claims.release(site, host).await?;
    let taken = claims.take(site).await?;
    let pages = Api::namespaced(client.clone(), &place.namespace);
    if taken {
        apply(&pages, &page(site)).await?;
    } else {
        // It may have a page from a host that it held before.
        remove(&pages, site).await?;
    }
    let sites = Api::namespaced(client, &place.namespace);
    apply_status(&sites, site, taken).await?;
    Ok(Action::requeue(RESYNC_INTERVAL))
}

fn page_name(site: &Site) -> String {
    format!("{}-page", site.name_any())
}

/// Returns the page of a Site, with only the fields that this controller owns.
fn page(site: &Site) -> ConfigMap {
    let mut page = ConfigMap::default();
    page.metadata.name = Some(page_name(site));
    page.metadata.owner_references = site.controller_owner_ref(&()).map(|owner| vec![owner]);
    let label = (
        "app.kubernetes.io/managed-by".to_owned(),
        MANAGER.to_owned(),
    );
    page.metadata.labels = Some([label].into());
    let text = ("index.html".to_owned(), site.spec.text.clone());
    page.data = Some([text].into());
    page
}

async fn apply(pages: &Api<ConfigMap>, page: &ConfigMap) -> kube::Result<()> {
    let name = page.name_any();
    pages
        .patch(&name, &apply_params(), &Patch::Apply(page))
        .await?;
    Ok(())
}

/// Forces conflicts: this controller owns the fields that it applies.
fn apply_params() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// Deletes the page if the Site owns it: a user may have another object of that name.
async fn remove(pages: &Api<ConfigMap>, site: &Site) -> kube::Result<()> {
    let name = page_name(site);
    let Some(page) = pages.get_opt(&name).await? else {
        return Ok(());
    };
    let owners = page.owner_references().iter();
    let mut owners = owners.map(|owner| Some(&owner.uid));
    if !owners.any(|uid| uid == site.metadata.uid.as_ref()) {
        return Ok(());
    }
    match pages.delete(&name, &if_unchanged(&page)).await {
        Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Ok(()),
        done => done.map(drop),
    }
}

async fn apply_status(sites: &Api<Site>, site: &Site, taken: bool) -> kube::Result<()> {
    let status = json!({
        "apiVersion": Site::api_version(&()),
        "kind": Site::kind(&()),
        "status": {
            "observedGeneration": site.metadata.generation,
            "conditions": [ready(site, taken)],
        },
    });
    let (name, status) = (site.name_any(), Patch::Apply(status));
    sites.patch_status(&name, &apply_params(), &status).await?;
    Ok(())
}

/// Returns the condition, which must not reveal the tenant that has the host.
fn ready(site: &Site, taken: bool) -> Condition {
    let (status, reason, message) = match taken {
        true => ("True", "Served", "the page is served"),
        false => ("False", "HostTaken", "the host is taken: choose another"),
    };
    let before = site.status.iter().flat_map(|status| &status.conditions);
    let same = before
        .filter(|condition| condition.type_ == "Ready" && condition.status == status)
        .map(|condition| condition.last_transition_time.clone())
        .next();
    Condition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: site.metadata.generation,
        last_transition_time: same.unwrap_or_else(|| Time(Timestamp::now())),
    }
}
