//! Fixtures of the broker tests.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use insula_broker::deploy::axon::{self, AxonSettings};
use insula_broker::deploy::broker::{BrokerSettings, Deployed, Prepared};
use insula_broker::info::BrokerInfo;
use insula_broker::names::{ADMIN, ADMIN_TOKEN, CLUSTER, MANAGED_BY, TENANT_LABEL, TenantId};
use insula_broker::report::{Report, Silent};
use insula_broker::{Error, roles, token};
use insula_testkit::server::TestServer;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{DynamicObject, ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scene::{Fault, Record, client, config, kind, watched};

/// A server and a folder of the test's own.
pub struct Scene {
    pub server: TestServer,
    pub admin: Client,
    pub folder: TempDir,
}

impl Scene {
    /// A cluster without Submariner.
    pub async fn empty() -> anyhow::Result<Self> {
        let server = TestServer::start_with_controllers().await?;
        Ok(Self {
            admin: client(&server, "system")?,
            folder: TempDir::new()?,
            server,
        })
    }

    /// A cluster with the operator's API, without the operator.
    pub async fn axon() -> anyhow::Result<Self> {
        let scene = Self::empty().await?;
        let settings = AxonSettings {
            operator_image: "i".to_owned(),
            deployment: false,
            admins: Vec::new(),
            spaces: false,
        };
        axon::deploy(&scene.admin, &settings, &Silent).await?;
        Ok(scene)
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// The default settings.
    pub fn settings(&self) -> BrokerSettings {
        let components = ["service-discovery", "connectivity"];
        BrokerSettings {
            info_from: None,
            namespace: None,
            components: components.map(str::to_owned).into(),
            globalnet: None,
            clusterset_ip: None,
            custom_domains: Vec::new(),
            broker_url: None,
            new_psk: false,
            output: self.path("broker-info.subm"),
            token_timeout: Duration::from_secs(20),
        }
    }

    /// Deploys a broker with the administrator's kube context.
    pub async fn deploy(
        &self,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<Deployed, Error> {
        let context =
            config(&self.server, "system").map_err(|error| Error::invalid(error.to_string()));
        insula_broker::deploy::broker::deploy(context, settings, report).await
    }

    /// Deploys without a kube context.
    pub async fn deploy_without_context(
        &self,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<Deployed, Error> {
        let context = Err(Error::invalid("there is no kubeconfig"));
        insula_broker::deploy::broker::deploy(context, settings, report).await
    }

    /// Deploys with recorded and disturbed requests.
    pub async fn deploy_disturbed(
        &self,
        settings: &BrokerSettings,
        fault: Option<Fault>,
    ) -> anyhow::Result<(Result<Deployed, Error>, Record)> {
        let context =
            config(&self.server, "system").map_err(|error| Error::invalid(error.to_string()));
        let prepared = Prepared::new(context, settings, &Silent)?;
        let (client, record) = watched(&prepared.target.client()?, fault);
        let deployed = prepared.deploy(&client, settings, &Silent).await;
        Ok((deployed, record))
    }

    /// Returns an object of this kind, in a namespace or none.
    pub async fn get(&self, plural: &str, namespace: &str, name: &str) -> anyhow::Result<Value> {
        let found = self.api(plural, namespace).get_opt(name).await?;
        Ok(serde_json::to_value(found)?)
    }

    pub fn api(&self, plural: &str, namespace: &str) -> Api<DynamicObject> {
        match namespace {
            "" => Api::all_with(self.admin.clone(), &kind(plural)),
            namespace => Api::namespaced_with(self.admin.clone(), namespace, &kind(plural)),
        }
    }

    pub async fn put(&self, plural: &str, object: Value) -> anyhow::Result<()> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let api = self.api(plural, namespace);
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object)
            .await
            .context(plural.to_owned())?;
        Ok(())
    }

    /// Changes an object.
    pub async fn edit(
        &self,
        (plural, namespace, name): (&str, &str, &str),
        edit: impl Fn(&mut Value),
    ) -> anyhow::Result<()> {
        let mut object = self.get(plural, namespace, name).await?;
        edit(&mut object);
        let object: DynamicObject = serde_json::from_value(object)?;
        let api = self.api(plural, namespace);
        api.replace(name, &PostParams::default(), &object).await?;
        Ok(())
    }

    /// Creates a tenant as the operator does, and returns its partial file.
    pub async fn tenant(&self, id: &str) -> anyhow::Result<BrokerInfo> {
        let id: TenantId = id.parse()?;
        let namespace = id.namespace();
        let labels = json!({MANAGED_BY.0: MANAGED_BY.1, TENANT_LABEL: id.as_str()});
        let meta = |name: &str| json!({"name": name, "namespace": namespace, "labels": labels});
        let role = |name: &str, rules: Vec<PolicyRule>| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta(name), "rules": rules});
        self.put("namespaces", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}})).await?;
        self.put(
            "serviceaccounts",
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(ADMIN)}),
        )
        .await?;
        self.put("roles", role(ADMIN, roles::tenant_admin(&namespace)))
            .await?;
        self.put("roles", role(CLUSTER, roles::cluster())).await?;
        self.put("rolebindings", json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta(ADMIN),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ADMIN},
            "subjects": [
                {"kind": "ServiceAccount", "name": ADMIN, "namespace": namespace},
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "olga"},
            ],
        })).await?;
        let secrets: Api<Secret> = Api::namespaced(self.admin.clone(), &namespace);
        let metadata = ObjectMeta {
            name: Some(ADMIN_TOKEN.to_owned()),
            ..ObjectMeta::default()
        };
        let asked = token::request(ADMIN, metadata);
        secrets.create(&PostParams::default(), &asked).await?;
        let secret = token::ensure(&secrets, ADMIN, Duration::from_secs(20)).await?;
        Ok(BrokerInfo {
            url: self.server.url(),
            client_token: Some(secret),
            ipsec_psk: None,
            components: BTreeSet::new(),
            custom_domains: Vec::new(),
            namespace: Some(namespace),
        })
    }

    /// The settings of a tenant's administrator with this file.
    pub fn with_file(&self, name: &str, info: &BrokerInfo) -> anyhow::Result<BrokerSettings> {
        let path = self.path(name);
        std::fs::write(&path, info.encode())?;
        Ok(BrokerSettings {
            info_from: Some(path),
            ..self.settings()
        })
    }
}

/// The key in a file.
pub fn psk(path: &Path) -> anyhow::Result<Vec<u8>> {
    let info = BrokerInfo::read(path)?;
    let secret = info.ipsec_psk.context("it has a key")?;
    let key = insula_broker::psk::of(&secret).context("it has a key")?;
    Ok(key.to_vec())
}

/// The token in a file.
pub fn token_of(info: &BrokerInfo) -> anyhow::Result<String> {
    let secret = info.client_token.as_ref().context("it has a Secret")?;
    let token = token::of(secret).context("it has a token")?;
    Ok(String::from_utf8(token.to_vec())?)
}
