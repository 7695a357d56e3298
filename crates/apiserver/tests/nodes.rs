//! What a node may do in its space, as a kubelet with the certificate of a node.

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_access::{CertificateRequest, Subject};
use insula_core::Space;
use insula_testkit::server::{Answer, Client, TestServer};
use serde_json::{Value, json};

use crate::fixtures::{assert_refused, create, named, names, start_tenant};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const LEASE_NAMESPACE: &str = "/api/v1/namespaces/kube-node-lease";

/// A client with the certificate of a node of the space.
async fn node(server: &TestServer, space: &str, name: &str) -> anyhow::Result<Client> {
    let user = format!("system:node:{name}");
    certified(server, space, &user, &["system:nodes"]).await
}

async fn certified(
    server: &TestServer,
    space: &str,
    user: &str,
    groups: &[&str],
) -> anyhow::Result<Client> {
    let subject = Subject {
        user: user.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        tenant: Some(Space::parse(space)?),
        tenant_uid: None,
    };
    server.client_with_certificate(&subject, "").await
}

/// A pod on the node that refers to objects with this name.
fn pod_on(node: &str, name: &str, refers_to: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "serviceAccountName": refers_to,
            "containers": [{
                "name": "c",
                "image": "i",
                "env": [{"name": "A", "valueFrom": {
                    "configMapKeyRef": {"name": refers_to, "key": "k"},
                }}],
            }],
            "volumes": [
                {"name": "a", "secret": {"secretName": refers_to}},
                {"name": "b", "persistentVolumeClaim": {"claimName": refers_to}},
            ],
        },
    })
}

/// Creates a pod on each of the nodes `n1` and `n2`, and what the pod refers to under the name of
/// the node.
async fn create_pods(client: &Client) -> anyhow::Result<()> {
    for on in ["n1", "n2"] {
        create(
            client,
            "/api/v1/namespaces/default/serviceaccounts",
            named(on),
        )
        .await?;
        create(client, SECRETS, named(on)).await?;
        create(client, MAPS, named(on)).await?;
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        });
        create(
            client,
            CLAIMS,
            json!({"metadata": {"name": on}, "spec": spec}),
        )
        .await?;
        let spec = json!({
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "claimRef": {"namespace": "default", "name": on},
        });
        create(
            client,
            VOLUMES,
            json!({"metadata": {"name": on}, "spec": spec}),
        )
        .await?;
        create(client, PODS, pod_on(on, on, on)).await?;
    }
    Ok(())
}

fn reason(answer: &Answer) -> String {
    let text = answer.message();
    let cut = text.split_once(": ").map(|(_, reason)| reason.to_owned());
    cut.unwrap_or(text)
}

#[tokio::test]
async fn node_reads_what_pods_on_it_refer_to() -> anyhow::Result<()> {
    let (server, admin) = start_tenant().await?;
    create_pods(&admin).await?;
    let first = node(&server, "t1", "n1").await?;
    let stranger = node(&server, "t1", "n3").await?;
    for collection in [SECRETS, MAPS, CLAIMS, VOLUMES] {
        assert_eq!(first.get(&format!("{collection}/n1")).await?.status, 200);
        for (client, name) in [(&first, "n2"), (&first, "missing"), (&stranger, "n1")] {
            let refused = client.get(&format!("{collection}/{name}")).await?;
            assert_eq!(refused.status, 403, "{collection}/{name}");
            let why = "and this object";
            assert!(refused.message().ends_with(why), "{}", refused.text());
        }
        assert_eq!(first.get(collection).await?.status, 403, "{collection}");
        let deleted = first.delete(&format!("{collection}/n1")).await?;
        assert_eq!(deleted.status, 403, "{collection}");
    }
    // Kubelets watch single Secrets and ConfigMaps.
    for collection in [SECRETS, MAPS] {
        let one = format!("{collection}?fieldSelector=metadata.name%3Dn1");
        assert_eq!(names(&first.get(&one).await?.json()), ["n1"]);
        let other = format!("{collection}?fieldSelector=metadata.name%3Dn2");
        assert_eq!(first.get(&other).await?.status, 403);
        let watch = first.watch(&format!("{one}&watch=true")).await?;
        assert_eq!(watch.status, 200);
    }
    let path = format!("{SECRETS}?fieldSelector=metadata.name%3Dn1&watch=true");
    let mut watch = first.watch(&path).await?;
    assert_eq!(watch.next().await?.context("the Secret")?["type"], "ADDED");
    let rotated = json!({"stringData": {"key": "first"}});
    let secret = format!("{SECRETS}/n1");
    assert_eq!(admin.patch(&secret, "merge", &rotated).await?.status, 200);
    assert_eq!(
        watch.next().await?.context("the change")?["type"],
        "MODIFIED"
    );
    // With the pod the rights end.
    assert_eq!(
        admin
            .delete(&format!("{PODS}/n1?gracePeriodSeconds=0"))
            .await?
            .status,
        200
    );
    assert_eq!(first.get(&format!("{SECRETS}/n1")).await?.status, 403);
    let rotated = json!({"stringData": {"key": "second"}});
    assert_eq!(admin.patch(&secret, "merge", &rotated).await?.status, 200);
    let end = watch.next().await?.context("the end")?;
    assert_eq!(
        [&end["type"], &end["object"]["code"]],
        [&json!("ERROR"), &json!(403)]
    );
    Ok(())
}

#[tokio::test]
async fn node_reads_its_own_node_and_pods() -> anyhow::Result<()> {
    let (server, admin) = start_tenant().await?;
    create_pods(&admin).await?;
    let first = node(&server, "t1", "n1").await?;
    // It looks before it has created its object.
    assert_eq!(first.get(&format!("{NODES}/n1")).await?.status, 404);
    create(&admin, NODES, named("n1")).await?;
    create(&admin, NODES, named("n2")).await?;
    assert_eq!(first.get(&format!("{NODES}/n1")).await?.status, 200);
    let own = first
        .get(&format!("{NODES}?fieldSelector=metadata.name%3Dn1"))
        .await?;
    assert_eq!(names(&own.json()), ["n1"]);
    let own = first
        .get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1")
        .await?;
    assert_eq!(names(&own.json()), ["n1"]);
    assert_eq!(first.get(&format!("{PODS}/n1")).await?.status, 200);
    for (path, why) in [
        (
            format!("{NODES}/n2"),
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        (
            NODES.to_owned(),
            "node 'n1' cannot read all nodes, only its own Node object",
        ),
        (
            format!("{PODS}/n2"),
            "no relationship found between node 'n1' and this object",
        ),
        (
            "/api/v1/pods".to_owned(),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2".to_owned(),
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "/api/v1/pods?fieldSelector=spec.nodeName!%3Dn2".to_owned(),
            "can only list/watch pods with spec.nodeName field selector",
        ),
    ] {
        let refused = first.get(&path).await?;
        assert_eq!(refused.status, 403, "{path}");
        assert_eq!(
            reason(&refused).rsplit_once(": ").map(|(_, why)| why),
            Some(why)
        );
    }
    // What all nodes need is theirs; the rest of the space is not.
    assert_eq!(first.get("/api/v1/services").await?.status, 200);
    for path in [
        "/api/v1/namespaces",
        "/api/v1/secrets",
        "/apis/apps/v1/deployments",
    ] {
        assert_eq!(first.get(path).await?.status, 403, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn node_writes_its_own_node_only() -> anyhow::Result<()> {
    let (server, admin) = start_tenant().await?;
    let first = node(&server, "t1", "n1").await?;
    let labels = json!({"kubernetes.io/hostname": "n1", "rack": "a"});
    let object = json!({"metadata": {"name": "n1", "labels": labels}});
    let created = create(&first, NODES, object).await?;
    // TaintNodesByCondition.
    let taint = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    assert_eq!(created["spec"]["taints"], taint);
    let other = first.post(NODES, &named("n2")).await?;
    let why = "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"";
    assert_refused(&other, 403, "Forbidden", why);
    create(&admin, NODES, named("n2")).await?;
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let path = format!("{NODES}/n1");
    let patched = first
        .patch(&format!("{path}/status"), "strategic-merge", &ready)
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let other = first
        .patch(&format!("{NODES}/n2/status"), "strategic-merge", &ready)
        .await?;
    assert_refused(&other, 403, "Forbidden", why);
    let role = "node-role.kubernetes.io/control-plane";
    for (patch, why) in [
        (
            json!({"metadata": {"labels": {role: ""}}}),
            format!("is not allowed to modify labels: {role}"),
        ),
        (
            json!({"spec": {"taints": []}}),
            "node \"n1\" is not allowed to modify taints".to_owned(),
        ),
        (
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"},
            ]}}),
            "node \"n1\" is not allowed to modify ownerReferences".to_owned(),
        ),
    ] {
        let refused = first.patch(&path, "merge", &patch).await?;
        let why = format!("nodes \"n1\" is forbidden: {why}");
        assert_refused(&refused, 403, "Forbidden", &why);
    }
    let own = json!({"metadata": {"labels": {"rack": "b"}}});
    assert_eq!(first.patch(&path, "merge", &own).await?.status, 200);
    assert_eq!(first.delete(&path).await?.status, 403);
    let csi = "/apis/storage.k8s.io/v1/csinodes";
    let object = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    create(&first, csi, object("n1")).await?;
    assert_eq!(first.get(&format!("{csi}/n1")).await?.status, 200);
    assert_eq!(first.post(csi, &object("n2")).await?.status, 403);
    assert_eq!(first.get(csi).await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn new_node_cannot_label_itself_for_restricted_workloads() -> anyhow::Result<()> {
    let (server, _admin) = start_tenant().await?;
    let first = node(&server, "t1", "n1").await?;
    let label = "node-restriction.kubernetes.io/secure";
    let object = json!({"metadata": {"name": "n1", "labels": {label: "yes"}}});
    let refused = first.post(NODES, &object).await?;
    let why = format!(
        "nodes \"n1\" is forbidden: node \"n1\" is not allowed to set the following labels: {label}"
    );
    assert_refused(&refused, 403, "Forbidden", &why);
    Ok(())
}

#[tokio::test]
async fn node_writes_pods_on_itself_only() -> anyhow::Result<()> {
    let (server, admin) = start_tenant().await?;
    create_pods(&admin).await?;
    let first = node(&server, "t1", "n1").await?;
    let running = json!({"status": {"phase": "Running"}});
    let own = format!("{PODS}/n1");
    let other = format!("{PODS}/n2");
    let patched = first
        .patch(&format!("{own}/status"), "merge", &running)
        .await?;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let refused = first
        .patch(&format!("{other}/status"), "merge", &running)
        .await?;
    let why = "pods \"n2\" is forbidden: node \"n1\" can only update pod status for pods with \
               spec.nodeName set to itself";
    assert_refused(&refused, 403, "Forbidden", why);
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let refused = first
        .patch(&format!("{own}/status"), "merge", &labels)
        .await?;
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(first.patch(&own, "merge", &labels).await?.status, 403);
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let refused = first
        .post(&format!("{other}/eviction"), &eviction("n2"))
        .await?;
    let why = "pods \"n2\" is forbidden: node n1 can only evict pods with spec.nodeName set to \
               itself";
    assert_refused(&refused, 403, "Forbidden", why);
    let refused = first.delete(&other).await?;
    let why = "pods \"n2\" is forbidden: node \"n1\" can only delete pods with spec.nodeName set to \
               itself";
    assert_refused(&refused, 403, "Forbidden", why);
    assert_eq!(admin.get(&other).await?.status, 200);
    let evicted = first
        .post(&format!("{own}/eviction"), &eviction("n1"))
        .await?;
    assert_eq!(evicted.status, 201, "{}", evicted.text());
    assert_eq!(
        first
            .delete(&format!("{own}?gracePeriodSeconds=0"))
            .await?
            .status,
        200
    );
    assert_eq!(admin.get(&own).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn node_creates_mirror_pods_only() -> anyhow::Result<()> {
    let (server, _admin) = start_tenant().await?;
    let first = node(&server, "t1", "n1").await?;
    let uid = create(&first, NODES, named("n1")).await?["metadata"]["uid"].clone();
    let mirror = json!({
        "metadata": {
            "name": "static-n1",
            "annotations": {"kubernetes.io/config.mirror": "hash"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true,
            }],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    let changed = |pointer: &str, value: Value| {
        let mut pod = mirror.clone();
        let (parent, member) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(parent) = pod.pointer_mut(parent) {
            parent[member] = value;
        }
        pod
    };
    for (pod, why) in [
        (
            changed("/metadata/annotations", json!({})),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only \
             create mirror pods",
        ),
        (
            changed("/spec/nodeName", json!("n2")),
            "node \"n1\" can only create pods with spec.nodeName set to itself",
        ),
        (
            changed("/metadata/ownerReferences", json!([])),
            "node \"n1\" can only create pods with a single owner reference set to itself",
        ),
        (
            changed("/spec/serviceAccountName", json!("default")),
            "node \"n1\" can not create pods that reference a service account",
        ),
        (
            changed(
                "/spec/volumes",
                json!([{"name": "a", "secret": {"secretName": "s"}}]),
            ),
            "node \"n1\" can not create pods that reference secrets",
        ),
    ] {
        let refused = first.post(PODS, &pod).await?;
        let why = format!("pods \"static-n1\" is forbidden: {why}");
        assert_refused(&refused, 403, "Forbidden", &why);
    }
    create(&first, PODS, mirror).await?;
    assert_eq!(first.get(&format!("{PODS}/static-n1")).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn node_requests_tokens_for_pods_on_itself_only() -> anyhow::Result<()> {
    let (server, admin) = start_tenant().await?;
    create_pods(&admin).await?;
    let first = node(&server, "t1", "n1").await?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let uid = async |name: &str| -> anyhow::Result<Value> {
        let pod = admin.get(&format!("{PODS}/{name}")).await?.json();
        Ok(pod["metadata"]["uid"].clone())
    };
    let (own, other) = (uid("n1").await?, uid("n2").await?);
    let bound = |name: &str, uid: &Value| {
        json!({"spec": {"boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid,
        }}})
    };
    let token = format!("{accounts}/n1/token");
    assert_eq!(first.post(&token, &bound("n1", &own)).await?.status, 201);
    for (request, why) in [
        (
            json!({"spec": {}}),
            "node requested token not bound to a pod",
        ),
        (
            bound("n1", &Value::Null),
            "node requested token with a pod binding without a uid",
        ),
        (
            bound("n2", &other),
            "node requested token bound to a pod scheduled on a different node",
        ),
    ] {
        let refused = first.post(&token, &request).await?;
        let why = format!("serviceaccounts \"n1\" is forbidden: {why}");
        assert_refused(&refused, 403, "Forbidden", &why);
    }
    let elsewhere = first
        .post(&format!("{accounts}/n2/token"), &bound("n2", &other))
        .await?;
    assert_eq!(elsewhere.status, 403, "{}", elsewhere.text());
    Ok(())
}

#[tokio::test]
async fn first_lease_of_a_node_creates_its_namespace() -> anyhow::Result<()> {
    let (server, admin) = start_tenant().await?;
    let first = node(&server, "t1", "n1").await?;
    let lease = |name: &str| {
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": 40});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    assert_eq!(admin.get(LEASE_NAMESPACE).await?.status, 404);
    assert_eq!(first.get(&format!("{LEASES}/n1")).await?.status, 404);
    let dry = first
        .post(&format!("{LEASES}?dryRun=All"), &lease("n1"))
        .await?;
    assert_eq!(dry.status, 404, "{}", dry.text());
    // Nor do other objects create it, or leases of users who may not create namespaces.
    let maps = format!("{LEASE_NAMESPACE}/configmaps");
    assert_eq!(admin.post(&maps, &named("m")).await?.status, 404);
    let dora = certified(&server, "t1", "dora", &[]).await?;
    admin.bind("dora", "User:dora", "edit").await?;
    assert_eq!(dora.post(LEASES, &lease("d")).await?.status, 404);
    assert_eq!(first.post(LEASES, &lease("n2")).await?.status, 404);
    assert_eq!(admin.get(LEASE_NAMESPACE).await?.status, 404);
    create(&first, LEASES, lease("n1")).await?;
    let namespace = admin.get(LEASE_NAMESPACE).await?.json();
    assert_eq!(namespace["status"]["phase"], "Active");
    let account = format!("{LEASE_NAMESPACE}/serviceaccounts/default");
    assert_eq!(admin.get(&account).await?.status, 200);
    let renewed = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
    let path = format!("{LEASES}/n1");
    assert_eq!(first.patch(&path, "merge", &renewed).await?.status, 200);
    let other = first.post(LEASES, &lease("n2")).await?;
    let why = "leases.coordination.k8s.io \"n2\" is forbidden: can only access node lease with the \
               same name as the requesting node";
    assert_refused(&other, 403, "Forbidden", why);
    assert_eq!(first.get(LEASES).await?.status, 403);
    // Another namespace that is missing stays missing.
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/other/leases";
    assert_eq!(admin.post(elsewhere, &lease("x")).await?.status, 404);
    Ok(())
}

#[tokio::test]
async fn node_of_the_system_has_the_same_rights() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let system = server.system().await?;
    create_pods(&system).await?;
    let first = node(&server, "system", "n1").await?;
    create(&first, NODES, named("n1")).await?;
    assert_eq!(first.post(NODES, &named("n2")).await?.status, 403);
    for (name, status) in [("n1", 200), ("n2", 403)] {
        let found = first.get(&format!("{SECRETS}/{name}")).await?;
        assert_eq!(found.status, status, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn rules_of_a_node_are_reported_as_incomplete() -> anyhow::Result<()> {
    let (server, admin) = start_tenant().await?;
    let first = node(&server, "t1", "n1").await?;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let question = json!({"spec": {"namespace": "default"}});
    let review = create(&first, path, &question).await?;
    assert_eq!(review["status"]["incomplete"], true);
    let review = create(&admin, path, &question).await?;
    assert_eq!(review["status"]["incomplete"], false);
    // An administrator of the space asks about its node.
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (name, allowed) in [("n1", true), ("n2", false)] {
        let question = json!({"spec": {
            "user": "system:node:n1",
            "groups": ["system:nodes"],
            "resourceAttributes": {"verb": "get", "resource": "nodes", "name": name},
        }});
        let review = create(&admin, path, &question).await?;
        assert_eq!(review["status"]["allowed"], allowed, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn node_requests_certificates_of_kubelets_for_itself_only() -> anyhow::Result<()> {
    let (server, _) = start_tenant().await?;
    let first = node(&server, "t1", "n1").await?;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let key = rcgen::KeyPair::generate()?;
    let request = |name: &str, user: &str, signer: &str| -> anyhow::Result<Value> {
        let subject = Subject {
            user: user.to_owned(),
            groups: vec!["system:nodes".to_owned()],
            tenant: None,
            tenant_uid: None,
        };
        let pem = STANDARD.encode(CertificateRequest::create_pem(&subject, &key)?);
        let signer = format!("kubernetes.io/{signer}");
        let usages = ["digital signature", "client auth"];
        let spec = json!({"request": pem, "signerName": signer, "usages": usages});
        Ok(json!({"metadata": {"name": name}, "spec": spec}))
    };
    let client = "kube-apiserver-client-kubelet";
    for (index, signer) in [client, "kubelet-serving"].into_iter().enumerate() {
        let name = format!("other-{index}");
        let refused = first
            .post(requests, &request(&name, "system:node:n2", signer)?)
            .await?;
        let why = format!(
            "certificatesigningrequests.certificates.k8s.io \"{name}\" is forbidden: can only \
             create a node CSR with CN=system:node:n1"
        );
        assert_refused(&refused, 403, "Forbidden", &why);
    }
    create(&first, requests, request("own", "system:node:n1", client)?).await?;
    // Other signers look at the name themselves.
    create(
        &first,
        requests,
        request("user", "dora", "kube-apiserver-client")?,
    )
    .await?;
    Ok(())
}
