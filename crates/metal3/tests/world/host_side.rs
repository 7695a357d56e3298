//! An API server with hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use anyhow::Context as _;
use insula_metal3::pool::rights::host_access;
use insula_testkit::bare_metal::FakeBareMetalOperator;
use insula_testkit::server::{Audit, AuditLog, Client as Plain, Setup, TestServer};
use serde_json::{Value, json};

use super::requests::{Request, requests, requests_by, users_of};
use super::{Entry, Space, client, kubeconfig};

/// The namespaces of hosts.
const POOLS: [&str; 3] = ["pool-a", "pool-b", "shared"];

/// The users with access to hosts, each with its namespace. The last one has no rights.
pub const USERS: [(&str, &str); 5] = [
    ("user-a", "pool-a"),
    ("user-b", "pool-b"),
    ("user-s1", "shared"),
    ("user-s2", "shared"),
    ("user-none", "pool-a"),
];

/// The name of the fake Bare Metal Operator.
const BARE_METAL_OPERATOR: &str = "bare-metal-operator";

/// An API server with hosts and a fake Bare Metal Operator.
pub struct HostSide {
    pub server: TestServer,
    pub bare_metal: FakeBareMetalOperator,
    /// A client of the administrator.
    pub plain: Plain,
    space: Space,
    log: AuditLog,
    tokens: BTreeMap<&'static str, String>,
}

impl Deref for HostSide {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.space
    }
}

impl HostSide {
    pub async fn start() -> anyhow::Result<Self> {
        let log = AuditLog::default();
        let server = TestServer::start_with(Setup {
            audit: Some(Audit::Memory(log.clone())),
            tokens: format!("bmo,{BARE_METAL_OPERATOR},2,\"system:masters,tenant:system\"\n"),
            ..Setup::with_controllers()
        })
        .await?;
        let plain = server.system().await?;
        plain.install(&[definition()?]).await?;
        for name in POOLS {
            let made = plain
                .post("/api/v1/namespaces", &json!({"metadata": {"name": name}}))
                .await?;
            anyhow::ensure!(made.status == 201, "{}", made.text());
        }
        let mut tokens = BTreeMap::new();
        for (user, namespace) in USERS {
            let token = account(&plain, namespace, user).await?;
            tokens.insert(user, token);
            if user != "user-none" {
                let subject = format!("ServiceAccount:{namespace}/{user}");
                grant(&plain, namespace, user, &subject).await?;
            }
        }
        let bare_metal = FakeBareMetalOperator::start(server.client("bmo").await?, None);
        let space = Space {
            client: client(&server, "system").await?,
        };
        Ok(Self {
            server,
            bare_metal,
            plain,
            space,
            log,
            tokens,
        })
    }

    /// Returns the token of a user.
    pub fn token(&self, user: &str) -> anyhow::Result<&str> {
        let token = self.tokens.get(user).with_context(|| user.to_owned())?;
        Ok(token)
    }

    /// Returns a kubeconfig of a user for the hosts of a namespace.
    pub fn kubeconfig(&self, user: &str, namespace: &str) -> anyhow::Result<Value> {
        let entry = Entry::new("hosts", self.token(user)?, namespace);
        Ok(kubeconfig(&self.server, &[entry]))
    }

    /// Creates a service account with the rights that a kubeconfig needs, and returns its token.
    pub async fn user(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let token = account(&self.plain, namespace, name).await?;
        let subject = format!("ServiceAccount:{namespace}/{name}");
        grant(&self.plain, namespace, name, &subject).await?;
        Ok(token)
    }

    /// Returns the name of a service account's user.
    pub fn user_name(&self, user: &str) -> String {
        let mut users = USERS.iter();
        let found = users.find(|(name, _)| *name == user);
        let namespace = found.map_or("", |(_, namespace)| namespace);
        format!("system:serviceaccount:{namespace}:{user}")
    }

    /// Returns all requests that the server has received.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        requests(&self.log)
    }

    /// Returns the different requests of a user, as `VERB RESOURCE NAMESPACE`.
    pub fn requests_by(&self, user: &str) -> anyhow::Result<BTreeSet<String>> {
        requests_by(&self.log, &self.user_name(user))
    }

    /// Returns the users that have sent requests to a resource, except the administrator and the
    /// Bare Metal Operator.
    pub fn users_of(&self, resource: &str) -> anyhow::Result<BTreeSet<String>> {
        let mut users = users_of(&self.log, resource)?;
        users.retain(|user| user != "admin" && user != BARE_METAL_OPERATOR);
        Ok(users)
    }
}

/// Grants the rights that a kubeconfig needs in a namespace.
pub async fn grant(
    plain: &Plain,
    namespace: &str,
    name: &str,
    subject: &str,
) -> anyhow::Result<()> {
    let rules = host_access();
    let rules = rules.iter().map(serde_json::to_value);
    let rules = rules.collect::<Result<Vec<_>, _>>()?;
    plain.grant_in(namespace, name, subject, &rules).await
}

/// Creates a service account, and returns a token of it.
pub async fn account(plain: &Plain, namespace: &str, name: &str) -> anyhow::Result<String> {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let made = plain
        .post(&accounts, &json!({"metadata": {"name": name}}))
        .await?;
    anyhow::ensure!(made.status == 201, "{}", made.text());
    token(plain, namespace, name).await
}

/// Returns a token of a service account.
pub async fn token(plain: &Plain, namespace: &str, name: &str) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let issued = plain.post(&path, &json!({"spec": {}})).await?;
    let issued = issued.json();
    let token = issued["status"]["token"].as_str();
    Ok(token.with_context(|| issued.to_string())?.to_owned())
}

/// Returns the definition of hosts.
pub fn definition() -> anyhow::Result<Value> {
    let text = include_str!("../data/baremetalhosts.yaml");
    Ok(serde_saphyr::from_str(text)?)
}

/// Returns the definition of what inspections of hosts have found.
pub fn hardware() -> anyhow::Result<Value> {
    let text = include_str!("../data/hardwaredata.yaml");
    Ok(serde_saphyr::from_str(text)?)
}
