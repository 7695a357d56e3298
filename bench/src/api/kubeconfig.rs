//! Kubeconfigs with inline data, read for a raw HTTP/2 client: the load generator measures the
//! server, so it does not use the clients that programs use.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;

/// The first cluster and the first user of a kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubeconfig {
    /// The server's address, on the loopback interface: no other machine is put under load.
    pub address: SocketAddr,
    pub tls: Arc<ClientConfig>,
}

#[derive(Deserialize)]
struct File {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority_data: String,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: String,
    client_key_data: String,
}

impl Kubeconfig {
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).context("cannot read the kubeconfig")?;
        Self::parse(&text)
    }

    pub fn parse(text: &str) -> Result<Self> {
        let file: File = serde_saphyr::from_str(text).context("not a kubeconfig")?;
        let cluster = &file.clusters.first().context("no cluster")?.cluster;
        let user = &file.users.first().context("no user")?.user;
        Ok(Self {
            address: address(&cluster.server)?,
            tls: Arc::new(tls(cluster, user)?),
        })
    }

    /// Returns a kubeconfig for a server and a client with the given PEM certificates.
    pub fn text(address: SocketAddr, ca: &str, cert: &str, key: &str) -> String {
        let encode = |pem: &str| BASE64_STANDARD.encode(pem);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
             clusters:\n- name: bench\n  cluster:\n    server: https://{address}\n    \
             certificate-authority-data: {}\n\
             users:\n- name: bench\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\n\
             contexts:\n- name: bench\n  context:\n    cluster: bench\n    user: bench\n",
            encode(ca),
            encode(cert),
            encode(key)
        )
    }
}

fn address(server: &str) -> Result<SocketAddr> {
    let rest = server.strip_prefix("https://").context("not https")?;
    // Without the path of a tenant: the certificate names the tenant, too.
    let host = rest.split('/').next().unwrap_or(rest);
    let address: SocketAddr = host.parse()?;
    ensure!(
        address.ip().is_loopback(),
        "{address} is not on this machine"
    );
    Ok(address)
}

fn tls(cluster: &Cluster, user: &User) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&cluster.certificate_authority_data)? {
        roots.add(certificate)?;
    }
    let key = PrivateKeyDer::from_pem_slice(&BASE64_STANDARD.decode(&user.client_key_data)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&user.client_certificate_data)?, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn certificates(data: &str) -> Result<Vec<CertificateDer<'static>>> {
    let pem = BASE64_STANDARD.decode(data)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    Ok(all?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_put_under_load() {
        assert!(address("https://127.0.0.1:6443").is_ok());
        assert!(address("https://[::1]:6443/").is_ok());
        for other in ["https://192.0.2.1:6443", "http://127.0.0.1:6443"] {
            let refused = address(other).unwrap_err().to_string();
            assert!(refused.contains("not "), "{refused}");
        }
    }
}
