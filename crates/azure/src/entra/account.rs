//! An account: the contents of a Secret, parsed.

use std::collections::BTreeMap;

use insula_identity::credential::Hidden;

use super::base_url::Cleartext;
use super::cloud::Cloud;
use super::shape::{
    ADDITIONAL_TENANTS, AUDIENCE, AUTHORITY, CERTIFICATE, CERTIFICATE_PASSWORD, CLIENT_ID,
    CLIENT_SECRET, RESOURCE_MANAGER, SUBSCRIPTION_ID, TENANT_ID,
};

/// An account of a subscription.
#[derive(Clone, Debug)]
pub struct Account {
    /// The subscription that it manages.
    pub subscription: String,
    /// The Entra tenant.
    pub tenant: String,
    /// The client id of the application or of the managed identity.
    pub client_id: String,
    /// Further tenants with resources that the subscription's refer to.
    pub additional_tenants: Vec<String>,
    /// The cloud.
    pub cloud: Cloud,
    /// How the account is proved.
    pub proof: Proof,
}

/// How an account is proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A client secret.
    Secret(Hidden),
    /// A client certificate with its key, as PEM or PKCS#12, and its password.
    Certificate(Hidden, Option<Hidden>),
    /// The token of a Kubernetes service account.
    WorkloadIdentity,
    /// The metadata service of the machine.
    ManagedIdentity,
}

/// A credential that is not an account. Contents are validated before, so this is not expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credential is not an Azure account")]
pub struct NotAnAccount;

impl Account {
    /// Reads the contents that [`AccountShape`](super::shape::AccountShape) has normalized.
    ///
    /// # Errors
    ///
    /// If they are not those of an account.
    pub fn of_content(
        content: &BTreeMap<String, Hidden>,
        cleartext: Cleartext,
    ) -> Result<Self, NotAnAccount> {
        let text = |key: &str| content.get(key).and_then(Hidden::text).ok_or(NotAnAccount);
        let cloud = Cloud::custom(
            text(AUTHORITY)?,
            text(RESOURCE_MANAGER)?,
            text(AUDIENCE)?,
            cleartext,
        );
        let additional = text(ADDITIONAL_TENANTS).unwrap_or_default();
        Ok(Self {
            subscription: text(SUBSCRIPTION_ID)?.to_owned(),
            tenant: text(TENANT_ID)?.to_owned(),
            client_id: text(CLIENT_ID)?.to_owned(),
            additional_tenants: comma_list(additional).map(str::to_owned).collect(),
            cloud: cloud.map_err(|_| NotAnAccount)?,
            proof: Proof::of_content(content),
        })
    }
}

impl Proof {
    fn of_content(content: &BTreeMap<String, Hidden>) -> Self {
        if let Some(secret) = content.get(CLIENT_SECRET) {
            return Self::Secret(secret.clone());
        }
        if let Some(certificate) = content.get(CERTIFICATE) {
            let password = content.get(CERTIFICATE_PASSWORD).cloned();
            return Self::Certificate(certificate.clone(), password);
        }
        match content.contains_key(super::shape::AUTH_MODE) {
            true => Self::ManagedIdentity,
            false => Self::WorkloadIdentity,
        }
    }
}

/// Returns the items of a comma-separated list that are not empty.
pub(super) fn comma_list(text: &str) -> impl Iterator<Item = &str> {
    let items = text.split(',').map(str::trim);
    items.filter(|item| !item.is_empty())
}
