//! The connection that a kubeconfig describes.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{Cluster, Kubeconfig, User};
use crate::failure::Failure;
use crate::secret::Secret;

/// The server of a connection, its verification and the credentials.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its URL, optionally with a path prefix.
    pub server: String,
    /// How its certificate is verified.
    pub trust: Trust,
    /// The name on its certificate, if not the host of the URL.
    pub server_name: Option<String>,
    /// The client certificate.
    pub certificate: Option<ClientCertificate>,
    /// The bearer token.
    pub token: Option<Secret>,
}

/// How a server's certificate is verified.
#[derive(Clone, Debug, PartialEq)]
pub enum Trust {
    /// With these CAs, in PEM.
    Authorities(String),
    /// With the CAs of the machine.
    System,
    /// Not at all: `insecure-skip-tls-verify`.
    Insecure,
}

/// A client certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: Secret,
}

impl Connection {
    /// Returns the connection of the named context or the current one.
    pub fn of(config: &Kubeconfig, context: Option<&str>) -> Result<Self, Failure> {
        let name = context.unwrap_or(&config.current_context);
        if name.is_empty() {
            return Err(Failure::message("the kubeconfig has no current context")
                .hint("choose one with --context"));
        }
        let context = config.contexts.iter().find(|named| named.name == name);
        let context = &context.ok_or_else(|| missing("context", name))?.context;
        let cluster = config
            .clusters
            .iter()
            .find(|had| had.name == context.cluster);
        let cluster = cluster.ok_or_else(|| missing("cluster", &context.cluster))?;
        let user = config.users.iter().find(|had| had.name == context.user);
        let user = user.ok_or_else(|| missing("user", &context.user))?;
        let cluster = &cluster.cluster;
        if cluster.server.is_empty() {
            let said = format!(
                "cluster {:?} of the kubeconfig has no server",
                context.cluster
            );
            return Err(Failure::message(said));
        }
        refuse_plugins(&context.user, &user.user)?;
        Ok(Self {
            server: cluster.server.clone(),
            trust: trust(cluster)?,
            server_name: cluster.tls_server_name.clone(),
            certificate: certificate(&user.user)?,
            token: token(&user.user)?,
        })
    }
}

fn missing(what: &str, name: &str) -> Failure {
    Failure::message(format!("the kubeconfig has no {what} {name:?}"))
}

fn refuse_plugins(name: &str, user: &User) -> Result<(), Failure> {
    if user.exec.is_none() && user.auth_provider.is_none() {
        return Ok(());
    }
    let said =
        format!("user {name:?} of the kubeconfig uses a credential plugin, which is not supported");
    Err(Failure::message(said).hint("use a kubeconfig with a certificate or a token"))
}

fn trust(cluster: &Cluster) -> Result<Trust, Failure> {
    if cluster.insecure_skip_tls_verify {
        return Ok(Trust::Insecure);
    }
    let data = cluster.certificate_authority_data.as_deref();
    let authorities = inline_or_file(data, cluster.certificate_authority.as_deref());
    Ok(authorities?.map_or(Trust::System, Trust::Authorities))
}

fn certificate(user: &User) -> Result<Option<ClientCertificate>, Failure> {
    let data = user.client_certificate_data.as_deref();
    let certificate = inline_or_file(data, user.client_certificate.as_deref())?;
    let data = user.client_key_data.as_ref().map(Secret::reveal);
    let key = inline_or_file(data, user.client_key.as_deref())?;
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(ClientCertificate {
            certificate,
            key: Secret::new(key),
        })),
        _ => Err(Failure::message(
            "the kubeconfig has a client certificate without its key, or a key without its certificate",
        )),
    }
}

/// Prefers the file, as Kubernetes does: it is the one that is renewed.
fn token(user: &User) -> Result<Option<Secret>, Failure> {
    let token = match user.token_file.as_deref() {
        Some(path) => Some(Secret::new(read(path)?.trim())),
        None => user.token.clone(),
    };
    Ok(token.filter(|token| !token.reveal().is_empty()))
}

/// Returns the inline data, else the content of the file.
fn inline_or_file(data: Option<&str>, file: Option<&str>) -> Result<Option<String>, Failure> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let bytes = BASE64_STANDARD.decode(data).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        return match text {
            Some(text) => Ok(Some(text)),
            None => Err(Failure::message(
                "the kubeconfig contains data that is not base64-encoded PEM",
            )),
        };
    }
    file.map(read).transpose()
}

fn read(path: &str) -> Result<String, Failure> {
    let attempted = format!(
        "cannot read {} of the kubeconfig",
        Path::new(path).display()
    );
    std::fs::read_to_string(path).map_err(|error| Failure::new(&attempted, error))
}
