//! What is done for one Site.

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

use crate::claim::{Claims, as_seen};
use crate::place::Place;
use crate::site::Site;
use crate::spaces::Spaces;

/// Who owns the fields that are applied here; also the value of the label by which pages
/// are found.
pub const MANAGER: &str = "all-tenants";

/// A Site does not go before its host is free again.
const FINALIZER: &str = "example.com/host";

/// How soon something that failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// How often everything is looked at even if nothing happened.
const ANYWAY: Duration = Duration::from_secs(3600);

/// Why a Site could not be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused something, or did not answer.
    #[error("cannot serve the site")]
    Server(#[from] kube::Error),
    /// The finalizer could not be put on or taken off, or what it stands for failed.
    #[error("cannot hold or free the host")]
    Finalizer(#[source] Box<finalizer::Error<kube::Error>>),
}

/// Makes the world as one Site wants it.
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

/// Whatever failed is tried again; a tenant or a Site that is gone is not there by then.
pub fn again(_: Arc<Site>, _: &Error, _: Arc<Spaces>) -> Action {
    Action::requeue(AGAIN)
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
        // What it showed under a host that it had before.
        remove(&pages, site).await?;
    }
    let sites = Api::namespaced(client, &place.namespace);
    apply_status(&sites, site, taken).await?;
    Ok(Action::requeue(ANYWAY))
}

fn page_name(site: &Site) -> String {
    format!("{}-page", site.name_any())
}

/// The page of a Site: only what is meant to be so, nothing that others may decide.
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
    pages.patch(&name, &ours(), &Patch::Apply(page)).await?;
    Ok(())
}

/// What is applied here is this controller's to decide, whoever wrote it before.
fn ours() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// Removes the page, if it is the Site's: somebody may have called something else so.
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
    match pages.delete(&name, &as_seen(&page)).await {
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
    sites.patch_status(&name, &ours(), &status).await?;
    Ok(())
}

/// Never says who has the host: that is nobody's business in another tenant.
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
