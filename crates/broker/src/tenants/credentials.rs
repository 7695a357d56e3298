//! What a tenant's administrator begins with.

use std::collections::BTreeSet;
use std::time::Duration;

use insula_operator::spaces;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::wait::{Wait, must_be_provisioned};
use super::{Tenants, doors};
use crate::error::Error;
use crate::info::BrokerInfo;
use crate::names::{ADMIN, ADMIN_TOKEN, TenantId};
use crate::passing::is_passing;
use crate::report::{Report, Silent};
use crate::tenant::Tenant;
use crate::token;

/// Where a tenant's administrator and its token are.
struct Place {
    id: TenantId,
    namespace: String,
    client: Client,
    is_space: bool,
}

/// What was there before it was to be made anew.
#[derive(Default)]
struct Before {
    account: Option<String>,
    secret: Option<String>,
}

/// What is written where the token is, and does not belong there.
const NOT_ITS_OWN: &str =
    "what is there is not the token of its administrator; the operator makes it anew in a moment";

impl Tenants {
    /// The broker-info file of a tenant that is provisioned, as far as it can be known
    /// before its broker is deployed: where, and as whom. There is no key in it, and no
    /// components.
    ///
    /// # Errors
    ///
    /// [`Error::NotProvisioned`]; [`Error::TimedOut`] if there is no token, or what is there
    /// is not the administrator's; [`Error::InItsSpace`]; what the server answers.
    pub async fn info(&self, tenant: &Tenant, url: &str) -> Result<BrokerInfo, Error> {
        let place = self.place(tenant)?;
        let secret = place
            .filled(&Before::default(), token::PATIENCE, &Silent)
            .await?;
        Ok(BrokerInfo {
            url: within(url, tenant),
            client_token: Some(bare(secret)),
            ipsec_psk: None,
            components: BTreeSet::new(),
            custom_domains: Vec::new(),
            namespace: Some(place.namespace),
        })
    }

    /// Has the operator make a tenant's administrator anew, with another token. Every token
    /// of the one before is worth nothing from then on: the one in files, and others that
    /// somebody may have had made of it. Who else has rights at the broker is told.
    ///
    /// # Errors
    ///
    /// [`Error::NotProvisioned`]; [`Error::TimedOut`] if the operator makes none; what the
    /// server answers.
    pub async fn rotate(
        &self,
        tenant: &Tenant,
        timeout: Duration,
        report: &dyn Report,
    ) -> Result<(), Error> {
        let place = self.place(tenant)?;
        let before = Before {
            account: place.take_away::<ServiceAccount>(ADMIN).await?,
            // Whatever it is: the operator makes it as it should be.
            secret: place.take_away::<Secret>(ADMIN_TOKEN).await?,
        };
        place.filled(&before, timeout, report).await?;
        report.done(&format!("Tenant {} has another token", place.id));
        let bindings = Api::namespaced(place.client.clone(), &place.namespace);
        doors::tell(&bindings, tenant, &place.namespace, report).await;
        Ok(())
    }

    /// Where the operator puts a tenant's token. Whoever could write something else into the
    /// status would have another's handed out.
    fn place(&self, tenant: &Tenant) -> Result<Place, Error> {
        let id = must_be_provisioned(tenant)?;
        let status = tenant.status.clone().unwrap_or_default();
        let namespace = id.namespace();
        let usual =
            |said: &Option<String>, usual: &str| said.as_deref().is_none_or(|it| it == usual);
        let is_usual = usual(&status.namespace, &namespace)
            && usual(&status.space, &namespace)
            && usual(&status.token_secret, ADMIN_TOKEN);
        if !is_usual {
            return Err(Error::invalid_with_hint(
                format!("the status of tenant {id} is not as the operator writes it"),
                "somebody changed it: the operator writes it anew when it is restarted",
            ));
        }
        let client = match &status.space {
            Some(space) => spaces::within(&self.client, space),
            None => self.client.clone(),
        };
        Ok(Place {
            id,
            namespace,
            client,
            is_space: status.space.is_some(),
        })
    }
}

impl Place {
    /// Deletes an object that is there, and no other that comes after it. Says which it was.
    async fn take_away<K>(&self, name: &str) -> Result<Option<String>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        let failed = |error| self.told(error, "take away");
        let Some(found) = api.get_opt(name).await.map_err(failed)? else {
            return Ok(None);
        };
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: found.uid(),
            resource_version: None,
        });
        match api.delete(name, &only_this).await {
            Ok(_) => {}
            // Somebody else was faster: it is another one already, or none.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(found.uid())
    }

    /// The Secret once it has the administrator's token, and neither is the one before.
    async fn filled(
        &self,
        before: &Before,
        timeout: Duration,
        report: &dyn Report,
    ) -> Result<Secret, Error> {
        let what = format!("Waiting for a token of tenant {}", self.id);
        let mut wait = Wait::at_most(timeout);
        loop {
            let why = match self.look(before).await {
                Ok(Found::Good(secret)) => return Ok(*secret),
                Ok(Found::Nothing) => "",
                Ok(Found::Other) => NOT_ITS_OWN,
                Err(error) if is_passing(&error) => "",
                Err(error) => return Err(self.told(error, "read")),
            };
            wait.pause(&what, why, report).await?;
        }
    }

    async fn look(&self, before: &Before) -> Result<Found, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(secret) = secrets.get_opt(ADMIN_TOKEN).await? else {
            return Ok(Found::Nothing);
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let Some(account) = accounts.get_opt(ADMIN).await? else {
            return Ok(Found::Nothing);
        };
        let is_new = account.uid() != before.account && secret.uid() != before.secret;
        let is_going = secret.metadata.deletion_timestamp.is_some();
        if is_going || !is_new || (token::of(&secret).is_none() && token::is_for(&secret, ADMIN)) {
            return Ok(Found::Nothing);
        }
        let uid = account.uid();
        Ok(
            match token::fits(&secret, &self.namespace, ADMIN, uid.as_deref()) {
                true => Found::Good(Box::new(secret)),
                false => Found::Other,
            },
        )
    }

    /// What the server's refusal means.
    fn told(&self, error: kube::Error, attempted: &str) -> Error {
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

/// What is where a tenant's token should be.
enum Found {
    /// Its administrator's.
    Good(Box<Secret>),
    /// Nothing yet, or what was there before.
    Nothing,
    /// Something else.
    Other,
}

/// Without what only the server is interested in.
fn bare(secret: Secret) -> Secret {
    let secret = token::handed_out(secret);
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

/// Where a tenant finds its broker. A path that leads the administrator into the system's
/// space leads nobody of another space anywhere; a tenant's own token leads into its space.
fn within(url: &str, tenant: &Tenant) -> String {
    let url = url.trim_end_matches('/');
    let space = tenant
        .status
        .as_ref()
        .and_then(|status| status.space.as_ref());
    match (space, url.rfind("/tenants/")) {
        (Some(_), Some(at)) if !url[at + "/tenants/".len()..].contains('/') => url[..at].to_owned(),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenant::{TenantSpec, TenantStatus};

    #[test]
    fn a_tenant_with_a_space_is_led_there_by_its_token() {
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
            assert_eq!(within(url, tenant), expected);
        }
    }
}
