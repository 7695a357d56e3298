//! Objects that moved clusters use or own but that are not moved. They are reported, because an
//! administrator of the target has to provide them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{Selector, SelectorExt};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};

use crate::error::Error;
use crate::kind::Kind;
use crate::observe::Observed;
use crate::plan::{Disposition, Node, Step};
use crate::server::Server;

const ZONE: &str = "VSphereDeploymentZone";
const DOMAIN: &str = "VSphereFailureDomain";

/// Returns a warning for each deployment zone and failure domain that moved clusters and machines
/// use and that the target lacks. Zones are shared by all namespaces and may have an identity of
/// their own, so the target's administrator decides about them; they are never copied.
pub async fn zones(
    servers: (&Server, &Server),
    found: &Observed,
    steps: &[Step],
) -> Result<Vec<String>, Error> {
    let users = users(found, steps);
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let here = listed(servers.0, ZONE).await?;
    let there = names(&listed(servers.1, ZONE).await?);
    let domains = names(&listed(servers.1, DOMAIN).await?);
    let (mut warnings, mut seen) = (Vec::new(), BTreeSet::new());
    for (node, used) in users {
        for zone in here.iter().filter(|zone| used.is(zone)) {
            let name = zone.name_any();
            if !seen.insert(name.clone()) {
                continue;
            }
            if !there.contains(&name) {
                warnings.push(lacks(node, ZONE, &name));
            }
            let domain = zone.data["spec"]["failureDomain"].as_str();
            if let Some(domain) = domain.filter(|&domain| !domains.contains(domain)) {
                warnings.push(lacks(&format!("{ZONE} {name}"), DOMAIN, domain));
            }
        }
    }
    Ok(warnings)
}

/// Which zones an object uses.
enum Used {
    /// All zones of a vCenter with matching labels.
    Selected { server: String, selector: Selector },
    /// The zone of this name.
    Named(String),
}

impl Used {
    fn is(&self, zone: &DynamicObject) -> bool {
        match self {
            Self::Selected { server, selector } => {
                zone.data["spec"]["server"] == server.as_str() && selector.matches(zone.labels())
            }
            Self::Named(name) => zone.name_any() == *name,
        }
    }
}

/// Returns the objects that use zones, clusters before machines.
fn users<'a>(found: &'a Observed, steps: &[Step]) -> Vec<(&'a Node, Used)> {
    let (mut clusters, mut machines) = (Vec::new(), Vec::new());
    for step in steps
        .iter()
        .filter(|step| step.disposition == Disposition::Move)
    {
        let node = &found.nodes[step.at];
        let spec = &found.objects[step.at].content.data["spec"];
        let selector = spec["failureDomainSelector"].clone();
        // A selector that cannot be parsed selects nothing at either server.
        let selector = serde_json::from_value(selector)
            .ok()
            .flatten()
            .and_then(|selector: LabelSelector| Selector::try_from(selector).ok());
        if let Some((selector, server)) = selector.zip(spec["server"].as_str()) {
            let server = server.to_owned();
            clusters.push((node, Used::Selected { server, selector }));
        }
        let domain = spec["failureDomain"].as_str().unwrap_or_default();
        if !domain.is_empty() {
            machines.push((node, Used::Named(domain.to_owned())));
        }
    }
    clusters.extend(machines);
    clusters
}

/// Lists all objects of a cluster-scoped kind; none if the server does not define the kind.
async fn listed(server: &Server, kind: &str) -> Result<Vec<DynamicObject>, Error> {
    let is_it = |known: &&Kind| !known.namespaced && known.resource.kind == kind;
    let Some(kind) = server.kinds.iter().find(is_it) else {
        return Ok(Vec::new());
    };
    let attempted = format!("list {} at the {}", kind.resource.plural, server.role);
    let list = server.api(kind, None).list(&ListParams::default()).await;
    Ok(list.map_err(Error::failed_to(attempted))?.items)
}

fn names(objects: &[DynamicObject]) -> BTreeSet<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

fn lacks(who: &impl std::fmt::Display, kind: &str, name: &str) -> String {
    format!("{who} uses {kind} {name}, which is not at the target")
}

/// Returns a warning for each object that is owned by a moved one but is of a kind that is not
/// moved: the source's garbage collector deletes it.
pub async fn left_behind(
    source: &Server,
    namespace: &str,
    found: &Observed,
    steps: &[Step],
) -> Result<Vec<String>, Error> {
    let moved = steps
        .iter()
        .filter(|step| step.disposition == Disposition::Move);
    let moved = moved.map(|step| &found.nodes[step.at]);
    let moved: BTreeMap<&str, &Node> = moved.map(|node| (node.uid.as_str(), node)).collect();
    let mut warnings = Vec::new();
    for kind in others(&source.client, &source.kinds).await? {
        let api: Api<DynamicObject> =
            Api::namespaced_with(source.client.clone(), namespace, &kind.resource);
        // Without permission to list a kind, its objects cannot be reported.
        let Ok(list) = api.list_metadata(&ListParams::default()).await else {
            continue;
        };
        for one in list {
            let owners = one.owner_references().iter();
            let owner = owners.filter_map(|owner| moved.get(owner.uid.as_str()));
            if let Some(owner) = owner.into_iter().next() {
                let (kind, name) = (&kind.resource.kind, one.name_any());
                warnings.push(format!(
                    "{kind} {namespace}/{name} belongs to {owner}, and is not moved with it"
                ));
            }
        }
    }
    Ok(warnings)
}

/// Returns the namespaced kinds that are not moved. Events are left out: their loss does not
/// matter.
async fn others(client: &Client, moved: &[Kind]) -> Result<Vec<Kind>, Error> {
    let attempted = "find out which kinds the source has";
    let all = Discovery::new(client.clone()).run_aggregated().await;
    let all = all.map_err(Error::failed_to(attempted))?;
    let mut found = Vec::new();
    for (resource, can) in all.groups().flat_map(|group| group.recommended_resources()) {
        let goes = moved.iter().any(|kind| {
            kind.resource.group == resource.group && kind.resource.kind == resource.kind
        });
        let apart = matches!(
            (resource.group.as_str(), resource.kind.as_str()),
            (_, "Event") | ("", "Secret" | "ConfigMap")
        );
        if can.scope == Scope::Namespaced && can.supports_operation(verbs::LIST) && !goes && !apart
        {
            found.push(Kind {
                served: vec![resource.version.clone()],
                resource,
                namespaced: true,
                root: false,
            });
        }
    }
    found.sort_by(|one, other| one.resource.plural.cmp(&other.resource.plural));
    Ok(found)
}
