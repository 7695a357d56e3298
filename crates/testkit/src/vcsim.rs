//! vcsim, the vCenter simulator of govmomi, where it is installed: an independent reference for the
//! behaviour of a vCenter.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::header::{COOKIE, HOST, SET_COOKIE, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use ring::digest;
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::peer;

/// How long it may take to listen. Half a second is usual.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// The user agent of the test's own requests.
const CLIENT_AGENT: &str = "insula-testkit";

/// A simulator on its own port. Dropping it stops the process.
#[derive(Debug)]
pub struct VcSim {
    process: Child,
    address: SocketAddr,
    settings: Settings,
    /// The files of its certificate.
    _folder: TempDir,
}

/// How to run it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its only account.
    pub username: String,
    /// The password of the account.
    pub password: String,
    /// A serving certificate and its key, in PEM. `None` is the built-in one, which all simulators
    /// share.
    pub certificate: Option<(String, String)>,
    /// Further flags: `-dc`, `-cluster`, `-pool`, `-ds`, `-vm`, `-method-delay`.
    pub flags: Vec<String>,
}

/// A listed session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSession {
    /// The key by which it can be terminated.
    pub key: String,
    /// Its account.
    pub username: String,
    /// The user agent of the client.
    pub agent: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            username: "user".to_owned(),
            password: "pass".to_owned(),
            certificate: None,
            flags: Vec::new(),
        }
    }
}

impl VcSim {
    /// Starts one with this account. `None`, after reporting it, if it is not installed.
    ///
    /// # Panics
    ///
    /// If it is installed and does not start.
    pub fn start(username: &str, password: &str) -> Option<Self> {
        Self::start_with(Settings {
            username: username.to_owned(),
            password: password.to_owned(),
            ..Settings::default()
        })
    }

    /// Starts one. `None`, after reporting it, if it is not installed.
    ///
    /// # Panics
    ///
    /// If it is installed and does not start.
    pub fn start_with(settings: Settings) -> Option<Self> {
        let binary = Self::find()?;
        Some(Self::launch(&binary, settings).expect("vcsim is installed, so it starts"))
    }

    /// The path of the binary. `None`, after reporting it, if it is not installed.
    pub fn find() -> Option<PathBuf> {
        let found = peer::installed("INSULA_VCSIM", "vcsim-0.56.0-2");
        if found.is_none() {
            peer::skipped("vcsim is not installed; make peers does that");
        }
        found
    }

    fn launch(binary: &PathBuf, settings: Settings) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let mut command = Command::new(binary);
        command.args(["-l", "127.0.0.1:0"]);
        command.args(["-username", &settings.username]);
        command.args(["-password", &settings.password]);
        if let Some((certificate, key)) = &settings.certificate {
            for (flag, name, text) in [("-tlscert", "cert", certificate), ("-tlskey", "key", key)] {
                let path = folder.path().join(name);
                std::fs::write(&path, text)?;
                command.arg(flag).arg(path);
            }
        }
        command.args(&settings.flags);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let stdout = process.stdout.take().context("its output is ours")?;
        match wait(stdout) {
            Ok(address) => Ok(Self {
                process,
                address,
                settings,
                _folder: folder,
            }),
            Err(error) => {
                // It fails only if the process has already ended, which is the goal.
                let _ = process.kill();
                process.wait()?;
                Err(error)
            }
        }
    }

    /// Its address, as in `127.0.0.1:8989`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The process ID.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The SHA-1 thumbprint of its certificate, in upper case with colons.
    pub async fn thumbprint(&self) -> anyhow::Result<String> {
        let stream = self.connect().await?;
        let certificate = stream.get_ref().1.peer_certificates();
        let certificate = certificate
            .and_then(<[_]>::first)
            .context("a certificate")?;
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, certificate);
        let pairs: Vec<_> = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        Ok(pairs.join(":"))
    }

    /// All sessions but the one used for this lookup.
    pub async fn sessions(&self) -> anyhow::Result<Vec<ListedSession>> {
        let answer = self.ask(LIST).await?;
        let document = roxmltree::Document::parse(&answer)?;
        let named = |name: &'static str| {
            move |node: &roxmltree::Node<'_, '_>| node.tag_name().name() == name
        };
        let sessions = document.descendants().filter(named("UserSession"));
        let text = |node: roxmltree::Node<'_, '_>, name: &'static str| {
            let found = node.children().find(named(name));
            found
                .and_then(|found| found.text())
                .unwrap_or_default()
                .to_owned()
        };
        let seen = sessions.map(|session| ListedSession {
            key: text(session, "key"),
            username: text(session, "userName"),
            agent: text(session, "userAgent"),
        });
        Ok(seen.filter(|seen| seen.agent != CLIENT_AGENT).collect())
    }

    /// Terminates a session, as an administrator does.
    pub async fn terminate(&self, key: &str) -> anyhow::Result<()> {
        let body = format!(
            "<TerminateSession xmlns=\"urn:vim25\"><_this type=\"SessionManager\">SessionManager\
             </_this><sessionId>{key}</sessionId></TerminateSession>"
        );
        self.ask(&body).await.map(drop)
    }

    /// Sends the element of any method in a session of its own, and returns the complete envelope.
    pub async fn ask(&self, body: &str) -> anyhow::Result<String> {
        let Settings {
            username, password, ..
        } = &self.settings;
        let login = format!(
            "<Login xmlns=\"urn:vim25\"><_this type=\"SessionManager\">SessionManager</_this>\
             <userName>{username}</userName><password>{password}</password></Login>"
        );
        let (headers, _) = self.post(None, &login).await?;
        let cookie = headers.get(SET_COOKIE).context("a cookie")?.to_str()?;
        let cookie = cookie.split(';').next().unwrap_or_default();
        let answer = self.post(Some(cookie), body).await;
        self.post(Some(cookie), LOGOUT).await?;
        Ok(answer?.1)
    }

    async fn post(&self, cookie: Option<&str>, body: &str) -> anyhow::Result<(HeaderMap, String)> {
        let envelope = format!(
            "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\
             <e:Body>{body}</e:Body></e:Envelope>"
        );
        let mut request = Request::post("/sdk")
            .header(HOST, self.address())
            .header(USER_AGENT, CLIENT_AGENT)
            .header("soapaction", "urn:vim25/6.7");
        if let Some(cookie) = cookie {
            request = request.header(COOKIE, cookie);
        }
        let request = request.body(Full::new(Bytes::from(envelope)))?;
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, driving) = http1::handshake(stream).await?;
        let driver = tokio::spawn(driving);
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await?.to_bytes().into())?;
        driver.abort();
        ensure!(head.status == 200, "{}: {text}", head.status);
        Ok((head.headers, text))
    }

    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::from(self.address.ip());
        Ok(TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?)
    }
}

impl Drop for VcSim {
    fn drop(&mut self) {
        // Both fail only if it has already ended, which is the goal.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const LIST: &str = "<RetrievePropertiesEx xmlns=\"urn:vim25\">\
    <_this type=\"PropertyCollector\">propertyCollector</_this><specSet>\
    <propSet><type>SessionManager</type><pathSet>sessionList</pathSet></propSet>\
    <objectSet><obj type=\"SessionManager\">SessionManager</obj></objectSet></specSet>\
    <options/></RetrievePropertiesEx>";
const LOGOUT: &str = "<Logout xmlns=\"urn:vim25\">\
    <_this type=\"SessionManager\">SessionManager</_this></Logout>";

/// Waits for the line with the listening address, and keeps reading so that the process can always
/// write.
fn wait(stdout: ChildStdout) -> anyhow::Result<SocketAddr> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Only the first line is received.
            let _ = sender.send(line);
        }
    });
    let line = receiver
        .recv_timeout(READY_TIMEOUT)
        .context("it does not say where it listens")?;
    let Some(url) = line.strip_prefix("vcsim ready https://") else {
        bail!("it says {line:?}");
    };
    let place = url.rsplit('@').next().unwrap_or_default();
    Ok(place.trim_end_matches("/sdk").parse()?)
}

/// Accepts every certificate: this talks to a simulator on loopback.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
