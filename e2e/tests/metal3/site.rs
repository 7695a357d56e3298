//! A management cluster and another server with hosts, with all their controllers.

use std::path::{Path, PathBuf};
use std::process::Command;

use insula_e2e::command::Running;
use insula_e2e::insula::{Insula, binary, root};
use insula_e2e::kubectl::Kubectl;
use insula_e2e::metal3::{Kubernetes, Programs, on_kubernetes};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A management cluster and another server with hosts, with all their controllers.
pub struct Site {
    pub management: Kubectl,
    /// A tenant's space with hosts.
    pub depot: Kubectl,
    /// The workload cluster of all clusters: the system's space of the Insula.
    pub workload: Kubectl,
    workload_kubeconfig: PathBuf,
    folder: TempDir,
    _controllers: Running,
    _server: Server,
}

/// The server of the management cluster.
enum Server {
    Insula(Insula),
    Kubernetes(Box<Kubernetes>),
}

impl Server {
    fn start(folder: &Path, kubectl: &Path) -> Option<Self> {
        if on_kubernetes() {
            let kubeconfig = folder.join("admin.kubeconfig");
            let started = Kubernetes::start(folder, kubectl, &kubeconfig)?;
            return Some(Self::Kubernetes(Box::new(started)));
        }
        let flags = ["--operators=metal3", "--metal3-allow-address=127.0.0.1"];
        Some(Self::Insula(Insula::start(&folder.join("data"), &flags)))
    }

    fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Insula(insula) => insula.kubeconfig(),
            Self::Kubernetes(kubernetes) => kubernetes.kubeconfig().to_owned(),
        }
    }

    /// The server with tenants.
    fn insula(&self) -> &Insula {
        match self {
            Self::Insula(insula) => insula,
            Self::Kubernetes(kubernetes) => kubernetes.other(),
        }
    }
}

impl Site {
    /// Returns `None` and reports the skip if a required program is not installed.
    pub fn start() -> Option<Self> {
        let (program, programs) = (Kubectl::find()?, Programs::find()?);
        let folder = TempDir::new().unwrap();
        let server = Server::start(folder.path(), &program)?;
        let other = folder.path().join("depot");
        let line = format!("tenant create depot --kubeconfig-out {}", other.display());
        server.insula().run(&line).succeeds();
        let kubectl = |name: &str, kubeconfig: &Path| {
            let home = folder.path().join(format!("home-{name}"));
            std::fs::create_dir_all(&home).unwrap();
            Kubectl::new(name, &program, kubeconfig, &home)
        };
        let (own, workload) = (server.kubeconfig(), server.insula().kubeconfig());
        let management = kubectl("management", &own);
        let depot = kubectl("depot", &other);
        let [_, (_, api), _, (_, bare_metal)] = programs.variables();
        let (api, bare_metal) = (api.display(), bare_metal.display());
        management.get(&format!("apply --server-side -f {api} -f {bare_metal}"));
        depot.get(&format!("apply --server-side -f {bare_metal}"));
        let manifests = insula("operator metal3 manifests --without-deployment");
        management.given(&manifests).get("apply -f -");
        Some(Self {
            management,
            depot,
            workload: kubectl("workload", &workload),
            workload_kubeconfig: workload,
            _controllers: programs.start(&own, &[&other]),
            folder,
            _server: server,
        })
    }

    /// Creates the kubeconfig of a pool of the other server as a Secret of the management cluster.
    pub fn give_access(&self, pool: &str, namespace: &str, secret: &str) {
        let manifests = insula(&format!("operator metal3 manifests --host-access {pool}"));
        self.depot.given(&manifests).get("apply -f -");
        let mut script = Command::new(root().join("docs/metal3/kubeconfig"));
        let found = std::env::var("PATH").unwrap();
        let programs = self.management.program().parent().unwrap().display();
        script
            .arg(pool)
            .env("KUBECONFIG", self.folder.path().join("depot"))
            .env("PATH", format!("{programs}:{found}"));
        let kubeconfig = Running::start("docs/metal3/kubeconfig".to_owned(), &mut script, "");
        let file = self.folder.path().join(format!("{secret}.kubeconfig"));
        std::fs::write(&file, kubeconfig.finish().succeeds()).unwrap();
        let from = format!("--from-file=kubeconfig={}", file.display());
        let line = format!("-n {namespace} create secret generic {secret} {from}");
        self.management.get(&line);
    }

    /// Creates the kubeconfig of the cluster `prod` of a namespace.
    pub fn give_workload(&self, namespace: &str) {
        let kubeconfig = std::fs::read_to_string(&self.workload_kubeconfig).unwrap();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": {
                "name": "prod-kubeconfig", "namespace": namespace,
                "labels": {"cluster.x-k8s.io/cluster-name": "prod"},
            },
            "stringData": {"value": kubeconfig},
        });
        apply(&self.management, &[secret]);
    }

    /// Waits until as many Machines of a namespace have provider IDs, and returns these.
    pub fn provider_ids(&self, namespace: &str, count: usize) -> Vec<String> {
        let ids = "get machines -o jsonpath={.items[*].spec.providerID}";
        let line = format!("-n {namespace} {ids}");
        let is_expected = |out: &str| out.split_whitespace().count() == count;
        let found = self.management.await_output(&line, is_expected);
        found.split_whitespace().map(str::to_owned).collect()
    }
}

/// Runs `insula` without a server.
pub fn insula(line: &str) -> String {
    let mut command = Command::new(binary());
    command.args(line.split(' '));
    let running = Running::start(format!("insula {line}"), &mut command, "");
    running.finish().succeeds()
}

pub fn apply(kubectl: &Kubectl, objects: &[Value]) {
    for object in objects {
        kubectl.given(&object.to_string()).get("apply -f -");
    }
}
