//! Switching from Azure Service Operator to this operator, and back, by the commands of
//! docs/azure.md. Its conversion and admission are those of this program, in its namespace and with
//! its names.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use insula_azure::manifests::{self, ReviewedKinds, Settings};
use insula_azure::webhooks::{Reach, configurations};
use insula_operator::webhook::WebhookService;
use insula_testkit::azure::FakeAzure;
use insula_testkit::peer;
use insula_testkit::server::{Client, DEFINITIONS};
use serde_json::{Value, json};

use crate::kubelet::{Pod, endpoint_address};
use crate::scene::Scene;

const TIMEOUT: Duration = Duration::from_secs(90);
const ASO: &str = "azureserviceoperator-system";
const ASO_DEPLOYMENT: &str = "azureserviceoperator-controller-manager";
const ASO_SERVICE: &str = "azureserviceoperator-webhook-service";
const OWN: &str = "azureoperator-system";
const OPERATOR: &str = "azure.microsoft.com/operator-namespace";
const OPERATOR_V2: &str = "serviceoperator.azure.com/operator-namespace";
const FINALIZER: &str = "serviceoperator.azure.com/finalizer";
const HELD: &str = "serviceoperator.azure.com/credential-in-use";
const CREDENTIAL: &str = "/api/v1/namespaces/team/secrets/aso-credential";
const GROUPS: &str = "resourcegroups.resources.azure.com";
const NETWORKS: &str = "virtualnetworks.network.azure.com";
const OLD: &str = "v1api20240301storage";
const NEW: &str = "v20250301storage";
const GROUP_ID: &str = "/subscriptions/sub/resourceGroups/shop";
const NETWORK_ID: &str = "/subscriptions/sub/resourceGroups/shop/providers/Microsoft.Network/\
                          virtualNetworks/net";

/// The paths of the two resources, in versions that are not those that they are stored in.
const GROUP: &str = "/apis/resources.azure.com/v1api20200601/namespaces/team/resourcegroups/shop";
const NETWORK: &str = "/apis/network.azure.com/v20250301/namespaces/team/virtualnetworks/net";

/// A cluster in which Azure Service Operator works.
struct Cluster {
    scene: Arc<Scene>,
    system: Client,
    azure: FakeAzure,
    pods: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.pods.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Cluster {
    async fn start(addresses: [SocketAddr; 2]) -> Self {
        let scene = Arc::new(Scene::empty().await);
        let azure = FakeAzure::start().await.unwrap();
        azure.add_secret("contoso", "red", "secret");
        azure.add_subscription("sub", "contoso", &["red"]);
        azure.add_resource(GROUP_ID, json!({"location": "westeurope"}));
        azure.add_resource(
            NETWORK_ID,
            json!({"location": "westeurope", "properties": network()}),
        );
        let authorities = scene.folder.path().join("azure-ca.pem");
        std::fs::write(&authorities, azure.ca_pem()).unwrap();
        let [own, aso] = addresses;
        let env = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let own = Pod {
            scene: Arc::clone(&scene),
            namespace: OWN,
            deployment: "azureoperator-controller-manager",
            service: "azureoperator-webhook-service",
            has_account: true,
            arguments: vec!["--ca-file".to_owned(), authorities.display().to_string()],
            env: env(&[
                ("POD_NAMESPACE", OWN),
                ("AZURE_OPERATOR_MODE", "watchers-and-webhooks"),
            ]),
            address: own,
            process: None,
        };
        let aso = Pod {
            scene: Arc::clone(&scene),
            namespace: ASO,
            deployment: ASO_DEPLOYMENT,
            service: ASO_SERVICE,
            has_account: false,
            arguments: vec!["--webhook-service".to_owned(), ASO_SERVICE.to_owned()],
            env: env(&[("POD_NAMESPACE", ASO), ("AZURE_WEBHOOK_ONLY", "1")]),
            address: aso,
            process: None,
        };
        let cluster = Self {
            system: scene.server.system().await.unwrap(),
            scene,
            azure,
            pods: [own, aso].map(|pod| tokio::spawn(pod.follow())).into(),
        };
        cluster.install().await;
        cluster.create_resources().await;
        cluster.store_in_newer_version().await;
        cluster.install_admission().await;
        cluster
    }

    /// Installs the definitions, the Service, the settings and the Deployment.
    async fn install(&self) {
        let namespaces = [ASO, "team"].map(
            |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        );
        self.system.install(&namespaces).await.unwrap();
        self.system.install(&definitions()).await.unwrap();
        let endpoints = self.azure.settings();
        let endpoints: Vec<_> = endpoints.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let credential = [
            ("AZURE_SUBSCRIPTION_ID", "sub"),
            ("AZURE_TENANT_ID", "contoso"),
            ("AZURE_CLIENT_ID", "red"),
            ("AZURE_CLIENT_SECRET", "secret"),
        ];
        let pod = json!({
            "metadata": {"labels": {"control-plane": "controller-manager"}},
            "spec": {"containers": [{"name": "manager", "image": "aso:v2.20.0"}]},
        });
        let objects = [
            secret(ASO, "aso-controller-settings", &endpoints),
            secret("team", "aso-credential", &credential),
            json!({
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"name": ASO_SERVICE, "namespace": ASO},
                "spec": {"ports": [{"name": "webhooks", "port": 443, "targetPort": 9443}]},
            }),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {
                    "name": ASO_DEPLOYMENT, "namespace": ASO,
                    "labels": {"app.kubernetes.io/name": "azure-service-operator"},
                },
                "spec": {
                    "replicas": 1, "template": pod,
                    "selector": {"matchLabels": {"control-plane": "controller-manager"}},
                },
            }),
        ];
        self.system.install(&objects).await.unwrap();
    }

    /// Creates the resources as Azure Service Operator leaves them.
    async fn create_resources(&self) {
        let version = "resources.azure.com/v1api20200601storage";
        let group = json!({
            "apiVersion": version, "kind": "ResourceGroup",
            "metadata": metadata("shop", GROUP_ID),
            "spec": {
                "azureName": "shop", "location": "westeurope", "originalVersion": "v1api20200601",
            },
        });
        let group = self.create(version, "resourcegroups", &group).await;
        let version = format!("network.azure.com/{OLD}");
        let mut metadata = metadata("net", NETWORK_ID);
        metadata["ownerReferences"] = json!([{
            "apiVersion": group["apiVersion"], "kind": "ResourceGroup", "name": "shop",
            "uid": group["metadata"]["uid"],
        }]);
        let mut spec = network();
        spec["azureName"] = "net".into();
        spec["location"] = "westeurope".into();
        spec["owner"] = json!({"name": "shop"});
        spec["originalVersion"] = "v1api20240301".into();
        let network = json!({
            "apiVersion": version, "kind": "VirtualNetwork", "metadata": metadata, "spec": spec,
        });
        self.create(&version, "virtualnetworks", &network).await;
    }

    async fn create(&self, version: &str, plural: &str, object: &Value) -> Value {
        let path = format!("/apis/{version}/namespaces/team/{plural}");
        let made = self.system.post(&path, object).await.unwrap();
        assert_eq!(made.status, 201, "{}", made.text());
        let name = object["metadata"]["name"].as_str().unwrap();
        let ready = json!({"status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "Succeeded", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }]}});
        let path = format!("{path}/{name}/status");
        let patched = self.system.patch(&path, "merge", &ready).await.unwrap();
        assert_eq!(patched.status, 200, "{}", patched.text());
        made.json()
    }

    /// Stores networks in the version of today: those that exist are converted when they are read.
    async fn store_in_newer_version(&self) {
        let path = format!("{DEFINITIONS}/{NETWORKS}");
        let found = self.system.get(&path).await.unwrap().json();
        let mut versions = found["spec"]["versions"].clone();
        for version in versions.as_array_mut().unwrap() {
            version["storage"] = (version["name"] == NEW).into();
        }
        let patch = json!({"spec": {"versions": versions}});
        let patched = self.system.patch(&path, "merge", &patch).await.unwrap();
        assert_eq!(patched.status, 200, "{}", patched.text());
    }

    /// Installs the webhook configurations, with the CA bundle that cert-manager would write.
    async fn install_admission(&self) {
        let mut bundle = Value::Null;
        for name in [GROUPS, NETWORKS] {
            bundle = self
                .until("the definition has a CA bundle", async || {
                    let config = self.client_config(name).await;
                    config["caBundle"]
                        .is_string()
                        .then(|| config["caBundle"].clone())
                })
                .await;
        }
        let kinds = ReviewedKinds::Own.list();
        let kinds: Vec<_> = kinds
            .into_iter()
            .filter(|it| ["ResourceGroup", "VirtualNetwork"].contains(&it.kind.kind()))
            .collect();
        let mut objects = configurations(&aso_service(), &kinds, Reach::Space);
        for object in &mut objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            let name = name.replace("azureoperator-", "azureserviceoperator-");
            object["metadata"]["name"] = name.into();
            for webhook in object["webhooks"].as_array_mut().unwrap() {
                webhook["clientConfig"]["caBundle"] = bundle.clone();
            }
        }
        self.system.install(&objects).await.unwrap();
    }

    async fn get(&self, path: &str) -> Value {
        let found = self.system.get(path).await.unwrap();
        assert_eq!(found.status, 200, "{path}: {}", found.text());
        found.json()
    }

    async fn client_config(&self, definition: &str) -> Value {
        let found = self.get(&format!("{DEFINITIONS}/{definition}")).await;
        found["spec"]["conversion"]["webhook"]["clientConfig"].clone()
    }

    /// Waits until there is a value.
    async fn until<T>(&self, what: &str, mut find: impl AsyncFnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = find().await {
                return found;
            }
            assert!(begun.elapsed() < TIMEOUT, "{what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an object is as expected.
    async fn until_object(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let begun = Instant::now();
        while begun.elapsed() < TIMEOUT {
            last = self.system.get(path).await.unwrap().json();
            if is_so(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path}: {last:#}");
    }

    /// Returns the names of all webhook configurations.
    async fn configurations(&self) -> Vec<String> {
        let mut names = Vec::new();
        for resource in [
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ] {
            let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
            let listed = self.get(&path).await;
            let listed = listed["items"].as_array().unwrap().iter();
            names.extend(listed.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()));
        }
        names
    }

    /// Returns what must stay as it is in each definition.
    async fn lasting(&self) -> Value {
        let mut all = Vec::new();
        for name in [GROUPS, NETWORKS] {
            let found = self.get(&format!("{DEFINITIONS}/{name}")).await;
            all.push(json!([found["metadata"]["uid"], found["spec"]["versions"]]));
        }
        for path in [GROUP, NETWORK] {
            let found = self.get(path).await;
            let (metadata, spec) = (&found["metadata"], &found["spec"]);
            let id = &metadata["annotations"]["serviceoperator.azure.com/resource-id"];
            all.push(json!([metadata["uid"], metadata["finalizers"], id, spec]));
        }
        Value::Array(all)
    }

    /// Runs commands as an administrator types them.
    async fn run(&self, kubectl: &Path, commands: &str) -> String {
        let folder = self.scene.folder.path().to_owned();
        let (bin, docs) = (folder.join("bin"), root().join("docs"));
        if !bin.exists() {
            std::fs::create_dir(&bin).unwrap();
            symlink(env!("CARGO_BIN_EXE_insula"), bin.join("insula")).unwrap();
            symlink(kubectl, bin.join("kubectl")).unwrap();
            symlink(docs, folder.join("docs")).unwrap();
        }
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .arg("-c")
            .arg(format!("set -ex -o pipefail\n{commands}"))
            .current_dir(&folder)
            .env("HOME", &folder)
            .env("KUBECONFIG", self.scene.kubeconfig("system"))
            .env("PATH", format!("{}:{path}", bin.display()));
        let output = tokio::task::spawn_blocking(move || command.output());
        let output = output.await.unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{out}\n{err}");
        out
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the commands of the documentation, in both directions.
fn documented() -> [String; 2] {
    let page = std::fs::read_to_string(root().join("docs/azure.md")).unwrap();
    let (_, section) = page.split_once("\n## Switching from ASO").unwrap();
    let section = section.split("\n### ").next().unwrap();
    let blocks: Vec<_> = section.split("```sh\n").skip(1).collect();
    let blocks: [&str; 2] = blocks.try_into().unwrap();
    blocks.map(|block| block.split("```").next().unwrap().to_owned())
}

fn aso_service() -> WebhookService {
    WebhookService::new(ASO, ASO_SERVICE)
}

/// Returns definitions with an older version, in the shape of Azure Service Operator's.
fn definitions() -> Vec<Value> {
    let settings = Settings {
        service: aso_service(),
        ..Settings::default()
    };
    let definitions = manifests::definitions(&settings).into_iter();
    let definitions = definitions.map(|it| serde_json::to_value(it).unwrap());
    let definitions = definitions.filter(|it| {
        let name = it["metadata"]["name"].as_str().unwrap();
        [GROUPS, NETWORKS].contains(&name)
    });
    let definitions = definitions.map(|mut definition| {
        definition["metadata"]["labels"] = json!({
            "app.kubernetes.io/name": "azure-service-operator",
            "app.kubernetes.io/version": "v2.20.0",
        });
        let certificate = format!("{ASO}/azureserviceoperator-serving-cert");
        definition["metadata"]["annotations"] =
            json!({"cert-manager.io/inject-ca-from": certificate});
        if definition["metadata"]["name"] == NETWORKS {
            let versions = definition["spec"]["versions"].as_array_mut().unwrap();
            let stored = versions.iter_mut().find(|it| it["name"] == NEW).unwrap();
            stored["storage"] = false.into();
            let mut old = stored.clone();
            old["name"] = OLD.into();
            old["storage"] = true.into();
            versions.push(old);
        }
        definition
    });
    definitions.collect()
}

fn metadata(name: &str, id: &str) -> Value {
    json!({
        "name": name, "namespace": "team", "finalizers": [FINALIZER],
        "labels": {"serviceoperator.azure.com/last-reconciled-version": "v2.20.0"},
        "annotations": {
            OPERATOR_V2: ASO, "serviceoperator.azure.com/resource-id": id,
            "serviceoperator.azure.com/latest-reconciled-generation": "1",
        },
    })
}

fn network() -> Value {
    json!({"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}})
}

fn secret(namespace: &str, name: &str, texts: &[(&str, &str)]) -> Value {
    let texts: serde_json::Map<_, _> = texts
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace}, "stringData": texts,
    })
}

fn is_ready_under(object: &Value, operator: &str) -> bool {
    let claimed = &object["metadata"]["annotations"][OPERATOR];
    let ready = &object["status"]["conditions"][0];
    *claimed == operator && ready["type"] == "Ready" && ready["status"] == "True"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r33_documented_commands_switch_from_azure_service_operator_and_back() {
    let kubectl = peer::installed("INSULA_KUBECTL", "kubectl-1.36.4");
    let (Some(kubectl), Some(own), Some(aso)) = (kubectl, endpoint_address(), endpoint_address())
    else {
        peer::skipped("there is no kubectl, or no network address that endpoints may have");
        return;
    };
    let cluster = Cluster::start([own, aso]).await;
    let lasting = cluster.lasting().await;
    let before = cluster.configurations().await;
    let [switch, back] = documented();

    let said = cluster.run(&kubectl, &switch).await;
    assert!(said.contains("--without-definitions"), "{said}");
    for (path, id) in [(GROUP, GROUP_ID), (NETWORK, NETWORK_ID)] {
        let is_ready = |object: &Value| is_ready_under(object, OWN);
        cluster.until_object(path, is_ready).await;
        cluster.azure.await_puts(id, 1).await.unwrap();
    }
    assert_eq!(cluster.lasting().await, lasting);
    let of_aso = |name: &String| name.starts_with("azureserviceoperator-");
    assert!(!cluster.configurations().await.iter().any(of_aso));
    // Reviews and conversions are answered.
    let group = json!({
        "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
        "metadata": {"name": "other"}, "spec": {"location": "westeurope"},
    });
    let path = GROUP.strip_suffix("/shop").unwrap();
    let made = cluster.system.post(path, &group).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.json()["spec"]["azureName"], "other");
    let is_held = |secret: &Value| secret["metadata"]["finalizers"] == json!([HELD]);
    cluster.until_object(CREDENTIAL, is_held).await;

    let said = cluster.run(&kubectl, &back).await;
    assert!(said.contains("team/aso-credential released"), "{said}");
    assert_eq!(cluster.lasting().await, lasting);
    assert_eq!(cluster.configurations().await, before);
    for name in [GROUPS, NETWORKS] {
        let config = cluster.client_config(name).await;
        assert_eq!(config["service"]["namespace"], ASO, "{config}");
        let found = cluster.get(&format!("{DEFINITIONS}/{name}")).await;
        assert_eq!(
            found["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
            format!("{ASO}/azureserviceoperator-serving-cert")
        );
    }
    for path in [GROUP, NETWORK] {
        let patch = json!({"metadata": {"labels": {"team": "red"}}});
        let patched = cluster.system.patch(path, "merge", &patch).await.unwrap();
        assert_eq!(patched.status, 200, "{}", patched.text());
        let annotations = &patched.json()["metadata"]["annotations"];
        assert_eq!(
            [&annotations[OPERATOR], &annotations[OPERATOR_V2]],
            [&Value::Null; 2]
        );
    }
    cluster.system.delete(CREDENTIAL).await.unwrap();
    assert_eq!(cluster.system.get(CREDENTIAL).await.unwrap().status, 404);
    let requests = cluster.azure.requests();
    assert!(
        requests.iter().all(|it| it.method != "DELETE"),
        "{requests:#?}"
    );
}
