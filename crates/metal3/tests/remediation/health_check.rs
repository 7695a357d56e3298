//! Remediations by the MachineHealthCheck of Cluster API's own controllers.

use std::fs;

use anyhow::Context as _;
use insula_capi::Machine;
use insula_e2e::cluster_api::{ClusterApi, Core};
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::remediation::Metal3Remediation;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::case::{expire, has_request, phase_of, retries};
use crate::scene::{Scene, identity};
use crate::world::{Entry, Management, eventually, kubeconfig};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CAPI: &str = "cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Replaces what stands for Cluster API by its own definitions and controllers.
async fn start_core(
    api: &ClusterApi,
    management: &Management,
    folder: &TempDir,
) -> anyhow::Result<Core> {
    management.core.stop();
    let plain = &management.plain;
    for plural in ["clusters", "machines", "machinesets", "machinedeployments"] {
        let path = format!("{DEFINITIONS}/{plural}.cluster.x-k8s.io");
        plain.delete(&path).await?;
        eventually(async || Ok((plain.get(&path).await?.status == 404).then_some(()))).await?;
    }
    let mut definitions: Vec<Value> = Vec::new();
    for file in fs::read_dir(api.definitions())? {
        definitions.push(serde_saphyr::from_str(&fs::read_to_string(file?.path())?)?);
    }
    plain.install(&definitions).await?;
    let entry = Entry::new("admin", "system", "default");
    let path = folder.path().join("kubeconfig");
    fs::write(&path, kubeconfig(&management.server, &[entry]).to_string())?;
    api.start_core(&path)
}

/// Waits longer than other tests: the controllers look at some objects only from time to time.
async fn patiently<T>(wait: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    for _ in 0..2 {
        if let Ok(done) = wait().await {
            return Ok(done);
        }
    }
    wait().await
}

/// Waits until the remediation of a machine is in a phase, with nothing left to undo.
async fn wait_for_phase(
    management: &Management,
    name: &str,
    phase: &str,
    count: Option<i32>,
) -> anyhow::Result<()> {
    let is_so = |one: &Metal3Remediation| {
        phase_of(one) == phase && retries(one) == count && one.finalizers().is_empty()
    };
    patiently(async || management.wait_until("team-a", name, is_so).await).await?;
    Ok(())
}

/// Waits until the remediation of a machine is deleted.
async fn wait_until_gone(management: &Management, name: &str) -> anyhow::Result<()> {
    patiently(async || {
        management
            .wait_until_gone::<Metal3Remediation>("team-a", name)
            .await
    })
    .await
}

/// Sets whether the kubelet of a node reports that it is ready.
async fn set_ready(scene: &Scene, node: &str, status: &str) -> anyhow::Result<()> {
    let condition = json!({
        "type": "Ready", "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    });
    let patch = json!({"status": {"conditions": [condition]}});
    let path = format!("/api/v1/nodes/{node}/status");
    let patched = scene.workload.plain.patch(&path, "merge", &patch).await?;
    anyhow::ensure!(patched.status == 200, "{}", patched.text());
    Ok(())
}

/// Creates a host, and a node of it that is ready.
async fn host_with_node(scene: &Scene, host: &str, node: &str) -> anyhow::Result<()> {
    let hosts = &scene.world.hosts;
    hosts.host("pool-a", host, json!({})).await?;
    let found: BareMetalHost = hosts.api("pool-a").get(host).await?;
    let labels = json!({"metal3.io/uuid": found.uid()});
    scene.workload.node(node, labels).await?;
    set_ready(scene, node, "True").await
}

/// Creates a cluster with one machine of a MachineSet, and a health check for it.
async fn create(scene: &Scene) -> anyhow::Result<()> {
    let management = scene.management();
    let world = &scene.world;
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    scene
        .cluster("team-a", "c", identity("hosts"), json!({}))
        .await?;
    let label = json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}}});
    let secret = "/api/v1/namespaces/team-a/secrets/c-kubeconfig";
    management.plain.patch(secret, "merge", &label).await?;
    let data = [("value", "#cloud-config"), ("format", "cloud-config")];
    management.secret("team-a", "data", &data).await?;
    let labels = json!({"set": "ms", "cluster.x-k8s.io/cluster-name": "c"});
    let machine = json!({
        "clusterName": "c", "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": {
            "apiGroup": INFRASTRUCTURE, "kind": "Metal3MachineTemplate", "name": "workers",
        },
    });
    let strategy = json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 100});
    for object in [
        json!({
            "apiVersion": CAPI, "kind": "MachineSet",
            "metadata": {"name": "ms", "namespace": "team-a", "labels": labels},
            "spec": {
                "clusterName": "c", "replicas": 1, "selector": {"matchLabels": {"set": "ms"}},
                "template": {"metadata": {"labels": labels}, "spec": machine},
            },
        }),
        json!({
            "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "Metal3RemediationTemplate",
            "metadata": {"name": "restart", "namespace": "team-a"},
            "spec": {"template": {"spec": {"strategy": strategy}}},
        }),
        json!({
            "apiVersion": CAPI, "kind": "MachineHealthCheck",
            "metadata": {"name": "check", "namespace": "team-a"},
            "spec": {
                "clusterName": "c", "selector": {"matchLabels": {"set": "ms"}},
                "checks": {
                    "nodeStartupTimeoutSeconds": 0,
                    "unhealthyNodeConditions":
                        [{"type": "Ready", "status": "False", "timeoutSeconds": 1}],
                },
                "remediation": {"templateRef": {
                    "apiVersion": format!("{INFRASTRUCTURE}/v1beta2"),
                    "kind": "Metal3RemediationTemplate", "name": "restart",
                }},
            },
        }),
    ] {
        management.put(&object).await?;
    }
    Ok(())
}

/// Reports that the control plane answers, as its controller does.
async fn initialize(management: &Management) -> anyhow::Result<()> {
    let status = json!({
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
        "conditions": [{
            "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    let path = format!("/apis/{CAPI}/namespaces/team-a/clusters/c");
    let plain = &management.plain;
    eventually(async || {
        let cluster = plain.get(&path).await?.json();
        let provisioned = &cluster["status"]["initialization"]["infrastructureProvisioned"];
        Ok((*provisioned == json!(true)).then_some(()))
    })
    .await?;
    let path = format!("{path}/status");
    let patched = plain
        .patch(&path, "merge", &json!({"status": status}))
        .await?;
    anyhow::ensure!(patched.status == 200, "{}", patched.text());
    Ok(())
}

/// Waits for the machine on a node, and returns its name.
async fn machine_on(management: &Management, node: &str) -> anyhow::Result<String> {
    let machines = management.api::<Machine>("team-a");
    let found = eventually(async || {
        let all = machines.list(&ListParams::default()).await?;
        let found = all.items.iter().find(|one| one.node_name() == Some(node));
        Ok(found.map(ResourceExt::name_any))
    });
    found.await.with_context(|| format!("no machine on {node}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn m02_health_check_of_cluster_api_restarts_and_replaces_a_machine() -> anyhow::Result<()> {
    let Some(api) = ClusterApi::find() else {
        return Ok(());
    };
    let scene = Scene::start_without_operator().await?;
    let management = scene.management();
    let folder = TempDir::new()?;
    let core = start_core(&api, management, &folder).await?;
    let _running = scene.world.start();
    host_with_node(&scene, "h0", "n0").await?;
    create(&scene).await?;
    let done = restart_and_replace(&scene).await;
    done.with_context(|| core.log())
}

async fn restart_and_replace(scene: &Scene) -> anyhow::Result<()> {
    let management = scene.management();
    initialize(management).await?;
    let name = patiently(async || machine_on(management, "n0").await).await?;
    // A machine that recovers after the restart is kept.
    set_ready(scene, "n0", "False").await?;
    wait_for_phase(management, &name, "Waiting", None).await?;
    set_ready(scene, "n0", "True").await?;
    wait_until_gone(management, &name).await?;
    let power = scene.world.hosts.bare_metal.power("pool-a/h0");
    assert_eq!(power, [true, false, true]);
    // One that does not is replaced, on another host.
    host_with_node(scene, "h1", "n1").await?;
    set_ready(scene, "n0", "False").await?;
    wait_for_phase(management, &name, "Waiting", None).await?;
    expire(management, "team-a", &name).await?;
    wait_for_phase(management, &name, "Waiting", Some(1)).await?;
    expire(management, "team-a", &name).await?;
    wait_until_gone(management, &name).await?;
    patiently(async || machine_on(management, "n1").await).await?;
    let host: BareMetalHost = scene.world.hosts.api("pool-a").get("h0").await?;
    assert!(host.annotations().contains_key("capm3.metal3.io/unhealthy"));
    assert!(!has_request(&host));
    Ok(())
}
