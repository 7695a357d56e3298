//! What a server has in hand when it begins to serve.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use insula_access::{Authority, TokenFile};
use insula_apiserver::egress;
use insula_apiserver::pipeline::audit;
use insula_apiserver::pipeline::oidc::Provider;
use insula_apiserver::pipeline::service_account::Issuer;
use insula_apiserver::server::tls::Certificates;
use insula_core::{Layout, Space};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::oidc::Oidc;
use super::operators::{LONGEST, Pass};
use super::renew::{Renewal, Trouble};
use super::tls::{Tls, TlsFiles};
use crate::failure::Failure;
use crate::kubeconfig::{Entry, Kubeconfig, Trust};
use crate::pki::{self, Identity, Wanted};
use crate::secret::Secret;

/// Everything that serving needs, except the store.
pub struct Prepared {
    /// Who else's tokens are believed.
    pub provider: Option<Arc<Provider>>,
    /// Where it listens, bound already: with port 0, this says which port it is.
    pub listener: TcpListener,
    /// Where this machine reaches it.
    pub url: String,
    /// Where others do.
    pub advertised: String,
    /// What it shows clients.
    pub certificates: Arc<Certificates>,
    /// Whose client certificates it believes; the first is its own CA.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// Who holds which token.
    pub tokens: Option<TokenFile>,
    /// Where those belong whose credential names no tenant.
    pub default_tenant: Option<Space>,
    /// What signs client certificates.
    pub ca: Arc<Authority>,
    /// What the issuer of service accounts' tokens is called.
    pub issuer_url: String,
    /// What signs them, in PEM.
    pub service_account_key: Secret,
    /// How keys are made.
    pub layout: Layout,
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Where every request is written down.
    pub audit: Option<audit::Sink>,
    /// Where webhooks may be.
    pub egress: egress::Settings,
    /// How long an event stays that nobody writes.
    pub event_ttl: Duration,
    /// What clients verify the server with, in PEM.
    pub root_ca: String,
    /// How long what its own CA issues lasts.
    pub certificates_last: Duration,
}

impl Prepared {
    /// What signs tokens of service accounts.
    pub fn issuer(&self) -> Result<Issuer, Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::new("cannot use pki/service-account.key", error)
                .hint("it is made on the first start; restore it from a copy")
        };
        let pem = self.service_account_key.reveal().as_bytes();
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| wrong(&error))?;
        Issuer::new(key.secret_der(), &self.issuer_url).map_err(|error| wrong(&error))
    }

    /// What brings operators here that run in the same process.
    pub fn pass(&self) -> Result<Pass, Failure> {
        let wrong = |error| Failure::new("cannot connect to the server's own address", error);
        let url: http::Uri = self.url.parse().map_err(wrong)?;
        // What it shows has the name that others know, and may have no other.
        let advertised: http::Uri = self.advertised.parse().map_err(wrong)?;
        let name = advertised.host().or(url.host()).unwrap_or_default();
        Ok(Pass {
            authority: Arc::clone(&self.ca),
            server_name: name.trim_matches(['[', ']']).to_owned(),
            url,
            certificates: Arc::clone(&self.certificates),
            lasts: self.certificates_last.min(LONGEST),
        })
    }

    /// What servers that share a store know and clients do not.
    pub fn secret(&self) -> Vec<u8> {
        self.service_account_key.reveal().as_bytes().to_vec()
    }
}

/// Where a server listens, and what it is called.
pub struct Listening {
    /// Where.
    pub address: SocketAddr,
    /// What kubeconfigs point at, if not at the address.
    pub advertised: Option<String>,
    /// What it is called beside the names that every server has.
    pub names: Vec<String>,
}

/// What a server is called from inside a cluster, and its usual address there.
const CLUSTER_NAMES: [&str; 5] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
];

const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What is given from outside, beside where to listen.
pub struct Given {
    /// What the server shows, if it is not to make that itself, and where that is kept.
    pub tls: Option<(TlsFiles, Tls)>,
    /// How long what its own CA issues lasts.
    pub certificates_last: Duration,
    /// Further CAs for client certificates.
    pub client_cas: Vec<CertificateDer<'static>>,
    /// Who holds which token.
    pub tokens: Option<TokenFile>,
    /// What the issuer of service accounts' tokens is called, if not like the server.
    pub issuer_url: Option<String>,
    /// Whose tokens are trusted beside the server's own.
    pub oidc: Option<Oidc>,
    /// How keys are made.
    pub layout: Layout,
    /// Where those belong whose credential names no tenant.
    pub default_tenant: Option<Space>,
    /// The file in which every request is written down.
    pub audit_log: Option<PathBuf>,
    /// Where webhooks may be.
    pub egress: egress::Settings,
    /// How long an event stays that nobody writes.
    pub event_ttl: Duration,
}

/// The administrator's kubeconfig.
pub struct AdminKubeconfig {
    /// Where it is.
    pub path: PathBuf,
    /// What it points at.
    pub server: String,
}

/// Makes what is missing in the data directory, begins to listen, and writes the
/// administrator's kubeconfig. What it made does not last; the renewal looks after that.
pub fn prepare(
    data_dir: &Path,
    listening: &Listening,
    given: Given,
) -> Result<(Prepared, Renewal), Failure> {
    let provider = given.oidc.map(Oidc::provider).transpose()?;
    let (listener, listen) = listen(listening.address)?;
    let url = local_url(listen);
    let advertised = listening.advertised.as_deref().unwrap_or(&url).to_owned();
    let issuer_url = given.issuer_url.unwrap_or_else(|| advertised.clone());
    must_differ(provider.as_deref(), &issuer_url)?;
    let wanted = Wanted {
        names: names(listening, &advertised),
        lasts: given.certificates_last,
    };
    let folder = data_dir.join("pki");
    let pki = pki::ensure(&folder, &wanted, SystemTime::now())?;
    let ca = Arc::new(pki.authority);
    let (files, shown) = match given.tls {
        Some((files, tls)) => (Some(files), tls),
        None => (None, Tls::own(&pki.leaves.server)?),
    };
    let kubeconfig = AdminKubeconfig {
        path: data_dir.join("admin.kubeconfig"),
        server: advertised.clone(),
    };
    let given_pem = files.as_ref().map(|_| shown.pem.as_str());
    kubeconfig.keep(ca.certificate_pem(), &pki.leaves.admin, given_pem)?;
    let root_ca = authorities(ca.certificate_pem(), given_pem);
    let certificates = Certificates::new(shown.chain.clone(), shown.key.clone_key());
    let certificates = certificates.map_err(|error| Failure::new("cannot serve", error))?;
    let certificates = Arc::new(certificates);
    let own_ca = CertificateDer::from_pem_slice(ca.certificate_pem().as_bytes());
    let own_ca = own_ca.map_err(|error| Failure::new("cannot use the CA", error))?;
    let audit = given.audit_log.as_deref().map(open_audit_log);
    let prepared = Prepared {
        audit: audit.transpose()?,
        egress: given.egress,
        event_ttl: given.event_ttl,
        root_ca,
        certificates_last: given.certificates_last,
        provider,
        listener,
        certificates: Arc::clone(&certificates),
        client_cas: std::iter::once(own_ca).chain(given.client_cas).collect(),
        tokens: given.tokens,
        default_tenant: given.default_tenant,
        ca: Arc::clone(&ca),
        issuer_url,
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
        shown,
        kubeconfig,
        trouble: Trouble::default(),
    };
    Ok((prepared, renewal))
}

impl AdminKubeconfig {
    /// Makes sure that it says this. Clients believe the own CA and, if the certificate is
    /// another's, what came with it.
    pub fn keep(&self, ca: &str, admin: &Identity, given: Option<&str>) -> Result<(), Failure> {
        let authorities = authorities(ca, given);
        let kubeconfig = Kubeconfig::new(&Entry {
            server: &self.server,
            trust: &Trust::Authorities(authorities),
            identity: admin,
            user: "admin",
            context: "insula",
        });
        kubeconfig.keep_at(&self.path)
    }
}

/// Whom clients believe: the own CA, and what came with a certificate that is another's.
fn authorities(ca: &str, given: Option<&str>) -> String {
    [ca, given.unwrap_or("")].concat()
}

/// A token is judged by whom it says it is from. Of two who are called the same, one could
/// speak for the other's people.
fn must_differ(provider: Option<&Provider>, issuer_url: &str) -> Result<(), Failure> {
    match provider {
        Some(provider) if provider.url() == issuer_url => {
            let said = "--oidc-issuer-url and the issuer of service accounts' tokens are both";
            Err(Failure::message(format!("{said} {issuer_url}")).hint(
                "the provider is another server; if it is right, give this one another name with \
                 --service-account-issuer",
            ))
        }
        _ => Ok(()),
    }
}

fn open_audit_log(path: &Path) -> Result<audit::Sink, Failure> {
    let attempted = format!("cannot write the audit log {}", path.display());
    audit::Sink::to_file(path).map_err(|error| {
        Failure::new(&attempted, error)
            .hint("--audit-log-path is a file in a folder that is there and may be written to")
    })
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
            std::io::ErrorKind::AddrInUse => failure.hint(
                "another server listens there; choose another --listen, or port 0 for a free one",
            ),
            _ => failure,
        }
    })
}

/// Where this machine reaches a server. "Everywhere" is no place to connect to.
fn local_url(listen: SocketAddr) -> String {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("https://{}", SocketAddr::new(ip, listen.port()))
}

/// What the server's own certificate says.
fn names(listening: &Listening, advertised: &str) -> BTreeSet<String> {
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
    let names = names.chain([listening.address.ip().to_string()]);
    names.map(|name| one_spelling(&name)).collect()
}

/// A name that differs only in spelling is no other name.
fn one_spelling(name: &str) -> String {
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
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn a_server_has_the_names_that_clients_use() {
        let listening = listening("10.1.2.3:6443", &["API.example", "0:0:0:0:0:0:0:2"]);
        let mut names = names(&listening, "https://Advertised.example:443");
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
        let v6 = super::names(&listening, "https://[fd00::1]:6443");
        assert!(v6.contains("fd00::1"), "{v6:?}");
    }

    #[test]
    fn tokens_are_issued_by_the_name_that_was_given_or_by_that_of_the_server() {
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
            let given = Given {
                tls: None,
                certificates_last: Duration::from_secs(3600),
                client_cas: Vec::new(),
                tokens: None,
                issuer_url: issuer.map(str::to_owned),
                oidc: None,
                audit_log: None,
                egress: egress::Settings::default(),
                event_ttl: Duration::from_secs(3600),
                layout: Layout::default(),
                default_tenant: None,
            };
            let (prepared, _) = prepare(data.path(), &listening, given).unwrap();
            let expected = expected.unwrap_or(&prepared.url);
            assert_eq!(prepared.issuer_url, expected);
            // Others find the keys where they find the server.
            assert_eq!(prepared.advertised, advertised.unwrap_or(&prepared.url));
            let issuer = format!("{:?}", prepared.issuer().unwrap());
            assert!(issuer.contains(&format!("url: {expected:?}")), "{issuer}");
        }
    }

    #[test]
    fn everywhere_is_no_place_to_connect_to() {
        for (listen, url) in [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("10.1.2.3:1", "https://10.1.2.3:1"),
            ("0.0.0.0:6443", "https://127.0.0.1:6443"),
            ("[::]:6443", "https://[::1]:6443"),
            ("[fd00::1]:6443", "https://[fd00::1]:6443"),
        ] {
            assert_eq!(local_url(listen.parse().unwrap()), url);
        }
    }
}
