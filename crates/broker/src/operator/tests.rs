//! Tests of plans and statuses, without I/O.

mod administrators;
mod deletion;
mod problems;
mod quota;
mod repairs;
mod status;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_operator::retry::Class;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    NamespaceCondition, NamespaceStatus, ResourceQuota, ResourceQuotaStatus, Secret,
};
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde_json::{Value, json};

use super::desired::Desired;
use super::observe::{NamespaceContents, Observed};
use super::plan::{DeletionProgress, Plan, State, plan};
use super::problem::Problem;
use super::remove;
use super::status::desired_status;
use crate::error::Error;
use crate::names::{InvalidTenantId, TENANT_LABEL, TenantId};
use crate::tenant::{Isolation, Phase, Tenant, TenantSpec, TenantStatus};

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn id() -> TenantId {
    "acme".parse().unwrap()
}

fn tenant(spec: TenantSpec) -> Tenant {
    let mut tenant = Tenant::new("acme", spec);
    tenant.metadata.uid = Some("u-1".to_owned());
    tenant.metadata.generation = Some(3);
    tenant
}

fn with_space() -> Tenant {
    tenant(TenantSpec {
        isolation: Some(Isolation::Space),
        ..TenantSpec::default()
    })
}

fn deleting(mut tenant: Tenant, since: i64) -> Tenant {
    tenant.metadata.deletion_timestamp = Some(Time(at(since)));
    tenant
}

/// Adds the metadata that the server sets.
fn made<K: Resource>(mut object: K, uid: &str) -> K {
    object.meta_mut().uid = Some(uid.to_owned());
    object.meta_mut().creation_timestamp = Some(Time(at(NOW)));
    object
}

/// The data that the token controller writes into a Secret.
fn filled(prefix: &str, uid: &str) -> BTreeMap<String, ByteString> {
    let claims = json!({
        "sub": format!("{prefix}:submariner-k8s-broker-admin"),
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "kubernetes.io/serviceaccount/secret.name": "submariner-k8s-broker-admin-token",
    });
    let jwt = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let data = [("token", jwt), ("namespace", NAMESPACE.to_owned())];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
    data.into()
}

/// Adds the counts that the server keeps.
fn counted(mut quota: ResourceQuota) -> ResourceQuota {
    let used = [("count/secrets".to_owned(), Quantity("1".to_owned()))];
    quota.status = Some(ResourceQuotaStatus {
        used: Some(used.into()),
        ..ResourceQuotaStatus::default()
    });
    quota
}

/// All objects in their desired state.
fn whole(desired: Desired<'_>) -> Observed {
    let mut token = made(desired.token(), "token");
    let annotations = token.metadata.annotations.get_or_insert_default();
    annotations.insert(
        "kubernetes.io/service-account.uid".to_owned(),
        "account".to_owned(),
    );
    token.data = Some(filled(
        "system:serviceaccount:submariner-broker-acme",
        "account",
    ));
    Observed {
        spaces_served: true,
        space: Some(made(desired.space(), "space")),
        definitions: Vec::new(),
        namespace: Some(made(desired.namespace(), "namespace")),
        contents: NamespaceContents {
            account: Some(made(desired.account(), "account")),
            admin_role: Some(made(desired.admin_role(), "role")),
            admin_binding: Some(made(desired.admin_binding(), "binding")),
            cluster_role: Some(made(desired.cluster_role(), "cluster")),
            token: Some(token),
            quota: Some(counted(made(desired.quota(), "quota"))),
            offering_role: None,
            offering_binding: None,
        },
        offering: None,
    }
}

/// Returns the plan when all objects are as desired but for this change.
fn planned(tenant: &Tenant, but: impl FnOnce(&mut Observed)) -> (State, Vec<String>) {
    let id = id();
    let desired = Desired { tenant, id: &id };
    let mut observed = whole(desired);
    but(&mut observed);
    let Plan { state, actions } = plan(desired, &observed, at(NOW));
    (state, actions.iter().map(ToString::to_string).collect())
}

fn removal(tenant: &Tenant, but: impl FnOnce(&mut Observed)) -> (State, Vec<String>) {
    let id = id();
    let desired = Desired { tenant, id: &id };
    let mut observed = whole(desired);
    but(&mut observed);
    let Plan { state, actions } = remove::plan(desired, &observed, at(NOW));
    (state, actions.iter().map(ToString::to_string).collect())
}

const NOTHING: [&str; 0] = [];
const NAMESPACE: &str = "submariner-broker-acme";

/// Removes the namespace and its contents.
fn no_namespace(observed: &mut Observed) {
    observed.namespace = None;
    observed.contents = NamespaceContents::default();
}

fn subject(kind: &str, name: &str) -> Subject {
    Subject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..Subject::default()
    }
}

fn concluded(tenant: &mut Tenant, state: &State, now: i64) -> Option<Value> {
    let id = id();
    let desired = Desired { tenant, id: &id };
    let status = desired_status(desired, state, at(now))?;
    tenant.status = Some(status.clone());
    Some(serde_json::to_value(status).unwrap())
}
