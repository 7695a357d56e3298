//! What `insula serve` can be told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use insula_apiserver::egress::Cidr;
use insula_core::{NotATenantName, Space};

use super::oidc::OidcArgs;
use super::operators::Operator;
use crate::duration;
use crate::operator::vsphere::AllowedServer;

/// What `insula serve` can be told.
#[derive(clap::Args)]
pub struct Args {
    /// Where everything is kept
    #[arg(long, value_name = "DIR", default_value = "insula-data")]
    pub data_dir: PathBuf,

    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,

    /// What kubeconfigs point at; default: where it listens
    #[arg(long, value_name = "URL", value_parser = advertise_url)]
    pub advertise_url: Option<String>,

    /// The tenant of everybody whose credential names none; `system` is allowed
    #[arg(long, value_name = "NAME", value_parser = space)]
    pub default_tenant: Option<Space>,

    /// What keeps the objects
    #[arg(long, value_enum, default_value = "embedded")]
    pub store: Engine,

    #[command(flatten)]
    pub etcd: EtcdArgs,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// Further CAs for client certificates
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Tokens: a line `token,user,uid,"group,group"` for each; a group tenant:NAME gives the tenant
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    /// Where every request is written down, one JSON event a line; default: nowhere
    #[arg(long, value_name = "FILE")]
    pub audit_log_path: Option<PathBuf>,

    /// How long an event stays that nobody writes; 0s is for ever
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    #[arg(value_parser = duration::parse)]
    pub event_ttl: Duration,

    /// What the issuer of service accounts' tokens is called; default: what kubeconfigs point at
    #[arg(long, value_name = "URL", value_parser = issuer_url)]
    pub service_account_issuer: Option<String>,

    /// Operators to run in the same process
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    pub operators: Vec<Operator>,

    #[command(flatten)]
    pub vsphere: VsphereArgs,

    #[command(flatten)]
    pub webhooks: WebhookArgs,

    #[command(flatten)]
    pub oidc: OidcArgs,
}

/// What `--operators vsphere` can be told.
#[derive(clap::Args)]
pub struct VsphereArgs {
    /// With --operators vsphere: a file with username, password and servers, for clusters of
    /// the system that name no identity
    #[arg(long = "vsphere-credentials-file", value_name = "FILE")]
    pub credentials_file: Option<PathBuf>,

    /// With --operators vsphere: a vCenter that credentials may be sent to which do not say
    /// where themselves: HOST, HOST=THUMBPRINT or HOST=insecure; may be repeated
    #[arg(long = "vsphere-allowed-server", value_name = "SERVER")]
    #[arg(value_parser = AllowedServer::parse)]
    pub allowed_servers: Vec<AllowedServer>,

    /// With --operators vsphere: send Secrets of namespaces too only to the vCenters of
    /// --vsphere-allowed-server
    #[arg(long = "vsphere-only-allowed-servers", requires = "allowed_servers")]
    pub only_allowed_servers: bool,
}

/// Where tenants' webhooks may be.
#[derive(clap::Args)]
pub struct WebhookArgs {
    /// Blocks of addresses near the server that tenants' webhooks may be at, such as 10.1.0.0/16
    #[arg(long = "webhook-allow", value_name = "CIDR", value_delimiter = ',')]
    pub allow: Vec<Cidr>,

    /// Blocks of addresses that tenants' webhooks may not be at, whatever is allowed
    #[arg(long = "webhook-deny", value_name = "CIDR", value_delimiter = ',')]
    pub deny: Vec<Cidr>,
}

/// What keeps the objects.
#[derive(Clone, Copy, ValueEnum)]
pub enum Engine {
    /// In the data directory; nothing else to install
    Embedded,
    /// In an etcd v3 cluster, which several servers may share
    Etcd,
    /// Nowhere: everything is gone with the process
    Memory,
}

/// Where etcd is.
#[derive(clap::Args)]
pub struct EtcdArgs {
    /// The members of the etcd cluster, with --store etcd
    #[arg(long = "etcd-servers", value_name = "URL", value_delimiter = ',')]
    #[arg(required_if_eq("store", "etcd"))]
    pub servers: Vec<String>,

    /// The CA that etcd's certificates are from
    #[arg(long = "etcd-cafile", value_name = "FILE")]
    pub cafile: Option<PathBuf>,

    /// A certificate to show etcd
    #[arg(long = "etcd-certfile", value_name = "FILE", requires = "keyfile")]
    pub certfile: Option<PathBuf>,

    /// The key of that certificate
    #[arg(long = "etcd-keyfile", value_name = "FILE", requires = "certfile")]
    pub keyfile: Option<PathBuf>,

    /// What all keys begin with
    #[arg(
        long = "etcd-prefix",
        value_name = "PREFIX",
        default_value = "/registry"
    )]
    #[arg(value_parser = key_prefix)]
    pub prefix: String,
}

/// What the server shows.
#[derive(clap::Args)]
pub struct TlsArgs {
    /// A certificate to show clients; default: one from a CA of its own
    #[arg(long = "tls-cert-file", value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,

    /// The key of that certificate
    #[arg(
        long = "tls-private-key-file",
        value_name = "FILE",
        requires = "cert_file"
    )]
    pub key_file: Option<PathBuf>,

    /// A further name or address for its own certificate; may be repeated
    #[arg(long = "tls-san", value_name = "NAME", value_parser = server_name)]
    pub sans: Vec<String>,

    /// How long what its own CA issues lasts: as kubeadm has it, and shorter in tests
    #[arg(long = "certificates-last", value_name = "DURATION", hide = true)]
    #[arg(default_value = "365d", value_parser = certificates_last)]
    pub certificates_last: Duration,
}

fn space(text: &str) -> Result<Space, NotATenantName> {
    Space::parse(text)
}

fn advertise_url(text: &str) -> Result<String, &'static str> {
    let wrong = "a URL is https://HOST or https://HOST:PORT";
    let url: http::Uri = text.parse().map_err(|_| wrong)?;
    let bare = url.path() == "/" && url.query().is_none();
    match url.host() {
        Some(host) if !host.is_empty() && url.scheme_str() == Some("https") && bare => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(wrong),
    }
}

/// As OpenID Connect has it: without a query and a fragment.
pub fn issuer_url(text: &str) -> Result<String, &'static str> {
    let wrong = "an issuer is https://HOST, with a port and a path perhaps, and nothing after it";
    let url: http::Uri = text.parse().map_err(|_| wrong)?;
    let plain = url.query().is_none() && !text.contains(['#', '?', '@']);
    match url.host() {
        Some(host) if !host.is_empty() && url.scheme_str() == Some("https") && plain => {
            Ok(text.to_owned())
        }
        _ => Err(wrong),
    }
}

/// Less could not be renewed in time.
fn certificates_last(text: &str) -> Result<Duration, String> {
    let length = duration::parse(text)?;
    if length < Duration::from_secs(6) {
        return Err("6s is the shortest".to_owned());
    }
    Ok(length)
}

fn key_prefix(text: &str) -> Result<String, &'static str> {
    let segments = text.strip_prefix('/').map(|rest| rest.split('/'));
    let good = segments.is_some_and(|mut segments| segments.all(|segment| !segment.is_empty()));
    match good {
        true => Ok(text.to_owned()),
        false => Err("a prefix is /SEGMENT or /SEGMENT/SEGMENT, without a slash at the end"),
    }
}

/// A DNS name, perhaps with a star for its first label, or an IP address.
fn server_name(text: &str) -> Result<String, &'static str> {
    let inner = |sign: char| sign.is_ascii_alphanumeric() || sign == '-' || sign == '_';
    let label = |label: &str| !label.is_empty() && label.chars().all(inner);
    let name = text.strip_prefix("*.").unwrap_or(text);
    let good = text.parse::<std::net::IpAddr>().is_ok() || name.split('.').all(label);
    match good {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("it is neither a DNS name nor an IP address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_urls_and_prefixes_are_checked_before_anything_is_done() {
        for good in ["a", "A.b-c.example", "*.example", "10.0.0.1", "::1"] {
            assert_eq!(server_name(good), Ok(good.to_ascii_lowercase()));
        }
        for bad in ["", "a..b", "a b", "ä", "https://a", "a:1", "*"] {
            server_name(bad).unwrap_err();
        }
        for good in ["https://a", "https://a:6443", "https://[::1]:1"] {
            assert_eq!(advertise_url(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "a",
            "a:1",
            "http://a",
            "https://",
            "https://a/b",
            "https://a?b",
        ] {
            advertise_url(bad).unwrap_err();
        }
        for good in [
            "https://a",
            "https://a/",
            "https://a:6443/b/c",
            "https://[::1]:1",
        ] {
            assert_eq!(issuer_url(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "a",
            "http://a",
            "https://",
            "https:///a",
            "https://a?b",
            "https://a?",
            "https://a#b",
            "https://a:b@c",
            "kubernetes/serviceaccount",
        ] {
            issuer_url(bad).unwrap_err();
        }
        let year = Duration::from_secs(365 * 86_400);
        assert_eq!(certificates_last("365d"), Ok(year));
        for bad in ["", "5s", "soon"] {
            certificates_last(bad).unwrap_err();
        }
        for good in ["/registry", "/a/b"] {
            assert_eq!(key_prefix(good).as_deref(), Ok(good));
        }
        for bad in ["", "/", "a", "/a/", "//a", "/a//b"] {
            key_prefix(bad).unwrap_err();
        }
    }
}
