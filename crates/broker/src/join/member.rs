//! What a cluster has of its membership: where the broker is, and what to show there.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value};

use super::{Addresses, JoinSettings, spec};
use crate::error::Error;
use crate::manifests::{self, plain};
use crate::token::{self, Claims};
use crate::{connect, lookup, names};

/// Where Submariner's operator looks.
pub const NAMESPACE: &str = "submariner-operator";
/// The `Submariner` of a cluster.
pub const SUBMARINER_OBJECT: &str = "submariner";
/// The `ServiceDiscovery` of a cluster that joins for services alone.
pub const SERVICE_DISCOVERY_OBJECT: &str = "service-discovery";
/// The Secret with the cluster's token for the broker.
pub(super) const BROKER_SECRET: &str = "submariner-broker-secret";

/// What every cluster has, and no two have the same of.
const IDENTITY: &str = "kube-system";
/// How often others may be faster.
const TRIES: usize = 8;

/// What a cluster says of the ClusterSet that it is in.
pub(crate) struct Membership {
    /// Its spec, as it stands there.
    pub(crate) spec: Map<String, Value>,
}

impl Membership {
    /// A field of the spec, if it says anything.
    pub(crate) fn says(&self, field: &str) -> Option<&str> {
        let text = self.spec.get(field)?.as_str()?;
        (!text.is_empty()).then_some(text)
    }
}

/// What tells this cluster from all others, if we may see it.
pub(super) async fn identity(joining: &Client) -> Result<Option<String>, Error> {
    let namespaces: Api<Namespace> = Api::all(joining.clone());
    match namespaces.get_opt(IDENTITY).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(None),
        found => {
            let found = found.map_err(Error::when("use the cluster that is to join"))?;
            Ok(found.and_then(|namespace| namespace.uid()))
        }
    }
}

/// Which ClusterSet a cluster is in, if it is in any.
pub(crate) async fn membership(joining: &Client) -> Result<Option<Membership>, Error> {
    for (kind, name) in [
        (submariner(), SUBMARINER_OBJECT),
        (service_discovery(), SERVICE_DISCOVERY_OBJECT),
    ] {
        let objects: Api<DynamicObject> = Api::namespaced_with(joining.clone(), NAMESPACE, &kind);
        let found = lookup::get(&objects, name).await;
        let found = found.map_err(Error::when("see whether the cluster has joined"))?;
        if let Some(found) = found {
            let spec = spec_of(&found);
            return Ok(Some(Membership { spec }));
        }
    }
    Ok(None)
}

/// How a cluster stands to a ClusterSet.
pub(super) enum Standing {
    /// It is in none.
    Stranger,
    /// It is in this one, by server, namespace and ID.
    Member,
    /// It is in one of the same namespace and under the same ID, through another server: which
    /// may be another address of the same, or another broker.
    Elsewhere {
        /// Which.
        server: String,
        /// The UID of the account that it has there, if that is known.
        account: Option<String>,
    },
}

/// How the cluster stands to this ClusterSet; it must not be in one of another namespace, nor
/// under another name.
pub(super) async fn standing(joining: &Client, settings: &JoinSettings) -> Result<Standing, Error> {
    let Some(membership) = membership(joining).await? else {
        return Ok(Standing::Stranger);
    };
    let (id, namespace) = (settings.cluster_id.as_str(), &settings.info.namespace);
    let as_whom = membership.says("clusterID").unwrap_or(id);
    let whose = membership
        .says("brokerK8sRemoteNamespace")
        .unwrap_or(namespace);
    if as_whom != id || whose != namespace {
        return Err(Error::JoinedAlready {
            cluster_id: as_whom.to_owned(),
            namespace: whose.to_owned(),
        });
    }
    match membership.says("brokerK8sApiServer") {
        // It does not say, and so it does not say otherwise.
        None => Ok(Standing::Member),
        Some(server) if is_same(server, &settings.info.url) => Ok(Standing::Member),
        Some(server) => Ok(Standing::Elsewhere {
            server: server.to_owned(),
            account: own_account(joining, &membership).await?,
        }),
    }
}

/// Whether two texts name the same server, whatever goes without saying.
fn is_same(one: &str, other: &str) -> bool {
    match (connect::url(one), connect::url(other)) {
        (Ok(one), Ok(other)) => connect::is_same_place(&one, &other),
        _ => spec::without_scheme(one) == spec::without_scheme(other),
    }
}

/// The UID of the account that the cluster has at its broker, as its token says.
async fn own_account(joining: &Client, membership: &Membership) -> Result<Option<String>, Error> {
    if let Some(token) = membership.says("brokerK8sApiServerToken") {
        return Ok(Claims::of(token.as_bytes()).map(|claims| claims.uid));
    }
    let secrets: Api<Secret> = Api::namespaced(joining.clone(), NAMESPACE);
    let found = secrets.get_opt(BROKER_SECRET).await;
    let found = found.map_err(Error::when(format!("read Secret {BROKER_SECRET}")))?;
    let claims = found.as_ref().and_then(token::of).and_then(Claims::of);
    Ok(claims.map(|claims| claims.uid))
}

/// Makes sure that there is a namespace for the operator.
pub(super) async fn ensure_namespace(joining: &Client) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(joining.clone());
    let failed = || Error::when(format!("make namespace {NAMESPACE}"));
    if namespaces
        .get_opt(NAMESPACE)
        .await
        .map_err(failed())?
        .is_some()
    {
        return Ok(());
    }
    let wanted = manifests::namespace(plain(NAMESPACE, None));
    match namespaces.create(&PostParams::default(), &wanted).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).map_err(failed()),
    }
}

/// Stores what the operator needs; what it is told with comes last.
pub(super) async fn store(
    joining: &Client,
    settings: &JoinSettings,
    account: &Secret,
    addresses: &Addresses,
) -> Result<(), Error> {
    let secrets: Api<Secret> = Api::namespaced(joining.clone(), NAMESPACE);
    let token = token::handed_out(account.clone()).data.unwrap_or_default();
    keep(&secrets, BROKER_SECRET, token).await?;
    if let Some(psk) = settings.info.psk() {
        let psk = ByteString(psk.to_vec());
        let psk = BTreeMap::from([(crate::psk::KEY.to_owned(), psk)]);
        keep(&secrets, names::PSK, psk).await?;
    }
    let (kind, name) = match settings.connects() {
        true => (submariner(), SUBMARINER_OBJECT),
        false => (service_discovery(), SERVICE_DISCOVERY_OBJECT),
    };
    let amend = |spec: &mut _| spec::tell(spec, settings, account, addresses);
    tell(joining, &kind, name, amend).await
}

/// Makes sure that a Secret has this in it.
async fn keep(
    secrets: &Api<Secret>,
    name: &str,
    data: BTreeMap<String, ByteString>,
) -> Result<(), Error> {
    let attempted = format!("store Secret {name} in namespace {NAMESPACE}");
    let mut tries = TRIES;
    loop {
        tries -= 1;
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
                    metadata: plain(name, None),
                    data: Some(data.clone()),
                    type_: Some("Opaque".to_owned()),
                    ..Secret::default()
                };
                secrets.create(&PostParams::default(), &wanted).await
            }
        };
        match written {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if tries > 0 && status.code == 409 => {}
            Err(error) => return Err(refused(attempted, error)),
        }
    }
}

/// Makes sure that the spec of an object is as `amend` leaves it.
async fn tell(
    joining: &Client,
    kind: &ApiResource,
    name: &str,
    amend: impl Fn(&mut Map<String, Value>),
) -> Result<(), Error> {
    let objects: Api<DynamicObject> = Api::namespaced_with(joining.clone(), NAMESPACE, kind);
    let attempted = format!("store {} {name} in namespace {NAMESPACE}", kind.kind);
    let mut tries = TRIES;
    loop {
        tries -= 1;
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
            Err(kube::Error::Api(status)) if tries > 0 && status.code == 409 => {}
            Err(error) => return Err(refused(attempted, error)),
        }
    }
}

/// What a server says of what it does not accept. It may quote it, and we must not.
fn refused(attempted: String, error: kube::Error) -> Error {
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

fn submariner() -> ApiResource {
    told_with("Submariner", "submariners")
}

fn service_discovery() -> ApiResource {
    told_with("ServiceDiscovery", "servicediscoveries")
}

fn told_with(kind: &str, plural: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk("submariner.io", "v1alpha1", kind);
    ApiResource::from_gvk_with_plural(&kind, plural)
}
