//! Preparation of everything that serving needs except the store.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use insula_access::{Authority, TokenFile};
use insula_apiserver::pipeline::audit::Audit;
use insula_apiserver::pipeline::oidc::Provider;
use insula_apiserver::pipeline::service_account::{CurrentKeys, Issuer, IssuerUrls};
use insula_apiserver::pipeline::trust::CurrentTrust;
use insula_apiserver::pod_security::PodSecurity;
use insula_apiserver::registry::service_range::ServiceRange;
use insula_apiserver::registry::tenant_fields::TenantFields;
use insula_apiserver::registry::tenant_quota::TenantQuota;
use insula_apiserver::server::tls::Certificates;
use insula_apiserver::{Descriptions, Limits, egress};
use insula_core::{Layout, Space};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::admin_kubeconfig::{AdminKubeconfig, authorities};
use super::audit::AuditSettings;
use super::oidc::Oidc;
use super::operators::{MAX_LIFETIME, OperatorCredentials};
use super::reload::{Reload, TrustFiles};
use super::renew::{Renewal, RenewalProblems};
use super::tls::{Tls, TlsFiles};
use crate::failure::Failure;
use crate::pki::{self, LeafSettings};
use crate::secret::Secret;
use crate::token_keys::{FIRST_KEY_FILE, TokenKeys};

/// Everything that serving needs except the store.
pub struct Prepared {
    /// The OIDC provider.
    pub provider: Option<Arc<Provider>>,
    /// The bound listener: with port 0, it determines the port.
    pub listener: TcpListener,
    /// The URL from this machine.
    pub url: String,
    /// The URL for clients.
    pub advertised: String,
    /// The server certificates.
    pub certificates: Arc<Certificates>,
    /// The CAs of client certificates, with the own CA among them, and the static tokens.
    pub trust: Arc<CurrentTrust>,
    /// Reloads their files.
    pub reload: Option<Reload>,
    /// Descriptions for the OpenAPI documents.
    pub descriptions: Option<Descriptions>,
    /// The address in the endpoints of the Service `kubernetes`.
    pub endpoint: SocketAddr,
    /// The range of cluster IPs.
    pub service_range: ServiceRange,
    /// The space of credentials that name no tenant.
    pub default_tenant: Option<Space>,
    /// The CA that signs client certificates.
    pub ca: Arc<Authority>,
    /// The issuer URL of service account tokens.
    pub issuer_url: String,
    /// The keys that sign them.
    pub token_keys: Arc<CurrentKeys>,
    /// The first of these keys, in PEM.
    pub service_account_key: Secret,
    /// The layout of store keys.
    pub layout: Layout,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The audit of requests.
    pub audit: Option<Audit>,
    /// The addresses that webhooks may have.
    pub egress: egress::Settings,
    /// The defaults and exemptions of PodSecurity.
    pub pod_security: PodSecurity,
    /// The lifetime of events.
    pub event_ttl: Duration,
    /// The limits of the server.
    pub limits: Limits,
    /// The quota of tenants for what their objects do not set.
    pub tenant_quota: TenantQuota,
    /// Whether objects are shown with the fields that name their tenant.
    pub tenant_fields: TenantFields,
    /// The CAs that clients verify the server with, in PEM.
    pub root_ca: String,
    /// The lifetime of certificates of the own CA.
    pub certificates_last: Duration,
}

impl Prepared {
    /// Creates the issuer of service account tokens.
    pub fn issuer(&self) -> Issuer {
        Issuer::with_keys(Arc::clone(&self.token_keys), &self.issuer_url)
    }

    /// Returns the credentials of operators in the server process.
    pub fn credentials(&self) -> Result<OperatorCredentials, Failure> {
        let wrong = |error| Failure::new("cannot connect to the server's own address", error);
        let url: http::Uri = self.url.parse().map_err(wrong)?;
        // The certificate has the advertised name, and may have no other.
        let advertised: http::Uri = self.advertised.parse().map_err(wrong)?;
        let name = advertised.host().or(url.host()).unwrap_or_default();
        Ok(OperatorCredentials {
            authority: Arc::clone(&self.ca),
            server_name: name.trim_matches(['[', ']']).to_owned(),
            url,
            certificates: Arc::clone(&self.certificates),
            lasts: self.certificates_last.min(MAX_LIFETIME),
        })
    }

    /// Returns the secret that servers with a common store share. It stays the same when keys
    /// are rotated, so that clients can continue lists.
    pub fn secret(&self) -> Vec<u8> {
        self.service_account_key.reveal().as_bytes().to_vec()
    }
}

/// The listen address and the server's names.
pub struct Listening {
    /// The listen address.
    pub address: SocketAddr,
    /// The server URL in kubeconfigs, if not the address.
    pub advertised: Option<String>,
    /// The address that pods reach the server at, if not that of its URL.
    pub advertised_address: Option<IpAddr>,
    /// Additional names for the certificate.
    pub names: Vec<String>,
}

/// The port of a URL that names none.
const HTTPS: u16 = 443;

/// The server's names inside a cluster.
const CLUSTER_NAMES: [&str; 4] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The configuration apart from the listen address.
pub struct ServerConfig {
    /// The server certificate with its files, if it is not issued by the own CA.
    pub tls: Option<(TlsFiles, Tls)>,
    /// The lifetime of certificates of the own CA.
    pub certificates_last: Duration,
    /// Additional CAs for client certificates.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// The static tokens.
    pub tokens: Option<TokenFile>,
    /// The files of these, which may change.
    pub trust_files: TrustFiles,
    /// Descriptions for the OpenAPI documents.
    pub descriptions: Option<Descriptions>,
    /// The range of cluster IPs.
    pub service_range: ServiceRange,
    /// The issuer URL of service account tokens, if not the server URL.
    pub issuer_url: Option<String>,
    /// The OIDC provider.
    pub oidc: Option<Oidc>,
    /// The layout of store keys.
    pub layout: Layout,
    /// The space of credentials that name no tenant.
    pub default_tenant: Option<Space>,
    /// The audit of requests.
    pub audit: Option<AuditSettings>,
    /// The addresses that webhooks may have.
    pub egress: egress::Settings,
    /// The defaults and exemptions of PodSecurity.
    pub pod_security: PodSecurity,
    /// The lifetime of events.
    pub event_ttl: Duration,
    /// The limits of the server.
    pub limits: Limits,
    /// The quota of tenants for what their objects do not set.
    pub tenant_quota: TenantQuota,
    /// Whether objects are shown with the fields that name their tenant.
    pub tenant_fields: TenantFields,
}

/// Creates what is missing in the data directory, binds the listener, and writes the
/// administrator's kubeconfig. Certificates expire, so a renewal is returned as well.
pub fn prepare(
    data_dir: &Path,
    listening: &Listening,
    given: ServerConfig,
) -> Result<(Prepared, Renewal), Failure> {
    let provider = given.oidc.map(Oidc::provider).transpose()?;
    let (listener, listen) = listen(listening.address)?;
    let local = local_address(listen);
    let url = format!("https://{local}");
    let advertised = listening.advertised.as_deref().unwrap_or(&url).to_owned();
    let issuer_url = given.issuer_url.unwrap_or_else(|| advertised.clone());
    check_issuers_differ(provider.as_deref(), &issuer_url)?;
    let wanted = LeafSettings {
        names: names(listening, &advertised, &given.service_range),
        lasts: given.certificates_last,
    };
    let folder = data_dir.join("pki");
    let pki = pki::ensure(&folder, &wanted, SystemTime::now())?;
    let ca = Arc::new(pki.authority);
    let stored_keys = token_keys(&folder)?;
    let token_keys = Arc::new(CurrentKeys::new(stored_keys.to_signing_keys()?));
    let (files, current) = match given.tls {
        Some((files, tls)) => (Some(files), tls),
        None => (None, Tls::own(&pki.leaves.server)?),
    };
    let kubeconfig = AdminKubeconfig {
        path: data_dir.join("admin.kubeconfig"),
        server: advertised.clone(),
    };
    let given_pem = files.as_ref().map(|_| current.pem.as_str());
    kubeconfig.ensure(ca.certificate_pem(), &pki.leaves.admin, given_pem)?;
    let root_ca = authorities(ca.certificate_pem(), given_pem);
    let certificates = Certificates::new(current.chain.clone(), current.key.clone_key());
    let certificates = certificates.map_err(|error| Failure::new("cannot serve", error))?;
    let certificates = Arc::new(certificates);
    let own_ca = CertificateDer::from_pem_slice(ca.certificate_pem().as_bytes());
    let own_ca = own_ca.map_err(|error| Failure::new("cannot use the CA", error))?;
    let client_cas: Vec<_> = std::iter::once(own_ca.clone())
        .chain(given.client_cas)
        .collect();
    let trust = CurrentTrust::new(&client_cas, given.tokens);
    let trust = Arc::new(trust.map_err(|error| Failure::new("cannot serve", error))?);
    let reload = Reload::new(
        Arc::clone(&trust),
        provider.clone(),
        own_ca,
        given.trust_files,
    );
    let audit = given.audit.map(AuditSettings::start);
    let prepared = Prepared {
        audit: audit.transpose()?,
        egress: given.egress,
        pod_security: given.pod_security,
        event_ttl: given.event_ttl,
        limits: given.limits,
        tenant_quota: given.tenant_quota,
        tenant_fields: given.tenant_fields,
        root_ca,
        certificates_last: given.certificates_last,
        provider,
        listener,
        certificates: Arc::clone(&certificates),
        trust,
        reload: Some(reload),
        descriptions: given.descriptions,
        endpoint: endpoint(listening, &advertised, local),
        service_range: given.service_range,
        default_tenant: given.default_tenant,
        ca: Arc::clone(&ca),
        issuer_url,
        token_keys: Arc::clone(&token_keys),
        service_account_key: pki.service_account_key,
        layout: given.layout,
        kubeconfig: kubeconfig.path.clone(),
        advertised,
        url,
    };
    let renewal = Renewal {
        certificates,
        authority: ca,
        folder,
        wanted,
        leaves: pki.leaves,
        files,
        current,
        token_keys,
        stored_keys,
        kubeconfig,
        problems: RenewalProblems::default(),
    };
    Ok((prepared, renewal))
}

/// Reads the keys of service account tokens, of which there is at least one.
fn token_keys(folder: &Path) -> Result<TokenKeys, Failure> {
    let keys = TokenKeys::read(folder)?;
    keys.ok_or_else(|| {
        let attempted = format!("cannot use {}", folder.join(FIRST_KEY_FILE).display());
        Failure::new(&attempted, "the file is missing")
    })
}

/// Checks that the provider is none of the server's own issuers. A token is verified by its issuer, so that two issuers
/// of the same name could impersonate each other's users.
fn check_issuers_differ(provider: Option<&Provider>, issuer_url: &str) -> Result<(), Failure> {
    let issuers = IssuerUrls::new(issuer_url);
    match provider.map(Provider::url) {
        Some(provider) if issuers.may_include(provider) => {
            let problem = match provider == issuer_url {
                true => "--oidc-issuer-url and the issuer of service accounts' tokens are both",
                false => {
                    "--oidc-issuer-url is below the issuer of service accounts' tokens, as tenants' issuers are:"
                }
            };
            Err(Failure::message(format!("{problem} {provider}")).hint(
                "the provider must be another server; if the URL is right, choose another one with \
                 --service-account-issuer",
            ))
        }
        _ => Ok(()),
    }
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listen().map_err(|error: std::io::Error| {
        let attempted = format!("cannot listen on {address}");
        let failure = Failure::new(&attempted, &error);
        match error.kind() {
            std::io::ErrorKind::AddrInUse => failure
                .hint("the address is in use; choose another --listen, or port 0 for a free one"),
            _ => failure,
        }
    })
}

/// Returns the address of the server from this machine; the unspecified address becomes loopback.
fn local_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Returns the address at which pods reach the server.
fn endpoint(listening: &Listening, advertised: &str, local: SocketAddr) -> SocketAddr {
    let url: Option<http::Uri> = advertised.parse().ok();
    let url = url.as_ref().and_then(|url| {
        let host = url.host()?.trim_matches(['[', ']']).parse().ok()?;
        Some(SocketAddr::new(host, url.port_u16().unwrap_or(HTTPS)))
    });
    let endpoint = url.unwrap_or(local);
    let ip = listening.advertised_address.unwrap_or(endpoint.ip());
    SocketAddr::new(ip, endpoint.port())
}

/// Returns the names of the server's own certificate.
fn names(listening: &Listening, advertised: &str, services: &ServiceRange) -> BTreeSet<String> {
    let url: Option<http::Uri> = advertised.parse().ok();
    let host = url.as_ref().and_then(|url| url.host());
    let host = host.map(|host| host.trim_matches(['[', ']']).to_owned());
    let machine = nix::unistd::gethostname().ok();
    let machine = machine.and_then(|name| name.into_string().ok());
    let machine = machine.filter(|name| is_dns_name(name));
    let fixed = LOCAL_NAMES
        .iter()
        .chain(&CLUSTER_NAMES)
        .map(|&name| name.to_owned());
    let names = fixed
        .chain(listening.names.iter().cloned())
        .chain(host)
        .chain(machine);
    let address = listening.advertised_address.map(|ip| ip.to_string());
    let names = names.chain(address).chain([
        listening.address.ip().to_string(),
        services.first().to_string(),
    ]);
    names.map(|name| normalized(&name)).collect()
}

/// Normalizes the spelling of a name.
fn normalized(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

fn is_dns_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    !name.is_empty() && name.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(address: &str, names: &[&str]) -> Listening {
        Listening {
            address: address.parse().unwrap(),
            advertised: None,
            advertised_address: None,
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn certificate_has_the_names_that_clients_use() {
        let listening = listening("10.1.2.3:6443", &["API.example", "0:0:0:0:0:0:0:2"]);
        let services = ServiceRange::default();
        let mut names = names(&listening, "https://Advertised.example:443", &services);
        if let Ok(machine) = nix::unistd::gethostname() {
            names.remove(&machine.to_str().unwrap().to_ascii_lowercase());
        }
        let expected = [
            "10.1.2.3",
            "10.96.0.1",
            "127.0.0.1",
            "::1",
            "::2",
            "advertised.example",
            "api.example",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ];
        assert!(names.iter().map(String::as_str).eq(expected), "{names:?}");
        let v6 = super::names(&listening, "https://[fd00::1]:6443", &services);
        assert!(v6.contains("fd00::1"), "{v6:?}");
    }

    #[test]
    fn endpoint_of_the_server_is_the_address_that_clients_are_given() {
        for (address, url, expected) in [
            (None, "https://api.example:443", "127.0.0.1:7443"),
            (None, "https://10.9.8.7:6443", "10.9.8.7:6443"),
            (None, "https://10.9.8.7", "10.9.8.7:443"),
            (None, "https://[fd00::1]:6443", "[fd00::1]:6443"),
            (Some("10.0.0.5"), "https://api.example", "10.0.0.5:7443"),
            (Some("10.0.0.5"), "https://10.9.8.7:6443", "10.0.0.5:6443"),
        ] {
            let mut listening = listening("0.0.0.0:7443", &[]);
            listening.advertised_address = address.map(|ip: &str| ip.parse().unwrap());
            let local = local_address(listening.address);
            let expected: SocketAddr = expected.parse().unwrap();
            assert_eq!(endpoint(&listening, url, local), expected, "{url}");
        }
    }

    #[test]
    fn token_issuer_defaults_to_the_advertised_url() {
        let data = tempfile::tempdir().unwrap();
        let other = "https://issuer.example/a";
        for (advertised, issuer, expected) in [
            (None, None, None),
            (
                Some("https://api.example"),
                None,
                Some("https://api.example"),
            ),
            (Some("https://api.example"), Some(other), Some(other)),
            (None, Some(other), Some(other)),
        ] {
            let mut listening = listening("127.0.0.1:0", &[]);
            listening.advertised = advertised.map(str::to_owned);
            let given = ServerConfig {
                tls: None,
                certificates_last: Duration::from_secs(3600),
                client_cas: Vec::new(),
                tokens: None,
                trust_files: TrustFiles::default(),
                descriptions: None,
                service_range: ServiceRange::default(),
                issuer_url: issuer.map(str::to_owned),
                oidc: None,
                audit: None,
                egress: egress::Settings::default(),
                pod_security: PodSecurity::default(),
                event_ttl: Duration::from_secs(3600),
                limits: Limits::default(),
                tenant_quota: TenantQuota::default(),
                tenant_fields: TenantFields::default(),
                layout: Layout::default(),
                default_tenant: None,
            };
            let (prepared, _) = prepare(data.path(), &listening, given).unwrap();
            let expected = expected.unwrap_or(&prepared.url);
            assert_eq!(prepared.issuer_url, expected);
            // Keys are discovered at the advertised URL.
            assert_eq!(prepared.advertised, advertised.unwrap_or(&prepared.url));
            assert_eq!(prepared.issuer().urls().plain(), expected);
        }
    }

    #[test]
    fn unspecified_address_becomes_loopback() {
        for (listen, url) in [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("10.1.2.3:1", "https://10.1.2.3:1"),
            ("0.0.0.0:6443", "https://127.0.0.1:6443"),
            ("[::]:6443", "https://[::1]:6443"),
            ("[fd00::1]:6443", "https://[fd00::1]:6443"),
        ] {
            let local = local_address(listen.parse().unwrap());
            assert_eq!(format!("https://{local}"), url);
        }
    }
}
