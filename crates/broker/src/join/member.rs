//! The objects on a member cluster: the broker's address and the credentials for it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value};

use super::addresses::Addresses;
use super::settings::JoinSettings;
use super::spec;
use crate::error::Error;
use crate::manifests::{self, metadata};
use crate::names::{self, BROKER_SECRET, OPERATOR_NAMESPACE, SERVICE_DISCOVERY, SUBMARINER};
use crate::token::{self, Claims};
use crate::{connect, lookup};

/// The namespace whose UID identifies a cluster: every cluster has one.
const IDENTITY_NAMESPACE: &str = "kube-system";
/// The annotation on a namespace that was created for the join, which `unjoin` deletes again.
pub(crate) const CREATED_BY: (&str, &str) = ("axon.submariner.io/created-by", "subctl-join");
/// The maximum number of attempts on write conflicts.
const MAX_ATTEMPTS: usize = 8;

/// The membership of a cluster, as recorded on the cluster.
pub(crate) struct Membership {
    /// The spec of its `Submariner` or `ServiceDiscovery` object.
    pub(crate) spec: Map<String, Value>,
}

impl Membership {
    /// Returns a field of the spec, if it is not empty.
    pub(crate) fn field(&self, field: &str) -> Option<&str> {
        let text = self.spec.get(field)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }
}

/// Returns the UID that identifies a cluster, if the caller may read it.
pub(crate) async fn cluster_uid(joining: &Client) -> Result<Option<String>, Error> {
    let namespaces: Api<Namespace> = Api::all(joining.clone());
    match namespaces.get_opt(IDENTITY_NAMESPACE).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(None),
        found => {
            let found = found.map_err(Error::when("use the cluster of the context"))?;
            Ok(found.and_then(|namespace| namespace.uid()))
        }
    }
}

/// Returns the membership of a cluster, if it has joined.
pub(crate) async fn membership(joining: &Client) -> Result<Option<Membership>, Error> {
    for (kind, name) in [
        (submariner(), SUBMARINER),
        (service_discovery(), SERVICE_DISCOVERY),
    ] {
        let objects: Api<DynamicObject> =
            Api::namespaced_with(joining.clone(), OPERATOR_NAMESPACE, &kind);
        let found = lookup::get(&objects, name).await;
        let found = found.map_err(Error::when("see whether the cluster has joined"))?;
        if let Some(found) = found {
            let spec = spec_of(&found);
            return Ok(Some(Membership { spec }));
        }
    }
    Ok(None)
}

/// The relation of a cluster to the ClusterSet that it is to join.
pub(super) enum MembershipState {
    /// It is not a member of any ClusterSet.
    NotJoined,
    /// It is a member of this one: same server, namespace and ID.
    Member,
    /// It has the same namespace and ID, but another server, which is either another address
    /// of the same broker or another broker.
    Elsewhere {
        /// The server it joined through.
        server: String,
        /// The UID of its service account there, if known.
        account: Option<String>,
    },
}

/// Returns the relation of the cluster to this ClusterSet; fails if it is a member through
/// another namespace or under another ID.
pub(super) async fn membership_state(
    joining: &Client,
    settings: &JoinSettings,
) -> Result<MembershipState, Error> {
    let Some(membership) = membership(joining).await? else {
        return Ok(MembershipState::NotJoined);
    };
    let (id, namespace) = (settings.cluster_id.as_str(), &settings.info.namespace);
    let joined_id = membership.field("clusterID").unwrap_or(id);
    let joined_namespace = membership
        .field("brokerK8sRemoteNamespace")
        .unwrap_or(namespace);
    if joined_id != id || joined_namespace != namespace {
        return Err(Error::JoinedAlready {
            cluster_id: joined_id.to_owned(),
            namespace: joined_namespace.to_owned(),
        });
    }
    match membership.field("brokerK8sApiServer") {
        // Without an address there is no contradiction.
        None => Ok(MembershipState::Member),
        Some(server) if is_same(server, &settings.info.url) => Ok(MembershipState::Member),
        Some(server) => Ok(MembershipState::Elsewhere {
            server: server.to_owned(),
            account: own_account(joining, &membership).await?,
        }),
    }
}

/// Returns whether two texts name the same server, default port and scheme considered.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    match (connect::url(one), connect::url(other)) {
        (Ok(one), Ok(other)) => connect::is_same_api(&one, &other),
        _ => spec::without_scheme(one) == spec::without_scheme(other),
    }
}

/// Returns the UID of the cluster's service account at its broker, from its token.
pub(crate) async fn own_account(
    joining: &Client,
    membership: &Membership,
) -> Result<Option<String>, Error> {
    if let Some(token) = membership.field("brokerK8sApiServerToken") {
        return Ok(Claims::of(token.as_bytes()).map(|claims| claims.uid));
    }
    let secrets: Api<Secret> = Api::namespaced(joining.clone(), OPERATOR_NAMESPACE);
    let found = secrets.get_opt(BROKER_SECRET).await;
    let found = found.map_err(Error::when(format!("read Secret {BROKER_SECRET}")))?;
    let claims = found.as_ref().and_then(token::of).and_then(Claims::of);
    Ok(claims.map(|claims| claims.uid))
}

/// Ensures that the operator's namespace exists.
pub(super) async fn ensure_namespace(joining: &Client) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(joining.clone());
    let failed = || Error::when(format!("create namespace {OPERATOR_NAMESPACE}"));
    if namespaces
        .get_opt(OPERATOR_NAMESPACE)
        .await
        .map_err(failed())?
        .is_some()
    {
        return Ok(());
    }
    let mut wanted = manifests::namespace(metadata(OPERATOR_NAMESPACE, None));
    let (key, value) = CREATED_BY;
    wanted
        .annotations_mut()
        .insert(key.to_owned(), value.to_owned());
    match namespaces.create(&PostParams::default(), &wanted).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(failed()),
    }
}

/// Stores what the operator needs; the object that it acts upon comes last.
pub(super) async fn store(
    joining: &Client,
    settings: &JoinSettings,
    account: &Secret,
    addresses: &Addresses,
) -> Result<(), Error> {
    let secrets: Api<Secret> = Api::namespaced(joining.clone(), OPERATOR_NAMESPACE);
    let token = token::for_distribution(account.clone())
        .data
        .unwrap_or_default();
    store_secret(&secrets, BROKER_SECRET, token).await?;
    if let Some(psk) = settings.info.psk() {
        let psk = ByteString(psk.to_vec());
        let psk = BTreeMap::from([(crate::psk::KEY.to_owned(), psk)]);
        store_secret(&secrets, names::PSK, psk).await?;
    }
    let (kind, name) = match settings.has_connectivity() {
        true => (submariner(), SUBMARINER),
        false => (service_discovery(), SERVICE_DISCOVERY),
    };
    let amend = |spec: &mut _| spec::apply(spec, settings, account, addresses);
    store_object(joining, &kind, name, amend).await
}

/// Ensures that a Secret has this data.
async fn store_secret(
    secrets: &Api<Secret>,
    name: &str,
    data: BTreeMap<String, ByteString>,
) -> Result<(), Error> {
    let attempted = format!("store Secret {name} in namespace {OPERATOR_NAMESPACE}");
    let mut attempts = MAX_ATTEMPTS;
    loop {
        attempts -= 1;
        let found = secrets.get_opt(name).await;
        let found = found.map_err(Error::when(attempted.as_str()))?;
        let written = match found {
            Some(found) if found.data.as_ref() == Some(&data) => return Ok(()),
            Some(mut found) => {
                found.data = Some(data.clone());
                secrets.replace(name, &PostParams::default(), &found).await
            }
            None => {
                let wanted = Secret {
                    metadata: metadata(name, None),
                    data: Some(data.clone()),
                    type_: Some("Opaque".to_owned()),
                    ..Secret::default()
                };
                secrets.create(&PostParams::default(), &wanted).await
            }
        };
        match written {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if attempts > 0 && status.code == 409 => {}
            Err(error) => return Err(without_message(attempted, error)),
        }
    }
}

/// Ensures that the spec of an object is as `amend` leaves it.
async fn store_object(
    joining: &Client,
    kind: &ApiResource,
    name: &str,
    amend: impl Fn(&mut Map<String, Value>),
) -> Result<(), Error> {
    let objects: Api<DynamicObject> =
        Api::namespaced_with(joining.clone(), OPERATOR_NAMESPACE, kind);
    let attempted = format!(
        "store {} {name} in namespace {OPERATOR_NAMESPACE}",
        kind.kind
    );
    let mut attempts = MAX_ATTEMPTS;
    loop {
        attempts -= 1;
        let found = objects.get_opt(name).await;
        let found = found.map_err(Error::when(attempted.as_str()))?;
        let is_new = found.is_none();
        let mut object = found.unwrap_or_else(|| DynamicObject::new(name, kind));
        let mut spec = spec_of(&object);
        amend(&mut spec);
        if !is_new && spec == spec_of(&object) {
            return Ok(());
        }
        let data = object.data.as_object_mut().map(std::mem::take);
        let mut data = data.unwrap_or_default();
        data.insert("spec".to_owned(), Value::Object(spec));
        object.data = Value::Object(data);
        let written = match is_new {
            true => objects.create(&PostParams::default(), &object).await,
            false => objects.replace(name, &PostParams::default(), &object).await,
        };
        match written {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if attempts > 0 && status.code == 409 => {}
            Err(error) => return Err(without_message(attempted, error)),
        }
    }
}

/// Converts a server's error. A validation message may quote secrets, so only field names are
/// kept.
fn without_message(attempted: String, error: kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if status.code == 422 => {
            let details = status.details.as_ref();
            let causes = details.map(|details| details.causes.as_slice());
            let fields = causes.unwrap_or_default().iter();
            let fields: Vec<String> = fields.map(|cause| cause.field.clone()).collect();
            Error::NotAccepted { attempted, fields }
        }
        error => Error::when(attempted)(error),
    }
}

fn spec_of(object: &DynamicObject) -> Map<String, Value> {
    let spec = object.data.get("spec").and_then(Value::as_object);
    spec.cloned().unwrap_or_default()
}

/// The kind of a member's object with the settings of its connection.
pub(crate) fn submariner() -> ApiResource {
    submariner_kind("Submariner", "submariners")
}

/// The same for a member that joined without connectivity.
pub(crate) fn service_discovery() -> ApiResource {
    submariner_kind("ServiceDiscovery", "servicediscoveries")
}

fn submariner_kind(kind: &str, plural: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", kind);
    ApiResource::from_gvk_with_plural(&kind, plural)
}
