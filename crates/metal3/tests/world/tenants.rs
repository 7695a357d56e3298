//! One Insula with hosts in a tenant's space, and clusters in the spaces of others.

use insula_operator::spaces::client_for;
use insula_testkit::bare_metal::FakeBareMetalOperator;
use insula_testkit::server::Client as Plain;
use serde_json::{Value, json};

use super::core_driver::CoreDriver;
use super::host_side::{account, definition, grant};
use super::{Entry, Management, Space, kubeconfig};

/// The tenant with the hosts.
pub const OWNER: &str = "t2";
/// The tenants with clusters.
pub const TEAMS: [&str; 2] = ["t1", "t3"];

/// An Insula with hosts in the namespace `shared` of tenant `t2`, and with the tenants `t1` and
/// `t3`, each with a namespace `team`.
pub struct Tenants {
    pub management: Management,
    pub bare_metal: FakeBareMetalOperator,
    plain: Plain,
    _core: Vec<CoreDriver>,
}

impl Tenants {
    pub async fn start() -> anyhow::Result<Self> {
        let management = Management::start().await?;
        let plain = management.server.tenant(OWNER).await?;
        plain.install(&[definition()?]).await?;
        create_namespace(&plain, "shared").await?;
        let bare_metal = FakeBareMetalOperator::start(plain.clone(), None);
        let mut core = Vec::new();
        for team in TEAMS {
            let team = management.server.tenant(team).await?;
            create_namespace(&team, "team").await?;
            core.push(CoreDriver::start(team));
        }
        Ok(Self {
            management,
            bare_metal,
            plain,
            _core: core,
        })
    }

    /// Returns the space of a tenant.
    pub fn space(&self, tenant: &str) -> Space {
        Space {
            client: client_for(&self.management.client, tenant),
        }
    }

    /// Creates a user of the hosts, and returns its kubeconfig.
    pub async fn user(&self, name: &str) -> anyhow::Result<Value> {
        let token = account(&self.plain, "shared", name).await?;
        let subject = format!("ServiceAccount:shared/{name}");
        grant(&self.plain, "shared", name, &subject).await?;
        let server = &self.management.server;
        let mut file = kubeconfig(server, &[Entry::new("hosts", &token, "shared")]);
        let url = format!("{}/tenants/{OWNER}", server.url());
        file["clusters"][0]["cluster"]["server"] = url.into();
        Ok(file)
    }
}

async fn create_namespace(plain: &Plain, name: &str) -> anyhow::Result<()> {
    let namespace = json!({"metadata": {"name": name}});
    let made = plain.post("/api/v1/namespaces", &namespace).await?;
    anyhow::ensure!(made.status == 201, "{}", made.text());
    Ok(())
}
