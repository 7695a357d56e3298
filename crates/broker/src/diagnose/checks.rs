//! The checks, computed without I/O.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::snapshot::{Account, Member, Snapshot};
use super::{Check, Target};
use crate::cidr::Cidr;
use crate::error::Error;
use crate::globalnet::{Allocations, CLUSTERSET_IP_INFO, ClustersetIp, GLOBALNET_INFO, Globalnet};
use crate::names;

/// Performs all checks but the first two, in their order.
pub(super) fn all(snapshot: &Snapshot, target: &Target) -> Vec<Check> {
    let mut checks = vec![
        permissions(snapshot),
        kinds(snapshot),
        broker(snapshot, target),
        clusters(snapshot),
        endpoints(snapshot),
        globalnet(snapshot),
        clusterset_ips(snapshot),
        cluster_cidrs(snapshot),
        names(snapshot),
    ];
    checks.extend(snapshot.member.as_ref().map(|found| match found {
        Err(error) => Check::of_error("member", error),
        Ok(found) => member(found.as_ref(), snapshot, target),
    }));
    checks
}

fn permissions(snapshot: &Snapshot) -> Check {
    const NAME: &str = "permissions";
    match &snapshot.missing_permissions {
        Err(error) => Check::of_error(NAME, error),
        Ok(missing) if missing.is_empty() => Check::ok(NAME, "clusters can be joined and removed"),
        Ok(missing) => Check::failed(
            NAME,
            format!("missing permissions: {}", missing.join(", ")),
            format!(
                "the Role {} was changed: on a tenant's broker the operator repairs it, elsewhere `subctl deploy broker` does",
                names::ADMIN
            ),
        ),
    }
}

fn kinds(snapshot: &Snapshot) -> Check {
    const NAME: &str = "kinds";
    match &snapshot.missing_kinds {
        Err(error) => Check::of_error(NAME, error),
        Ok(missing) if missing.is_empty() => Check::ok(NAME, "all kinds are served"),
        Ok(missing) => Check::failed(
            NAME,
            format!("not served: {}", missing.join(", ")),
            "the offering admin runs `subctl deploy axon-cp`",
        ),
    }
}

/// The Broker and the ConfigMaps exist and say the same.
fn broker(snapshot: &Snapshot, target: &Target) -> Check {
    const NAME: &str = "broker";
    let read = || -> Result<Vec<String>, &Error> {
        let object = snapshot.broker.as_ref()?;
        let globalnet = snapshot.globalnet.as_ref()?;
        let clusterset_ips = snapshot.clusterset_ips.as_ref()?;
        let mut problems = Vec::new();
        for (what, is_there) in [
            (format!("Broker {}", names::BROKER), object.is_some()),
            (format!("ConfigMap {GLOBALNET_INFO}"), globalnet.is_some()),
            (
                format!("ConfigMap {CLUSTERSET_IP_INFO}"),
                clusterset_ips.is_some(),
            ),
        ] {
            if !is_there {
                problems.push(format!("there is no {what}"));
            }
        }
        if let (Some(object), Some(map)) = (object, globalnet) {
            problems.extend(globalnet_difference(object, map));
        }
        Ok(problems)
    };
    match read() {
        Err(error) => Check::of_error(NAME, error),
        Ok(problems) => Check::of_problems(
            NAME,
            &problems,
            format!("it is deployed in namespace {}", target.namespace),
            "run `subctl deploy broker`",
        ),
    }
}

/// Returns how the Broker differs from the ConfigMap that joins use.
fn globalnet_difference(broker: &DynamicObject, map: &ConfigMap) -> Option<String> {
    let in_force = Globalnet::read_unvalidated(map).ok()?;
    let shown = broker.data["spec"]["globalnetEnabled"] == Value::Bool(true);
    let word = |enabled| if enabled { "on" } else { "off" };
    (shown != in_force.enabled).then(|| {
        format!(
            "Globalnet is {} in the Broker and {} in ConfigMap {GLOBALNET_INFO}, which joins use",
            word(shown),
            word(in_force.enabled)
        )
    })
}

/// Every cluster with an account has published itself, and no other one has.
fn clusters(snapshot: &Snapshot) -> Check {
    const NAME: &str = "clusters";
    let (accounts, clusters) = match (&snapshot.accounts, &snapshot.clusters) {
        (Err(error), _) | (_, Err(error)) => return Check::of_error(NAME, error),
        (Ok(accounts), Ok(clusters)) => (accounts, clusters),
    };
    let joined: BTreeSet<&str> = accounts.iter().map(|it| it.cluster_id.as_str()).collect();
    let known: BTreeSet<&str> = clusters.iter().filter_map(cluster_id).collect();
    if let Some(problem) = sentence(&joined, &known, "joined and published nothing") {
        let hint = "is Submariner's operator running there? If such a cluster is gone, `subctl unjoin FILE --broker-only --clusterid ID` removes it";
        return Check::failed(NAME, problem, hint);
    }
    if let Some(problem) = sentence(&known, &joined, "published a Cluster but did not join") {
        let hint = "if such a cluster is gone, `subctl unjoin FILE --broker-only --clusterid ID` removes it";
        return Check::failed(NAME, problem, hint);
    }
    Check::ok(
        NAME,
        match joined.is_empty() {
            true => "no cluster has joined".to_owned(),
            false => format!("known: {}", listed(&joined)),
        },
    )
}

/// Every known cluster has an endpoint, and every endpoint a known cluster.
fn endpoints(snapshot: &Snapshot) -> Check {
    const NAME: &str = "endpoints";
    let (clusters, endpoints) = match (&snapshot.clusters, &snapshot.endpoints) {
        (Err(error), _) | (_, Err(error)) => return Check::of_error(NAME, error),
        (Ok(clusters), Ok(endpoints)) => (clusters, endpoints),
    };
    let known: BTreeSet<&str> = clusters.iter().filter_map(cluster_id).collect();
    let reachable: BTreeSet<&str> = endpoints.iter().filter_map(cluster_id).collect();
    if let Some(problem) = sentence(&known, &reachable, "has no endpoint") {
        return Check::failed(NAME, problem, "is there a gateway node in that cluster?");
    }
    if let Some(problem) = sentence(&reachable, &known, "has an endpoint but no Cluster") {
        let hint = "if such a cluster is gone, `subctl unjoin FILE --broker-only --clusterid ID` removes it";
        return Check::failed(NAME, problem, hint);
    }
    Check::ok(NAME, format!("known: {}", endpoints.len()))
}

/// The global addresses of clusters do not overlap and are those that clusters use.
fn globalnet(snapshot: &Snapshot) -> Check {
    const NAME: &str = "globalnet";
    let (map, clusters) = match (&snapshot.globalnet, &snapshot.clusters) {
        (Err(error), _) | (_, Err(error)) => return Check::of_error(NAME, error),
        (Ok(None), _) => return Check::skipped(NAME, "broker"),
        (Ok(Some(map)), Ok(clusters)) => (map, clusters),
    };
    let settings = match Globalnet::read_unvalidated(map) {
        Ok(settings) if !settings.enabled => return Check::ok(NAME, "off"),
        Ok(settings) => settings,
        Err(error) => return Check::of_error(NAME, &error),
    };
    let allocations = match Allocations::read(map) {
        Ok(allocations) => allocations,
        Err(error) => return Check::of_error(NAME, &error),
    };
    let mut problems = overlaps(&ranges(&allocations));
    for cluster in clusters {
        let (Some(id), used) = (cluster_id(cluster), texts(cluster, "global_cidr")) else {
            continue;
        };
        let allocated = allocations.of(id);
        if let (Some(used), Some(allocated)) = (used.first(), allocated)
            && *used != allocated
        {
            problems.push(format!("{id} uses {used}, but was allocated {allocated}"));
        }
    }
    Check::of_problems(
        NAME,
        &problems,
        format!(
            "on, {}; {} clusters have addresses",
            settings.range,
            allocations.clusters.len()
        ),
        "one of the clusters has to leave with `subctl unjoin`, and to join again",
    )
}

/// The ClusterSet IPs of clusters do not overlap.
fn clusterset_ips(snapshot: &Snapshot) -> Check {
    const NAME: &str = "clusterset-ips";
    let map = match &snapshot.clusterset_ips {
        Err(error) => return Check::of_error(NAME, error),
        Ok(None) => return Check::skipped(NAME, "broker"),
        Ok(Some(map)) => map,
    };
    let read = ClustersetIp::read(map).and_then(|settings| {
        let allocations = Allocations::read(map)?;
        Ok((settings, allocations))
    });
    match read {
        Err(error) => Check::of_error(NAME, &error),
        Ok((settings, allocations)) => Check::of_problems(
            NAME,
            &overlaps(&ranges(&allocations)),
            format!(
                "{}; {} clusters have addresses",
                settings.range,
                allocations.clusters.len()
            ),
            "one of the clusters has to leave with `subctl unjoin`, and to join again",
        ),
    }
}

/// Without global addresses, pods and services of clusters do not overlap.
fn cluster_cidrs(snapshot: &Snapshot) -> Check {
    const NAME: &str = "cluster-cidrs";
    let (map, clusters) = match (&snapshot.globalnet, &snapshot.clusters) {
        (Err(error), _) | (_, Err(error)) => return Check::of_error(NAME, error),
        (Ok(map), Ok(clusters)) => (map, clusters),
    };
    let settings = map.as_ref().map(Globalnet::read_unvalidated);
    if settings.is_some_and(|settings| settings.is_ok_and(|settings| settings.enabled)) {
        return Check::ok(NAME, "Globalnet is on: they may overlap");
    }
    let mut all = Vec::new();
    for cluster in clusters {
        let Some(id) = cluster_id(cluster) else {
            continue;
        };
        for field in ["cluster_cidr", "service_cidr"] {
            let texts = texts(cluster, field).into_iter();
            all.extend(texts.map(|text| (id.to_owned(), text.to_owned())));
        }
    }
    Check::of_problems(
        NAME,
        &overlaps(&all),
        "none overlap",
        "clusters with overlapping addresses need a broker with --globalnet",
    )
}

/// No two clusters share an ID, no cluster has two, and no service is in conflict.
fn names(snapshot: &Snapshot) -> Check {
    const NAME: &str = "names";
    let read = || -> Result<Vec<String>, &Error> {
        let mut problems = duplicate_accounts(snapshot.accounts.as_ref()?);
        problems.extend(cluster_names(snapshot.clusters.as_ref()?));
        problems.extend(conflicts(snapshot.services.as_ref()?));
        Ok(problems)
    };
    match read() {
        Err(error) => Check::of_error(NAME, error),
        Ok(problems) => Check::of_problems(
            NAME,
            &problems,
            "there are no conflicts",
            "rename one of them, or remove a cluster with `subctl unjoin`",
        ),
    }
}

fn duplicate_accounts(accounts: &[Account]) -> Vec<String> {
    let mut ids = BTreeMap::<&str, BTreeSet<&str>>::new();
    for account in accounts {
        if let Some(uid) = &account.cluster_uid {
            ids.entry(uid).or_default().insert(&account.cluster_id);
        }
    }
    ids.retain(|_, ids| ids.len() > 1);
    let several = ids.values();
    several
        .map(|ids| format!("one cluster has joined as {}", listed(ids)))
        .collect()
}

fn cluster_names(clusters: &[DynamicObject]) -> Vec<String> {
    let odd = clusters.iter().filter_map(|cluster| {
        let (name, id) = (cluster.name_any(), cluster_id(cluster)?);
        (name != id).then(|| format!("Cluster {name} has the ID {id}"))
    });
    odd.collect()
}

/// Returns the services with exports that contradict each other, as Submariner says.
fn conflicts(services: &[DynamicObject]) -> Vec<String> {
    let in_conflict = services.iter().filter(|service| {
        let conditions = service.data["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            let kind = condition["type"].as_str().unwrap_or_default();
            kind.ends_with("Conflict") && condition["status"] == "True"
        })
    });
    let names = in_conflict.map(|service| {
        let kind = service.types.as_ref().map(|types| types.kind.as_str());
        format!(
            "{} {} is in conflict",
            kind.unwrap_or("service"),
            service.name_any()
        )
    });
    names.collect()
}

/// The cluster of the context is a member, with a token that is still valid.
fn member(found: Option<&Member>, snapshot: &Snapshot, target: &Target) -> Check {
    const NAME: &str = "member";
    let Some(member) = found else {
        let hint = "use its context, or `subctl join` it";
        return Check::failed(NAME, "the cluster of the context has not joined", hint);
    };
    let id = &member.cluster_id;
    if member.namespace != target.namespace {
        return Check::failed(
            NAME,
            format!(
                "it has joined as {id}, through namespace {}",
                member.namespace
            ),
            "use the broker-info file of that ClusterSet",
        );
    }
    let accounts = match &snapshot.accounts {
        Err(error) => return Check::of_error(NAME, error),
        Ok(accounts) => accounts,
    };
    let account = accounts.iter().find(|account| account.cluster_id == *id);
    match account {
        None => Check::failed(
            NAME,
            format!("the broker has no service account for {id}"),
            "`subctl join` it again",
        ),
        Some(account) if account.uid != member.account => Check::failed(
            NAME,
            format!("its token is not that of service account cluster-{id} at this broker"),
            "`subctl join` it again",
        ),
        Some(_) if !member.is_same_server => Check::ok(
            NAME,
            format!("it has joined as {id}, through {}", member.server),
        ),
        Some(_) => Check::ok(NAME, format!("it has joined as {id}")),
    }
}

fn cluster_id(object: &DynamicObject) -> Option<&str> {
    object.data["spec"]["cluster_id"].as_str()
}

fn texts<'a>(object: &'a DynamicObject, field: &str) -> Vec<&'a str> {
    let texts = object.data["spec"][field].as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).collect()
}

/// Returns the ranges with their clusters.
fn ranges(allocations: &Allocations) -> Vec<(String, String)> {
    let entries = allocations.clusters.iter().flat_map(|entry| {
        let ranges = entry.global_cidr.iter();
        ranges.map(|range| (entry.cluster_id.clone(), range.clone()))
    });
    entries.collect()
}

/// Returns a sentence for every two ranges of different clusters that overlap, and for every
/// invalid range.
fn overlaps(ranges: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut read: Vec<(&str, Cidr)> = Vec::new();
    for (cluster, text) in ranges {
        let Ok(range) = text.parse::<Cidr>() else {
            problems.push(format!("{text:?} of {cluster} is not a range"));
            continue;
        };
        let clashes = read
            .iter()
            .filter(|(other, taken)| other != cluster && taken.overlaps(&range));
        problems.extend(
            clashes
                .map(|(other, taken)| format!("{range} of {cluster} overlaps {taken} of {other}")),
        );
        read.push((cluster, range));
    }
    problems
}

/// Returns a sentence about those that are in one set and not in the other.
fn sentence(all: &BTreeSet<&str>, others: &BTreeSet<&str>, what: &str) -> Option<String> {
    let missing: BTreeSet<&str> = all.difference(others).copied().collect();
    (!missing.is_empty()).then(|| format!("{what}: {}", listed(&missing)))
}

fn listed(names: &BTreeSet<&str>) -> String {
    let names: Vec<&str> = names.iter().copied().collect();
    names.join(", ")
}
