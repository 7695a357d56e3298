//! Reads the objects that a move may be about.

use std::collections::BTreeSet;

use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, ObjectMeta};
use serde_json::Value;

use crate::error::Error;
use crate::kind::Kind;
use crate::names::{MOVE, MOVE_HIERARCHY};
use crate::plan::{IdentityRef, Node};
use crate::server::Server;
use crate::settings::{Identities, Settings};

/// The objects that were read.
#[derive(Default)]
pub struct Observed {
    /// The properties that the plan is made from.
    pub nodes: Vec<Node>,
    /// The objects themselves, in the same order.
    pub objects: Vec<Object>,
    /// Identities that are referenced but do not exist.
    pub missing: Vec<IdentityRef>,
}

/// An object at a server. Only the metadata of Secrets and ConfigMaps is read: most of them do
/// not belong to a cluster.
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// The whole object, or the metadata of a Secret or ConfigMap.
    pub content: DynamicObject,
}

impl Observed {
    fn add(&mut self, kind: &Kind, content: DynamicObject) {
        self.nodes.push(node(kind, &content));
        let kind = kind.clone();
        self.objects.push(Object { kind, content });
    }

    /// Adds an object of the clusters' namespace, with what the rules of providers say about it.
    fn add_with(&mut self, kind: &Kind, content: DynamicObject, settings: &Settings) {
        let mut node = node(kind, &content);
        let movable = node.movable(&content);
        let providers = || settings.providers.iter();
        let needs = providers().flat_map(|rules| rules.needs(movable)).collect();
        let stays = providers().any(|rules| rules.stays(movable));
        let used_secrets = match settings.identities {
            Identities::Carry => providers()
                .flat_map(|rules| rules.secrets(movable))
                .collect(),
            Identities::Leave => Vec::new(),
        };
        (node.needs, node.stays, node.used_secrets) = (needs, stays, used_secrets);
        self.nodes.push(node);
        let kind = kind.clone();
        self.objects.push(Object { kind, content });
    }
}

/// Reads the objects of the namespace and the identities that they reference.
pub async fn observe(source: &Server, settings: &Settings) -> Result<Observed, Error> {
    let mut found = Observed::default();
    for kind in source.kinds.iter().filter(|kind| kind.namespaced) {
        let api = source.api(kind, Some(&settings.namespace));
        let attempted = format!("list {} at the source", kind.resource.plural);
        let list = api.list(&ListParams::default()).await;
        for object in list.map_err(Error::failed_to(attempted))? {
            found.add_with(kind, object, settings);
        }
    }
    for kind in [Kind::secrets(), Kind::config_maps()] {
        for metadata in metadata(source, &kind, &settings.namespace).await? {
            found.add(&kind, bare(metadata));
        }
    }
    if settings.identities == Identities::Carry {
        identities(source, settings, &mut found).await?;
    }
    Ok(found)
}

/// Adds the identities that objects of the namespace reference, and their Secrets. No other
/// identity is read.
async fn identities(
    source: &Server,
    settings: &Settings,
    found: &mut Observed,
) -> Result<(), Error> {
    let named = found.nodes.iter().filter_map(|node| {
        let named = node.identity.clone()?;
        Some((node.group.clone(), named))
    });
    let named: BTreeSet<(String, IdentityRef)> = named.collect();
    let mut uids = BTreeSet::new();
    let mut secrets = BTreeSet::new();
    for (group, named) in named {
        let is_it = |kind: &&Kind| {
            !kind.namespaced && kind.resource.group == group && kind.resource.kind == named.kind
        };
        // Any other reference is to an object of the namespace, which moves with its owner.
        let Some(kind) = source.kinds.iter().find(is_it) else {
            continue;
        };
        let attempted = format!("read {} {} at the source", named.kind, named.name);
        let identity = source.api(kind, None).get_opt(&named.name).await;
        let Some(identity) = identity.map_err(Error::failed_to(attempted))? else {
            found.missing.push(named);
            continue;
        };
        uids.extend(identity.uid());
        secrets.extend(secret_of(&identity));
        found.add(kind, identity);
    }
    if uids.is_empty() {
        return Ok(());
    }
    let kind = Kind::secrets();
    for namespace in &settings.provider_namespaces {
        if *namespace == settings.namespace {
            continue;
        }
        for metadata in metadata(source, &kind, namespace).await? {
            let owners = metadata.owner_references.iter().flatten();
            let mut owners = owners.map(|owner| &owner.uid);
            let named = || {
                metadata
                    .name
                    .as_ref()
                    .is_some_and(|name| secrets.contains(name))
            };
            if owners.any(|uid| uids.contains(uid)) || named() {
                found.add(&kind, bare(metadata));
            }
        }
    }
    Ok(())
}

async fn metadata(source: &Server, kind: &Kind, namespace: &str) -> Result<Vec<ObjectMeta>, Error> {
    let api = source.api(kind, Some(namespace));
    let plural = &kind.resource.plural;
    let attempted = format!("list {plural} of namespace {namespace} at the source");
    let list = api.list_metadata(&ListParams::default()).await;
    let list = list.map_err(Error::failed_to(attempted))?;
    Ok(list.items.into_iter().map(|item| item.metadata).collect())
}

fn bare(metadata: ObjectMeta) -> DynamicObject {
    DynamicObject {
        types: None,
        metadata,
        data: Value::Null,
    }
}

fn node(kind: &Kind, object: &DynamicObject) -> Node {
    let spec = &object.data["spec"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let reference = &spec["identityRef"];
    let identity = text(&reference["kind"]).zip(text(&reference["name"]));
    let class = &spec["topology"];
    let labels = object.labels();
    let owners = object.owner_references().iter();
    Node {
        group: kind.resource.group.clone(),
        kind: kind.resource.kind.clone(),
        namespace: object.metadata.namespace.clone(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        owners: owners.map(|owner| owner.uid.clone()).collect(),
        root: kind.root || labels.contains_key(MOVE) || labels.contains_key(MOVE_HIERARCHY),
        identity: identity.map(|(kind, name)| IdentityRef { kind, name }),
        // `topology.class` belongs to contract v1beta1.
        class: text(&class["classRef"]["name"]).or_else(|| text(&class["class"])),
        secret: (!kind.namespaced).then(|| secret_of(object)).flatten(),
        used_secrets: Vec::new(),
        needs: Vec::new(),
        stays: false,
        follows_clusters: kind.follows_clusters,
    }
}

fn secret_of(identity: &DynamicObject) -> Option<String> {
    identity.data["spec"]["secretName"]
        .as_str()
        .map(str::to_owned)
}
