//! What a tenant's administrator begins with.

use std::collections::BTreeSet;
use std::time::Duration;

use insula_operator::spaces;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, ResourceExt};

use super::Tenants;
use super::wait::{Wait, is_passing, must_be_provisioned};
use crate::error::Error;
use crate::info::BrokerInfo;
use crate::names::{ADMIN, ADMIN_TOKEN, TenantId};
use crate::report::{Report, Silent};
use crate::tenant::Tenant;
use crate::token;

/// Where a tenant's token is.
struct Place {
    id: TenantId,
    namespace: String,
    name: String,
    in_space: bool,
    secrets: Api<Secret>,
}

impl Tenants {
    /// The broker-info file of a tenant that is provisioned, as far as it can be known
    /// before its broker is deployed: where, and as whom. There is no key in it, and no
    /// components.
    ///
    /// # Errors
    ///
    /// [`Error::NotProvisioned`]; [`Error::TimedOut`] if there is no token; what the server
    /// answers.
    pub async fn info(&self, tenant: &Tenant, url: &str) -> Result<BrokerInfo, Error> {
        let place = self.place(tenant)?;
        let secret = place.filled(None, token::PATIENCE, &Silent);
        let secret = secret.await?;
        Ok(BrokerInfo {
            url: within(url, tenant),
            client_token: Some(bare(secret)),
            ipsec_psk: None,
            components: BTreeSet::new(),
            custom_domains: Vec::new(),
            namespace: Some(place.namespace),
        })
    }

    /// Has the operator make another token for a tenant's administrator. The one before it,
    /// and every file with it, is worth nothing from then on.
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
        let old = place.filled(None, timeout.min(token::PATIENCE), report);
        let old = old.await?;
        let only_this = DeleteParams::default().preconditions(Preconditions {
            uid: old.uid(),
            resource_version: None,
        });
        match place.secrets.delete(&place.name, &only_this).await {
            Ok(_) => {}
            // Somebody else was faster: it is another one already, or none.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => return Err(place.refused("delete", error)),
        }
        place.filled(old.uid(), timeout, report).await?;
        report.done(&format!("Tenant {} has another token", place.id));
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
            name: ADMIN_TOKEN.to_owned(),
            in_space: status.space.is_some(),
            secrets: Api::namespaced(client, &namespace),
            namespace,
        })
    }
}

impl Place {
    /// The Secret once it has a token, and is not the old one.
    async fn filled(
        &self,
        old: Option<String>,
        timeout: Duration,
        report: &dyn Report,
    ) -> Result<Secret, Error> {
        let what = format!("Waiting for a token of tenant {}", self.id);
        let mut wait = Wait::at_most(timeout);
        loop {
            match self.secrets.get_opt(&self.name).await {
                Ok(Some(secret)) if self.is_good(&secret) && is_other(&secret, old.as_deref()) => {
                    return Ok(secret);
                }
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(self.refused("read", error)),
            }
            wait.pause(&what, "", report).await?;
        }
    }

    /// Roles of a space are for its own people: of others only those get in whom the system
    /// lets into every space.
    fn refused(&self, verb: &str, error: kube::Error) -> Error {
        let is_forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
        let refused = Error::when(format!("{verb} the token of tenant {}", self.id))(error);
        match is_forbidden && self.in_space {
            false => refused,
            true => Error::invalid_with_hint(
                refused.to_string(),
                format!(
                    "an administrator of the system writes the file: `subctl get tenant {} --generate_subm`",
                    self.id
                ),
            ),
        }
    }

    /// Whether it has the token of the administrator, and of nobody else.
    fn is_good(&self, secret: &Secret) -> bool {
        token::is_for(secret, ADMIN)
            && token::of(secret).is_some()
            && secret.metadata.deletion_timestamp.is_none()
    }
}

fn is_other(secret: &Secret, old: Option<&str>) -> bool {
    old.is_none_or(|old| secret.metadata.uid.as_deref() != Some(old))
}

/// Without what only the server is interested in.
fn bare(secret: Secret) -> Secret {
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
