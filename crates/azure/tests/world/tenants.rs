//! A world whose kinds are published to all tenants of the server.

use insula_operator::spaces::client_for;

use super::{Space, World};

/// Annotation that publishes a definition to every tenant's space.
const PUBLISHED: &str = "multi-tenancy.k8s.io/published";

impl World {
    /// Starts a world with kinds and webhooks for all tenants.
    pub async fn start_for_tenants() -> anyhow::Result<Self> {
        Self::start_with(super::Reach::Tenants).await
    }

    /// Returns the space of a tenant, which is created if it does not exist.
    pub async fn tenant(&self, name: &str) -> anyhow::Result<Space> {
        self.server.tenant(name).await?;
        Ok(Space {
            client: client_for(&self.client, name),
        })
    }
}

/// Publishes a definition to all tenants.
pub(super) fn publish(definition: &mut serde_json::Value) {
    definition["metadata"]["annotations"][PUBLISHED] = "true".into();
}
