//! The arguments of `insula serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use insula_apiserver::registry::service_range::ServiceRange;
use insula_apiserver::registry::tenant_fields::TenantFields;
use insula_core::{NotATenantName, Space};
use insula_dialer::Cidr;

use super::audit::AuditArgs;
use super::connections::ConnectionArgs;
use super::encryption::EncryptionArgs;
use super::oidc::{OidcArgs, issuer_url};
use super::operators::{AzureArgs, Metal3Args, Operator, VsphereArgs};
use super::tenant_limits::TenantLimitArgs;
use crate::{byte_size, duration};

/// The arguments of `insula serve`.
#[derive(clap::Args)]
pub struct Args {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = "insula-data")]
    pub data_dir: PathBuf,

    /// Listen address; port 0 picks a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,

    /// Server URL in kubeconfigs (default: the listen address)
    #[arg(long, value_name = "URL", value_parser = advertise_url)]
    pub advertise_url: Option<String>,

    /// Address of the server in the endpoints of the Service `kubernetes`, which every space has (default: that of the server's URL if it has one, else the listen address)
    #[arg(long, value_name = "IP")]
    pub advertise_address: Option<IpAddr>,

    /// Range of the cluster IPs of Services
    #[arg(long, value_name = "RANGE", default_value_t)]
    pub service_cluster_ip_range: ServiceRange,

    /// Tenant of credentials that name none; `system` is allowed
    #[arg(long, value_name = "NAME", value_parser = space)]
    pub default_tenant: Option<Space>,

    /// Storage engine
    #[arg(long, value_enum, default_value = "embedded")]
    pub store: Engine,

    #[command(flatten)]
    pub etcd: EtcdArgs,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// File with additional CAs for client certificates
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Static token file with lines `token,user,uid,"group,group"`; a group tenant:NAME selects the tenant
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,

    #[command(flatten)]
    pub audit: AuditArgs,

    /// Descriptions for the OpenAPI documents, as tools/kindgen collects them; default: none
    #[arg(long, value_name = "FILE")]
    pub openapi_descriptions: Option<PathBuf>,

    /// PodSecurityConfiguration with defaults and exemptions for every space (default: privileged, no exemptions)
    #[arg(long, value_name = "FILE")]
    pub pod_security_config: Option<PathBuf>,

    /// Lifetime of events after their last update; 0s keeps them forever
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    #[arg(value_parser = duration::parse)]
    pub event_ttl: Duration,

    /// Issuer URL of service account tokens (default: the server URL in kubeconfigs)
    #[arg(long, value_name = "URL", value_parser = issuer_url)]
    pub service_account_issuer: Option<String>,

    /// Operators to run in the server process
    #[arg(long, value_name = "NAME", value_enum, value_delimiter = ',')]
    pub operators: Vec<Operator>,

    #[command(flatten)]
    pub encryption: EncryptionArgs,

    #[command(flatten)]
    pub limits: LimitArgs,

    #[command(flatten)]
    pub tenant_limits: TenantLimitArgs,

    /// Whether objects have metadata.tenant and metadata.selfLink in responses, for tenants whose spec does not say; lists of all tenants always have them
    #[arg(long, value_enum, default_value = "full")]
    pub object_tenant_fields: ObjectTenantFields,

    #[command(flatten)]
    pub connections: ConnectionArgs,

    #[command(flatten)]
    pub vsphere: VsphereArgs,

    #[command(flatten)]
    pub metal3: Metal3Args,

    #[command(flatten)]
    pub azure: AzureArgs,

    /// With --operators azure, metal3 or vsphere: service account of each namespace to act as there, with
    /// its rights only (default: none; operators act as themselves)
    #[arg(long, value_name = "NAME")]
    pub operator_service_account: Option<String>,

    #[command(flatten)]
    pub webhooks: WebhookArgs,

    #[command(flatten)]
    pub oidc: OidcArgs,
}

/// Whether objects are shown with the fields that name their tenant.
#[derive(Clone, Copy, ValueEnum)]
pub enum ObjectTenantFields {
    /// With both fields
    Full,
    /// With neither, as clients with strict decoding and other clusters need it
    None,
}

impl From<ObjectTenantFields> for TenantFields {
    fn from(fields: ObjectTenantFields) -> Self {
        match fields {
            ObjectTenantFields::Full => Self::Full,
            ObjectTenantFields::None => Self::None,
        }
    }
}

/// The limits of what the server keeps for its clients.
#[derive(clap::Args)]
pub struct LimitArgs {
    /// Memory for responses that clients have yet to read
    #[arg(long, value_name = "BYTES", default_value = "256Mi")]
    #[arg(value_parser = byte_size::parse)]
    pub max_unsent_bytes: usize,

    /// Memory for responses to callers of one space
    #[arg(long, value_name = "BYTES", default_value = "64Mi")]
    #[arg(value_parser = byte_size::parse)]
    pub max_unsent_bytes_per_space: usize,
}

/// The addresses that tenants' webhooks may have.
#[derive(clap::Args)]
pub struct WebhookArgs {
    /// Address ranges near the server that tenants' webhooks may use, such as 10.1.0.0/16
    #[arg(long = "webhook-allow", value_name = "CIDR", value_delimiter = ',')]
    pub allow: Vec<Cidr>,

    /// Address ranges that tenants' webhooks may not use, even if allowed
    #[arg(long = "webhook-deny", value_name = "CIDR", value_delimiter = ',')]
    pub deny: Vec<Cidr>,
}

/// The storage engines.
#[derive(Clone, Copy, ValueEnum)]
pub enum Engine {
    /// In the data directory, without other software
    Embedded,
    /// In an etcd v3 cluster, which several servers may share
    Etcd,
    /// In memory only: everything is lost on exit
    Memory,
}

/// The connection to etcd.
#[derive(clap::Args)]
pub struct EtcdArgs {
    /// URLs of the etcd members, with --store etcd
    #[arg(long = "etcd-servers", value_name = "URL", value_delimiter = ',')]
    #[arg(required_if_eq("store", "etcd"))]
    pub servers: Vec<String>,

    /// CA of etcd's server certificates
    #[arg(long = "etcd-cafile", value_name = "FILE")]
    pub cafile: Option<PathBuf>,

    /// Client certificate for etcd
    #[arg(long = "etcd-certfile", value_name = "FILE", requires = "keyfile")]
    pub certfile: Option<PathBuf>,

    /// Key of the etcd client certificate
    #[arg(long = "etcd-keyfile", value_name = "FILE", requires = "certfile")]
    pub keyfile: Option<PathBuf>,

    /// Prefix of all etcd keys
    #[arg(
        long = "etcd-prefix",
        value_name = "PREFIX",
        default_value = "/registry"
    )]
    #[arg(value_parser = key_prefix)]
    pub prefix: String,
}

/// The server's certificate.
#[derive(clap::Args)]
pub struct TlsArgs {
    /// Server certificate (default: issued by the server's own CA)
    #[arg(long = "tls-cert-file", value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,

    /// Key of the server certificate
    #[arg(
        long = "tls-private-key-file",
        value_name = "FILE",
        requires = "cert_file"
    )]
    pub key_file: Option<PathBuf>,

    /// Additional DNS name or IP address of the server's own certificate (repeatable)
    #[arg(long = "tls-san", value_name = "NAME", value_parser = server_name)]
    pub sans: Vec<String>,

    /// Lifetime of certificates of the own CA: as in kubeadm, shorter in tests
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

/// A shorter lifetime would not leave time for renewal.
fn certificates_last(text: &str) -> Result<Duration, String> {
    let length = duration::parse(text)?;
    if length < Duration::from_secs(6) {
        return Err("the minimum is 6s".to_owned());
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

/// Parses a DNS name, optionally with a wildcard as first label, or an IP address.
fn server_name(text: &str) -> Result<String, &'static str> {
    let inner = |sign: char| sign.is_ascii_alphanumeric() || sign == '-' || sign == '_';
    let label = |label: &str| !label.is_empty() && label.chars().all(inner);
    let name = text.strip_prefix("*.").unwrap_or(text);
    let good = text.parse::<std::net::IpAddr>().is_ok() || name.split('.').all(label);
    match good {
        true => Ok(text.to_ascii_lowercase()),
        false => Err("not a DNS name or an IP address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_urls_and_prefixes_are_validated_by_the_parser() {
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
