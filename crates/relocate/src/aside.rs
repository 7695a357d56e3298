//! What moved clusters rely on or own, and is not moved: it is told, because somebody has to
//! see to it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{Selector, SelectorExt};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};

use crate::end::End;
use crate::error::Error;
use crate::kind::Kind;
use crate::observe::Found;
use crate::plan::{Fate, Node, Step};

const ZONE: &str = "VSphereDeploymentZone";
const DOMAIN: &str = "VSphereFailureDomain";

/// The zones that moved clusters and machines use, and what these are made from, as far as the
/// target does not have them. They are for all namespaces, and may be looked at with an
/// identity that is none of the cluster's: whoever keeps the target decides on them.
pub async fn zones(
    ends: (&End, &End),
    found: &Found,
    steps: &[Step],
) -> Result<Vec<String>, Error> {
    let users = users(found, steps);
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let here = listed(ends.0, ZONE).await?;
    let there = names(&listed(ends.1, ZONE).await?);
    let domains = names(&listed(ends.1, DOMAIN).await?);
    let (mut told, mut seen) = (Vec::new(), BTreeSet::new());
    for (node, used) in users {
        for zone in here.iter().filter(|zone| used.is(zone)) {
            let name = zone.name_any();
            if !seen.insert(name.clone()) {
                continue;
            }
            if !there.contains(&name) {
                told.push(lacks(node, ZONE, &name));
            }
            let domain = zone.data["spec"]["failureDomain"].as_str();
            if let Some(domain) = domain.filter(|&domain| !domains.contains(domain)) {
                told.push(lacks(&format!("{ZONE} {name}"), DOMAIN, domain));
            }
        }
    }
    Ok(told)
}

/// Which zones somebody uses.
enum Used {
    /// All of a server that have these labels.
    Selected { server: String, selector: Selector },
    /// One.
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

/// Who uses zones; clusters come before machines.
fn users<'a>(found: &'a Found, steps: &[Step]) -> Vec<(&'a Node, Used)> {
    let (mut clusters, mut machines) = (Vec::new(), Vec::new());
    for step in steps.iter().filter(|step| step.fate == Fate::Move) {
        let node = &found.nodes[step.at];
        let spec = &found.objects[step.at].content.data["spec"];
        let selector = spec["failureDomainSelector"].clone();
        // One that cannot be read selects nothing at either end.
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

/// All of a kind that is in no namespace, if there is such a kind.
async fn listed(end: &End, kind: &str) -> Result<Vec<DynamicObject>, Error> {
    let is_it = |known: &&Kind| !known.namespaced && known.resource.kind == kind;
    let Some(kind) = end.kinds.iter().find(is_it) else {
        return Ok(Vec::new());
    };
    let attempted = format!("list {} at the {}", kind.resource.plural, end.place);
    let list = end.api(kind, None).list(&ListParams::default()).await;
    Ok(list.map_err(Error::when(attempted))?.items)
}

fn names(objects: &[DynamicObject]) -> BTreeSet<String> {
    objects.iter().map(ResourceExt::name_any).collect()
}

fn lacks(who: &impl std::fmt::Display, kind: &str, name: &str) -> String {
    format!("{who} uses {kind} {name}, which is not at the target")
}

/// What belongs to what is moved, and is of a kind that is not: it is collected at the source.
pub async fn left_behind(
    source: &End,
    namespace: &str,
    found: &Found,
    steps: &[Step],
) -> Result<Vec<String>, Error> {
    let moved = steps.iter().filter(|step| step.fate == Fate::Move);
    let moved = moved.map(|step| &found.nodes[step.at]);
    let moved: BTreeMap<&str, &Node> = moved.map(|node| (node.uid.as_str(), node)).collect();
    let mut told = Vec::new();
    for kind in others(&source.client, &source.kinds).await? {
        let api: Api<DynamicObject> =
            Api::namespaced_with(source.client.clone(), namespace, &kind.resource);
        // Who may not see them cannot say more.
        let Ok(list) = api.list_metadata(&ListParams::default()).await else {
            continue;
        };
        for one in list {
            let owners = one.owner_references().iter();
            let owner = owners.filter_map(|owner| moved.get(owner.uid.as_str()));
            if let Some(owner) = owner.into_iter().next() {
                let (kind, name) = (&kind.resource.kind, one.name_any());
                told.push(format!(
                    "{kind} {namespace}/{name} belongs to {owner}, and is not moved with it"
                ));
            }
        }
    }
    Ok(told)
}

/// The kinds in namespaces that are not moved. Events are no loss to anybody.
async fn others(client: &Client, moved: &[Kind]) -> Result<Vec<Kind>, Error> {
    let attempted = "find out which kinds the source has";
    let all = Discovery::new(client.clone()).run_aggregated().await;
    let all = all.map_err(Error::when(attempted))?;
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
