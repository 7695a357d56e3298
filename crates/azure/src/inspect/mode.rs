//! Which scopes of credentials the operator of an object uses, as far as the caller may know.
//!
//! The operator's settings Secret decides, then the environment of its Deployment, then the default.

use std::collections::BTreeMap;

use insula_operator::read::get_named;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{EnvVar, Secret};
use kube::{Api, Client};

use crate::manifests::DEPLOYMENT;
use crate::names::{
    CLAIM_LEASE, OPERATOR_NAMESPACE, OPERATOR_NAMESPACE_V2, SYSTEM_NAMESPACE, SYSTEM_OPERATOR,
};
use crate::settings::{CredentialMode, SECRET_NAMES, Settings};

const SETTING: &str = "AZURE_OPERATOR_AUTH_SOURCE_MODE";
const WEBHOOK_ONLY: &str = "AZURE_WEBHOOK_ONLY";
/// The Deployments of this operator and of Azure Service Operator v2.
const DEPLOYMENTS: [&str; 2] = [DEPLOYMENT, "azureserviceoperator-controller-manager"];

/// The mode of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OperatorMode {
    /// The mode, and where it is set.
    Known(CredentialMode, String),
    /// Why it is not known.
    Unknown(String),
}

impl OperatorMode {
    /// Returns the mode to explain with: the one that uses most scopes if it is not known, so that
    /// what is refused is refused in every mode.
    pub(super) fn assumed(&self) -> CredentialMode {
        match self {
            Self::Known(mode, _) => *mode,
            Self::Unknown(_) => CredentialMode::Fallback,
        }
    }

    /// Returns a line about the mode, or about what is assumed.
    pub(super) fn line(&self) -> Result<String, String> {
        match self {
            Self::Known(mode, source) => Ok(format!("credential mode: {mode} ({source})")),
            Self::Unknown(why) => Err(format!(
                "{why}: the operator's credential mode ({SETTING}) is not known, and fallback is \
                 assumed"
            )),
        }
    }
}

/// Finds the mode of the operator of an object.
pub(super) async fn find(
    client: &Client,
    namespace: &str,
    annotations: &BTreeMap<String, String>,
) -> OperatorMode {
    let operator = operator_namespace(client, namespace, annotations).await;
    if operator.starts_with(SYSTEM_OPERATOR) {
        return OperatorMode::Unknown("the system's operator reconciles the object".to_owned());
    }
    let secret = match settings_secret(client, &operator).await {
        Ok(secret) => secret,
        Err(why) => return OperatorMode::Unknown(why),
    };
    if let Some((name, text)) = secret {
        return parse(&operator, &text, format!("Secret {operator}/{name}"));
    }
    match deployment(client, &operator).await {
        Err(why) => OperatorMode::Unknown(why),
        Ok((name, env)) => of_environment(&operator, &name, &env),
    }
}

/// Returns the namespace of the operator: the one that the object names, else the one that has
/// claimed the namespace, else the one of an operator for all namespaces.
async fn operator_namespace(
    client: &Client,
    namespace: &str,
    annotations: &BTreeMap<String, String>,
) -> String {
    let named = [OPERATOR_NAMESPACE, OPERATOR_NAMESPACE_V2];
    let named = named.iter().find_map(|name| annotations.get(*name));
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return named.clone();
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = get_named(&leases, CLAIM_LEASE).await.ok().flatten();
    let holder = lease.and_then(|lease| lease.spec?.holder_identity);
    let holder = holder.filter(|holder| !holder.is_empty());
    holder.unwrap_or_else(|| SYSTEM_NAMESPACE.to_owned())
}

/// Returns the name of the settings Secret, and the setting, if it has one.
async fn settings_secret(
    client: &Client,
    operator: &str,
) -> Result<Option<(&'static str, String)>, String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), operator);
    for name in SECRET_NAMES {
        let read = get_named(&secrets, name).await;
        let found = read.map_err(|error| unread("Secrets", operator, &error))?;
        // Only the first one that exists counts.
        let Some(secret) = found else { continue };
        let value = secret.data.and_then(|mut data| data.remove(SETTING));
        let text = value.and_then(|value| String::from_utf8(value.0).ok());
        let text = text.filter(|text| !text.trim().is_empty());
        return Ok(text.map(|text| (name, text)));
    }
    Ok(None)
}

/// Returns the name and the environment of the operator's Deployment.
async fn deployment(client: &Client, operator: &str) -> Result<(String, Vec<EnvVar>), String> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), operator);
    for name in DEPLOYMENTS {
        let read = get_named(&deployments, name).await;
        let found = read.map_err(|error| unread("Deployments", operator, &error))?;
        let Some(found) = found else { continue };
        let pod = found.spec.and_then(|spec| spec.template.spec);
        let containers = pod.map(|pod| pod.containers).unwrap_or_default();
        let env = containers
            .into_iter()
            .flat_map(|container| container.env.unwrap_or_default());
        return Ok((name.to_owned(), env.collect()));
    }
    Err(format!(
        "there is no Deployment of the operator in namespace {operator} (in insula serve, the \
         default mode is namespace)"
    ))
}

/// Returns the mode of an operator without the setting in its Secret.
fn of_environment(operator: &str, deployment: &str, env: &[EnvVar]) -> OperatorMode {
    let value = |name: &str| {
        let found = env.iter().find(|one| one.name == name);
        found.and_then(|one| one.value.as_deref())
    };
    if value(WEBHOOK_ONLY) == Some("1") {
        let why = format!("Deployment {operator}/{deployment} serves webhooks only");
        return OperatorMode::Unknown(why);
    }
    match value(SETTING).filter(|text| !text.trim().is_empty()) {
        Some(text) => parse(
            operator,
            text,
            format!("Deployment {operator}/{deployment}"),
        ),
        None => OperatorMode::Known(CredentialMode::Fallback, "the default".to_owned()),
    }
}

/// Reads the setting as the operator does.
fn parse(operator: &str, text: &str, source: String) -> OperatorMode {
    let values = [("POD_NAMESPACE", operator), (SETTING, text)];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    match Settings::parse(&BTreeMap::from(values)) {
        Ok(parsed) => OperatorMode::Known(parsed.settings.credential_mode, source),
        Err(error) => OperatorMode::Unknown(format!("{source}: {error}")),
    }
}

fn unread(what: &str, namespace: &str, error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("you may not read {what} of namespace {namespace}")
        }
        error => format!("cannot read {what} of namespace {namespace}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<EnvVar> {
        let one = |(name, value): &(&str, &str)| EnvVar {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            ..EnvVar::default()
        };
        pairs.iter().map(one).collect()
    }

    #[test]
    fn mode_of_a_deployment_is_its_setting_or_the_default() {
        let of = |pairs: &[(&str, &str)]| of_environment("sys", "d", &env(pairs));
        let source = "Deployment sys/d".to_owned();
        assert_eq!(
            of(&[(SETTING, "Namespace")]),
            OperatorMode::Known(CredentialMode::Namespace, source)
        );
        let default = OperatorMode::Known(CredentialMode::Fallback, "the default".to_owned());
        assert_eq!(of(&[]), default);
        assert_eq!(of(&[(SETTING, " ")]), default);
        let unknown = [of(&[(WEBHOOK_ONLY, "1")]), of(&[(SETTING, "all")])];
        for mode in unknown {
            assert!(matches!(mode, OperatorMode::Unknown(_)), "{mode:?}");
            assert_eq!(mode.assumed(), CredentialMode::Fallback);
        }
    }
}
