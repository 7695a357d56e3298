//! Hosts that a kubeconfig reaches.

use std::time::{Duration, Instant};

use insula_capi::Machine;
use insula_metal3::kinds::cluster::Metal3Cluster;
use insula_metal3::kinds::host::BareMetalHost;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_metal3::names::MACHINE_FINALIZER;
use insula_testkit::bare_metal::{ErrorType, State};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{
    HOST, META_DATA, Scene, annotation, host_secrets, hosts_in_management, identity,
    is_provisioned, kubeconfig_of, secrets,
};
use crate::world::{condition, eventually};

#[tokio::test]
async fn s03_r15_r39_machine_runs_on_a_host_of_another_cluster() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-a", &["h0"]).await?;
    hosts.bare_metal.hold(State::Provisioning);
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    let waiting = ("False", "WaitingForBareMetalHost");
    let machine: Metal3Machine = management
        .wait_until("team-a", "m0", |machine| {
            let node = condition(machine, "KubernetesNodeReady");
            node.is_some_and(|found| {
                (found[0], found[1]) == waiting && found[2].contains("provisioning")
            })
        })
        .await?;
    let node = condition(&machine, "KubernetesNodeReady").unwrap();
    assert_eq!(
        node[2],
        "BareMetalHost pool-a/h0 is in state \"provisioning\""
    );

    // A change of the host is noticed at once.
    let released = Instant::now();
    hosts.bare_metal.release();
    let machine = scene.provisioned("team-a", "m0").await?;
    let latency = released.elapsed();
    assert!(latency < Duration::from_secs(10), "{latency:?}");

    assert_eq!(annotation(&machine).as_deref(), Some("pool-a/h0"));
    assert_eq!(machine.finalizers(), [MACHINE_FINALIZER]);
    let id = "metal3://team-a/h0/m0";
    assert_eq!(machine.spec.provider_id.as_deref(), Some(id));
    let status = machine.status.clone().unwrap();
    let reference = status.user_data.unwrap();
    assert_eq!(reference.name.as_deref(), Some("m0-userdata"));
    assert_eq!(reference.namespace.as_deref(), Some("pool-a"));
    assert_eq!((status.meta_data, status.network_data), (None, None));
    let addresses = status.addresses.iter();
    let addresses: Vec<_> = addresses
        .map(|one| format!("{} {}", one.kind, one.address))
        .collect();
    assert_eq!(
        addresses,
        [
            "InternalIP 10.0.0.1",
            "InternalIP 10.1.0.1",
            "Hostname h0",
            "InternalDNS h0"
        ]
    );
    let host = hosts.wait_for_host("pool-a", "h0", "provisioned").await?;
    assert!(host.spec.online);
    let user_data = Some(("pool-a".to_owned(), "m0-userdata".to_owned()));
    assert_eq!(host_secrets(&host), [user_data, None, None]);
    assert_eq!(host.labels()["cluster.x-k8s.io/cluster-name"], "c");
    assert_eq!(
        json!(host.spec.consumer_ref),
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
            "namespace": "team-a", "name": "m0",
        })
    );
    assert_eq!(
        json!(host.spec.image),
        json!({
            "url": "http://images.test/node.qcow2", "checksum": "sum", "checksumType": "sha256",
            "format": "qcow2",
        })
    );
    // The Bare Metal Operator has read the bootstrap data from the copy.
    let data = hosts.bare_metal.data("pool-a/h0").unwrap();
    let bootstrap = "#cloud-config\n# team-a/m0\n";
    assert_eq!(data.user_data.as_deref(), Some(bootstrap));
    let secret = hosts.api::<Secret>("pool-a").get("m0-userdata").await?;
    assert_eq!(secret.owner_references(), []);
    assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], "c");
    let owner = &secret.annotations()["infrastructure.cluster.x-k8s.io/owner"];
    assert_eq!(owner, "Metal3Machine/team-a/m0");
    let keys: Vec<_> = secret.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["format", "value"]);
    // Nothing for moves, and nothing on the management side.
    for absent in [
        "clusterctl.cluster.x-k8s.io/block-move",
        "baremetalhost.metal3.io/paused",
    ] {
        assert!(!host.annotations().contains_key(absent), "{absent}");
    }
    let bmc = hosts.api::<Secret>("pool-a").get("h0-bmc").await?;
    assert!(!bmc.labels().contains_key("cluster.x-k8s.io/cluster-name"));
    assert_eq!(
        secrets(management, "team-a").await?,
        ["c-kubeconfig", "hosts", "m0-bootstrap"]
    );
    // r15: hosts and their Secrets are accessed with the kubeconfig alone.
    for resource in ["baremetalhosts", "secrets"] {
        let users: Vec<_> = hosts.users_of(resource)?.into_iter().collect();
        assert_eq!(users, [hosts.user_name("user-a")], "{resource}");
    }
    let of_management = management.requests()?.into_iter();
    let to_hosts = of_management.filter(|request| request.resource == "baremetalhosts");
    assert_eq!(to_hosts.count(), 0);
    // Its node appears.
    let no_node = condition(&machine, "KubernetesNodeReady").unwrap();
    assert_eq!(
        no_node,
        [
            "False",
            "WaitingForNode",
            "no node has the name of the host yet"
        ]
    );
    let labels = json!({"metal3.io/uuid": host.uid()});
    scene.workload.node("node-0", labels).await?;
    management
        .wait_for_condition::<Metal3Machine>("team-a", "m0", "Ready", ("True", "Ready"))
        .await?;
    let node = scene.workload.get_node("node-0").await?;
    assert_eq!(node["spec"]["providerID"], id);
    Ok(())
}

#[tokio::test]
async fn r25_error_of_the_host_is_shown() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let hosts = &scene.world.hosts;
    hosts.hosts("pool-a", &["h0"]).await?;
    let provisioning = State::Provisioning;
    let kind = ErrorType::Provisioning;
    hosts
        .bare_metal
        .fail("pool-a/h0", provisioning, kind, "no such image");
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    let machine: Metal3Machine = scene
        .management()
        .wait_for_condition(
            "team-a",
            "m0",
            "KubernetesNodeReady",
            ("False", "BareMetalHostError"),
        )
        .await?;
    let node = condition(&machine, "KubernetesNodeReady").unwrap();
    assert_eq!(node[2], "BareMetalHost pool-a/h0: no such image");
    assert!(!is_provisioned(&machine));
    hosts.bare_metal.heal("pool-a/h0");
    scene.provisioned("team-a", "m0").await?;
    Ok(())
}

#[tokio::test]
async fn x04_hosts_can_be_in_another_namespace_of_the_same_cluster() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let management = scene.management();
    let _bare_metal = hosts_in_management(management).await?;
    management.namespace("metal").await?;
    management.hosts("metal", &["h0"]).await?;
    let kubeconfig = kubeconfig_of(management, "metal").await?;
    management.identity("team-a", "hosts", &kubeconfig).await?;
    scene
        .cluster("team-a", "c", identity("hosts"), json!({}))
        .await?;
    scene.machines("team-a", &["m0"]).await?;
    let machine = scene.provisioned("team-a", "m0").await?;
    assert_eq!(annotation(&machine).as_deref(), Some("metal/h0"));
    assert_eq!(secrets(management, "metal").await?, ["m0-userdata"]);
    // r36: hosts of other namespaces are not prepared for moves.
    let host = management
        .wait_for_host("metal", "h0", "provisioned")
        .await?;
    let annotations = host.annotations();
    assert!(!annotations.contains_key("clusterctl.cluster.x-k8s.io/block-move"));
    management.delete::<Machine>("team-a", "m0").await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    assert_eq!(secrets(management, "metal").await?, [""; 0]);
    management.wait_for_host("metal", "h0", "available").await?;
    Ok(())
}

#[tokio::test]
async fn x04_bootstrap_data_survives_an_identity_of_the_same_namespace() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let management = scene.management();
    let _bare_metal = hosts_in_management(management).await?;
    management.hosts("team-a", &["h0"]).await?;
    let kubeconfig = kubeconfig_of(management, "team-a").await?;
    management.identity("team-a", "hosts", &kubeconfig).await?;
    scene
        .cluster("team-a", "c", identity("hosts"), json!({}))
        .await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    let expected = ["c-kubeconfig", "hosts", "m0-bootstrap", "m0-userdata"];
    assert_eq!(secrets(management, "team-a").await?, expected);
    management.delete::<Machine>("team-a", "m0").await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    let expected = ["c-kubeconfig", "hosts", "m0-bootstrap"];
    assert_eq!(secrets(management, "team-a").await?, expected);
    Ok(())
}

#[tokio::test]
async fn x10_machine_keeps_its_host_when_the_identity_of_its_cluster_changes() -> anyhow::Result<()>
{
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-a", &["a0"]).await?;
    hosts.hosts("pool-b", &["b0", "b1"]).await?;
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0", "m1"]).await?;
    let (first, second) = eventually(async || {
        let consumers = hosts.consumers("pool-a").await?;
        Ok(match consumers["a0"].as_str() {
            "Metal3Machine team-a/m0" => Some(("m0", "m1")),
            "Metal3Machine team-a/m1" => Some(("m1", "m0")),
            _ => None,
        })
    })
    .await?;
    let machine = scene.provisioned("team-a", first).await?;
    // The identity is recorded with the host.
    assert_eq!(json!(machine.spec.identity_ref), json!({"name": "hosts"}));
    let waiting: Metal3Machine = management.api("team-a").get(second).await?;
    assert_eq!(waiting.spec.identity_ref, None);

    scene
        .world
        .identity("team-a", "others", ("user-b", "pool-b"))
        .await?;
    let change = json!({"spec": {"identityRef": {"name": "others"}}});
    management
        .patch::<Metal3Cluster>("team-a", "c", change)
        .await?;
    let machine = scene.provisioned("team-a", second).await?;
    assert_eq!(json!(machine.spec.identity_ref), json!({"name": "others"}));
    assert!(annotation(&machine).unwrap().starts_with("pool-b/"));
    assert_eq!(scene.host_of("team-a", first).await?, "pool-a/a0");
    let consumers = hosts.consumers("pool-a").await?;
    assert_eq!(consumers["a0"], format!("Metal3Machine team-a/{first}"));
    management.delete::<Machine>("team-a", first).await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", first)
        .await?;
    hosts.wait_for_host("pool-a", "a0", "available").await?;
    assert_eq!(hosts.consumers("pool-a").await?["a0"], "");
    Ok(())
}

#[tokio::test]
async fn r41_machine_without_its_identity_claims_no_second_host() -> anyhow::Result<()> {
    let mut scene = Scene::start().await?;
    let _bare_metal = hosts_in_management(scene.management()).await?;
    scene.management().hosts("team-a", &["local"]).await?;
    let hosts = &scene.world.hosts;
    hosts.hosts("pool-a", &["h0", "h1"]).await?;
    scene.cluster_on("team-a", ("user-a", "pool-a")).await?;
    scene.machines("team-a", &["m0"]).await?;
    scene.provisioned("team-a", "m0").await?;
    let host = scene.host_of("team-a", "m0").await?;

    // An older definition loses the fields.
    if let Some(running) = scene.running.take() {
        running.stop().await?;
    }
    let management = scene.management();
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
    for kind in ["metal3machines", "metal3clusters"] {
        let path = format!("{definition}{kind}.infrastructure.cluster.x-k8s.io");
        let mut older = management.plain.get(&path).await?.json();
        let versions = older["spec"]["versions"].as_array_mut().unwrap();
        for version in versions {
            let schema = version["schema"]["openAPIV3Schema"]
                .as_object_mut()
                .unwrap();
            schema.remove("x-kubernetes-validations");
            let spec = schema["properties"]["spec"].as_object_mut().unwrap();
            spec.remove("x-kubernetes-validations");
            let fields = spec["properties"].as_object_mut().unwrap();
            fields.remove("identityRef");
        }
        let replaced = management.plain.put(&path, &older).await?;
        anyhow::ensure!(replaced.status == 200, "{}", replaced.text());
    }
    let touch = json!({"metadata": {"labels": {"touched": "true"}}});
    eventually(async || {
        let machine: Metal3Machine = management.patch("team-a", "m0", touch.clone()).await?;
        let cluster: Metal3Cluster = management.patch("team-a", "c", touch.clone()).await?;
        let is_lost = machine.spec.identity_ref.is_none() && cluster.spec.identity_ref.is_none();
        Ok(is_lost.then_some(()))
    })
    .await?;
    scene.running = Some(scene.world.start());
    let message = scene
        .host_problem("team-a", "m0", "BareMetalHostNotFound")
        .await?;
    assert_eq!(
        message,
        format!(
            "BareMetalHost {host} is not found among the hosts of namespace team-a (annotation \
             metal3.io/BareMetalHost names a host outside of the namespace of hosts); the machine \
             gets no other host: restore its spec.identityRef or the host, or delete the machine"
        )
    );
    let machine = scene.provisioned("team-a", "m0").await?;
    assert_eq!(condition(&machine, HOST).unwrap()[0], "False");
    assert_eq!(annotation(&machine).as_deref(), Some(host.as_str()));
    assert_eq!(scene.management().consumers("team-a").await?["local"], "");
    let consumers = scene.world.hosts.consumers("pool-a").await?;
    let used = consumers.values().filter(|consumer| !consumer.is_empty());
    assert_eq!(used.count(), 1);
    // Neither does its deletion pretend that the host was released.
    scene.management().delete::<Machine>("team-a", "m0").await?;
    scene
        .management()
        .wait_until("team-a", "m0", |machine: &Metal3Machine| {
            let message = condition(machine, HOST).map(|found| found[2]);
            message.is_some_and(|message| message.contains("cannot be released"))
        })
        .await?;
    let name = host.strip_prefix("pool-a/").unwrap();
    let host: BareMetalHost = scene.world.hosts.api("pool-a").get(name).await?;
    assert!(host.spec.consumer_ref.is_some() && host.spec.image.is_some());
    Ok(())
}

#[tokio::test]
async fn r18_data_of_the_user_is_copied_next_to_the_host() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    hosts.hosts("pool-a", &["h0"]).await?;
    scene
        .world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    let machine = json!({"metaData": {"name": "meta"}, "networkData": {"name": "network"}});
    scene
        .cluster("team-a", "c", identity("hosts"), machine)
        .await?;
    management
        .secret(
            "team-a",
            "meta",
            &[("metaData", "a: b"), ("other", "secret")],
        )
        .await?;
    scene.machines("team-a", &["m0"]).await?;
    let waits = ("False", "AssociateMetal3MachineMetaDataFailed");
    let machine: Metal3Machine = management
        .wait_for_condition("team-a", "m0", META_DATA, waits)
        .await?;
    let found = condition(&machine, META_DATA).unwrap();
    assert_eq!(found[2], "there is no Secret \"network\"");
    management
        .event("team-a", "m0", "AssociateMetal3MachineMetaDataFailed")
        .await?;
    let host: BareMetalHost = hosts.api("pool-a").get("h0").await?;
    assert_eq!(host.spec.image, None);
    management
        .secret("team-a", "network", &[("value", "links: []")])
        .await?;
    let machine = scene.provisioned("team-a", "m0").await?;
    let data = hosts.bare_metal.data("pool-a/h0").unwrap();
    assert_eq!(data.meta_data.as_deref(), Some("a: b"));
    assert_eq!(data.network_data.as_deref(), Some("links: []"));
    let host: BareMetalHost = hosts.api("pool-a").get("h0").await?;
    let names = ["m0-userdata", "m0-metadata", "m0-networkdata"];
    let expected = names.map(|name| Some(("pool-a".to_owned(), name.to_owned())));
    assert_eq!(host_secrets(&host), expected);
    let status = machine.status.unwrap();
    let references = [status.user_data, status.meta_data, status.network_data];
    let found = references.map(|reference| {
        let reference = reference?;
        Some((reference.namespace?, reference.name?))
    });
    assert_eq!(found, expected);
    let copy: Secret = hosts.api("pool-a").get("m0-metadata").await?;
    let keys: Vec<_> = copy.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["metaData"]);
    management.delete::<Machine>("team-a", "m0").await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    assert_eq!(secrets(hosts, "pool-a").await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn r16_selector_and_failure_domain_choose_the_host_in_both_modes() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let (management, hosts) = (scene.management(), &scene.world.hosts);
    let _bare_metal = hosts_in_management(management).await?;
    scene
        .world
        .identity("team-b", "hosts", ("user-b", "pool-b"))
        .await?;
    let domain = "infrastructure.cluster.x-k8s.io/failure-domain";
    for (team, space, pool, cluster) in [
        ("team-a", &**management, "team-a", json!({})),
        ("team-b", &**hosts, "pool-b", identity("hosts")),
    ] {
        for (name, labels) in [
            ("h0", json!({"rack": "1", domain: "z2"})),
            ("h1", json!({"rack": "1", domain: "z1"})),
            ("h2", json!({"rack": "2", domain: "z1"})),
        ] {
            space.host(pool, name, labels).await?;
        }
        let machine = json!({"hostSelector": {"matchLabels": {"rack": "1"}}});
        scene.cluster(team, "c", cluster, machine).await?;
        let in_zone = json!({"spec": {"failureDomain": "z1"}});
        for (name, host) in [("m0", "h1"), ("m1", "h0")] {
            management
                .machine_with(team, "c", name, "workers", in_zone.clone())
                .await?;
            let machine = scene.provisioned(team, name).await?;
            assert_eq!(machine.spec.failure_domain.as_deref(), Some("z1"));
            assert_eq!(annotation(&machine), Some(format!("{pool}/{host}")));
        }
        scene.machines(team, &["m2"]).await?;
        let message = scene
            .host_problem(team, "m2", "AssociateBareMetalHostFailed")
            .await?;
        let expected = format!(
            "no available host: of 3 hosts in namespace {pool}, 1 not selected by hostSelector, \
             2 in use"
        );
        assert_eq!(message, expected);
    }
    Ok(())
}
