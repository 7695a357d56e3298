//! Who has a host.
//!
//! A claim is a ConfigMap in the system's space that is called like the host. Only one can
//! be created under that name, so the store itself decides who was first.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, ResourceExt};

use crate::place::{Place, Space};
use crate::site::Site;
use crate::spaces::Spaces;

/// The namespace of the system in which claims are.
pub const NAMESPACE: &str = "site-system";

/// The label with the UID of the Site that a claim is for. No two tenants' objects have the
/// same UID, while their names may well be equal.
pub const HOLDER: &str = "example.com/site-uid";

/// The claims of all Sites.
pub struct Claims<'a> {
    spaces: &'a Spaces,
    api: Api<ConfigMap>,
}

impl<'a> Claims<'a> {
    /// Those that are in the system's space.
    pub fn new(spaces: &'a Spaces) -> Self {
        let api = Api::namespaced(spaces.of(&Space::System), NAMESPACE);
        Self { spaces, api }
    }

    /// Claims the host of a Site. Whether it is the Site's now: another may have it.
    pub async fn take(&self, site: &Site) -> kube::Result<bool> {
        let wanted = claim(site);
        match self.api.create(&PostParams::default(), &wanted).await {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        let Some(held) = self.api.get_opt(&site.spec.host).await? else {
            // It was let go of in between; the watch of claims brings this Site here again.
            return Ok(false);
        };
        if held.labels().get(HOLDER) == site.metadata.uid.as_ref() {
            return Ok(true);
        }
        if self.is_live(&held).await? {
            return Ok(false);
        }
        self.replace(&held, wanted).await
    }

    /// Lets go of what a Site has, all but this host.
    pub async fn release(&self, site: &Site, but: Option<&str>) -> kube::Result<()> {
        let uid = site.uid().unwrap_or_default();
        let held = ListParams::default().labels(&format!("{HOLDER}={uid}"));
        for claim in self.api.list(&held).await? {
            if but == Some(claim.name_any().as_str()) {
                continue;
            }
            match self.api.delete(&claim.name_any(), &as_seen(&claim)).await {
                Ok(_) => {}
                // Somebody else has it by now, or nobody.
                Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the Site that a claim is for is still there and still wants the host. It is
    /// not if somebody took its finalizer away by hand.
    async fn is_live(&self, claim: &ConfigMap) -> kube::Result<bool> {
        let data = claim.data.clone().unwrap_or_default();
        let text = |key: &str| data.get(key).map(String::as_str).unwrap_or_default();
        let place = Place::parse(text("place"));
        let sites: Api<Site> = Api::namespaced(self.spaces.of(&place.space), &place.namespace);
        let site = sites.get_opt(text("name")).await?;
        Ok(site.is_some_and(|site| {
            site.metadata.uid.as_ref() == claim.labels().get(HOLDER)
                && site.spec.host == claim.name_any()
        }))
    }

    async fn replace(&self, held: &ConfigMap, mut wanted: ConfigMap) -> kube::Result<bool> {
        wanted.metadata.resource_version = held.resource_version();
        let host = held.name_any();
        match self
            .api
            .replace(&host, &PostParams::default(), &wanted)
            .await
        {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn claim(site: &Site) -> ConfigMap {
    let uid = site.uid().unwrap_or_default();
    let data = [
        ("place", Place::of(site).to_string()),
        ("name", site.name_any()),
    ];
    let text = |(key, value): (&str, String)| (key.to_owned(), value);
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(site.spec.host.clone()),
            labels: Some(BTreeMap::from([(HOLDER.to_owned(), uid)])),
            ..ObjectMeta::default()
        },
        data: Some(data.map(text).into()),
        ..ConfigMap::default()
    }
}

/// Deletes an object only as long as nobody has written to it.
pub fn as_seen(object: &ConfigMap) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: object.resource_version(),
    })
}
