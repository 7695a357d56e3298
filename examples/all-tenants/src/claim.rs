//! Claims of hosts.
//!
//! A claim is a ConfigMap in the system's space with the host as its name. Only one object can
//! have that name, so the server decides which Site was first.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, ResourceExt};

use crate::place::{Place, Space};
use crate::site::Site;
use crate::spaces::Spaces;

/// The namespace of the claims, in the system's space.
pub const NAMESPACE: &str = "site-system";

/// The label with the UID of the Site that holds a claim. UIDs are unique over all tenants,
/// names are not.
pub const HOLDER: &str = "example.com/site-uid";

/// The claims of all Sites.
pub struct Claims<'a> {
    spaces: &'a Spaces,
    api: Api<ConfigMap>,
}

impl<'a> Claims<'a> {
    /// Returns access to the claims in the system's space.
    pub fn new(spaces: &'a Spaces) -> Self {
        let api = Api::namespaced(spaces.of(&Space::System), NAMESPACE);
        Self { spaces, api }
    }

    /// Claims the host of a Site, and returns false if another Site has it.
    pub async fn take(&self, site: &Site) -> kube::Result<bool> {
        let wanted = claim(site);
        match self.api.create(&PostParams::default(), &wanted).await {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        let Some(held) = self.api.get_opt(&site.spec.host).await? else {
            // It was released in between; the watch of claims triggers this Site again.
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

    /// Releases the claims of a Site, except the one of the given host.
    pub async fn release(&self, site: &Site, except: Option<&str>) -> kube::Result<()> {
        let uid = site.uid().unwrap_or_default();
        let held = ListParams::default().labels(&format!("{HOLDER}={uid}"));
        for claim in self.api.list(&held).await? {
            if except == Some(claim.name_any().as_str()) {
                continue;
            }
            match self
                .api
                .delete(&claim.name_any(), &if_unchanged(&claim))
                .await
            {
                Ok(_) => {}
                // It was deleted or taken over meanwhile.
                Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether the Site of a claim still exists and still wants the host. It may be
    /// gone without a release if a user removed its finalizer.
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

/// Returns preconditions that delete an object only if it is unchanged.
pub fn if_unchanged(object: &ConfigMap) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: object.resource_version(),
    })
}
