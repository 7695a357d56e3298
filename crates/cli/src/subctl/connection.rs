//! The cluster and user to connect with: kubectl's flags.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Uri;
use insula_broker::connect;
use insula_operator::user_agent;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedContext};
use kube::{Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::failure::Failure;
use crate::kubeconfig::Source;
use crate::secret::Secret;

/// The cluster and user to connect with.
#[derive(clap::Args, Debug, Default)]
pub struct ConnectionArgs {
    #[command(flatten)]
    source: Source,

    /// Cluster of the kubeconfig to use (default: the context's)
    #[arg(long, value_name = "NAME", global = true)]
    cluster: Option<String>,

    /// User of the kubeconfig to use (default: the context's)
    #[arg(long, value_name = "NAME", global = true)]
    user: Option<String>,

    /// URL of the server (default: the cluster's)
    #[arg(short, long, value_name = "URL", global = true, value_parser = server_url)]
    server: Option<Uri>,

    /// Bearer token to use instead of the user's credentials
    #[arg(long, value_name = "TOKEN", global = true, value_parser = secret)]
    token: Option<Secret>,

    /// File with the CAs of the server's certificate, in PEM
    #[arg(long, value_name = "FILE", global = true)]
    #[arg(conflicts_with = "insecure_skip_tls_verify")]
    certificate_authority: Option<PathBuf>,

    /// Do not verify the server's certificate, which makes the connection insecure
    #[arg(long, global = true)]
    insecure_skip_tls_verify: bool,

    /// Name on the server's certificate (default: the host of its URL)
    #[arg(long, value_name = "NAME", global = true)]
    tls_server_name: Option<String>,

    /// User to impersonate
    #[arg(long = "as", value_name = "USER", global = true)]
    act_for: Option<String>,

    /// Group to impersonate (repeatable)
    #[arg(long, value_name = "GROUP", global = true, requires = "act_for")]
    as_group: Vec<String>,

    /// Timeout of a single request; 0 means none
    #[arg(long, value_name = "DURATION", global = true, default_value = "30s")]
    #[arg(value_parser = request_timeout)]
    request_timeout: RequestTimeout,
}

/// The timeout of a single request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RequestTimeout(Option<Duration>);

/// Longer than any watch is silent: the server ends it before.
const WATCH_READ_TIMEOUT: Duration = Duration::from_secs(300);

impl ConnectionArgs {
    /// Builds the arguments from a kubeconfig and its context alone, for Insula's operators.
    pub const fn of(source: Source) -> Self {
        Self {
            source,
            cluster: None,
            user: None,
            server: None,
            token: None,
            certificate_authority: None,
            insecure_skip_tls_verify: false,
            tls_server_name: None,
            act_for: None,
            as_group: Vec::new(),
            request_timeout: RequestTimeout(Some(WATCH_READ_TIMEOUT)),
        }
    }

    /// Returns the client configuration.
    pub async fn config(&self) -> Result<Config, Failure> {
        let mut config = self.base().await?;
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
        }
        if let Some(token) = &self.token {
            config.auth_info = AuthInfo {
                token: Some(token.reveal().into()),
                ..AuthInfo::default()
            };
        }
        if let Some(file) = &self.certificate_authority {
            config.root_cert = Some(authorities(file)?);
            config.root_cert_file = None;
            config.accept_invalid_certs = false;
        }
        if self.insecure_skip_tls_verify {
            config.accept_invalid_certs = true;
        }
        if let Some(name) = &self.tls_server_name {
            config.tls_server_name = Some(name.clone());
        }
        if let Some(user) = &self.act_for {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(self.as_group.clone());
        }
        config.read_timeout = self.request_timeout.0;
        config.reset_reader_on_write = true;
        user_agent::set_user_agent(&mut config, connect::AGENT);
        Ok(config)
    }

    /// Creates a client.
    pub async fn client(&self) -> Result<Client, Failure> {
        client(self.config().await?)
    }

    /// Returns the name of the cluster in the kubeconfig, if there is one.
    pub fn cluster_name(&self) -> Result<Option<String>, Failure> {
        if self.cluster.is_some() {
            return Ok(self.cluster.clone());
        }
        let Ok(files) = self.source.files_here() else {
            return Ok(None);
        };
        let kubeconfig = merged(&files)?;
        let current = kubeconfig.current_context.as_deref();
        let name = self.source.context().or(current);
        let named = |had: &&NamedContext| Some(had.name.as_str()) == name;
        let context = kubeconfig.contexts.iter().find(named);
        let context = context.and_then(|named| named.context.as_ref());
        Ok(context.map(|context| context.cluster.clone()))
    }

    /// Returns the configuration of the kubeconfig; else of the pod; else of the command line.
    async fn base(&self) -> Result<Config, Failure> {
        match self.source.files_here() {
            Ok(files) => self.chosen(merged(&files)?).await,
            Err(none) => match (Config::incluster(), &self.server) {
                (Ok(config), _) => Ok(config),
                (Err(_), Some(server)) => Ok(Config::new(server.clone())),
                (Err(_), None) => Err(none),
            },
        }
    }

    async fn chosen(&self, kubeconfig: Kubeconfig) -> Result<Config, Failure> {
        let options = KubeConfigOptions {
            context: self.source.context().map(str::to_owned),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let named = |user: &String| kubeconfig.auth_infos.iter().any(|had| had.name == *user);
        if let Some(user) = self.user.as_ref().filter(|user| !named(user)) {
            return Err(missing("user", user));
        }
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        config.map_err(|error| unusable(&error))
    }
}

/// Creates a client.
pub fn client(config: Config) -> Result<Client, Failure> {
    let url = url(&config);
    let attempted = format!("cannot set up a connection with {url}");
    Client::try_from(config).map_err(|error| Failure::new(&attempted, error))
}

/// Returns the URL of a cluster as it is written in files.
pub fn url(config: &Config) -> String {
    config
        .cluster_url
        .to_string()
        .trim_end_matches('/')
        .to_owned()
}

fn merged(files: &[PathBuf]) -> Result<Kubeconfig, Failure> {
    let mut merged: Option<Kubeconfig> = None;
    for file in files {
        let attempted = format!("cannot read {}", file.display());
        let next = Kubeconfig::read_from(file).map_err(|error| unreadable(&attempted, &error))?;
        merged = Some(match merged {
            None => next,
            Some(before) => before
                .merge(next)
                .map_err(|error| Failure::new(&attempted, error))?,
        });
    }
    merged.ok_or_else(|| Failure::message("no kubeconfig found"))
}

/// Reports only the position of a syntax error, since the text contains keys.
fn unreadable(attempted: &str, error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::Parse(error) => {
            let place = error.location();
            let place = place.map_or(String::new(), |place| format!(" (line {})", place.line()));
            Failure::new(attempted, format!("not a kubeconfig{place}"))
        }
        KubeconfigError::ReadConfig(error, _) => Failure::new(attempted, error),
        other => Failure::new(attempted, other),
    }
}

fn unusable(error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::CurrentContextNotSet => {
            Failure::message("the kubeconfig has no current context")
                .hint("choose one with --context")
        }
        KubeconfigError::LoadContext(name) => missing("context", name),
        KubeconfigError::LoadClusterOfContext(name) => missing("cluster", name),
        other => Failure::new("cannot use the kubeconfig", other),
    }
}

fn missing(what: &str, name: &str) -> Failure {
    Failure::message(format!("the kubeconfig has no {what} {name:?}"))
}

fn authorities(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let attempted = format!("cannot use {}", file.display());
    let bytes = std::fs::read(file).map_err(|error| Failure::new(&attempted, error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found.iter().map(|der| der.to_vec()).collect()),
        _ => Err(Failure::new(&attempted, "no PEM certificates found")),
    }
}

fn server_url(text: &str) -> Result<Uri, &'static str> {
    let wrong = "a URL is https://HOST with an optional port and path";
    let url: Uri = text.parse().map_err(|_| wrong)?;
    match (url.scheme_str(), url.host()) {
        // Text before an @ may be a password, which would be printed.
        (Some("https" | "http"), Some(host)) if !host.is_empty() && !text.contains('@') => Ok(url),
        _ => Err(wrong),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as clap calls it")]
fn secret(text: &str) -> Result<Secret, &'static str> {
    Ok(Secret::new(text))
}

/// Accepts plain seconds too, as kubectl does.
fn request_timeout(text: &str) -> Result<RequestTimeout, String> {
    let length = match text.parse::<u32>() {
        Ok(seconds) => Duration::from_secs(seconds.into()),
        Err(_) => crate::duration::parse(text)?,
    };
    Ok(RequestTimeout((!length.is_zero()).then_some(length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_url_has_no_user() {
        for good in ["https://a", "http://a:1", "https://[::1]:6443/k8s"] {
            server_url(good).unwrap();
        }
        for bad in ["", "a", "a:1", "ftp://a", "https://", "https://u:p@a"] {
            server_url(bad).unwrap_err();
        }
    }

    #[test]
    fn request_timeout_parses_as_in_kubectl() {
        for (text, seconds) in [
            ("0", None),
            ("0s", None),
            ("5", Some(5)),
            ("1m30s", Some(90)),
        ] {
            let expected = RequestTimeout(seconds.map(Duration::from_secs));
            assert_eq!(request_timeout(text), Ok(expected));
        }
        for bad in ["", "-1", "soon"] {
            request_timeout(bad).unwrap_err();
        }
    }
}
