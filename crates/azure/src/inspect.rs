//! What `insula identity` has to know about the provider: how to ask for an object's credential.
//!
//! Kinds are named by their kind, such as `resourcegroup`. Kinds of several groups with the same
//! name are told apart by the group, as in `server.sql.azure.com`, which all kinds may have.

mod mode;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use insula_identity::endpoint::AllowedEndpoints;
use insula_identity::reason::Reason;
use insula_identity::shape::Shape;
use insula_operator::provider::explain::{Asked, Error, Inspect, Objects};
use insula_operator::provider::{IdentityKind, Names, Provider};
use insula_operator::read::get_named;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};

use crate::entra::base_url::Cleartext;
use crate::entra::cloud::DEFAULT_CLOUD;
use crate::entra::shape::ManagedIdentities;
use crate::entra::{AccountShape, Cloud};
use crate::names::SYSTEM_NAMESPACE;
use crate::operator::{self, READY, ServedKinds, Terms};
use crate::table::{self, Kind};

/// The Azure provider.
#[derive(Clone, Copy, Debug)]
pub struct Azure;

/// The names of the kinds, each with its plural.
static NAMES: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    let mut groups: BTreeMap<_, usize> = BTreeMap::new();
    for kind in table::kinds() {
        *groups.entry(kind.kind()).or_default() += 1;
    }
    let unique = table::kinds().iter();
    let unique = unique.filter(|kind| groups.get(kind.kind()) == Some(&1));
    let short = unique.map(|kind| (kind.kind(), kind.plural()));
    let full = table::kinds().iter().map(|kind| {
        let of_group = |name: &str| format!("{name}.{}", kind.group());
        // The list is made once, and lives as long as the process.
        let leaked = |name: &str| -> &'static str { of_group(name).leak() };
        (leaked(kind.kind()), leaked(kind.plural()))
    });
    short.chain(full).collect()
});

/// What a Secret must contain, as far as that does not depend on the operator's settings.
static SHAPE: LazyLock<Option<AccountShape>> = LazyLock::new(|| {
    Some(AccountShape {
        cloud: Cloud::named(DEFAULT_CLOUD).ok()?,
        may_name_endpoints: true,
        managed_identities: ManagedIdentities::Any,
        shares_own_token: false,
        cleartext: Cleartext::Refused,
    })
});

fn shape() -> &'static dyn Shape {
    match &*SHAPE {
        Some(shape) => shape,
        None => operator::Azure::SHAPE,
    }
}

impl Inspect for Azure {
    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        &NAMES
    }

    fn identities(&self) -> Option<&'static IdentityKind> {
        None
    }

    fn names(&self) -> &'static Names {
        operator::Azure::NAMES
    }

    fn shape(&self) -> &'static dyn Shape {
        shape()
    }

    fn endpoint_key(&self) -> Option<&'static str> {
        None
    }

    fn operator_namespace(&self) -> &'static str {
        SYSTEM_NAMESPACE
    }

    fn condition(&self, _: &str) -> &'static str {
        READY
    }

    fn reasons(&self) -> fn(Reason) -> &'static str {
        Reason::as_str
    }

    fn question<'a>(
        &'a self,
        objects: &'a Objects<'a>,
        kind: &'static str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Asked, Error>> {
        question(objects, kind, name).boxed()
    }
}

/// Returns the kind of a name in the list.
fn find(name: &str) -> Option<&'static Kind> {
    let mut kinds = table::kinds().iter();
    match name.split_once('.') {
        Some((kind, group)) => table::find(group, kind),
        None => kinds.find(|kind| kind.kind() == name),
    }
}

async fn question(objects: &Objects<'_>, kind: &str, name: &str) -> Result<Asked, Error> {
    let text = format!("{kind} {}/{name}", objects.namespace);
    let missing = || Error::NotFound(text.clone());
    let resource = resource(objects, find(kind).ok_or_else(missing)?).await?;
    let client = objects.client.clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, objects.namespace, &resource);
    let found = get_named(&api, name).await;
    let found = found.map_err(|source| Error::Read {
        what: text.clone(),
        source,
    })?;
    let object = found.ok_or_else(missing)?;
    // Without the right to read it, its annotations are taken for absent.
    let namespace: Option<Namespace> = objects.read_cluster_scoped(objects.namespace).await.ok();
    let of_namespace = namespace.and_then(|namespace| namespace.metadata.annotations);
    let mode = mode::find(objects.client, objects.namespace, object.annotations()).await;
    let terms = Terms {
        mode: mode.assumed(),
        shape: shape(),
        own_bound: AllowedEndpoints::Anywhere,
        has_own: true,
    };
    let question = terms.question(
        objects.namespace,
        object.annotations(),
        &of_namespace.unwrap_or_default(),
    );
    let conditions = conditions(&object);
    let mut asked = Asked::of_object(&text, &object.metadata, conditions, question);
    match mode.line() {
        Ok(setting) => asked.settings.push(setting),
        Err(assumption) => asked.assumptions.push(assumption),
    }
    Ok(asked)
}

/// Returns the resource of a kind, in a version that the server has.
async fn resource(objects: &Objects<'_>, kind: &'static Kind) -> Result<ApiResource, Error> {
    let served = ServedKinds::discover(objects.client).await;
    let served = served.map_err(|source| Error::Read {
        what: "the kinds of the server".to_owned(),
        source,
    })?;
    let found = served.find(kind.group(), kind.kind());
    let version = found.and_then(|found| found.any_version());
    let version = version.ok_or_else(|| {
        let (plural, group) = (kind.plural(), kind.group());
        Error::NotFound(format!("kind {plural}.{group} on this server"))
    })?;
    let kind_of_version = GroupVersionKind::gvk(kind.group(), version, kind.kind());
    Ok(ApiResource::from_gvk_with_plural(
        &kind_of_version,
        kind.plural(),
    ))
}

fn conditions(object: &DynamicObject) -> Vec<Condition> {
    let conditions = object.data["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    let read = conditions.filter_map(|one| serde_json::from_value(one.clone()).ok());
    read.collect()
}

#[cfg(test)]
mod tests {
    use insula_operator::provider::explain::find_kind;

    use super::*;

    static PROVIDERS: &[&dyn Inspect] = &[&Azure];

    #[test]
    fn every_name_stands_for_one_kind() {
        for (name, _) in Azure.kinds() {
            let kind = find(name).unwrap_or_else(|| panic!("{name} is not found"));
            assert!(name.starts_with(kind.kind()), "{name}");
        }
        let found = |name: &str| find_kind(PROVIDERS, name).map(|(_, kind)| kind);
        assert_eq!(found("resourcegroups"), Some("ResourceGroup"));
        assert_eq!(
            found("resourcegroup.resources.azure.com"),
            Some("ResourceGroup.resources.azure.com")
        );
        // Several groups have it.
        assert_eq!(found("server"), None);
        assert_eq!(found("server.sql.azure.com"), Some("Server.sql.azure.com"));
    }

    #[test]
    fn shape_accepts_its_sample() {
        let sample = shape().sample();
        assert!(shape().read(&sample, None).is_ok());
        assert!(SHAPE.is_some());
    }
}
