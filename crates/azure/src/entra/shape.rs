//! The contents that a Secret must have.

use std::collections::BTreeMap;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::Trust;
use insula_identity::shape::{Carried, Content, InvalidContent, Shape};

use super::account::comma_list;
use super::base_url::Cleartext;
use super::cloud::Cloud;

/// The key of the subscription.
pub const SUBSCRIPTION_ID: &str = "AZURE_SUBSCRIPTION_ID";
/// The key of the Entra tenant.
pub const TENANT_ID: &str = "AZURE_TENANT_ID";
/// The key of the client id.
pub const CLIENT_ID: &str = "AZURE_CLIENT_ID";
/// The key of a client secret.
pub const CLIENT_SECRET: &str = "AZURE_CLIENT_SECRET";
/// The key of a client certificate with its key.
pub const CERTIFICATE: &str = "AZURE_CLIENT_CERTIFICATE";
/// The key of the password of a client certificate.
pub const CERTIFICATE_PASSWORD: &str = "AZURE_CLIENT_CERTIFICATE_PASSWORD";
/// The key of a path to an MSI data plane file, which is not supported.
pub const IDENTITY_FILE: &str = "AZURE_USER_ASSIGNED_IDENTITY_CREDENTIALS";
/// The key that selects a managed identity or a workload identity.
pub const AUTH_MODE: &str = "AUTH_MODE";
/// The key of further tenants.
pub const ADDITIONAL_TENANTS: &str = "AZURE_ADDITIONAL_TENANTS";
/// The key of the endpoint of ARM.
pub const RESOURCE_MANAGER: &str = "AZURE_RESOURCE_MANAGER_ENDPOINT";
/// The key of the audience of tokens for ARM.
pub const AUDIENCE: &str = "AZURE_RESOURCE_MANAGER_AUDIENCE";
/// The key of the authority.
pub const AUTHORITY: &str = "AZURE_AUTHORITY_HOST";

const REQUIRED: [&str; 3] = [SUBSCRIPTION_ID, TENANT_ID, CLIENT_ID];
const ENDPOINTS: [&str; 3] = [RESOURCE_MANAGER, AUDIENCE, AUTHORITY];
/// The value of `AUTH_MODE` for a managed identity.
const POD_IDENTITY: &str = "podidentity";
/// The value of `AUTH_MODE` for a workload identity, which is the default.
const WORKLOAD_IDENTITY: &str = "workloadidentity";
/// The maximum number of further tenants that ARM accepts tokens of.
pub const MAX_ADDITIONAL_TENANTS: usize = 3;
/// The maximum length of an id.
const MAX_ID_LENGTH: usize = 256;

/// The contents of a Secret with an Azure account. What is read of it always has the endpoints,
/// so that the session of an account does not depend on anything else.
#[derive(Clone, Debug)]
pub struct AccountShape {
    /// The cloud of accounts that do not name endpoints.
    pub cloud: Cloud,
    /// Whether an account may name the endpoints, as `ALLOW_MULTI_ENV_MANAGEMENT` says.
    pub may_name_endpoints: bool,
    /// The managed identities of the operator's machine that an account may be.
    pub managed_identities: ManagedIdentities,
    /// Whether the operator's own token proves workload identities of namespaces.
    pub shares_own_token: bool,
    /// The endpoints that may be without TLS.
    pub cleartext: Cleartext,
}

/// The managed identities of the operator's machine that an account in a Secret may be. All of them
/// are the machine's, and an account names one by its client id, which is no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagedIdentities {
    /// None.
    Refused,
    /// The operator's own, with this client id; empty for the only one of the machine.
    Own(String),
    /// Any, for an explanation that does not know the operator's.
    Any,
}

impl Shape for AccountShape {
    fn describe(&self) -> String {
        let (required, last) = ([SUBSCRIPTION_ID, TENANT_ID].join(", "), CLIENT_ID);
        format!(
            "{required} and {last}, and with {CLIENT_SECRET} or {CERTIFICATE} unless it is a \
             workload identity"
        )
    }

    fn read(
        &self,
        data: &BTreeMap<String, Hidden>,
        part: Option<&str>,
    ) -> Result<Content, InvalidContent> {
        if let Some(name) = part {
            let (kind, name) = ("part", name.to_owned());
            return Err(InvalidContent::NoPart { kind, name });
        }
        self.read_account(&Data(data))
    }

    fn sample(&self) -> BTreeMap<String, Hidden> {
        let keys = REQUIRED.iter().chain([&CLIENT_SECRET]);
        let sample = keys.map(|key| ((*key).to_owned(), Hidden::new("sample")));
        sample.collect()
    }
}

impl AccountShape {
    /// Returns an account. A managed identity needs only a subscription: the machine may have one
    /// identity.
    fn read_account(&self, data: &Data<'_>) -> Result<Content, InvalidContent> {
        let proof = self.proof(data)?;
        let is_managed_identity = proof.iter().any(|(key, _)| key == AUTH_MODE);
        let is_required = |key: &&str| {
            *key == SUBSCRIPTION_ID || !is_managed_identity || data.0.contains_key(*key)
        };
        let required: Vec<&str> = REQUIRED.into_iter().filter(is_required).collect();
        let mut content = self.read_with(data, &required)?;
        for key in REQUIRED {
            content.values.entry(key.to_owned()).or_default();
        }
        if is_managed_identity {
            self.check_managed_identity(&content)?;
        }
        Ok(content)
    }

    /// Refuses other managed identities of the machine than the operator's own.
    fn check_managed_identity(&self, content: &Content) -> Result<(), InvalidContent> {
        let named = content.values.get(CLIENT_ID).and_then(Hidden::text);
        let problem = match &self.managed_identities {
            ManagedIdentities::Any => return Ok(()),
            ManagedIdentities::Own(own) if named.unwrap_or_default() == own => return Ok(()),
            ManagedIdentities::Own(_) => "other managed identities than the operator's own",
            ManagedIdentities::Refused => "managed identities of the operator's machine",
        };
        Err(InvalidContent::Unsupported(format!(
            "has {AUTH_MODE} {POD_IDENTITY}, and {problem} may not be used"
        )))
    }

    fn read_with(&self, data: &Data<'_>, required: &[&str]) -> Result<Content, InvalidContent> {
        let mut values = data.ids(required)?;
        let proof = self.proof(data)?;
        let is_workload_identity = proof.is_empty();
        let is_operators_proof = match proof.first() {
            Some((key, _)) => key == AUTH_MODE,
            None => self.shares_own_token,
        };
        values.extend(proof);
        if let Some(tenants) = additional_tenants(data)? {
            values.insert(ADDITIONAL_TENANTS.to_owned(), Hidden::new(tenants));
        }
        let cloud = self.endpoints(data)?.unwrap_or_else(|| self.cloud.clone());
        // The author of a Secret may send elsewhere what is in the Secret, and nothing else.
        if is_operators_proof && cloud != self.cloud {
            return Err(InvalidContent::Unsupported(format!(
                "names endpoints ({}), which would get a token of the operator: only accounts with \
                 {CLIENT_SECRET} or {CERTIFICATE} may",
                ENDPOINTS.join(", ")
            )));
        }
        let scope = values.get(SUBSCRIPTION_ID).and_then(Hidden::text);
        let carried = Carried {
            endpoint: cloud.resource_manager.endpoint().clone(),
            trust: Trust::Verified,
            scope: scope.map(str::to_owned),
        };
        let endpoints = [
            (RESOURCE_MANAGER, cloud.resource_manager.to_string()),
            (AUDIENCE, cloud.audience),
            (AUTHORITY, cloud.authority.to_string()),
        ];
        let endpoints = endpoints.map(|(key, value)| (key.to_owned(), Hidden::new(value)));
        values.extend(endpoints);
        Ok(Content {
            values,
            carried: Some(carried),
            is_proven_by_namespace: is_workload_identity,
        })
    }

    /// Returns the values that prove the account. The first key decides.
    fn proof(&self, data: &Data<'_>) -> Result<Vec<(String, Hidden)>, InvalidContent> {
        if let Some(secret) = data.secret(CLIENT_SECRET)? {
            // A line break at the end is not part of a secret.
            let text = secret.text();
            let text = text.ok_or_else(|| InvalidContent::NotText(CLIENT_SECRET.to_owned()))?;
            let secret = Hidden::new(text.trim_end_matches(['\r', '\n']));
            return Ok(vec![(CLIENT_SECRET.to_owned(), secret)]);
        }
        if let Some(certificate) = data.secret(CERTIFICATE)? {
            let password = data.0.get(CERTIFICATE_PASSWORD);
            let password = password.map(|text| (CERTIFICATE_PASSWORD.to_owned(), text.clone()));
            let certificate = (CERTIFICATE.to_owned(), certificate.clone());
            return Ok(std::iter::once(certificate).chain(password).collect());
        }
        if data.0.contains_key(IDENTITY_FILE) {
            let why = format!("has {IDENTITY_FILE}, which is not supported");
            return Err(InvalidContent::Unsupported(why));
        }
        let mode = data.text(AUTH_MODE)?.unwrap_or_default();
        match mode.to_ascii_lowercase().as_str() {
            "" | WORKLOAD_IDENTITY => Ok(Vec::new()),
            POD_IDENTITY => Ok(vec![(AUTH_MODE.to_owned(), Hidden::new(POD_IDENTITY))]),
            _ => Err(InvalidContent::Unsupported(format!(
                "has an {AUTH_MODE} that is neither {POD_IDENTITY} nor {WORKLOAD_IDENTITY}"
            ))),
        }
    }

    /// Returns the endpoints that the contents name.
    fn endpoints(&self, data: &Data<'_>) -> Result<Option<Cloud>, InvalidContent> {
        let mut texts = Vec::new();
        for key in ENDPOINTS {
            texts.extend(data.text(key)?);
        }
        let [arm, audience, authority] = texts[..] else {
            return match texts.len() {
                0 => Ok(None),
                found => Err(InvalidContent::Unsupported(format!(
                    "must specify ALL or NONE of {} (found {found} of 3)",
                    ENDPOINTS.join(", ")
                ))),
            };
        };
        if !self.may_name_endpoints {
            return Err(InvalidContent::Unsupported(format!(
                "names endpoints ({}), which is not allowed",
                ENDPOINTS.join(", ")
            )));
        }
        let cloud = Cloud::custom(authority, arm, audience, self.cleartext);
        let invalid = |why| InvalidContent::Unsupported(format!("has an invalid {why}"));
        cloud.map(Some).map_err(invalid)
    }
}

/// The data of a Secret.
struct Data<'a>(&'a BTreeMap<String, Hidden>);

impl<'a> Data<'a> {
    /// Returns the trimmed text under a key; none if it is missing or empty.
    fn text(&self, key: &str) -> Result<Option<&'a str>, InvalidContent> {
        let Some(value) = self.0.get(key) else {
            return Ok(None);
        };
        let text = value.text();
        let text = text.ok_or_else(|| InvalidContent::NotText(key.to_owned()))?;
        Ok(Some(text.trim()).filter(|text| !text.is_empty()))
    }

    /// Returns a secret that must not be empty: another type of account would be used instead.
    fn secret(&self, key: &str) -> Result<Option<&'a Hidden>, InvalidContent> {
        let is_empty = |value: &Hidden| value.reveal().iter().all(u8::is_ascii_whitespace);
        match self.0.get(key) {
            Some(value) if is_empty(value) => {
                Err(InvalidContent::Unsupported(format!("has an empty {key}")))
            }
            found => Ok(found),
        }
    }

    /// Returns the required ids, which become parts of URLs.
    fn ids(&self, required: &[&str]) -> Result<BTreeMap<String, Hidden>, InvalidContent> {
        let mut values = BTreeMap::new();
        let mut missing = Vec::new();
        for key in required {
            match self.text(key)? {
                Some(text) if is_id(text) => {
                    values.insert((*key).to_owned(), Hidden::new(text));
                }
                Some(_) => {
                    let why = format!("has an invalid {key}");
                    return Err(InvalidContent::Unsupported(why));
                }
                None => missing.push((*key).to_owned()),
            }
        }
        match missing.is_empty() {
            true => Ok(values),
            false => Err(InvalidContent::Lacks(missing)),
        }
    }
}

/// Returns the further tenants as a list.
fn additional_tenants(data: &Data<'_>) -> Result<Option<String>, InvalidContent> {
    let text = data.text(ADDITIONAL_TENANTS)?.unwrap_or_default();
    let tenants: Vec<&str> = comma_list(text).collect();
    if tenants.len() > MAX_ADDITIONAL_TENANTS || !tenants.iter().all(|tenant| is_id(tenant)) {
        return Err(InvalidContent::Unsupported(format!(
            "has {ADDITIONAL_TENANTS} that are not up to {MAX_ADDITIONAL_TENANTS} ids"
        )));
    }
    Ok((!tenants.is_empty()).then(|| tenants.join(",")))
}

/// Returns whether a text is a UUID, a domain name or another simple name.
fn is_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_ID_LENGTH && text.bytes().all(allowed) && has_letter
}

#[cfg(test)]
mod tests;
