//! A cluster that is offered to tenants: an Insula server, or a real Kubernetes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;

use insula_e2e::command::Running;
use insula_e2e::insula::Insula;
use insula_e2e::kube_apiserver::{KubeApiserver, TOKEN};
use insula_e2e::kube_controller_manager::KubeControllerManager;
use insula_testkit::peer;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::{Api, runtime};
use crate::journal::Journal;
use crate::user::User;

/// The variable that selects it: `kubernetes`, or else an Insula server.
const VARIABLE: &str = "INSULA_BROKER_CLUSTER";

/// The static users besides the administrator: a token, which is their name too.
const USERS: &str = "axel,axel,1,\"tenant:system\"\nnobody,nobody,2,\"tenant:system\"\n";

/// A user who manages tenants without being an administrator.
pub const AXEL: &str = "axel";

/// The operator's namespace.
pub const AXON: &str = "/api/v1/namespaces/axon-operator";
/// The path of the Tenant objects.
pub const TENANTS: &str = "/apis/submariner.io/v1alpha1/namespaces/axon-operator/tenants";

/// Where the operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// In the server process, if the server is an Insula server.
    Inside,
    /// In a process of its own.
    Apart,
}

/// A cluster, and all output of its lifetime.
pub struct Cluster {
    apart: Mutex<Option<Running>>,
    server: Server,
    /// The recorded output.
    pub journal: Arc<Journal>,
    operator: Operator,
    folks: AtomicUsize,
    workloads: OnceLock<Workloads>,
    // Dropped after everything that uses it.
    folder: TempDir,
}

/// Clusters that can join: spaces of another, unrelated server.
struct Workloads {
    server: Insula,
    folder: TempDir,
}

/// One of them.
pub struct Workload {
    kubeconfig: PathBuf,
    url: String,
    space: String,
    api: Api,
}

impl Workloads {
    fn start() -> Self {
        let folder = TempDir::with_prefix("insula-workloads-").unwrap();
        let tokens = folder.path().join("tokens.csv");
        let users = format!("{TOKEN},admin,0,\"system:masters,tenant:system\"\n");
        std::fs::write(&tokens, users).unwrap();
        let arguments = ["--token-auth-file", tokens.to_str().unwrap()];
        Self {
            server: Insula::start(&folder.path().join("data"), &arguments),
            folder,
        }
    }
}

impl Workload {
    /// The kubeconfig of its administrator.
    pub fn kubeconfig(&self) -> std::path::Display<'_> {
        self.kubeconfig.display()
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns an object, or `None`.
    #[track_caller]
    pub fn find(&self, path: &str) -> Option<Value> {
        self.api.find(&format!("/tenants/{}{path}", self.space))
    }

    /// Returns an object.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        self.api.get(&format!("/tenants/{}{path}", self.space))
    }
}

enum Server {
    Insula(Mutex<Option<Insula>>),
    Kubernetes {
        // Dropped before its server.
        _loops: KubeControllerManager,
        server: Box<KubeApiserver>,
    },
}

/// Returns whether the clusters are real Kubernetes.
pub fn is_kubernetes() -> bool {
    std::env::var(VARIABLE).is_ok_and(|cluster| cluster == "kubernetes")
}

/// Returns whether a real Kubernetes lacks the subject of a test, and reports the skip.
pub fn lacks(what: &str) -> bool {
    if is_kubernetes() {
        peer::skipped(&format!("a Kubernetes has no {what}"));
    }
    is_kubernetes()
}

impl Cluster {
    /// A cluster without deployments. `None`, with a message, if its programs are not
    /// installed.
    pub fn bare(operator: Operator) -> Option<Self> {
        let folder = TempDir::with_prefix("insula-broker-").unwrap();
        let server = match is_kubernetes() {
            true => start_kubernetes()?,
            false => start_insula(folder.path(), operator),
        };
        Some(Self {
            apart: Mutex::new(None),
            server,
            journal: Arc::default(),
            operator,
            folks: AtomicUsize::new(0),
            workloads: OnceLock::new(),
            folder,
        })
    }

    /// A cluster with a running operator, and axel as tenant manager.
    pub fn with_axon(operator: Operator) -> Option<Self> {
        let cluster = Self::bare(operator)?;
        let admin = cluster.admin();
        let spaces = if is_kubernetes() { "" } else { " --spaces" };
        let line = format!("deploy axon-cp --without-deployment --axon-admin user:{AXEL}{spaces}");
        if cluster.needs_a_process() {
            admin.subctl(&format!("{line} --no-wait")).succeeds();
            cluster.start_operator();
        }
        admin.subctl(&format!("{line} --timeout 60s")).succeeds();
        Some(cluster)
    }

    fn needs_a_process(&self) -> bool {
        self.operator == Operator::Apart || is_kubernetes()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    fn address(&self) -> SocketAddr {
        match &self.server {
            Server::Insula(server) => {
                let server = server.lock().unwrap();
                server.as_ref().unwrap().address().parse().unwrap()
            }
            Server::Kubernetes { server, .. } => server.address(),
        }
    }

    /// The file with its CA.
    pub fn authority(&self) -> PathBuf {
        match &self.server {
            Server::Insula(_) => self.folder.path().join("data/pki/ca.crt"),
            Server::Kubernetes { server, .. } => server.authority(),
        }
    }

    /// The folder of all its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The audit log, if it is an Insula server.
    pub fn audit(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap_or_default()
    }

    /// A client with a token.
    pub fn api(&self, token: &str) -> Api {
        let authority = CertificateDer::from_pem_file(self.authority()).unwrap();
        Api::connect(self.address(), &authority, token)
    }

    /// The same, if the server is reachable.
    pub fn reach(&self, token: &str) -> anyhow::Result<Api> {
        let authority = CertificateDer::from_pem_file(self.authority())?;
        Api::reach(self.address(), &authority, token)
    }

    /// A client of the administrator.
    pub fn root(&self) -> Api {
        self.api(TOKEN)
    }

    /// The administrator, in a new folder.
    pub fn admin(&self) -> User {
        match &self.server {
            Server::Insula(_) => {
                let kubeconfig = self.folder.path().join("data/admin.kubeconfig");
                self.person(Some(&kubeconfig))
            }
            Server::Kubernetes { .. } => self.bearer(TOKEN),
        }
    }

    /// A user with a token, in a new folder.
    pub fn bearer(&self, token: &str) -> User {
        let somebody = self.nobody();
        let path = somebody.path(".kubeconfig");
        std::fs::write(&path, self.kubeconfig(token)).unwrap();
        User::new(&somebody.folder, Some(&path), &self.journal)
    }

    /// A kubeconfig with a token.
    pub fn kubeconfig(&self, token: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: '{}', certificate-authority: '{}'}}}}]\n\
             users: [{{name: u, user: {{token: '{token}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            self.url(),
            self.authority().display(),
        )
    }

    /// A user without a kubeconfig, in a new folder.
    pub fn nobody(&self) -> User {
        self.person(None)
    }

    fn person(&self, kubeconfig: Option<&Path>) -> User {
        let number = self.folks.fetch_add(1, Ordering::SeqCst);
        let folder = self.folder.path().join(format!("person-{number}"));
        User::new(&folder, kubeconfig, &self.journal)
    }

    /// A new, empty cluster on another server.
    pub fn workload(&self, name: &str) -> Workload {
        let workloads = self.workloads.get_or_init(Workloads::start);
        let number = self.folks.fetch_add(1, Ordering::SeqCst);
        let name = format!("{name}-{number}");
        let kubeconfig = self.folder.path().join(format!("{name}.kubeconfig"));
        let path = kubeconfig.display();
        let line = format!("tenant create {name} --kubeconfig-out '{path}'");
        workloads.server.run(&line).succeeds();
        let folder = workloads.folder.path().join("data/pki/ca.crt");
        let authority = CertificateDer::from_pem_file(folder).unwrap();
        let address = workloads.server.address().parse().unwrap();
        Workload {
            kubeconfig,
            url: workloads.server.url().to_owned(),
            space: name,
            api: Api::connect(address, &authority, TOKEN),
        }
    }

    /// A token of the operator's account.
    pub fn operator_token(&self) -> String {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        });
        let path = format!("{AXON}/serviceaccounts/axon-operator/token");
        let made = self.root().create(&path, &request);
        made["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Starts another operator process, with its own service account only.
    pub fn operator(&self) -> Running {
        self.operator_with("--leader-elect")
    }

    fn operator_with(&self, flags: &str) -> Running {
        let somebody = self.bearer(&self.operator_token());
        let line = format!("operator broker {flags}");
        somebody.verbose().start_insula(&line)
    }

    /// Starts the operator in a process of its own.
    pub fn start_operator(&self) {
        let mut apart = self.apart.lock().unwrap();
        assert!(apart.is_none(), "it runs");
        *apart = Some(self.operator());
    }

    /// Starts the operator without a lease, so that it does not wait for the lease of a killed
    /// one to expire.
    pub fn start_lone_operator(&self) {
        let mut apart = self.apart.lock().unwrap();
        assert!(apart.is_none(), "it runs");
        *apart = Some(self.operator_with("--leader-elect=false"));
    }

    /// Kills the operator.
    pub fn kill_operator(&self) {
        let apart = self.apart.lock().unwrap().take();
        self.journal.note(&apart.expect("it runs").kill());
    }

    /// Kills the server and restarts it at the same address.
    pub fn kill_server(&self) {
        let Server::Insula(server) = &self.server else {
            panic!("a Kubernetes is not killed");
        };
        let mut server = server.lock().unwrap();
        let killed = server.take().unwrap();
        let address = killed.address().to_owned();
        // Callers wait until it is back.
        self.journal.note(&killed.end());
        *server = Some(launch(&address, self.folder.path(), self.operator));
    }
}

fn start_insula(folder: &Path, operator: Operator) -> Server {
    let users = format!("{TOKEN},admin,0,\"system:masters,tenant:system\"\n{USERS}");
    std::fs::write(folder.join("tokens.csv"), users).unwrap();
    Server::Insula(Mutex::new(Some(launch("127.0.0.1:0", folder, operator))))
}

fn launch(listen: &str, folder: &Path, operator: Operator) -> Insula {
    let (tokens, audit) = (folder.join("tokens.csv"), folder.join("audit.log"));
    let mut arguments = vec![
        "--token-auth-file",
        tokens.to_str().unwrap(),
        "--audit-log-path",
        audit.to_str().unwrap(),
    ];
    if operator == Operator::Inside {
        arguments.extend(["--operators", "broker"]);
    }
    Insula::start_at(listen, &folder.join("data"), &arguments)
}

fn start_kubernetes() -> Option<Server> {
    let program = KubeControllerManager::find()?;
    let server = runtime().block_on(KubeApiserver::start_with(USERS))?;
    let loops = KubeControllerManager::start(&program, &server).unwrap();
    Some(Server::Kubernetes {
        _loops: loops,
        server: Box::new(server),
    })
}

impl Drop for Cluster {
    /// Checks that no recorded output contains a token or a key.
    fn drop(&mut self) {
        let apart = self.apart.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(operator) = apart.take() {
            self.journal.note(&operator.kill());
        }
        match &mut self.server {
            Server::Insula(server) => {
                let server = server.get_mut().unwrap_or_else(PoisonError::into_inner);
                if let Some(server) = server.take() {
                    self.journal.note(&server.stop());
                }
                let audit = self.folder.path().join("audit.log");
                self.journal.note_file(&audit);
            }
            Server::Kubernetes { server, .. } => self.journal.note_file(&server.log()),
        }
        if !thread::panicking() {
            assert_eq!(self.journal.leaks(), Vec::<String>::new());
        }
    }
}

type Shared = Mutex<Weak<Cluster>>;

/// A cluster with an operator that independent tests share.
pub fn shared() -> Option<Arc<Cluster>> {
    static SHARED: Shared = Mutex::new(Weak::new());
    share(&SHARED, || Cluster::with_axon(Operator::Inside))
}

/// The same without an operator.
pub fn classic() -> Option<Arc<Cluster>> {
    static SHARED: Shared = Mutex::new(Weak::new());
    share(&SHARED, || Cluster::bare(Operator::Apart))
}

/// It lives as long as one of its users.
fn share(shared: &Shared, start: impl Fn() -> Option<Cluster>) -> Option<Arc<Cluster>> {
    let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cluster) = shared.upgrade() {
        return Some(cluster);
    }
    let cluster = Arc::new(start()?);
    *shared = Arc::downgrade(&cluster);
    Some(cluster)
}

#[test]
fn test_cluster_issues_tokens_and_empties_namespaces() {
    let Some(cluster) = classic() else { return };
    let root = cluster.root();
    let there = crate::content::namespace("loops");
    root.create("/api/v1/namespaces", &crate::fixture::namespace("loops"));
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "a"}},
    });
    root.create(&format!("{there}/serviceaccounts"), &account);
    root.create(&format!("{there}/secrets"), &secret);
    crate::wait::until("the token", || {
        let secret = root.find(&format!("{there}/secrets/t"))?;
        secret["data"]["token"].as_str().map(str::to_owned)
    });
    root.delete(&there);
    crate::fixture::await_gone(&root, &there);
}
