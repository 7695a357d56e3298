//! The state that the checks are about.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client, ResourceExt};

use super::{DiagnoseClients, Target};
use crate::broker::Broker;
use crate::deploy::permissions::{self, Permission};
use crate::error::Error;
use crate::globalnet::{CLUSTERSET_IP_INFO, GLOBALNET_INFO};
use crate::join::{cluster_uid_of, is_same, membership, own_account, published};
use crate::{lookup, mode, names, roles};

/// The prefix of the service accounts of clusters.
const ACCOUNT_PREFIX: &str = "cluster-";

/// The state of a broker and its clusters. What could not be read is an error.
pub(super) struct Snapshot {
    pub(super) missing_permissions: Result<Vec<String>, Error>,
    pub(super) missing_kinds: Result<Vec<String>, Error>,
    pub(super) broker: Result<Option<DynamicObject>, Error>,
    pub(super) globalnet: Result<Option<ConfigMap>, Error>,
    pub(super) clusterset_ips: Result<Option<ConfigMap>, Error>,
    pub(super) accounts: Result<Vec<Account>, Error>,
    pub(super) clusters: Result<Vec<DynamicObject>, Error>,
    pub(super) endpoints: Result<Vec<DynamicObject>, Error>,
    /// Service imports and exports.
    pub(super) services: Result<Vec<DynamicObject>, Error>,
    pub(super) member: Option<Result<Option<Member>, Error>>,
}

/// The service account of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) cluster_id: String,
    pub(super) uid: Option<String>,
    /// The UID of the cluster that it was created for.
    pub(super) cluster_uid: Option<String>,
}

/// The membership of a cluster, as recorded on the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) cluster_id: String,
    pub(super) namespace: String,
    pub(super) server: String,
    /// Whether that server is the broker's by its address.
    pub(super) is_same_server: bool,
    /// The UID of the account of its token.
    pub(super) account: Option<String>,
}

/// Checks that the server answers; which answer does not matter.
pub(super) async fn reach(broker: &Client, target: &Target) -> Result<String, Error> {
    match broker.apiserver_version().await {
        Ok(_) | Err(kube::Error::Api(_)) => Ok(format!("{} answers", target.url)),
        Err(error) => Err(Error::when(format!("reach {}", target.url))(error)),
    }
}

/// Checks that the server accepts the token of the file.
pub(super) async fn authenticate(broker: &Client, target: &Target) -> Result<String, Error> {
    let namespace = &target.namespace;
    let clusters = published(broker, namespace, "Cluster", "clusters");
    match clusters.list(&ListParams::default().limit(1)).await {
        // Missing permissions and kinds are checks of their own.
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {}
        listed => drop(listed.map_err(Error::when("use the token of the file"))?),
    }
    Ok(format!("the token for namespace {namespace} is accepted"))
}

impl Snapshot {
    /// Reads the state.
    pub(super) async fn read(clients: &DiagnoseClients, target: &Target) -> Self {
        let (broker, namespace) = (&clients.broker, target.namespace.as_str());
        let (permissions, kinds, object, globalnet, ips, accounts) = tokio::join!(
            missing_permissions(broker, namespace),
            mode::missing_kinds(broker),
            broker_object(broker, namespace),
            config_map(broker, namespace, GLOBALNET_INFO),
            config_map(broker, namespace, CLUSTERSET_IP_INFO),
            accounts(broker, namespace),
        );
        let (clusters, endpoints, services) = tokio::join!(
            list(
                published(broker, namespace, "Cluster", "clusters"),
                "clusters"
            ),
            list(
                published(broker, namespace, "Endpoint", "endpoints"),
                "endpoints"
            ),
            services(broker, namespace),
        );
        Self {
            missing_permissions: permissions,
            missing_kinds: kinds,
            broker: object,
            globalnet,
            clusterset_ips: ips,
            accounts,
            clusters,
            endpoints,
            services,
            member: match &clients.member {
                Some(member) => Some(read_member(member, target).await),
                None => None,
            },
        }
    }
}

async fn missing_permissions(broker: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let wanted = Permission::granted_by(&roles::joining(), Some(namespace));
    let missing = permissions::missing(broker, wanted).await?;
    Ok(permissions::describe(&missing))
}

async fn broker_object(broker: &Client, namespace: &str) -> Result<Option<DynamicObject>, Error> {
    let kind = ApiResource::erase::<Broker>(&());
    let brokers: Api<DynamicObject> = Api::namespaced_with(broker.clone(), namespace, &kind);
    let found = lookup::get(&brokers, names::BROKER).await;
    found.map_err(Error::when(format!("read Broker {}", names::BROKER)))
}

async fn config_map(
    broker: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<ConfigMap>, Error> {
    let maps: Api<ConfigMap> = Api::namespaced(broker.clone(), namespace);
    let found = maps.get_opt(name).await;
    found.map_err(Error::when(format!("read ConfigMap {name}")))
}

async fn accounts(broker: &Client, namespace: &str) -> Result<Vec<Account>, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(broker.clone(), namespace);
    let listed = accounts.list(&ListParams::default()).await;
    let listed = listed.map_err(Error::when("list service accounts"))?;
    let of_clusters = listed.iter().filter_map(|account| {
        let name = account.name_any();
        Some(Account {
            cluster_id: name.strip_prefix(ACCOUNT_PREFIX)?.to_owned(),
            uid: account.uid(),
            cluster_uid: cluster_uid_of(account).map(str::to_owned),
        })
    });
    Ok(of_clusters.collect())
}

async fn services(broker: &Client, namespace: &str) -> Result<Vec<DynamicObject>, Error> {
    let mut found = Vec::new();
    for (kind, plural) in [
        ("ServiceImport", "serviceimports"),
        ("ServiceExport", "serviceexports"),
    ] {
        let kind = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", kind);
        let kind = ApiResource::from_gvk_with_plural(&kind, plural);
        let api = Api::namespaced_with(broker.clone(), namespace, &kind);
        found.extend(match list(api, plural).await {
            // Administrators of other versions of Submariner may not read exports.
            Err(error) if error.is_forbidden() && plural == "serviceexports" => Vec::new(),
            listed => listed?,
        });
    }
    Ok(found)
}

/// Returns all objects; none if the kind is not served, which is a check of its own.
async fn list(api: Api<DynamicObject>, plural: &str) -> Result<Vec<DynamicObject>, Error> {
    match api.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        listed => {
            let listed = listed.map_err(Error::when(format!("list {plural}")))?;
            Ok(listed.items)
        }
    }
}

async fn read_member(member: &Client, target: &Target) -> Result<Option<Member>, Error> {
    let Some(membership) = membership(member).await? else {
        return Ok(None);
    };
    let field = |name: &str| membership.field(name).unwrap_or_default().to_owned();
    let server = field("brokerK8sApiServer");
    Ok(Some(Member {
        cluster_id: field("clusterID"),
        namespace: field("brokerK8sRemoteNamespace"),
        is_same_server: is_same(&server, &target.url),
        server,
        account: own_account(member, &membership).await?,
    }))
}
