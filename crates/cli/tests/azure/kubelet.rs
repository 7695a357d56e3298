//! What a cluster does with a Deployment of webhooks: a process, the endpoint of its Service, and
//! the status.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_testkit::server::Client;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::process::Process;
use crate::scene::Scene;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The only pod of a Deployment.
pub struct Pod {
    pub scene: Arc<Scene>,
    pub namespace: &'static str,
    pub deployment: &'static str,
    pub service: &'static str,
    /// Whether it has the account of its namespace, and not all rights.
    pub has_account: bool,
    pub arguments: Vec<String>,
    pub env: Vec<(String, String)>,
    pub address: SocketAddr,
    pub process: Option<Process>,
}

/// Returns a free port at an address of the machine that endpoints may have: loopback is refused.
pub fn endpoint_address() -> Option<SocketAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this finds the address of the route.
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    let listener = std::net::TcpListener::bind((address, 0)).ok()?;
    listener
        .local_addr()
        .ok()
        .filter(|it| !it.ip().is_loopback())
}

impl Pod {
    /// Starts and stops it as its Deployment says, forever.
    pub async fn follow(mut self) {
        let system = self.scene.server.system().await.unwrap();
        let mut observed = None;
        loop {
            let path = self.deployment();
            let found = system.get(&path).await.unwrap();
            let found = (found.status == 200).then(|| found.json());
            let is_wanted = found.as_ref().is_some_and(|it| it["spec"]["replicas"] != 0);
            match (is_wanted, self.process.is_some()) {
                (true, false) => self.start(&system).await,
                (false, true) => self.stop(&system).await,
                _ => {}
            }
            if let Some(found) = found {
                let generation = found["metadata"]["generation"].clone();
                if observed.as_ref() != Some(&generation) {
                    self.report(&system, &generation, &found["spec"]["replicas"])
                        .await;
                    observed = Some(generation);
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn deployment(&self) -> String {
        let (namespace, name) = (self.namespace, self.deployment);
        format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
    }

    fn slices(&self) -> String {
        let namespace = self.namespace;
        format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices")
    }

    async fn start(&mut self, system: &Client) {
        let kubeconfig = match self.has_account {
            true => self.scene.account(self.namespace).await,
            false => self.scene.kubeconfig("system"),
        };
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let address = self.address.to_string();
        arguments.extend(["--webhook-addr", &address]);
        let env: Vec<_> = self
            .env
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let process = Process::start(&kubeconfig, &arguments, &env);
        let begun = Instant::now();
        while TcpStream::connect(self.address).await.is_err() {
            assert!(begun.elapsed() < START_TIMEOUT, "{}", process.log());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.process = Some(process);
        let slice = json!({
            "metadata": {
                "name": self.service, "labels": {"kubernetes.io/service-name": self.service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "webhooks", "port": self.address.port()}],
            "endpoints": [{"addresses": [self.address.ip()]}],
        });
        let made = system.post(&self.slices(), &slice).await.unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
    }

    async fn stop(&mut self, system: &Client) {
        self.process.take().map(Process::stop);
        let slice = format!("{}/{}", self.slices(), self.service);
        system.delete(&slice).await.unwrap();
    }

    async fn report(&self, system: &Client, generation: &Value, count: &Value) {
        let status = json!({"status": {
            "observedGeneration": generation, "replicas": count, "updatedReplicas": count,
            "readyReplicas": count, "availableReplicas": count,
        }});
        let path = format!("{}/status", self.deployment());
        system.patch(&path, "merge", &status).await.unwrap();
    }
}
