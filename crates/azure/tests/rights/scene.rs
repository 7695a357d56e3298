//! A server with the part of the cluster, and with the operators of two tenants.

use insula_azure::manifests::{
    ManagedIdentity, Operators, ReviewedKinds, Settings, Tenant, manifests, tenant_manifests,
};
use insula_testkit::server::{Client, Setup, TestServer, definition};
use kube::Config;
use serde_json::{Value, json};

/// The namespaces of each tenant, and one that no operator manages.
pub const NAMESPACES: [(&str, &str); 3] = [("a1", "acme"), ("a2", "acme"), ("b1", "bolt")];
pub const FREE: &str = "free";

pub struct Scene {
    server: TestServer,
    pub system: Client,
}

impl Scene {
    /// Starts a server and applies everything as it is printed. Servers answer no webhooks here.
    pub async fn new(operators: Operators) -> anyhow::Result<Self> {
        let server = TestServer::start_with(Setup::with_controllers()).await?;
        let system = server.system().await?;
        let scene = Self { server, system };
        scene.install(operators).await?;
        Ok(scene)
    }

    async fn install(&self, operators: Operators) -> anyhow::Result<()> {
        let names = NAMESPACES.map(|(name, _)| name);
        let namespaces = names.iter().chain([&FREE]).map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        self.system.install(&namespaces.collect::<Vec<_>>()).await?;
        self.system.install(&identity_kinds()).await?;
        let cluster = manifests(&Settings {
            image: Some("insula".to_owned()),
            operators,
            kinds: ReviewedKinds::All,
            ..Settings::default()
        });
        self.system.install(&cluster).await?;
        for tenant in ["acme", "bolt"] {
            self.system.install(&tenant_manifests(&of(tenant))).await?;
        }
        Ok(())
    }

    /// Returns a token of the operator's account in a namespace.
    async fn token(&self, namespace: &str) -> anyhow::Result<String> {
        let account = "serviceaccounts/azureoperator-default/token";
        let path = format!("/api/v1/namespaces/{namespace}/{account}");
        let request = json!({"spec": {"expirationSeconds": 3600}});
        let answer = self.system.post(&path, &request).await?;
        let token = answer.json()["status"]["token"].as_str().map(str::to_owned);
        token.ok_or_else(|| anyhow::anyhow!("{}", answer.text()))
    }

    /// Returns a client of the operator in a namespace.
    pub async fn operator(&self, namespace: &str) -> anyhow::Result<Client> {
        let token = self.token(namespace).await?;
        self.server.client(&token).await
    }

    /// Returns the same as a client of the operator's own code.
    pub async fn kube(&self, namespace: &str) -> anyhow::Result<kube::Client> {
        let mut config = Config::new(self.server.url().parse()?);
        let ca = pem::parse(self.server.authority().certificate_pem())?;
        config.root_cert = Some(vec![ca.into_contents()]);
        let token = self.token(namespace).await?;
        config.auth_info = serde_json::from_value(json!({"token": token}))?;
        Ok(kube::Client::try_from(config)?)
    }
}

fn of(tenant: &str) -> Tenant {
    let namespaces = NAMESPACES.iter().filter(|(_, of)| *of == tenant);
    Tenant {
        name: tenant.to_owned(),
        namespaces: namespaces.map(|(name, _)| (*name).to_owned()).collect(),
        image: "insula".to_owned(),
        managed_identity: Some(ManagedIdentity {
            client_id: "11111111-2222-3333-4444-555555555555".to_owned(),
            resource_id: Some("/subscriptions/s/resourceGroups/g".to_owned()),
        }),
    }
}

/// Returns the kinds of the program that gives identities to pods.
fn identity_kinds() -> Vec<Value> {
    let kinds = [
        ("azureidentities", "AzureIdentity"),
        ("azureidentitybindings", "AzureIdentityBinding"),
    ];
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let define = |(plural, kind)| {
        let mut defined = definition("aadpodidentity.k8s.io", plural, kind, any.clone());
        // Groups of Kubernetes need an approval, or the remark that there is none.
        let remark = json!({"api-approved.kubernetes.io": "unapproved"});
        defined["metadata"]["annotations"] = remark;
        defined
    };
    kinds.map(define).to_vec()
}
