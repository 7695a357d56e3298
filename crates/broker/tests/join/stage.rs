//! Fixtures: brokers and clusters.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use insula_broker::broker::{Broker, BrokerSpec};
use insula_broker::globalnet::{ClustersetIp, Globalnet};
use insula_broker::info::BrokerInfo;
use insula_broker::join::{JoinClients, JoinSettings};
use insula_broker::report::Report;
use insula_broker::{Error, component, names, psk, roles, token};
use insula_operator::managed;
use insula_testkit::server::{Setup, TestServer};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

/// A server with brokers in the system space, and clusters that are its tenants, `c0` to
/// `c99`.
pub struct Stage {
    pub server: TestServer,
}

impl Stage {
    pub async fn start() -> anyhow::Result<Self> {
        let tokens = (0..100).map(|number| format!("c{number},admin,1,\"tenant:c{number}\"\n"));
        let setup = Setup {
            tokens: tokens.collect(),
            ..Setup::with_controllers()
        };
        let server = TestServer::start_with(setup).await?;
        let stage = Self { server };
        for (version, plural, kind) in [
            ("v1alpha1", "brokers", "Broker"),
            ("v1", "clusters", "Cluster"),
        ] {
            stage
                .define(&stage.system()?, version, plural, kind)
                .await?;
        }
        Ok(stage)
    }

    /// A client with this token.
    pub fn client(&self, token: &str) -> anyhow::Result<Client> {
        connect(&self.server, token)
    }

    pub fn system(&self) -> anyhow::Result<Client> {
        self.client("system")
    }

    /// A client of a cluster's administrator; the cluster is created if it is missing.
    pub async fn cluster(&self, name: &str) -> anyhow::Result<Client> {
        self.server.tenant(name).await?;
        self.client(name)
    }

    /// A client of the broker's administrator, with the file's credentials.
    pub fn broker(&self, info: &BrokerInfo) -> anyhow::Result<Client> {
        Ok(Client::try_from(insula_broker::connect::from_file(info)?)?)
    }

    /// Both clients, for a cluster of this name.
    pub async fn both(&self, info: &BrokerInfo, cluster: &str) -> anyhow::Result<JoinClients> {
        Ok(JoinClients {
            broker: self.broker(info)?,
            joining: self.cluster(cluster).await?,
        })
    }

    pub async fn define(
        &self,
        client: &Client,
        version: &str,
        plural: &str,
        kind: &str,
    ) -> anyhow::Result<()> {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = serde_json::from_value(json!({
            "metadata": {"name": format!("{plural}.submariner.io")},
            "spec": {
                "group": "submariner.io", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase()},
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        }))?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        definitions
            .create(&PostParams::default(), &definition)
            .await?;
        // A defined kind is served once it is accepted, which a list waits for.
        let kind = GroupVersionKind::gvk("submariner.io", version, kind);
        let kind = ApiResource::from_gvk_with_plural(&kind, plural);
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        within("the kind is served", async || {
            let listed = objects.list(&ListParams::default()).await;
            listed.is_ok().then_some(())
        })
        .await
    }

    /// Creates a broker as `deploy broker` leaves it, and returns its file.
    pub async fn deploy(&self, namespace: &str, wanted: Wanted) -> anyhow::Result<BrokerInfo> {
        let system = self.system()?;
        let namespaces: Api<Namespace> = Api::all(system.clone());
        let made = Namespace {
            metadata: named(namespace),
            ..Namespace::default()
        };
        namespaces.create(&PostParams::default(), &made).await?;
        self.allow(namespace, &wanted).await?;
        let maps: Api<ConfigMap> = Api::namespaced(system.clone(), namespace);
        for map in [
            wanted.globalnet.config_map(namespace),
            wanted.clusterset.config_map(namespace),
        ] {
            maps.create(&PostParams::default(), &map).await?;
        }
        let spec = BrokerSpec {
            components: wanted.components.iter().cloned().collect(),
            globalnet_enabled: wanted.globalnet.enabled,
            globalnet_cidr_range: wanted.globalnet.range.to_string(),
            default_globalnet_cluster_size: wanted.globalnet.cluster_size,
            default_custom_domains: wanted.domains.clone(),
            ..BrokerSpec::default()
        };
        let brokers: Api<Broker> = Api::namespaced(system.clone(), namespace);
        let broker = Broker::new(names::BROKER, spec);
        brokers.create(&PostParams::default(), &broker).await?;
        let secrets: Api<Secret> = Api::namespaced(system, namespace);
        let admin = token::ensure(&secrets, names::ADMIN, token::TIMEOUT).await?;
        let connects = wanted.components.contains(component::CONNECTIVITY);
        Ok(BrokerInfo {
            url: self.server.url(),
            client_token: Some(admin),
            ipsec_psk: connects.then(psk::generate),
            components: wanted.components,
            custom_domains: wanted.domains,
            namespace: Some(namespace.to_owned()),
        })
    }

    /// Creates the administrator's account and permissions, and the role of clusters.
    async fn allow(&self, namespace: &str, wanted: &Wanted) -> anyhow::Result<()> {
        let system = self.system()?;
        let accounts: Api<ServiceAccount> = Api::namespaced(system.clone(), namespace);
        let account = ServiceAccount {
            metadata: named(names::ADMIN),
            ..ServiceAccount::default()
        };
        managed::ensure(&accounts, &account).await?;
        let roles: Api<Role> = Api::namespaced(system.clone(), namespace);
        for (name, rules) in [
            (names::ADMIN, (wanted.admin)(namespace)),
            (names::CLUSTER, roles::cluster()),
        ] {
            let role = Role {
                metadata: named(name),
                rules: Some(rules),
            };
            managed::ensure(&roles, &role).await?;
        }
        let bindings: Api<RoleBinding> = Api::namespaced(system, namespace);
        let binding = RoleBinding {
            metadata: named(names::ADMIN),
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "Role".to_owned(),
                name: names::ADMIN.to_owned(),
            },
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: names::ADMIN.to_owned(),
                namespace: Some(namespace.to_owned()),
                ..Subject::default()
            }]),
        };
        managed::ensure(&bindings, &binding).await?;
        Ok(())
    }
}

/// The settings of a broker.
pub struct Wanted {
    pub components: BTreeSet<String>,
    pub globalnet: Globalnet,
    pub clusterset: ClustersetIp,
    pub domains: Vec<String>,
    pub admin: fn(&str) -> Vec<PolicyRule>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            components: component::ALL.map(str::to_owned).into(),
            globalnet: Globalnet::validate(true, "242.0.0.0/8", 65536).unwrap(),
            clusterset: ClustersetIp::disabled(),
            domains: Vec::new(),
            admin: roles::tenant_admin,
        }
    }
}

/// A client of a server, with its CA and a token.
pub fn connect(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    let mut config = Config::new(server.url().parse()?);
    let certificate = pem::parse(server.authority().certificate_pem())?;
    config.root_cert = Some(vec![certificate.into_contents()]);
    config.auth_info.token = Some(token.to_owned().into());
    Ok(Client::try_from(config)?)
}

/// The default settings of a join.
pub fn settings(info: &BrokerInfo, id: &str) -> JoinSettings {
    let complete = info.for_join(Path::new("broker-info.subm")).unwrap();
    JoinSettings::new(complete, id.parse().unwrap())
}

pub fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

/// Returns an object of a kind without a type, if it exists.
pub async fn object(
    client: &Client,
    (version, kind, plural): (&str, &str, &str),
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<Value>> {
    let kind = GroupVersionKind::gvk("submariner.io", version, kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let found = api.get_opt(name).await?;
    Ok(found.map(serde_json::to_value).transpose()?)
}

pub const SUBMARINER: (&str, &str, &str) = ("v1alpha1", "Submariner", "submariners");
pub const SERVICE_DISCOVERY: (&str, &str, &str) =
    ("v1alpha1", "ServiceDiscovery", "servicediscoveries");

/// Waits until a value is found.
pub async fn within<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> anyhow::Result<T> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while tokio::time::Instant::now() < deadline {
        if let Some(found) = look().await {
            return Ok(found);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    anyhow::bail!("not in time: {what}")
}

/// Records reports.
#[derive(Default)]
pub struct Told(Mutex<Vec<String>>);

impl Told {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn warnings(&self) -> Vec<String> {
        let all = self.all().into_iter();
        all.filter_map(|line| line.strip_prefix("! ").map(str::to_owned))
            .collect()
    }

    fn record(&self, sign: char, what: &str) {
        self.0.lock().unwrap().push(format!("{sign} {what}"));
    }
}

impl Report for Told {
    fn begin(&self, what: &str) {
        self.record('.', what);
    }
    fn done(&self, what: &str) {
        self.record('+', what);
    }
    fn warn(&self, what: &str) {
        self.record('!', what);
    }
}

/// The error with its hint.
pub fn error_and_hint<T: std::fmt::Debug>(result: Result<T, Error>) -> (String, String) {
    let error = result.unwrap_err();
    (error.to_string(), error.hint().unwrap_or_default())
}
