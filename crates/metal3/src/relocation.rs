//! The rules for moves of clusters to another API server.
//!
//! Hosts next to the machines move with them, and so does everything that gives out indexes and
//! addresses: at two servers, it would give them out twice. Hosts that a kubeconfig reaches stay
//! where they are; the kubeconfig is copied.

use std::collections::BTreeMap;
use std::net::IpAddr;

use insula_capi::relocation::{Movable, MoveRules, Needed, Sharing, Unsuitable};
use insula_identity::credential::Hidden;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::hosts::consumer::annotated_host;
use crate::hosts::pause::{lacks_status_copy, status_copy};
use crate::inspect::Metal3;
use crate::kinds::IdentityReference;
use crate::kinds::host::{BareMetalHost, ProvisioningState};
use crate::kubeconfig::Kubeconfig;
use crate::names::{
    CAPI_IPAM_GROUP, CLAIM_DIGEST, GROUP, HOST_ANNOTATION, HOST_GROUP, HOST_PAUSED, HOST_STATUS,
    IDENTITY_ANNOTATION, IPAM_GROUP, PAUSED,
};

const HOST: (&str, &str) = (HOST_GROUP, "BareMetalHost");
const HARDWARE: (&str, &str) = (HOST_GROUP, "HardwareData");
const POOL: (&str, &str) = (IPAM_GROUP, "IPPool");
const DATA_TEMPLATE: (&str, &str) = (GROUP, "Metal3DataTemplate");
const REMEDIATION_TEMPLATE: (&str, &str) = (GROUP, "Metal3RemediationTemplate");
const HEALTH_CHECK: (&str, &str) = ("cluster.x-k8s.io", "MachineHealthCheck");

impl MoveRules for Metal3 {
    fn kinds(&self) -> &'static [(&'static str, &'static str)] {
        &[
            HOST,
            HARDWARE,
            POOL,
            (IPAM_GROUP, "IPClaim"),
            (IPAM_GROUP, "IPAddress"),
            DATA_TEMPLATE,
            REMEDIATION_TEMPLATE,
        ]
    }

    fn obstacle(&self, object: Movable<'_>) -> Option<&'static str> {
        match (object.group, object.kind) {
            (GROUP, "Metal3Machine") => machine_obstacle(object),
            HOST => host_obstacle(object),
            _ => None,
        }
    }

    fn secrets(&self, object: Movable<'_>) -> Vec<String> {
        let identity = identity(object).map(|identity| identity.name);
        let spec = match object.kind {
            _ if object.group != GROUP => return Vec::new(),
            "Metal3MachineTemplate" => &object.object.data["spec"]["template"]["spec"],
            _ => &object.object.data["spec"],
        };
        let data = ["userData", "metaData", "networkData"].map(|field| &spec[field]["name"]);
        // The Secrets of rendered data belong to it.
        let data = data.into_iter().filter(|_| object.kind != "Metal3Data");
        let data = data.filter_map(|name| Some(name.as_str()?.to_owned()));
        identity.into_iter().chain(data).collect()
    }

    fn unsuitable_secret(&self, object: Movable<'_>, secret: &Secret) -> Option<Unsuitable> {
        let identity = identity(object).filter(|identity| identity.name == secret.name_any())?;
        let data = secret.data.iter().flatten();
        let data = data.map(|(key, value)| (key.clone(), Hidden::new(value.0.clone())));
        let data: BTreeMap<String, Hidden> = data.collect();
        // A kubeconfig that cannot be used is no worse at the target.
        let access = Kubeconfig::ANY_IF_ASKED.access(&data, identity.context.as_deref());
        let access = access.ok()?;
        unsuitable(access.server.endpoint.host())
    }

    fn needs(&self, object: Movable<'_>) -> Vec<Needed> {
        let spec = &object.object.data["spec"];
        let named = |(group, kind), name: &Value, sharing| {
            let name = name.as_str().filter(|name| !name.is_empty());
            name.map(|name| Needed {
                group,
                kind,
                name: name.to_owned(),
                sharing,
            })
        };
        let secret = |name: &Value| named(("", "Secret"), name, Sharing::Copied);
        let needed = match (object.group, object.kind) {
            (GROUP, "Metal3Machine") => {
                vec![named(HOST, &json!(own_host(object)), Sharing::Refused)]
            }
            (GROUP, "Metal3DataClaim") => {
                let template = &spec["template"]["name"];
                vec![named(DATA_TEMPLATE, template, Sharing::Refused)]
            }
            (GROUP, "Metal3MachineTemplate") => {
                let template = &spec["template"]["spec"]["dataTemplate"]["name"];
                vec![named(DATA_TEMPLATE, template, Sharing::Refused)]
            }
            (CAPI_IPAM_GROUP, "IPAddressClaim") if spec["poolRef"]["apiGroup"] == IPAM_GROUP => {
                vec![named(POOL, &spec["poolRef"]["name"], Sharing::Refused)]
            }
            HEALTH_CHECK => {
                // In `v1beta2` and in `v1beta1` of Cluster API.
                let references = [
                    &spec["remediation"]["templateRef"],
                    &spec["remediationTemplate"],
                ];
                let own = references
                    .into_iter()
                    .filter(|it| it["kind"] == REMEDIATION_TEMPLATE.1);
                // It gives out nothing, so it may be at both servers.
                own.map(|it| named(REMEDIATION_TEMPLATE, &it["name"], Sharing::Copied))
                    .collect()
            }
            (IPAM_GROUP, "IPClaim") => vec![named(POOL, &spec["pool"]["name"], Sharing::Refused)],
            HOST => vec![
                named(HARDWARE, &json!(object.object.name_any()), Sharing::Refused),
                secret(&spec["bmc"]["credentialsName"]),
                secret(&spec["preprovisioningNetworkDataName"]),
                secret(&spec["userData"]["name"]),
                secret(&spec["metaData"]["name"]),
                secret(&spec["networkData"]["name"]),
            ],
            _ => Vec::new(),
        };
        needed.into_iter().flatten().collect()
    }

    fn stays(&self, object: Movable<'_>) -> bool {
        if (object.group, object.kind) != HOST {
            return false;
        }
        let consumer = &object.object.data["spec"]["consumerRef"]["namespace"];
        let own = object.object.metadata.namespace.as_deref();
        let is_elsewhere = consumer.is_string() && consumer.as_str() != own;
        is_elsewhere || object.object.annotations().contains_key(CLAIM_DIGEST)
    }

    fn hold(&self, object: Movable<'_>, mark: &str) -> Option<Value> {
        let name = pause_annotation(object)?;
        let mut annotations = json!({});
        if !object.object.annotations().contains_key(name) {
            annotations[name] = mark.into();
        }
        if let Some(host) = host(object).filter(lacks_status_copy) {
            let status = host.status.as_ref().map(status_copy);
            annotations[HOST_STATUS] = status.into();
        }
        let is_empty = annotations
            .as_object()
            .is_none_or(serde_json::Map::is_empty);
        (!is_empty).then(|| json!({"metadata": {"annotations": annotations}}))
    }

    fn resume(&self, object: Movable<'_>, mark: &str) -> Option<Value> {
        let name = pause_annotation(object)?;
        let value = object.object.annotations().get(name)?;
        let patch = || json!({"metadata": {"annotations": {name: null}}});
        (value == mark).then(patch)
    }
}

/// Returns the annotation that makes the controllers of an object leave it alone, if the pause of
/// a cluster does not.
fn pause_annotation(object: Movable<'_>) -> Option<&'static str> {
    match (object.group, object.kind) {
        HOST => Some(HOST_PAUSED),
        POOL | DATA_TEMPLATE => Some(PAUSED),
        _ => None,
    }
}

fn host(object: Movable<'_>) -> Option<BareMetalHost> {
    let is_host = (object.group, object.kind) == HOST;
    is_host.then(|| object.object.clone().try_parse().ok())?
}

/// Returns the reference to a kubeconfig that an object has, or that it was written with.
fn identity(object: Movable<'_>) -> Option<IdentityReference> {
    let spec = &object.object.data["spec"];
    let reference = match (object.group, object.kind) {
        (GROUP, "Metal3Cluster" | "Metal3Machine") => spec["identityRef"].clone(),
        (GROUP, "Metal3ClusterTemplate" | "Metal3MachineTemplate") => {
            spec["template"]["spec"]["identityRef"].clone()
        }
        (GROUP, "Metal3Data") => {
            let text = object.object.annotations().get(IDENTITY_ANNOTATION)?;
            return serde_json::from_str(text).ok();
        }
        _ => return None,
    };
    serde_json::from_value(reference).ok()
}

/// Returns the host of a machine that moves with it.
fn own_host(object: Movable<'_>) -> Option<&str> {
    let annotation = object.object.annotations().get(HOST_ANNOTATION)?;
    let namespace = object.object.metadata.namespace.as_deref()?;
    match identity(object) {
        Some(_) => None,
        None => annotated_host(annotation, namespace).ok(),
    }
}

/// A host of another namespace stays at the source, where only a kubeconfig leads.
fn machine_obstacle(object: Movable<'_>) -> Option<&'static str> {
    let has_host = object.object.annotations().contains_key(HOST_ANNOTATION);
    let is_lost = has_host && identity(object).is_none() && own_host(object).is_none();
    is_lost.then_some(
        "has a host in another namespace, which is not moved, and no spec.identityRef: create a \
         Secret with a kubeconfig for the hosts that works from the target, and name it there",
    )
}

/// The Bare Metal Operator of the target would not know what to continue.
fn host_obstacle(object: Movable<'_>) -> Option<&'static str> {
    match host(object)?.state() {
        ProvisioningState::Provisioning => Some("is being provisioned"),
        ProvisioningState::Deprovisioning => Some("is being deprovisioned"),
        _ => None,
    }
}

/// Returns what is wrong with the host of a URL that was meant for clients of the source.
fn unsuitable(host: &str) -> Option<Unsuitable> {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    if name == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        let text = format!("names the server {host}, which is the machine of the operator itself");
        return Some(Unsuitable::Doubtful(text));
    }
    let is_service = name.ends_with(".svc")
        || name.contains(".svc.")
        || matches!(name.as_str(), "kubernetes" | "kubernetes.default");
    is_service.then(|| {
        Unsuitable::Refused(format!(
            "names the server {host}, which is another one at the target: write an address into \
             it that works from there, or create a Secret of this name there first"
        ))
    })
}

#[cfg(test)]
mod tests;
