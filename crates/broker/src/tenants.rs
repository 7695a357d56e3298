//! Tenant management: creating, showing, listing and deleting tenants, and writing the file
//! that a tenant's administrator starts with.
//!
//! The operator provisions and removes tenants. This module only creates and deletes Tenant
//! objects, and waits.

mod audit_bindings;
mod credentials;
mod delete;
mod spaces;
mod wait;

use std::time::Duration;

use kube::api::{ListParams, PostParams};
use kube::core::Status;
use kube::{Api, Client};

use crate::error::Error;
use crate::names::{AXON, TenantId};
use crate::report::Report;
use crate::tenant::{Isolation, Phase, Tenant, TenantSpec};

/// The tenants of a cluster, with the caller's permissions.
#[derive(Clone)]
pub struct Tenants {
    client: Client,
    api: Api<Tenant>,
}

/// The page size of lists, as in kubectl.
const PAGE_SIZE: u32 = 500;
/// The maximum number of attempts to list: the continue token may expire.
const MAX_LIST_ATTEMPTS: usize = 3;

impl Tenants {
    /// Creates a handle with this client.
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            api: Api::namespaced(client.clone(), AXON),
        }
    }

    /// Creates a Tenant. Of several concurrent creations one succeeds.
    ///
    /// # Errors
    ///
    /// [`Error::TenantExists`], in which case nothing has changed; [`Error::NoAxon`];
    /// [`Error::NoSpaces`]; any other error of the server.
    pub async fn create(&self, id: &TenantId, spec: TenantSpec) -> Result<Tenant, Error> {
        if spec.isolation == Some(Isolation::Space) {
            spaces::check(&self.client).await?;
        }
        let asked = Tenant::new(id.as_str(), spec);
        let created = self.api.create(&PostParams::default(), &asked).await;
        created.map_err(|error| match &error {
            kube::Error::Api(status) if status.is_already_exists() => {
                Error::TenantExists(id.clone())
            }
            _ => self.map_error(error, id, format!("create tenant {id}")),
        })
    }

    /// Waits until the operator has provisioned the created tenant.
    ///
    /// # Errors
    ///
    /// [`Error::TenantFailed`] with the operator's message; [`Error::TenantGone`] if it is
    /// deleted in the meantime; [`Error::TimedOut`].
    pub async fn await_provisioned(
        &self,
        created: &Tenant,
        timeout: Duration,
        report: &dyn Report,
    ) -> Result<Tenant, Error> {
        wait::until_provisioned(self, created, timeout, report).await
    }

    /// Returns one tenant.
    ///
    /// # Errors
    ///
    /// [`Error::NoTenant`], [`Error::NoAxon`], and any other error of the server.
    pub async fn get(&self, id: &TenantId) -> Result<Tenant, Error> {
        let got = self.api.get(id.as_str()).await;
        got.map_err(|error| self.map_error(error, id, format!("get tenant {id}")))
    }

    /// Returns all tenants, fetched in pages.
    ///
    /// # Errors
    ///
    /// [`Error::NoAxon`], and any other error of the server.
    pub async fn list(&self) -> Result<Vec<Tenant>, Error> {
        let mut attempts = MAX_LIST_ATTEMPTS;
        loop {
            attempts -= 1;
            match self.pages().await {
                // The continue token has expired.
                Err(kube::Error::Api(status)) if status.code == 410 && attempts > 0 => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    return Err(Error::NoAxon);
                }
                listed => return listed.map_err(Error::when("list tenants")),
            }
        }
    }

    async fn pages(&self) -> Result<Vec<Tenant>, kube::Error> {
        let mut tenants = Vec::new();
        let mut page = ListParams::default().limit(PAGE_SIZE);
        loop {
            let listed = self.api.list(&page).await?;
            tenants.extend(listed.items);
            match listed.metadata.continue_ {
                Some(after) if !after.is_empty() => page = page.continue_token(&after),
                _ => return Ok(tenants),
            }
        }
    }

    /// Deletes a tenant with its broker, and waits until it is gone. Another tenant that is
    /// created under the same name in the meantime is left alone.
    ///
    /// # Errors
    ///
    /// [`Error::NoTenant`]; [`Error::TimedOut`] with what blocks the deletion; any other error
    /// of the server.
    pub async fn delete(
        &self,
        id: &TenantId,
        timeout: Duration,
        report: &dyn Report,
    ) -> Result<(), Error> {
        delete::run(self, id, timeout, report).await
    }

    /// Converts the server's error for a tenant.
    fn map_error(&self, error: kube::Error, id: &TenantId, attempted: String) -> Error {
        match &error {
            kube::Error::Api(status) if is_missing(status, id) => Error::NoTenant(id.clone()),
            kube::Error::Api(status) if status.code == 404 => Error::NoAxon,
            _ => Error::when(attempted)(error),
        }
    }
}

/// Returns the phase of a tenant for display.
pub fn phase(tenant: &Tenant) -> &'static str {
    if tenant.metadata.deletion_timestamp.is_some() {
        return "Deleting";
    }
    let phase = tenant.status.as_ref().and_then(|status| status.phase);
    match phase {
        None => "Pending",
        Some(Phase::Provisioning) => "Provisioning",
        Some(Phase::Provisioned) => "Provisioned",
        Some(Phase::Failed) => "Failed",
        Some(Phase::Deleting) => "Deleting",
    }
}

/// Returns whether a tenant's status is about its deletion.
fn is_deleting(tenant: &Tenant) -> bool {
    let phase = tenant.status.as_ref().and_then(|status| status.phase);
    phase == Some(Phase::Deleting)
}

/// Returns the message of a tenant's status, if there is one.
pub fn message(tenant: &Tenant) -> Option<&str> {
    let message = tenant.status.as_ref()?.message.as_deref()?;
    (!message.is_empty()).then_some(message)
}

/// Returns whether a 404 is about the tenant and not about the API: without the kind or the
/// namespace the response does not name the tenant.
fn is_missing(status: &Status, id: &TenantId) -> bool {
    let named = status.details.as_ref().map(|details| details.name.as_str());
    status.is_not_found() && named == Some(id.as_str())
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;

    use super::*;

    #[test]
    fn missing_tenant_differs_from_missing_kind() {
        let id: TenantId = "acme".parse().unwrap();
        let status = |code: u16, name: Option<&str>| Status {
            code,
            reason: "NotFound".to_owned(),
            details: name.map(|name| StatusDetails {
                name: name.to_owned(),
                group: String::new(),
                kind: String::new(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 0,
            }),
            ..Status::default()
        };
        assert!(is_missing(&status(404, Some("acme")), &id));
        for other in [
            status(404, None),
            status(404, Some("")),
            status(404, Some(AXON)),
            status(404, Some("acme-2")),
        ] {
            assert!(!is_missing(&other, &id), "{other:?}");
        }
    }

    #[test]
    fn phase_is_pending_without_a_status() {
        let mut tenant = Tenant::new("acme", TenantSpec::default());
        assert_eq!((phase(&tenant), message(&tenant)), ("Pending", None));
        let status = tenant.status.get_or_insert_default();
        status.phase = Some(Phase::Failed);
        status.message = Some("no".to_owned());
        assert_eq!((phase(&tenant), message(&tenant)), ("Failed", Some("no")));
        tenant.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
        );
        assert_eq!(phase(&tenant), "Deleting", "whatever its status says");
    }
}
