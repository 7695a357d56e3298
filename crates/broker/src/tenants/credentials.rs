//! The credentials of a tenant's administrator.

use std::collections::BTreeSet;
use std::time::Duration;

use insula_operator::spaces;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::wait::{Wait, require_provisioned};
use super::{Tenants, audit_bindings};
use crate::error::Error;
use crate::info::BrokerInfo;
use crate::names::{ADMIN, ADMIN_TOKEN, TenantId};
use crate::report::{Report, Silent};
use crate::tenant::Tenant;
use crate::token;
use crate::transient::is_transient;

/// The location of a tenant's administrator account and token.
struct TokenLocation {
    id: TenantId,
    namespace: String,
    client: Client,
    is_space: bool,
}

/// The UIDs of the objects before a rotation.
#[derive(Default)]
struct Previous {
    account: Option<String>,
    secret: Option<String>,
}

/// The report while the Secret holds something other than the administrator's token.
const FOREIGN_TOKEN: &str =
    "the Secret does not hold the administrator's token; the operator is about to recreate it";

impl Tenants {
    /// Returns the partial broker info file of a provisioned tenant: URL, namespace and token,
    /// but no key and no components, which are known only after the broker is deployed.
    ///
    /// # Errors
    ///
    /// [`Error::NotProvisioned`]; [`Error::TimedOut`] if there is no token of the
    /// administrator; [`Error::InItsSpace`]; any error of the server.
    pub async fn info(&self, tenant: &Tenant, url: &str) -> Result<BrokerInfo, Error> {
        let location = self.location(tenant)?;
        let secret = location
            .await_token(&Previous::default(), token::TIMEOUT, &Silent)
            .await?;
        Ok(BrokerInfo {
            url: tenant_url(url, tenant),
            client_token: Some(without_server_metadata(secret)),
            ipsec_psk: None,
            components: BTreeSet::new(),
            custom_domains: Vec::new(),
            namespace: Some(location.namespace),
        })
    }

    /// Has the operator recreate a tenant's administrator account with a new token. All
    /// earlier tokens become invalid: those in files, and those requested by their holders.
    /// Remaining bindings of other subjects are reported.
    ///
    /// # Errors
    ///
    /// [`Error::NotProvisioned`]; [`Error::TimedOut`] if the operator does not recreate it;
    /// any error of the server.
    pub async fn rotate(
        &self,
        tenant: &Tenant,
        timeout: Duration,
        report: &dyn Report,
    ) -> Result<(), Error> {
        let location = self.location(tenant)?;
        let previous = Previous {
            account: location.delete_current::<ServiceAccount>(ADMIN).await?,
            // Whatever it holds, the operator recreates it.
            secret: location.delete_current::<Secret>(ADMIN_TOKEN).await?,
        };
        location.await_token(&previous, timeout, report).await?;
        report.done(&format!("Tenant {} has a new token", location.id));
        let bindings = Api::namespaced(location.client.clone(), &location.namespace);
        audit_bindings::report(&bindings, tenant, &location.namespace, report).await;
        Ok(())
    }

    /// Returns where the operator stores a tenant's token. The status is not trusted: a forged
    /// one would expose another token.
    fn location(&self, tenant: &Tenant) -> Result<TokenLocation, Error> {
        let id = require_provisioned(tenant)?;
        let status = tenant.status.clone().unwrap_or_default();
        let namespace = id.namespace();
        let usual =
            |said: &Option<String>, usual: &str| said.as_deref().is_none_or(|it| it == usual);
        let is_usual = usual(&status.namespace, &namespace)
            && usual(&status.space, &namespace)
            && usual(&status.token_secret, ADMIN_TOKEN);
        if !is_usual {
            return Err(Error::invalid_with_hint(
                format!("the status of tenant {id} was not written by the operator"),
                "it was changed: the operator overwrites it after a restart",
            ));
        }
        let client = match &status.space {
            Some(space) => spaces::client_for(&self.client, space),
            None => self.client.clone(),
        };
        Ok(TokenLocation {
            id,
            namespace,
            client,
            is_space: status.space.is_some(),
        })
    }
}

impl TokenLocation {
    /// Deletes exactly the current object and returns its UID.
    async fn delete_current<K>(&self, name: &str) -> Result<Option<String>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let failed = |error| self.map_error(error, "take away");
        let Some(found) = api.get_opt(name).await.map_err(failed)? else {
            return Ok(None);
        };
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: found.uid(),
            resource_version: None,
        });
        match api.delete(name, &only_this).await {
            Ok(_) => {}
            // Another client was faster: the object is gone or already recreated.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(found.uid())
    }

    /// Waits for a Secret and account that are new and match, and returns the Secret.
    async fn await_token(
        &self,
        previous: &Previous,
        timeout: Duration,
        report: &dyn Report,
    ) -> Result<Secret, Error> {
        let what = format!("Waiting for a token of tenant {}", self.id);
        let mut wait = Wait::with_timeout(timeout);
        loop {
            let why = match self.find_token(previous).await {
                Ok(TokenState::Valid(secret)) => return Ok(*secret),
                Ok(TokenState::Pending) => "",
                Ok(TokenState::Foreign) => FOREIGN_TOKEN,
                Err(error) if is_transient(&error) => "",
                Err(error) => return Err(self.map_error(error, "read")),
            };
            wait.pause(&what, why, report).await?;
        }
    }

    async fn find_token(&self, previous: &Previous) -> Result<TokenState, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(secret) = secrets.get_opt(ADMIN_TOKEN).await? else {
            return Ok(TokenState::Pending);
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(account) = accounts.get_opt(ADMIN).await? else {
            return Ok(TokenState::Pending);
        };
        let is_new = account.uid() != previous.account && secret.uid() != previous.secret;
        let is_going = secret.metadata.deletion_timestamp.is_some();
        if is_going || !is_new || (token::of(&secret).is_none() && token::is_for(&secret, ADMIN)) {
            return Ok(TokenState::Pending);
        }
        let uid = account.uid();
        Ok(
            match token::matches_account(&secret, &self.namespace, ADMIN, uid.as_deref()) {
                true => TokenState::Valid(Box::new(secret)),
                false => TokenState::Foreign,
            },
        )
    }

    /// Converts the server's error.
    fn map_error(&self, error: kube::Error, attempted: &str) -> Error {
        match &error {
            kube::Error::Api(status) if status.is_forbidden() && self.is_space => {
                Error::InItsSpace {
                    id: self.id.clone(),
                }
            }
            _ => Error::when(format!("{attempted} the token of tenant {}", self.id))(error),
        }
    }
}

/// The state of a tenant's token.
enum TokenState {
    /// The administrator's token.
    Valid(Box<Secret>),
    /// No token yet, or still the previous one.
    Pending,
    /// Something else.
    Foreign,
}

/// Drops the metadata that only the server needs.
fn without_server_metadata(secret: Secret) -> Secret {
    let secret = token::for_distribution(secret);
    let annotations = secret.metadata.annotations.unwrap_or_default();
    let said = annotations
        .into_iter()
        .filter(|(key, _)| key.starts_with("kubernetes.io/"));
    Secret {
        metadata: ObjectMeta {
            name: secret.metadata.name,
            namespace: secret.metadata.namespace,
            annotations: Some(said.collect()),
            ..ObjectMeta::default()
        },
        data: secret.data,
        type_: secret.type_,
        ..Secret::default()
    }
}

/// Returns the URL for a tenant. The administrator's URL may contain the path of the system
/// space, which no other space may enter; a tenant's own token determines its space.
fn tenant_url(url: &str, tenant: &Tenant) -> String {
    let space = tenant
        .status
        .as_ref()
        .and_then(|status| status.space.as_ref());
    let url = match space {
        Some(_) => crate::connect::without_space(url),
        None => url.trim_end_matches('/'),
    };
    url.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::{TenantSpec, TenantStatus};

    #[test]
    fn url_of_a_tenant_with_a_space_has_no_space_path() {
        let mut spaced = Tenant::new("acme", TenantSpec::default());
        spaced.status = Some(TenantStatus {
            space: Some("submariner-broker-acme".to_owned()),
            ..TenantStatus::default()
        });
        let plain = Tenant::new("acme", TenantSpec::default());
        let pinned = "https://h:6443/tenants/system";
        for (url, tenant, expected) in [
            ("https://h:6443/", &plain, "https://h:6443"),
            ("https://h:6443", &spaced, "https://h:6443"),
            (pinned, &plain, pinned),
            (pinned, &spaced, "https://h:6443"),
            ("https://h/k8s/tenants/system/", &spaced, "https://h/k8s"),
            ("https://h/tenants/a/b", &spaced, "https://h/tenants/a/b"),
        ] {
            assert_eq!(tenant_url(url, tenant), expected);
        }
    }
}
