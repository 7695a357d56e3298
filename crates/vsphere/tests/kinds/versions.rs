//! Both versions of the kinds, in the system's space and in a tenant's.

use http::Method;
use insula_testkit::server::{Answer, Client};
use serde_json::{Value, json};

use crate::definitions::whole;
use crate::scene::{Scene, object, path};

const MERGE: &str = "merge";

/// Returns the path of a kind in `v1beta1`.
fn old_path(plural: &str) -> String {
    path(plural).replace("v1beta2", "v1beta1")
}

/// Returns an object in `v1beta1`.
fn old_object(plural: &str, name: &str, spec: &Value) -> Value {
    let mut object = object(plural, name, spec);
    object["apiVersion"] = "infrastructure.cluster.x-k8s.io/v1beta1".into();
    object
}

/// Returns a machine of `v1beta1` as the templates of users have it, and as `v1beta2` has it.
fn machine() -> (Value, Value) {
    let old = json!({
        "cloneMode": "linkedClone",
        "datacenter": "",
        "datastore": "d",
        "diskGiB": 25,
        "folder": "",
        "memoryMiB": 8192,
        "network": {"devices": [{"dhcp4": true, "networkName": "VM Network", "deviceName": ""}]},
        "numCPUs": 2,
        "os": "Linux",
        "powerOffMode": "trySoft",
        "guestSoftPowerOffTimeout": "5m",
        "namingStrategy": {"template": "{{ .machine.name }}"},
        "resourcePool": "r",
        "server": "vcenter.example",
        "storagePolicyName": "",
        "template": "ubuntu",
        "thumbprint": "",
    });
    let new = json!({
        "cloneMode": "linkedClone",
        "datacenter": "*",
        "datastore": "d",
        "diskGiB": 25,
        "memoryMiB": 8192,
        "network": {"devices": [{"dhcp4": true, "networkName": "VM Network"}]},
        "numCPUs": 2,
        "os": "Linux",
        "powerOffMode": "trySoft",
        "guestSoftPowerOffTimeoutSeconds": 300,
        "naming": {"template": "{{ .machine.name }}"},
        "resourcePool": "r",
        "server": "vcenter.example",
        "template": "ubuntu",
        "thumbprint": "",
    });
    (old, new)
}

/// Returns a specification of every kind in both versions.
fn specifications() -> Vec<(&'static str, Value, Value)> {
    let (old_machine, new_machine) = machine();
    let old_cluster = json!({
        "server": "vcenter.example",
        "thumbprint": "AA:BB",
        "controlPlaneEndpoint": {"host": "", "port": 0},
        "identityRef": {"kind": "VSphereClusterIdentity", "name": "shared"},
    });
    let mut new_cluster = old_cluster.clone();
    let fields = new_cluster.as_object_mut().unwrap();
    fields.remove("controlPlaneEndpoint");
    let template = |spec: &Value| json!({"template": {"spec": spec}});
    let labelled =
        |spec: &Value| json!({"template": {"metadata": {"labels": {"a": ""}}, "spec": spec}});
    let part = |kind: &str| json!({"name": "n", "type": kind, "tagCategory": "c"});
    let topology = json!({"datacenter": "DC0", "networks": ["n"]});
    let mut old_topology = topology.clone();
    old_topology["datastore"] = "".into();
    let domain = |topology: &Value| json!({"region": part("Datacenter"), "zone": part("ComputeCluster"), "topology": topology});
    let vm = |spec: &Value, more: Value| {
        let mut spec = spec.clone();
        let fields = spec.as_object_mut().unwrap();
        fields.retain(|field, _| !field.starts_with("naming") && field != "datacenter");
        fields.extend(more.as_object().unwrap().clone());
        spec
    };
    vec![
        (
            "vsphereclusteridentities",
            json!({"secretRef": {"name": "shared"}, "allowedNamespaces": {"selector": {}}}),
            json!({"secretName": "shared", "allowedNamespaces": {"selector": {}}}),
        ),
        ("vsphereclusters", old_cluster.clone(), new_cluster.clone()),
        (
            "vsphereclustertemplates",
            template(&old_cluster),
            template(&new_cluster),
        ),
        ("vspheremachines", old_machine.clone(), new_machine.clone()),
        (
            "vspheremachinetemplates",
            labelled(&old_machine),
            labelled(&new_machine),
        ),
        (
            "vspherevms",
            vm(
                &old_machine,
                json!({"datacenter": "", "bootstrapRef":
                {"apiVersion": "v1", "kind": "Secret", "name": "b"}}),
            ),
            vm(&new_machine, json!({"bootstrapRef": {"name": "b"}})),
        ),
        (
            "vspheredeploymentzones",
            json!({"server": "v", "failureDomain": "f",
                "placementConstraint": {"resourcePool": "", "folder": "f"}}),
            json!({"server": "v", "failureDomain": "f", "placementConstraint": {"folder": "f"}}),
        ),
        (
            "vspherefailuredomains",
            domain(&old_topology),
            domain(&topology),
        ),
    ]
}

fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter();
    let texts = all.map(|value| value.to_str().unwrap().to_owned());
    texts.collect()
}

/// Returns the answer to a request that must succeed.
fn success(answer: Answer) -> Value {
    assert!([200, 201].contains(&answer.status), "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn manifests_of_v1beta1_apply_unchanged() -> anyhow::Result<()> {
    let scene = Scene::with_webhooks().await?;
    for (space, client) in scene.spaces() {
        for (plural, old, new) in specifications() {
            let strict = format!("{}?fieldValidation=Strict", old_path(plural));
            let made = success(client.post(&strict, &old_object(plural, "x", &old)).await?);
            assert_eq!(made["spec"], old, "{space} {plural}");
            let one = format!("{}/x", path(plural));
            let read = success(client.get(&one).await?);
            assert_eq!(
                read["apiVersion"],
                "infrastructure.cluster.x-k8s.io/v1beta2"
            );
            assert_eq!(read["spec"], new, "{space} {plural}");
            // What was stored is valid, so that the operator can write it.
            let finalizer = json!({"metadata": {"finalizers": ["example.com/f"]}});
            success(client.patch(&one, MERGE, &finalizer).await?);
            let old_one = format!("{}/x", old_path(plural));
            let read = success(client.get(&old_one).await?);
            assert_eq!(read["spec"], old, "{space} {plural}");
            // The same manifest again changes nothing.
            let patch = json!({"spec": old});
            let again = success(client.patch(&old_one, MERGE, &patch).await?);
            assert_eq!(again["spec"], old, "{space} {plural}");
            assert_eq!(
                again["metadata"]["generation"],
                made["metadata"]["generation"]
            );
            let list = success(client.get(&old_path(plural)).await?);
            assert_eq!(list["items"][0]["spec"], old, "{space} {plural}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn objects_of_v1beta2_survive_clients_of_v1beta1() -> anyhow::Result<()> {
    let scene = Scene::with_webhooks().await?;
    for (space, client) in scene.spaces() {
        for (plural, spec) in whole() {
            success(
                client
                    .post(&path(plural), &object(plural, "x", &spec))
                    .await?,
            );
            let (one, old_one) = (
                format!("{}/x", path(plural)),
                format!("{}/x", old_path(plural)),
            );
            let mut old = success(client.get(&old_one).await?);
            assert_eq!(old["apiVersion"], "infrastructure.cluster.x-k8s.io/v1beta1");
            // An update of the whole object, a patch and an apply.
            old["metadata"]["labels"] = json!({"a": "1"});
            success(client.put(&old_one, &old).await?);
            let patch = json!({"metadata": {"labels": {"b": "2"}}});
            success(client.patch(&old_one, MERGE, &patch).await?);
            let apply = json!({
                "apiVersion": old["apiVersion"], "kind": old["kind"],
                "metadata": {"name": "x", "labels": {"c": "3"}},
            });
            let answer = client
                .send(
                    Method::PATCH,
                    &format!("{old_one}?fieldManager=m"),
                    &[("content-type", "application/apply-patch+yaml")],
                    apply.to_string(),
                )
                .await?;
            success(answer);
            let new = success(client.get(&one).await?);
            assert_eq!(new["spec"], spec, "{space} {plural}");
            assert_eq!(
                new["metadata"]["labels"],
                json!({"a": "1", "b": "2", "c": "3"})
            );
            assert_eq!(new["metadata"].get("annotations"), None, "{space} {plural}");
            assert_eq!(new["metadata"]["generation"], 1, "{space} {plural}");
        }
        // Fields of v1beta1 change, and those that only v1beta2 has stay.
        let plural = "vspheremachines";
        let old_one = format!("{}/x", old_path(plural));
        let patch = json!({"spec": {"guestSoftPowerOffTimeout": "90s"}});
        let old = success(client.patch(&old_one, MERGE, &patch).await?);
        assert_eq!(old["spec"]["guestSoftPowerOffTimeout"], "90s");
        let new = success(client.get(&format!("{}/x", path(plural))).await?);
        assert_eq!(new["spec"]["guestSoftPowerOffTimeoutSeconds"], 90);
    }
    Ok(())
}

/// Creates an object and writes its status, both in `v1beta2`.
async fn with_status(client: &Client, plural: &str, status: &Value) -> anyhow::Result<()> {
    let spec = whole().into_iter().find(|(of, _)| *of == plural).unwrap().1;
    success(
        client
            .post(&path(plural), &object(plural, "x", &spec))
            .await?,
    );
    let one = format!("{}/x/status", path(plural));
    success(
        client
            .patch(&one, MERGE, &json!({"status": status}))
            .await?,
    );
    Ok(())
}

#[tokio::test]
async fn status_has_the_form_of_each_contract() -> anyhow::Result<()> {
    let scene = Scene::with_webhooks().await?;
    let conditions = json!([{"type": "VCenterAvailable", "status": "True", "reason": "Available",
        "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let status = json!({
        "ready": true,
        "initialization": {"provisioned": true},
        "failureDomains": [{"name": "b", "controlPlane": true}, {"name": "a"}],
        "vCenterVersion": "8.0.3",
        "conditions": conditions,
    });
    for (space, client) in scene.spaces() {
        let plural = "vsphereclusters";
        with_status(client, plural, &status).await?;
        let old_one = format!("{}/x", old_path(plural));
        let expected = json!({
            "ready": true,
            "failureDomains": {"a": {}, "b": {"controlPlane": true}},
            "vCenterVersion": "8.0.3",
            "v1beta2": {"conditions": conditions},
        });
        let old = success(client.get(&old_one).await?);
        assert_eq!(old["status"], expected, "{space}");
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 1}}});
        let old = success(client.patch(&old_one, MERGE, &endpoint).await?);
        assert_eq!(old["status"], expected, "{space}");
        let message = json!({"status": {"vCenterVersion": "9.0.0"}});
        let status_path = format!("{old_one}/status");
        success(client.patch(&status_path, MERGE, &message).await?);
        let new = success(client.get(&format!("{}/x", path(plural))).await?);
        let mut expected = status.clone();
        expected["vCenterVersion"] = "9.0.0".into();
        assert_eq!(new["status"], expected, "{space}");
        assert_eq!(
            new["spec"]["controlPlaneEndpoint"],
            json!({"host": "h", "port": 1})
        );
    }
    Ok(())
}

#[tokio::test]
async fn older_names_are_understood_with_a_warning() -> anyhow::Result<()> {
    let scene = Scene::with_webhooks().await?;
    let plural = "vsphereclusteridentities";
    let deprecated = "299 - \"infrastructure.cluster.x-k8s.io/v1beta1 VSphereClusterIdentity is deprecated; \
         use infrastructure.cluster.x-k8s.io/v1beta2\"";
    let policy = "identity-secret-references.infrastructure.cluster.x-k8s.io";
    let successor = format!(
        "299 - \"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{policy}': \
         spec.secretRef is deprecated; use spec.secretName\""
    );
    for (space, client) in scene.spaces() {
        let create = async |name: &str, spec: Value| {
            let made = client
                .post(&old_path(plural), &old_object(plural, name, &spec))
                .await?;
            assert_eq!(made.status, 201, "{space}: {}", made.text());
            anyhow::Ok(warnings(&made))
        };
        let mut told = create("a", json!({"secretRef": {"name": "s"}})).await?;
        told.sort();
        assert_eq!(told, [successor.as_str(), deprecated], "{space}");
        let told = create("b", json!({"secretName": "s"})).await?;
        assert_eq!(told, [deprecated], "{space}");
        let spec = json!({"secretName": "s"});
        let made = client
            .post(&path(plural), &object(plural, "c", &spec))
            .await?;
        assert_eq!(warnings(&made), Vec::<String>::new(), "{space}");
        let none = old_object(plural, "d", &json!({"allowedNamespaces": {}}));
        let refused = client.post(&old_path(plural), &none).await?;
        assert_eq!(refused.status, 422, "{space}");
        assert!(
            refused.message().ends_with("secretName is required"),
            "{}",
            refused.message()
        );
        // The successor wins once it is changed.
        let one = format!("{}/a", path(plural));
        success(
            client
                .patch(&one, MERGE, &json!({"spec": {"secretName": "t"}}))
                .await?,
        );
        let old = success(client.get(&format!("{}/a", old_path(plural))).await?);
        assert_eq!(old["spec"], json!({"secretName": "t"}), "{space}");
    }
    Ok(())
}

#[tokio::test]
async fn clone_source_is_immutable_in_v1beta1() -> anyhow::Result<()> {
    let scene = Scene::with_webhooks().await?;
    let (old, _) = machine();
    for (space, client) in scene.spaces() {
        for (plural, why) in [
            ("vspheremachines", "template cannot be changed"),
            (
                "vspheremachinetemplates",
                "a template cannot be changed, create another one",
            ),
        ] {
            let templated = json!({"template": {"spec": old}});
            let (spec, patch) = match plural {
                "vspheremachines" => (&old, json!({"template": "other"})),
                _ => (
                    &templated,
                    json!({"template": {"spec": {"template": "other"}}}),
                ),
            };
            success(
                client
                    .post(&old_path(plural), &old_object(plural, "x", spec))
                    .await?,
            );
            let one = format!("{}/x", old_path(plural));
            let patch = json!({"spec": patch});
            let refused = client.patch(&one, MERGE, &patch).await?;
            assert_eq!(refused.status, 422, "{space} {plural}: {}", refused.text());
            assert!(refused.message().ends_with(why), "{}", refused.message());
        }
        // The annotation is no way around it.
        let forged = json!({"version": "v1beta2", "fields": [
            {"path": "/spec/template", "converted": "ubuntu", "original": "other"},
        ]});
        let key = "infrastructure.cluster.x-k8s.io/conversion-data";
        let forged = json!({"metadata": {"annotations": {key: forged.to_string()}}});
        let one = format!("{}/x", old_path("vspheremachines"));
        success(client.patch(&one, MERGE, &forged).await?);
        let new = success(
            client
                .get(&format!("{}/x", path("vspheremachines")))
                .await?,
        );
        assert_eq!(new["spec"]["template"], "ubuntu", "{space}");
    }
    Ok(())
}

#[tokio::test]
async fn stored_version_needs_no_webhook() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, client) in scene.spaces() {
        for (plural, spec) in whole() {
            success(
                client
                    .post(&path(plural), &object(plural, "x", &spec))
                    .await?,
            );
            let one = format!("{}/x", path(plural));
            let label = json!({"metadata": {"labels": {"a": "b"}}});
            success(client.patch(&one, MERGE, &label).await?);
            success(client.get(&path(plural)).await?);
            let old = client.get(&format!("{}/x", old_path(plural))).await?;
            assert!(old.status >= 500, "{space} {plural}: {}", old.text());
        }
    }
    Ok(())
}
