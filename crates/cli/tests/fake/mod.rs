//! A minimal API server: tenants and signing requests in memory, over real TLS.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use insula_access::{Authority, Subject, Validity};
use insula_core::Space;
use rcgen::KeyPair;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

/// A server that runs until it is dropped, and a folder for kubeconfigs.
pub struct Fake {
    pub address: SocketAddr,
    pub folder: tempfile::TempDir,
    state: Arc<State>,
    _runtime: Runtime,
}

pub struct State {
    pub ca: Authority,
    pub objects: Mutex<Objects>,
}

#[derive(Default)]
pub struct Objects {
    tenants: BTreeMap<String, Value>,
    /// How often each tenant is still returned after its deletion.
    remaining: BTreeMap<String, usize>,
    requests: BTreeMap<String, Value>,
    conflicts: usize,
    seen: Vec<String>,
    /// The tenant for which certificates are signed for another user.
    astray: BTreeSet<String>,
}

/// The accepted token.
pub const TOKEN: &str = "t0ken";

impl Fake {
    pub fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(3600));
        let state = Arc::new(State {
            ca: Authority::generate("fake-ca", validity).unwrap(),
            objects: Mutex::default(),
        });
        let acceptor = TlsAcceptor::from(Arc::new(tls(&state.ca, validity)));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&shared));
                tokio::spawn(serve(stream, acceptor, state));
            }
        });
        Self {
            address,
            folder: tempfile::tempdir().unwrap(),
            state,
            _runtime: runtime,
        }
    }

    /// Writes a kubeconfig for an administrator with a certificate.
    pub fn kubeconfig(&self) -> PathBuf {
        let key = KeyPair::generate().unwrap();
        let subject = Subject {
            user: "root".to_owned(),
            groups: vec!["system:masters".to_owned()],
            tenant: Some(Space::System),
            tenant_uid: None,
        };
        let validity = Validity::starting(SystemTime::now(), Duration::from_secs(3600));
        let certificate = self
            .state
            .ca
            .issue_client(&subject, &key, validity)
            .unwrap();
        std::fs::write(self.folder.path().join("key.pem"), key.serialize_pem()).unwrap();
        let user = format!(
            "{{client-certificate-data: {}, client-key: key.pem}}",
            BASE64_STANDARD.encode(certificate)
        );
        let server = format!("https://{}", self.address);
        self.write_kubeconfig("admin", &server, &self.trust(), &user)
    }

    pub fn trust(&self) -> String {
        let ca = BASE64_STANDARD.encode(self.state.ca.certificate_pem());
        format!("certificate-authority-data: {ca}")
    }

    pub fn write_kubeconfig(&self, name: &str, server: &str, trust: &str, user: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: {server}, {trust}}}}}]\n\
             users: [{{name: u, user: {user}}}]\n"
        );
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn add_tenant(&self, name: &str, status: Value) {
        self.objects(|objects| {
            objects
                .tenants
                .insert(name.to_owned(), tenant(name, status))
        });
    }

    /// Sets how often a tenant is still returned after its deletion.
    pub fn remains(&self, name: &str, looks: usize) {
        self.objects(|objects| objects.remaining.insert(name.to_owned(), looks));
    }

    pub fn conflicts(&self, conflicts: usize) {
        self.objects(|objects| objects.conflicts = conflicts);
    }

    pub fn lead_astray(&self, name: &str) {
        self.objects(|objects| objects.astray.insert(name.to_owned()));
    }

    /// The requests and their users.
    pub fn seen(&self) -> Vec<String> {
        self.objects(|objects| std::mem::take(&mut objects.seen))
    }

    fn objects<T>(&self, act: impl FnOnce(&mut Objects) -> T) -> T {
        act(&mut self.state.objects.lock().unwrap())
    }
}

fn tls(ca: &Authority, validity: Validity) -> ServerConfig {
    let key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1".to_owned(), "fake.example".to_owned()];
    let certificate = ca.issue_server(&names, &key, validity).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(ca.certificate_pem().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .allow_unauthenticated()
        .build()
        .unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)
        .unwrap()
}

async fn serve(stream: tokio::net::TcpStream, acceptor: TlsAcceptor, state: Arc<State>) {
    // Clients that refuse the certificate disconnect, which ends this task.
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let user = certificates.map(|certificates| {
        let credential = insula_access::certificate::read(&certificates[0]).unwrap();
        credential.user
    });
    let service = service_fn(|request| answer(request, user.clone(), Arc::clone(&state)));
    let http = hyper::server::conn::http1::Builder::new();
    http.serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

async fn answer(
    request: Request<Incoming>,
    user: Option<String>,
    state: Arc<State>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let bearer = parts.headers.get("authorization");
    let bearer = bearer.is_some_and(|value| value == &format!("Bearer {TOKEN}"));
    let user = user.or_else(|| bearer.then(|| "bearer".to_owned()));
    let target = parts.uri.path_and_query().unwrap().as_str();
    let target = target.strip_prefix("/proxy").unwrap_or(target);
    let prefixed = target.strip_prefix("/tenants/");
    let target = prefixed.map_or(target, |rest| &rest[rest.find('/').unwrap()..]);
    let (status, object) = match user {
        None => refusal(401, "Unauthorized"),
        Some(user) => {
            let mut objects = state.objects.lock().unwrap();
            let seen = format!("{user} {} {}", parts.method, parts.uri);
            objects.seen.push(seen);
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let path: Vec<_> = path.trim_start_matches('/').split('/').collect();
            objects.act(&state.ca, &parts.method, &path, query, body)
        }
    };
    let body = Full::new(object.to_string().into());
    let response = Response::builder().status(status).body(body);
    Ok(response.unwrap())
}

type Answer = (StatusCode, Value);

fn refusal(code: u16, message: &str) -> Answer {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "message": message, "code": code,
    });
    (StatusCode::from_u16(code).unwrap(), status)
}

fn tenant(name: &str, status: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Tenant",
        "metadata": {
            "name": name, "uid": format!("uid-{name}"),
            "creationTimestamp": "2020-01-01T00:00:00Z",
        },
        "status": status,
    })
}

impl Objects {
    fn act(
        &mut self,
        ca: &Authority,
        method: &Method,
        path: &[&str],
        query: &str,
        body: Value,
    ) -> Answer {
        match (method.as_str(), path) {
            ("POST", ["api", "v1", "tenants"]) => self.create(&body),
            ("GET", ["api", "v1", "tenants"]) => self.list(query),
            ("GET", ["api", "v1", "tenants", name]) => self.get(name),
            ("DELETE", ["api", "v1", "tenants", name]) => self.delete(name),
            (
                method,
                [
                    "apis",
                    "certificates.k8s.io",
                    "v1",
                    "tenants",
                    tenant,
                    "certificatesigningrequests",
                    rest @ ..,
                ],
            ) => self.request(ca, method, tenant, rest, body),
            _ => refusal(404, "the server could not find the requested resource"),
        }
    }

    fn create(&mut self, body: &Value) -> Answer {
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        if self.tenants.contains_key(&name) {
            return refusal(409, &format!("tenants {name:?} already exists"));
        }
        let created = tenant(&name, json!({}));
        self.tenants.insert(name, created.clone());
        (StatusCode::CREATED, created)
    }

    /// One tenant per page.
    fn list(&self, query: &str) -> Answer {
        let after = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("continue="));
        let after = after.map(|after| after.replace("%3D", "="));
        let mut left = self.tenants.iter().filter(|(name, _)| {
            after
                .as_deref()
                .is_none_or(|after| format!("{name}=").as_str() > after)
        });
        let first = left.next();
        let more = left.next().and(first).map(|(name, _)| format!("{name}="));
        let items: Vec<_> = first.map(|(_, tenant)| tenant).into_iter().collect();
        let list = json!({
            "kind": "TenantList", "apiVersion": "v1",
            "metadata": { "continue": more.unwrap_or_default() }, "items": items,
        });
        (StatusCode::OK, list)
    }

    /// The next read returns it as active.
    fn get(&mut self, name: &str) -> Answer {
        let missing = refusal(404, &format!("tenants {name:?} not found"));
        let Some(tenant) = self.tenants.get_mut(name) else {
            return missing;
        };
        if tenant["status"]["phase"] == "Terminating" {
            let remaining = self.remaining.entry(name.to_owned()).or_default();
            if *remaining == 0 {
                self.tenants.remove(name);
                return missing;
            }
            *remaining -= 1;
        } else {
            tenant["status"]["phase"] = json!("Active");
        }
        (StatusCode::OK, tenant.clone())
    }

    fn delete(&mut self, name: &str) -> Answer {
        let Some(tenant) = self.tenants.get_mut(name) else {
            return refusal(404, &format!("tenants {name:?} not found"));
        };
        tenant["status"] = json!({
            "phase": "Terminating",
            "conditions": [
                { "type": "ContentRemaining", "status": "True", "message": "3 pods are left" },
                { "type": "DiscoveryFailed", "status": "False", "message": "all is well" },
            ],
        });
        (StatusCode::OK, tenant.clone())
    }

    fn request(
        &mut self,
        ca: &Authority,
        method: &str,
        tenant: &str,
        rest: &[&str],
        body: Value,
    ) -> Answer {
        match (method, rest) {
            ("POST", []) => {
                let mut request = body;
                assert_eq!(
                    request["spec"]["signerName"],
                    "kubernetes.io/kube-apiserver-client"
                );
                assert_eq!(request["spec"]["usages"], json!(["client auth"]));
                request["metadata"]["name"] = json!("insula-x7k2p");
                self.requests
                    .insert("insula-x7k2p".to_owned(), request.clone());
                (StatusCode::CREATED, request)
            }
            ("PUT", [_, "approval"]) if self.conflicts > 0 => {
                self.conflicts -= 1;
                refusal(409, "the object has been modified")
            }
            ("PUT", [name, "approval"]) => {
                assert_eq!(body["status"]["conditions"][0]["type"], "Approved");
                let approved = body.clone();
                self.requests.insert((*name).to_owned(), body);
                (StatusCode::OK, approved)
            }
            ("GET", [name]) => {
                let Some(request) = self.requests.get_mut(*name) else {
                    return refusal(404, "not found");
                };
                let approved = request["status"]["conditions"].is_array();
                if approved {
                    let space = match self.astray.contains(tenant) {
                        true => "another-tenant",
                        false => tenant,
                    };
                    request["status"]["certificate"] = sign(ca, request, space);
                }
                (StatusCode::OK, request.clone())
            }
            ("DELETE", [name]) => match self.requests.remove(*name) {
                Some(_) => (
                    StatusCode::OK,
                    json!({ "kind": "Status", "status": "Success" }),
                ),
                None => refusal(404, "not found"),
            },
            _ => refusal(
                405,
                "the server does not allow this method on the requested resource",
            ),
        }
    }
}

fn sign(ca: &Authority, request: &Value, tenant: &str) -> Value {
    let spec = &request["spec"];
    let pem = BASE64_STANDARD
        .decode(spec["request"].as_str().unwrap())
        .unwrap();
    let asked = insula_access::CertificateRequest::from_pem(str::from_utf8(&pem).unwrap()).unwrap();
    let subject = Subject {
        tenant: Some(Space::parse(tenant).unwrap()),
        tenant_uid: Some("1b4e28ba-2fa1-11d2-883f-0016d3cca427".into()),
        ..asked.subject
    };
    let length = Duration::from_secs(spec["expirationSeconds"].as_u64().unwrap());
    let validity = Validity::starting(SystemTime::now(), length);
    let certificate = ca.issue_client(&subject, &asked.public_key, validity);
    json!(BASE64_STANDARD.encode(certificate.unwrap()))
}

/// Reads a file.
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
