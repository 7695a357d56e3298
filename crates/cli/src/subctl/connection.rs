//! The cluster and user to connect with: kubectl's flags.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use insula_broker::connect;
use insula_operator::user_agent;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::certificate_file::certificates;
use crate::client;
use crate::failure::Failure;
use crate::kubeconfig::{Source, load};
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

impl ConnectionArgs {
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
            let authorities = certificates(file)?;
            config.root_cert = Some(authorities.iter().map(|der| der.to_vec()).collect());
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
        client::connect(self.config().await?)
    }

    /// Returns the name of the cluster in the kubeconfig, if there is one.
    pub fn cluster_name(&self) -> Result<Option<String>, Failure> {
        if self.cluster.is_some() {
            return Ok(self.cluster.clone());
        }
        let Ok(files) = self.source.files_here() else {
            return Ok(None);
        };
        let kubeconfig = self.source.read(&files)?;
        let context = load::context(&kubeconfig, self.source.options().context.as_deref());
        let context = context.and_then(|named| named.context.as_ref());
        Ok(context.map(|context| context.cluster.clone()))
    }

    /// Returns the configuration of the kubeconfig; else of the pod; else of the command line.
    async fn base(&self) -> Result<Config, Failure> {
        match self.source.files_here() {
            Ok(files) => self.chosen(self.source.read(&files)?).await,
            Err(none) => match (Config::incluster(), &self.server) {
                (Ok(config), _) => Ok(config),
                (Err(_), Some(server)) => Ok(Config::new(server.clone())),
                (Err(_), None) => Err(none),
            },
        }
    }

    async fn chosen(&self, kubeconfig: Kubeconfig) -> Result<Config, Failure> {
        let options = KubeConfigOptions {
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            ..self.source.options()
        };
        match self.token {
            Some(_) => load::without_user(kubeconfig, &options).await,
            None => load::with_user(kubeconfig, &options).await,
        }
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
