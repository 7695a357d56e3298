//! A server with a deployed operator, and helpers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_broker::names::{AXON, AXON_SPACES, TenantId};
use insula_broker::operator::{Settings, run};
use insula_broker::report::Silent;
use insula_broker::tenant::{Phase, Tenant, TenantSpec};
use insula_broker::{crds, roles, token};
use insula_operator::health::Health;
use insula_operator::lease::Times;
use insula_testkit::server::TestServer;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// The deadline of every wait.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Short durations for fast tests.
pub const TIMES: Times = Times {
    duration: Duration::from_secs(4),
    renew: Duration::from_millis(300),
    give_up: Duration::from_secs(2),
    look: Duration::from_millis(50),
};

/// A server on which the operator is deployed but does not run.
pub struct World {
    pub server: TestServer,
    /// A client of a system administrator.
    pub admin: Client,
    /// A client of the operator's account, with its permissions only.
    pub operator: Client,
}

/// Whether the operator may create spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Spaces {
    Allowed,
    NotAllowed,
}

impl World {
    pub async fn new() -> anyhow::Result<Self> {
        Self::with(Spaces::NotAllowed).await
    }

    pub async fn with(spaces: Spaces) -> anyhow::Result<Self> {
        Self::over(TestServer::start_with_controllers().await?, spaces).await
    }

    pub async fn over(server: TestServer, spaces: Spaces) -> anyhow::Result<Self> {
        // `RUST_LOG` selects the operator's log.
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init()
            .ok();
        let admin = client(&server, "system").await?;
        crds::ensure(&admin, &crds::all(), &Silent).await?;
        let operator = deploy(&server, &admin, spaces).await?;
        Ok(Self {
            server,
            admin,
            operator,
        })
    }

    /// Removes validations from the definition of tenants, so that the operator meets invalid
    /// objects.
    pub async fn loosen(&self) -> anyhow::Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.admin.clone());
        let name = "tenants.submariner.io";
        let mut definition = definitions.get(name).await?;
        for version in &mut definition.spec.versions {
            let schema = version.schema.as_mut();
            if let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
                schema.x_kubernetes_validations = None;
            }
        }
        definitions
            .replace(name, &PostParams::default(), &definition)
            .await?;
        let long = Tenant::new(&"a".repeat(46), TenantSpec::default());
        let only_try = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually(async || Ok(self.tenants().create(&only_try, &long).await.ok().map(drop))).await
    }

    /// Runs the operator.
    pub fn start(&self) -> Running {
        self.start_as("operator", self.operator.clone())
    }

    /// Runs it under another name, or with another client.
    pub fn start_as(&self, identity: &str, client: Client) -> Running {
        Running::new(client, settings(identity))
    }

    pub fn tenants(&self) -> Api<Tenant> {
        Api::namespaced(self.admin.clone(), AXON)
    }

    pub async fn create(&self, id: &str) -> anyhow::Result<Tenant> {
        self.create_with(id, TenantSpec::default()).await
    }

    pub async fn create_with(&self, id: &str, spec: TenantSpec) -> anyhow::Result<Tenant> {
        let tenant = Tenant::new(id, spec);
        let made = self.tenants().create(&PostParams::default(), &tenant).await;
        made.with_context(|| format!("tenant {id}"))
    }

    pub async fn delete(&self, id: &str) -> anyhow::Result<()> {
        self.tenants().delete(id, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until a tenant has this phase.
    pub async fn phase(&self, id: &str, phase: Phase) -> anyhow::Result<Tenant> {
        self.tenant(id, |tenant| phase_of(tenant) == Some(phase))
            .await
    }

    /// Waits until a tenant satisfies a predicate.
    pub async fn tenant(
        &self,
        id: &str,
        is_so: impl Fn(&Tenant) -> bool,
    ) -> anyhow::Result<Tenant> {
        let tenants = self.tenants();
        let mut last = None;
        let found = eventually(async || {
            let tenant = tenants.get_opt(id).await?;
            last.clone_from(&tenant);
            Ok(tenant.filter(&is_so))
        });
        let found = found.await;
        found.with_context(|| format!("tenant {id} is {last:#?}"))
    }

    /// Waits until a tenant is gone.
    pub async fn gone(&self, id: &str) -> anyhow::Result<()> {
        let tenants = self.tenants();
        eventually(async || Ok(tenants.get_opt(id).await?.is_none().then_some(())))
            .await
            .with_context(|| format!("tenant {id} is not gone"))
    }

    pub fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.admin.clone())
    }

    /// The API of objects in a tenant's namespace.
    pub fn inside<K>(&self, id: &str) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.admin.clone(), &namespace(id))
    }

    /// A client with a tenant's own token.
    pub async fn as_tenant(&self, id: &str) -> anyhow::Result<Client> {
        let secrets: Api<Secret> = self.inside(id);
        let secret = secrets.get(insula_broker::names::ADMIN_TOKEN).await?;
        let token = token::of(&secret).context("there is no token")?;
        client(&self.server, std::str::from_utf8(token)?).await
    }
}

/// A running operator.
pub struct Running {
    pub health: Arc<Health>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    pub fn new(client: Client, settings: Settings) -> Self {
        let health = Arc::clone(&settings.health);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            if let Err(error) = run(client, settings, stopped).await {
                tracing::error!(%error, "the operator failed");
            }
        });
        Self {
            health,
            stop: Some(stop),
            task,
        }
    }

    /// Stops it and waits.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        timeout(DEADLINE, &mut self.task)
            .await
            .context("does not stop")??;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn settings(identity: &str) -> Settings {
    Settings {
        times: TIMES,
        timeout: Duration::from_secs(10),
        ..Settings::new(identity)
    }
}

/// The name of a tenant's namespace.
pub fn namespace(id: &str) -> String {
    id.parse::<TenantId>().expect("an ID").namespace()
}

pub fn phase_of(tenant: &Tenant) -> Option<Phase> {
    tenant.status.as_ref()?.phase
}

/// Status, reason and message of the condition Ready.
pub fn ready(tenant: &Tenant) -> Option<(&str, &str, &str)> {
    let conditions = tenant.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")?;
    Some((&ready.status, &ready.reason, &ready.message))
}

/// Polls until there is a value, and fails after the deadline.
pub async fn eventually<T>(
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        anyhow::ensure!(Instant::now() < deadline, "did not happen in time");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A client with this token.
pub async fn client(server: &TestServer, token: &str) -> anyhow::Result<Client> {
    Ok(Client::try_from(config(server, token).await?)?)
}

pub async fn config(server: &TestServer, token: &str) -> anyhow::Result<Config> {
    let ca = STANDARD.encode(server.authority().certificate_pem());
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {
            "server": server.url(), "certificate-authority-data": ca,
        }}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }))?;
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

/// Creates the operator's namespace, account and permissions.
async fn deploy(server: &TestServer, admin: &Client, spaces: Spaces) -> anyhow::Result<Client> {
    put(&Api::all(admin.clone()), &named::<Namespace>(AXON)).await?;
    let accounts = Api::namespaced(admin.clone(), AXON);
    put(&accounts, &named::<ServiceAccount>(AXON)).await?;
    grant(admin, AXON, roles::operator()).await?;
    if spaces == Spaces::Allowed {
        grant(admin, AXON_SPACES, roles::operator_for_spaces()).await?;
    }
    let mut role = named::<Role>(AXON);
    role.rules = Some(roles::operator_in_own_namespace());
    put(&Api::namespaced(admin.clone(), AXON), &role).await?;
    let binding: RoleBinding = binding("RoleBinding", "Role", AXON)?;
    put(&Api::namespaced(admin.clone(), AXON), &binding).await?;
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), AXON);
    let secret = token::ensure(&secrets, AXON, DEADLINE).await?;
    let token = token::of(&secret).context("there is no token")?;
    client(server, std::str::from_utf8(token)?).await
}

/// Grants the operator permissions in all namespaces.
async fn grant(admin: &Client, name: &str, rules: Vec<PolicyRule>) -> anyhow::Result<()> {
    let mut role = named::<ClusterRole>(name);
    role.rules = Some(rules);
    put(&Api::all(admin.clone()), &role).await?;
    let binding: ClusterRoleBinding = binding("ClusterRoleBinding", "ClusterRole", name)?;
    put(&Api::all(admin.clone()), &binding).await
}

fn binding<K: DeserializeOwned>(kind: &str, role: &str, name: &str) -> anyhow::Result<K> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": AXON, "namespace": AXON}],
    }))?)
}

/// Metadata with nothing but a name.
pub fn named<K: Resource + Default>(name: &str) -> K {
    let mut object = K::default();
    object.meta_mut().name = Some(name.to_owned());
    object
}

/// Creates an object.
pub async fn put<K>(api: &Api<K>, object: &K) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let made = api.create(&PostParams::default(), object).await;
    made.with_context(|| object.name_any())?;
    Ok(())
}
