//! TLS: the server's certificate and client certificates.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use insula_testkit::server::{Client, TestServer};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SanType,
};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, HandshakeKind, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

const DAY: Duration = Duration::from_secs(86_400);

/// The deadline of every wait.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The certificate that a client presents.
#[derive(Clone, Debug)]
struct Presented(Arc<CertifiedKey>);

impl ResolvesClientCert for Presented {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl Presented {
    /// A chain and a key, which may not match the leaf.
    fn new(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> anyhow::Result<Self> {
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)?;
        Ok(Self(Arc::new(CertifiedKey::new(chain, key))))
    }

    /// Signs this certificate with the issuer.
    fn signed(
        parameters: &CertificateParams,
        issuer: &Issuer<'_, KeyPair>,
    ) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let created = parameters.signed_by(&key, issuer)?;
        Self::new(vec![created.der().clone()], &key)
    }
}

/// The CA that the server trusts, used to sign certificates that the server itself would not.
fn issuer(server: &TestServer) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let authority = server.authority();
    let key = KeyPair::from_pem(&authority.key_pem())?;
    Ok(Issuer::from_ca_cert_pem(authority.certificate_pem(), key)?)
}

/// A system administrator.
fn admin() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, "root");
    name.push(DnType::OrganizationName, "system:masters");
    name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "tenant:system");
    parameters.distinguished_name = name;
    parameters.not_before = (SystemTime::now() - DAY).into();
    parameters.not_after = (SystemTime::now() + DAY).into();
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    parameters
}

fn with(change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut parameters = admin();
    change(&mut parameters);
    parameters
}

fn config(
    server: &TestServer,
    versions: &[&'static SupportedProtocolVersion],
    presented: Option<Presented>,
) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let ca = server.authority().certificate_pem();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_root_certificates(roots);
    let mut config = match presented {
        None => builder.with_no_client_auth(),
        Some(presented) => builder.with_client_cert_resolver(Arc::new(presented)),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

async fn client(server: &TestServer, presented: &Presented, token: &str) -> anyhow::Result<Client> {
    let config = config(server, &[&TLS13], Some(presented.clone()))?;
    Client::connect_with(server.address(), Arc::new(config), token).await
}

async fn handshake(
    server: &TestServer,
    config: Arc<ClientConfig>,
) -> anyhow::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server.address()).await?;
    let name = ServerName::from(server.address().ip());
    Ok(TlsConnector::from(config).connect(name, stream).await?)
}

/// The status and the user name, if there is one.
async fn status_and_user(client: &Client) -> anyhow::Result<(u16, String)> {
    let answer = client.post(WHO, &json!({})).await?;
    let user = answer.json()["status"]["userInfo"]["username"].clone();
    Ok((answer.status, user.as_str().unwrap_or("").to_owned()))
}

#[tokio::test]
async fn invalid_certificates_are_ignored_and_authenticate_no_user() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let own = issuer(&server)?;
    let foreign = Issuer::new(CertificateParams::default(), KeyPair::generate()?);
    // A foreign CA with the same name as the server's.
    let mut named = CertificateParams::default();
    named.distinguished_name = DistinguishedName::new();
    let name = "insula test";
    named.distinguished_name.push(DnType::CommonName, name);
    let named = Issuer::new(named, KeyPair::generate()?);
    let key = KeyPair::generate()?;
    let alone = admin().self_signed(&key)?.der().clone();
    let now = SystemTime::now();
    let uri = |text: &str| anyhow::Ok(SanType::URI(text.try_into()?));
    let ties = vec![uri("urn:insula:tenant:a")?, uri("urn:insula:tenant:b")?];
    let two_tenants = with(|of| {
        let name = &mut of.distinguished_name;
        name.push(DnType::OrganizationName, "tenant:t1");
    });
    for (what, presented) in [
        ("foreign", Presented::signed(&admin(), &foreign)?),
        ("foreign, named", Presented::signed(&admin(), &named)?),
        ("self-signed", Presented::new(vec![alone], &key)?),
        (
            "expired",
            Presented::signed(&with(|of| of.not_after = (now - DAY / 2).into()), &own)?,
        ),
        (
            "not yet valid",
            Presented::signed(&with(|of| of.not_before = (now + DAY / 2).into()), &own)?,
        ),
        (
            "for servers",
            Presented::signed(
                &with(|of| of.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]),
                &own,
            )?,
        ),
        (
            "a CA",
            Presented::signed(
                &with(|of| of.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
                &own,
            )?,
        ),
        ("two tenants", Presented::signed(&two_tenants, &own)?),
        (
            "two ties",
            Presented::signed(&with(|of| of.subject_alt_names = ties), &own)?,
        ),
        (
            "nameless",
            Presented::signed(
                &with(|of| of.distinguished_name = DistinguishedName::new()),
                &own,
            )?,
        ),
    ] {
        for version in [&TLS12, &TLS13] {
            let config = Arc::new(config(&server, &[version], Some(presented.clone()))?);
            for (token, expected) in [
                ("", (401, "")),
                ("nonsense", (401, "")),
                ("system", (201, "admin")),
            ] {
                let config = Arc::clone(&config);
                let client = Client::connect_with(server.address(), config, token).await?;
                let found = status_and_user(&client).await?;
                assert_eq!((found.0, found.1.as_str()), expected, "{what} {token}");
                assert_eq!(client.get("/healthz").await?.status, 200);
            }
        }
    }
    // A valid certificate, to show that the others were refused for their own faults.
    let good = Presented::signed(&admin(), &own)?;
    for token in ["", "nonsense", "t1"] {
        let client = client(&server, &good, token).await?;
        assert_eq!(status_and_user(&client).await?, (201, "root".to_owned()));
    }
    Ok(())
}

#[tokio::test]
async fn intermediate_certificates_are_used() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let between = with(|of| of.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    let between_key = KeyPair::generate()?;
    let between_der = between.signed_by(&between_key, &issuer(&server)?)?;
    let between = Issuer::new(between, between_key);
    let key = KeyPair::generate()?;
    let leaf = admin().signed_by(&key, &between)?;
    let (leaf, between) = (leaf.der().clone(), between_der.der().clone());
    let alone = Presented::new(vec![leaf.clone()], &key)?;
    let client = client(&server, &alone, "").await?;
    assert_eq!(status_and_user(&client).await?.0, 401);
    let whole = Presented::new(vec![leaf, between], &key)?;
    let client = self::client(&server, &whole, "").await?;
    assert_eq!(status_and_user(&client).await?, (201, "root".to_owned()));
    Ok(())
}

#[tokio::test]
async fn certificate_without_its_key_fails_the_handshake() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let good = Presented::signed(&admin(), &issuer(&server)?)?;
    let stolen = Presented::new(good.0.cert.clone(), &KeyPair::generate()?)?;
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(config(&server, &[version], Some(stolen.clone()))?);
        // With TLS 1.3 the client's handshake completes before the server has verified the
        // certificate.
        let refused = async {
            let mut stream = handshake(&server, Arc::clone(&config)).await?;
            let read = stream.read_u8().await?;
            anyhow::Ok(read)
        };
        let refused = tokio::time::timeout(TIMEOUT, refused).await?;
        let said = format!("{:#}", refused.unwrap_err());
        assert!(said.contains("DecryptError"), "{said}");
    }
    Ok(())
}

#[tokio::test]
async fn certificates_expire_on_open_connections() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let ending = with(|of| of.not_after = (SystemTime::now() + Duration::from_secs(5)).into());
    let presented = Presented::signed(&ending, &issuer(&server)?)?;
    let client = client(&server, &presented, "").await?;
    let helped = self::client(&server, &presented, "system").await?;
    for client in [&client, &helped] {
        assert_eq!(status_and_user(client).await?, (201, "root".to_owned()));
    }
    let begun = Instant::now();
    let last = loop {
        let found = status_and_user(&client).await?;
        if found.0 != 201 {
            break found;
        }
        anyhow::ensure!(begun.elapsed() < TIMEOUT, "the certificate never expired");
        tokio::task::yield_now().await;
    };
    assert_eq!(last, (401, String::new()));
    // From now on it is treated like an invalid certificate.
    assert_eq!(status_and_user(&helped).await?, (201, "admin".to_owned()));
    Ok(())
}

#[tokio::test]
async fn resumed_sessions_check_certificate_expiry() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let until = SystemTime::now() + Duration::from_secs(5);
    let ending = with(|of| of.not_after = until.into());
    let presented = Presented::signed(&ending, &issuer(&server)?)?;
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(config(&server, &[version], Some(presented.clone()))?);
        let begun = Instant::now();
        loop {
            let stream = handshake(&server, Arc::clone(&config)).await?;
            let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
            // The session ticket arrives with the first response.
            let client = Client::over(stream, "").await?;
            let found = status_and_user(&client).await?;
            if resumed && found.0 == 401 {
                break;
            }
            let ended = SystemTime::now() > until + Duration::from_secs(1);
            anyhow::ensure!(found.0 == 401 || !ended, "{found:?}, resumed: {resumed}");
            anyhow::ensure!(begun.elapsed() < TIMEOUT, "it was never resumed");
        }
    }
    Ok(())
}

#[tokio::test]
async fn returning_client_resumes_its_session_after_many_others() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    for version in [&TLS12, &TLS13] {
        let returning = Arc::new(config(&server, &[version], None)?);
        let kind = async |config: &Arc<ClientConfig>| {
            let stream = handshake(&server, Arc::clone(config)).await?;
            let kind = stream.get_ref().1.handshake_kind();
            // The session ticket arrives with the first response.
            let client = Client::over(stream, "system").await?;
            assert_eq!(client.get("/livez").await?.status, 200);
            anyhow::Ok(kind)
        };
        assert_eq!(kind(&returning).await?, Some(HandshakeKind::Full));
        // More than a server would keep in memory.
        for _ in 0..300 {
            let other = Arc::new(config(&server, &[version], None)?);
            assert_eq!(kind(&other).await?, Some(HandshakeKind::Full));
        }
        assert_eq!(kind(&returning).await?, Some(HandshakeKind::Resumed));
    }
    Ok(())
}

#[tokio::test]
async fn rotated_server_certificate_is_used_for_new_connections() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let leaf = |stream: &TlsStream<TcpStream>| {
        let chain = stream.get_ref().1.peer_certificates();
        chain
            .and_then(<[_]>::first)
            .cloned()
            .context("no certificate")
    };
    let fresh = || anyhow::Ok(Arc::new(config(&server, &[&TLS13], None)?));
    let old = handshake(&server, fresh()?).await?;
    let first = leaf(&old)?;
    let old = Client::over(old, "system").await?;
    assert_eq!(status_and_user(&old).await?.0, 201);

    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let created = parameters.signed_by(&key, &issuer(&server)?)?;
    let second = created.der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let wrong = server
        .certificates()
        .replace(vec![first.clone()], key.clone_key());
    assert!(wrong.unwrap_err().to_string().contains("KeyMismatch"));
    assert_eq!(leaf(&handshake(&server, fresh()?).await?)?, first);
    server.certificates().replace(vec![second.clone()], key)?;

    let new = handshake(&server, fresh()?).await?;
    assert_eq!(leaf(&new)?, second);
    let new = Client::over(new, "system").await?;
    for client in [&old, &new] {
        assert_eq!(status_and_user(client).await?, (201, "admin".to_owned()));
    }
    Ok(())
}

#[tokio::test]
async fn tls_1_2_and_1_3_work_with_http_1_and_2() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    for version in [&TLS12, &TLS13] {
        for protocol in ["h2", "http/1.1"] {
            let mut config = config(&server, &[version], None)?;
            config.alpn_protocols = vec![protocol.into()];
            let stream = handshake(&server, Arc::new(config)).await?;
            let connection = stream.get_ref().1;
            assert_eq!(connection.protocol_version(), Some(version.version));
            assert_eq!(connection.alpn_protocol(), Some(protocol.as_bytes()));
        }
    }
    Ok(())
}

#[tokio::test]
async fn older_tls_versions_are_refused_with_protocol_version() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    // A fatal protocol_version alert for TLS 1.0 and 1.1. The same ClientHello for TLS 1.2 gets a
    // ServerHello, so nothing else is wrong with it.
    for (minor, expected) in [(1, (21, [2, 70])), (2, (21, [2, 70])), (3, (22, [2, 0]))] {
        let mut stream = TcpStream::connect(server.address()).await?;
        stream.write_all(&client_hello(minor)).await?;
        let mut said = [0; 7];
        tokio::time::timeout(TIMEOUT, stream.read_exact(&mut said)).await??;
        assert_eq!((said[0], [said[5], said[6]]), expected, "3.{minor}");
    }
    Ok(())
}

/// The ClientHello of a client that knows nothing newer than TLS 3.`minor`.
fn client_hello(minor: u8) -> Vec<u8> {
    let mut body = vec![3, minor];
    body.extend([7; 32]);
    // No session, one cipher suite, no compression.
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    // The curve P-256, uncompressed points, and ECDSA signatures.
    let extensions = [
        0, 10, 0, 4, 0, 2, 0, 23, //
        0, 11, 0, 2, 1, 0, //
        0, 13, 0, 4, 0, 2, 4, 3,
    ];
    body.extend([0, 22]);
    body.extend(extensions);
    let length = |bytes: usize| u8::try_from(bytes).unwrap_or(u8::MAX);
    let mut message = vec![1, 0, 0, length(body.len())];
    message.extend(body);
    let mut record = vec![22, 3, 1, 0, length(message.len())];
    record.extend(message);
    record
}
