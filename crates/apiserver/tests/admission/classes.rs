//! Classes of a space: default ones of claims and ingresses, runtime classes of pods, and storage
//! classes whose volumes may grow.

use insula_testkit::server::Client;
use serde_json::{Value, json};

use super::{assert_refused, start_tenant};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
const PODS: &str = "/api/v1/namespaces/default/pods";
const STORAGE: &str = "/apis/storage.k8s.io/v1/storageclasses";
const RUNTIMES: &str = "/apis/node.k8s.io/v1/runtimeclasses";

async fn create(client: &Client, path: &str, object: &Value) -> anyhow::Result<Value> {
    let created = client.post(path, object).await?;
    anyhow::ensure!(created.status == 201, "{}", created.text());
    Ok(created.json())
}

fn claim(name: &str, more: Value) -> Value {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    });
    for (member, value) in more.as_object().into_iter().flatten() {
        spec[member] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn ingress(name: &str) -> Value {
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    json!({"metadata": {"name": name}, "spec": {"defaultBackend": backend}})
}

fn marked(name: &str, annotation: &str) -> Value {
    let annotations = json!({ annotation: "true" });
    json!({"metadata": {"name": name, "annotations": annotations}})
}

fn pod(name: &str, mut spec: Value) -> Value {
    spec["containers"] = json!([{"name": "c", "image": "i"}]);
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn claim_without_a_class_gets_the_default_one() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let none = create(&client, CLAIMS, &claim("a", json!({}))).await?;
    assert_eq!(none["spec"]["storageClassName"], Value::Null);
    let mut class = marked("fast", "storageclass.kubernetes.io/is-default-class");
    class["provisioner"] = "example.com/disks".into();
    create(&client, STORAGE, &class).await?;
    let usual = create(&client, CLAIMS, &claim("b", json!({}))).await?;
    assert_eq!(usual["spec"]["storageClassName"], "fast");
    // An empty name asks for a volume without a class.
    for (name, class) in [("c", ""), ("d", "slow")] {
        let own = claim(name, json!({ "storageClassName": class }));
        let own = create(&client, CLAIMS, &own).await?;
        assert_eq!(own["spec"]["storageClassName"], class);
    }
    let mut old = claim("e", json!({}));
    old["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/storage-class": "older"});
    let old = create(&client, CLAIMS, &old).await?;
    assert_eq!(old["spec"]["storageClassName"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn ingress_without_a_class_gets_the_default_one() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let classes = "/apis/networking.k8s.io/v1/ingressclasses";
    for name in ["b", "a"] {
        let mut class = marked(name, "ingressclass.kubernetes.io/is-default-class");
        class["spec"] = json!({"controller": "example.com/proxy"});
        create(&client, classes, &class).await?;
    }
    // Of classes that were created in the same second, the name decides; else the newest.
    let list = client.get(classes).await?.json();
    let created = |index: usize| list["items"][index]["metadata"]["creationTimestamp"].clone();
    let expected = match created(0).as_str() >= created(1).as_str() {
        true => "a",
        false => "b",
    };
    let usual = create(&client, INGRESSES, &ingress("i")).await?;
    assert_eq!(usual["spec"]["ingressClassName"], expected);
    let mut own = ingress("own");
    own["metadata"]["annotations"] = json!({"kubernetes.io/ingress.class": "other"});
    let own = create(&client, INGRESSES, &own).await?;
    assert_eq!(own["spec"]["ingressClassName"], Value::Null);
    Ok(())
}

#[tokio::test]
async fn pod_gets_overhead_and_scheduling_of_its_runtime_class() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let wanted = pod(
        "p",
        json!({"runtimeClassName": "sandbox", "nodeSelector": {"disk": "ssd"}}),
    );
    let refused = client.post(PODS, &wanted).await?;
    let missing = "pods \"p\" is forbidden: pod rejected: RuntimeClass \"sandbox\" not found";
    assert_refused(&refused, 403, "Forbidden", missing);
    let own = pod("own", json!({"overhead": {"cpu": "1"}}));
    let refused = client.post(PODS, &own).await?;
    let alone = "pods \"own\" is forbidden: pod rejected: Pod Overhead set without corresponding \
                 RuntimeClass defined Overhead";
    assert_refused(&refused, 403, "Forbidden", alone);
    let toleration = json!({"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"});
    let class = json!({
        "metadata": {"name": "sandbox"},
        "handler": "sandbox",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
        "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [toleration]},
    });
    create(&client, RUNTIMES, &class).await?;
    let spec = &create(&client, PODS, &wanted).await?["spec"];
    assert_eq!(spec["overhead"], class["overhead"]["podFixed"]);
    assert_eq!(
        spec["nodeSelector"],
        json!({"disk": "ssd", "sandbox": "yes"})
    );
    assert_eq!(spec["tolerations"][0], toleration);
    let same =
        json!({"runtimeClassName": "sandbox", "overhead": {"cpu": "0.25", "memory": "64Mi"}});
    create(&client, PODS, &pod("same", same)).await?;
    for (name, more, why) in [
        (
            "less",
            json!({"overhead": {"cpu": "100m"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            "elsewhere",
            json!({"nodeSelector": {"sandbox": "no"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; \
             pod.spec.nodeSelector[sandbox] = no",
        ),
    ] {
        let mut spec = more;
        spec["runtimeClassName"] = "sandbox".into();
        let refused = client.post(PODS, &pod(name, spec)).await?;
        let why = format!("pods \"{name}\" is forbidden: {why}");
        assert_refused(&refused, 403, "Forbidden", &why);
    }
    Ok(())
}

#[tokio::test]
async fn claim_grows_only_while_bound_and_if_its_class_allows_it() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for (name, grows) in [("fixed", false), ("elastic", true)] {
        let class = json!({
            "metadata": {"name": name},
            "provisioner": "example.com/disks",
            "allowVolumeExpansion": grows,
        });
        create(&client, STORAGE, &class).await?;
        let volume = json!({"storageClassName": name, "volumeName": "v"});
        create(&client, CLAIMS, &claim(name, volume)).await?;
    }
    let larger = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    let path = |name: &str| format!("{CLAIMS}/{name}");
    let refused = client.patch(&path("elastic"), "merge", &larger).await?;
    let unbound = "PersistentVolumeClaim \"elastic\" is invalid: spec: Forbidden: spec is immutable \
                   after creation except resources.requests and volumeAttributesClassName for \
                   bound claims\nchanged: spec.resources.requests.storage";
    assert_refused(&refused, 422, "Invalid", unbound);
    for name in ["fixed", "elastic"] {
        let bound = json!({"status": {"phase": "Bound"}});
        let status = format!("{}/status", path(name));
        assert_eq!(client.patch(&status, "merge", &bound).await?.status, 200);
    }
    let refused = client.patch(&path("fixed"), "merge", &larger).await?;
    let fixed = "persistentvolumeclaims \"fixed\" is forbidden: only dynamically provisioned pvc \
                 can be resized and the storageclass that provisions the pvc must support resize";
    assert_refused(&refused, 403, "Forbidden", fixed);
    let grown = client.patch(&path("elastic"), "merge", &larger).await?;
    assert_eq!(grown.status, 200, "{}", grown.text());
    assert_eq!(
        grown.json()["spec"]["resources"]["requests"]["storage"],
        "2Gi"
    );
    Ok(())
}
