//! Clients of workload clusters.
//!
//! Cluster API keeps an administrator's kubeconfig of each cluster in the Secret
//! `CLUSTER-kubeconfig`. Tenants can write it, so it is only read as data: no program is run and no
//! file of the operator is opened for it, and no message repeats what it contains.

use std::time::Duration;

use insula_operator::user_agent::set_user_agent;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

/// The key of the Secret.
const KEY: &str = "value";
/// The largest kubeconfig that is parsed.
const MAX_BYTES: usize = 256 << 10;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server may take to send or accept the next bytes.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no client of a workload cluster.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The Secret does not exist, as before the control plane is initialized.
    #[error("there is no Secret {0:?} yet")]
    NoSecret(String),
    /// The Secret cannot be used.
    #[error("Secret {secret:?} {problem}")]
    Invalid {
        /// The name of the Secret.
        secret: String,
        /// What is wrong with it.
        problem: InvalidKubeconfig,
    },
    /// The Secret cannot be read, or the client cannot be made.
    #[error(transparent)]
    Failed(#[from] kube::Error),
}

/// Why a kubeconfig cannot be used, as the end of a sentence about the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKubeconfig {
    /// The key is missing.
    #[error("has no key {KEY:?}")]
    NoKey,
    /// It is too large.
    #[error("has more than {} KiB", MAX_BYTES >> 10)]
    TooLarge,
    /// It is no kubeconfig.
    #[error("has no valid kubeconfig")]
    NotValid,
    /// Its current context, or the cluster or user of that, does not exist.
    #[error("has no current context with a cluster and a user")]
    NoContext,
    /// The server's URL is missing or has another scheme.
    #[error("has no https:// server")]
    NoServer,
    /// It depends on something outside of itself.
    #[error("uses {0}, which is not allowed")]
    NotSelfContained(&'static str),
}

/// Returns the name of the Secret with the kubeconfig of a cluster.
pub fn secret_name(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Returns a client of a workload cluster, with the Secrets of the namespace of its Cluster. The
/// last argument makes a client from the configuration: it decides which addresses a server that
/// a tenant chose may have.
///
/// # Errors
///
/// If the Secret does not exist yet, cannot be read or cannot be used.
pub async fn client(
    secrets: &Api<Secret>,
    cluster: &str,
    agent: &'static str,
    connect: impl FnOnce(Config) -> Result<Client, kube::Error>,
) -> Result<Client, Unavailable> {
    let name = secret_name(cluster);
    let Some(secret) = secrets.get_opt(&name).await? else {
        return Err(Unavailable::NoSecret(name));
    };
    match config(&secret, agent).await {
        Ok(config) => Ok(connect(config)?),
        Err(problem) => Err(Unavailable::Invalid {
            secret: name,
            problem,
        }),
    }
}

/// Returns the configuration of a client from a Secret.
///
/// # Errors
///
/// If the Secret cannot be used.
pub async fn config(secret: &Secret, agent: &'static str) -> Result<Config, InvalidKubeconfig> {
    let data = secret.data.as_ref().and_then(|data| data.get(KEY));
    let text = &data.ok_or(InvalidKubeconfig::NoKey)?.0;
    if text.len() > MAX_BYTES {
        return Err(InvalidKubeconfig::TooLarge);
    }
    // The parser's message may repeat what it could not parse.
    let text = str::from_utf8(text).map_err(|_| InvalidKubeconfig::NotValid)?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| InvalidKubeconfig::NotValid)?;
    let (cluster, user) = current(&kubeconfig).ok_or(InvalidKubeconfig::NoContext)?;
    let server = cluster.server.as_deref().unwrap_or_default();
    if !server.starts_with("https://") {
        return Err(InvalidKubeconfig::NoServer);
    }
    if let Some(feature) = outside_reference(cluster, user) {
        return Err(InvalidKubeconfig::NotSelfContained(feature));
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|_| InvalidKubeconfig::NotValid)?;
    // The environment of the operator does not decide about tenants' clusters.
    config.proxy_url = None;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(TRANSFER_TIMEOUT);
    config.write_timeout = Some(TRANSFER_TIMEOUT);
    config.reset_reader_on_write = true;
    // A reconciler retries with a backoff of its own.
    config.default_retry = false;
    set_user_agent(&mut config, agent);
    Ok(config)
}

/// Returns the cluster and the user of the current context.
fn current(kubeconfig: &Kubeconfig) -> Option<(&Cluster, &AuthInfo)> {
    let name = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == *name)?;
    let context = context.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|one| one.name == context.cluster)?;
    let mut users = kubeconfig.auth_infos.iter();
    let user = users.find(|one| Some(&one.name) == context.user.as_ref())?;
    Some((cluster.cluster.as_ref()?, user.auth_info.as_ref()?))
}

/// Returns the first field that refers to something outside of the kubeconfig.
fn outside_reference(cluster: &Cluster, user: &AuthInfo) -> Option<&'static str> {
    let fields = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
        (
            "certificate-authority",
            cluster.certificate_authority.is_some(),
        ),
        ("proxy-url", cluster.proxy_url.is_some()),
    ];
    let used = fields.into_iter().find(|(_, is_used)| *is_used);
    used.map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;

    fn kubeconfig(cluster: Value, user: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [
                {"name": "c", "cluster": cluster},
                {"name": "other", "cluster": {"server": "http://other.test"}},
            ],
            "users": [
                {"name": "u", "user": user},
                {"name": "other", "user": {"tokenFile": "/etc/passwd"}},
            ],
            "contexts": [
                {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
                {"name": "b", "context": {"cluster": "other", "user": "other"}},
            ],
        })
    }

    fn secret(key: &str, value: &[u8]) -> Secret {
        Secret {
            data: Some([(key.to_owned(), ByteString(value.to_vec()))].into()),
            ..Secret::default()
        }
    }

    async fn problem(secret: &Secret) -> Option<InvalidKubeconfig> {
        config(secret, "test").await.err()
    }

    #[tokio::test]
    async fn configuration_has_timeouts_and_the_current_context() {
        let whole = kubeconfig(
            json!({"server": "https://c.test:6443"}),
            json!({"token": "t"}),
        );
        let secret = secret("value", whole.to_string().as_bytes());
        let config = config(&secret, "test").await.unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://c.test:6443/");
        assert_eq!(config.default_namespace, "n");
        assert_eq!(config.connect_timeout, Some(CONNECT_TIMEOUT));
        assert_eq!(config.read_timeout, Some(TRANSFER_TIMEOUT));
        assert_eq!(config.write_timeout, Some(TRANSFER_TIMEOUT));
        assert!(config.reset_reader_on_write && !config.default_retry);
    }

    #[tokio::test]
    async fn nothing_outside_of_the_kubeconfig_is_used() {
        let server = json!({"server": "https://c.test"});
        let exec = json!({"command": "/bin/sh", "apiVersion": "client.authentication.k8s.io/v1"});
        for (cluster, user, field) in [
            (json!({}), json!({"exec": exec}), "exec"),
            (
                json!({}),
                json!({"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}}}),
                "auth-provider",
            ),
            (json!({}), json!({"tokenFile": "/token"}), "tokenFile"),
            (
                json!({}),
                json!({"client-certificate": "/crt"}),
                "client-certificate",
            ),
            (json!({}), json!({"client-key": "/key"}), "client-key"),
            (
                json!({"certificate-authority": "/ca"}),
                json!({}),
                "certificate-authority",
            ),
            (
                json!({"proxy-url": "http://proxy.test"}),
                json!({}),
                "proxy-url",
            ),
        ] {
            let mut whole = server.clone();
            let more = cluster.as_object().unwrap().clone();
            whole.as_object_mut().unwrap().extend(more);
            let text = kubeconfig(whole, user).to_string();
            let found = problem(&secret("value", text.as_bytes())).await;
            assert_eq!(found, Some(InvalidKubeconfig::NotSelfContained(field)));
        }
    }

    #[tokio::test]
    async fn unusable_secrets_are_refused_without_their_content() {
        let text = |value: Value| value.to_string().into_bytes();
        let server = |url: &str| text(kubeconfig(json!({"server": url}), json!({"token": "t"})));
        let without = |member: &str| {
            let mut whole = kubeconfig(json!({"server": "https://c.test"}), json!({}));
            whole[member] = json!([]);
            text(whole)
        };
        let mut no_current = kubeconfig(json!({"server": "https://c.test"}), json!({}));
        no_current["current-context"] = json!("missing");
        let bad_authority = kubeconfig(
            json!({"server": "https://c.test", "certificate-authority-data": "sesame"}),
            json!({}),
        );
        for (key, value, expected) in [
            (
                "kubeconfig",
                server("https://c.test"),
                InvalidKubeconfig::NoKey,
            ),
            (
                "value",
                vec![b' '; MAX_BYTES + 1],
                InvalidKubeconfig::TooLarge,
            ),
            ("value", vec![0xff], InvalidKubeconfig::NotValid),
            ("value", b"- sesame".to_vec(), InvalidKubeconfig::NotValid),
            ("value", Vec::new(), InvalidKubeconfig::NoContext),
            ("value", text(bad_authority), InvalidKubeconfig::NotValid),
            ("value", text(no_current), InvalidKubeconfig::NoContext),
            ("value", without("contexts"), InvalidKubeconfig::NoContext),
            ("value", without("clusters"), InvalidKubeconfig::NoContext),
            ("value", without("users"), InvalidKubeconfig::NoContext),
            (
                "value",
                server("http://c.test"),
                InvalidKubeconfig::NoServer,
            ),
            ("value", server(""), InvalidKubeconfig::NoServer),
        ] {
            let found = problem(&secret(key, &value)).await;
            assert_eq!(found, Some(expected), "{}", String::from_utf8_lossy(&value));
            assert!(!expected.to_string().contains("sesame"));
        }
        assert_eq!(
            problem(&Secret::default()).await,
            Some(InvalidKubeconfig::NoKey)
        );
    }
}
