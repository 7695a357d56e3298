//! Objects that moved clusters use or own but that are not moved. They are reported, because an
//! administrator of the target has to provide them.

use std::collections::{BTreeMap, BTreeSet};

use insula_capi::relocation::{Movable, MoveRules, Shared, SharedKind, SharedObjects};
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, ResourceExt};

use crate::error::Error;
use crate::kind::Kind;
use crate::names::CAPI;
use crate::observe::Observed;
use crate::plan::{Disposition, Node, Step};
use crate::server::Server;

/// Returns a warning for each object that moved ones use, that is never moved, and that the target
/// lacks. One that only a shared object uses is reported with that object.
pub async fn missing_at_target(
    servers: (&Server, &Server),
    providers: &[&dyn MoveRules],
    found: &Observed,
    steps: &[Step],
) -> Result<Vec<String>, Error> {
    let mut warnings = Vec::new();
    for &rules in providers {
        let (mut here, mut there) = (SharedObjects::default(), SharedObjects::default());
        for &kind in rules.shared_kinds() {
            here.add(kind, listed(servers.0, kind).await?);
        }
        let users = users(rules, &here, found, steps);
        if users.is_empty() {
            continue;
        }
        for &kind in rules.shared_kinds() {
            there.add(kind, listed(servers.1, kind).await?);
        }
        for (user, used) in users {
            if there.find(&used).is_none() {
                let Shared { kind, name } = used;
                let kind = kind.kind;
                warnings.push(format!(
                    "{user} uses {kind} {name}, which is not at the target"
                ));
            }
        }
    }
    Ok(warnings)
}

/// Returns a warning for each Secret that moved objects use and that does not move with them, if
/// identities are left out.
pub fn secrets_not_copied(
    providers: &[&dyn MoveRules],
    found: &Observed,
    steps: &[Step],
) -> Vec<String> {
    let moved = || steps.iter().map(|step| &found.nodes[step.at]);
    let secrets = moved().filter(|node| node.is_secret());
    let mut seen: BTreeSet<String> = secrets.map(|node| node.name.clone()).collect();
    let mut warnings = Vec::new();
    for step in steps {
        let (node, object) = (&found.nodes[step.at], &found.objects[step.at].content);
        for name in providers
            .iter()
            .flat_map(|rules| rules.secrets(node.movable(object)))
        {
            if seen.insert(name.clone()) {
                warnings.push(format!(
                    "{node} needs Secret {name} at the target, which is not copied"
                ));
            }
        }
    }
    warnings
}

/// Returns each shared object that moved objects use, directly or through others, with its first
/// user. Objects of providers come first.
fn users(
    rules: &dyn MoveRules,
    shared: &SharedObjects,
    found: &Observed,
    steps: &[Step],
) -> Vec<(String, Shared)> {
    let moved = steps
        .iter()
        .filter(|step| step.disposition == Disposition::Move);
    let moved = moved.map(|step| (&found.nodes[step.at], &found.objects[step.at].content));
    let (last, first): (Vec<_>, Vec<_>) = moved.partition(|(node, _)| node.group == CAPI);
    let (mut users, mut seen) = (Vec::new(), BTreeSet::new());
    for (node, object) in first.into_iter().chain(last) {
        let used = rules.uses(node.movable(object), shared).into_iter();
        let mut open: Vec<(String, Shared)> = used.map(|used| (node.to_string(), used)).collect();
        open.reverse();
        while let Some((user, used)) = open.pop() {
            if !seen.insert(used.clone()) {
                continue;
            }
            if let Some(object) = shared.find(&used) {
                let SharedKind { group, kind } = used.kind;
                let movable = Movable {
                    group,
                    kind,
                    object,
                };
                let name = format!("{kind} {}", used.name);
                let more = rules.uses(movable, shared).into_iter().rev();
                open.extend(more.map(|used| (name.clone(), used)));
            }
            users.push((user, used));
        }
    }
    users
}

/// Lists all objects of a cluster-scoped kind; none if the server does not define the kind.
async fn listed(server: &Server, shared: SharedKind) -> Result<Vec<DynamicObject>, Error> {
    let is_it = |known: &&Kind| {
        let resource = &known.resource;
        !known.namespaced && resource.group == shared.group && resource.kind == shared.kind
    };
    let Some(kind) = server.kinds.iter().find(is_it) else {
        return Ok(Vec::new());
    };
    let attempted = format!("list {} at the {}", kind.resource.plural, server.role);
    let list = server.api(kind, None).list(&ListParams::default()).await;
    Ok(list.map_err(Error::failed_to(attempted))?.items)
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
                follows_clusters: false,
            });
        }
    }
    found.sort_by(|one, other| one.resource.plural.cmp(&other.resource.plural));
    Ok(found)
}
