//! Machines on hosts of another server, and on hosts next to them.

use insula_e2e::insula::root;
use insula_e2e::kubectl::Kubectl;
use serde_json::{Value, json};

use crate::objects::{HOSTS, cluster, path_of};
use crate::site::{Site, apply};

#[test]
fn machines_live_on_hosts_of_another_server_with_the_controllers_of_others() {
    let Some(site) = Site::start() else {
        return;
    };
    let (management, depot) = (&site.management, &site.depot);
    let hosts = root().join("docs/metal3/depot.yaml");
    depot.get(&format!("apply -f {}", hosts.display()));
    let second = std::fs::read_to_string(&hosts).unwrap();
    let second = second
        .replace("depot-1", "depot-2")
        .replace("192.0.2.5", "192.0.2.7");
    let second = second.replace(":53:05", ":53:07");
    depot.given(&second).get("apply -f -");
    apply(management, &cluster(Some("hosts"), 2));
    site.give_access("depot", "red", "hosts");
    site.give_workload("red");

    let ids = site.provider_ids("red", 2);
    for id in &ids {
        let [namespace, host, machine] = path_of(id);
        assert_eq!(namespace, "red");
        let provisioned = format!("{host}:provisioned:{machine}");
        let line = format!("-n depot {HOSTS}");
        depot.await_output(&line, |out| out.lines().any(|line| line == provisioned));
        assert_secrets(depot, host, machine);
    }
    let phases = "-n red get machines -o jsonpath={.items[*].status.phase}";
    management.await_output(phases, |out| out == "Provisioned Provisioned");
    assert_node_gets_its_provider_id(&site, &ids[0]);
    assert_host_is_as_the_fake_one_makes_it(depot, path_of(&ids[0])[1]);

    management.get("-n red scale machinedeployment own --replicas=1");
    let left = site.provider_ids("red", 1);
    let [_, _, kept] = path_of(&left[0]);
    let gone = ids.iter().find(|id| **id != left[0]).unwrap();
    let [_, host, machine] = path_of(gone);
    let available = format!("{host}:available:");
    let line = format!("-n depot {HOSTS}");
    let out = depot.await_output(&line, |out| out.lines().any(|line| line == available));
    assert!(out.contains(&format!(":provisioned:{kept}")), "{out}");
    let secrets = "-n depot get secrets -o jsonpath={.items[*].metadata.name}";
    depot.await_output(secrets, |out| !out.contains(machine));
    let machines = "-n red get metal3machines -o jsonpath={.items[*].metadata.name}";
    management.await_output(machines, |out| out == kept);
}

#[test]
fn machines_live_on_hosts_next_to_them_with_the_controllers_of_others() {
    let Some(site) = Site::start() else {
        return;
    };
    let management = &site.management;
    let solo = root().join("docs/metal3/solo.yaml");
    management.get(&format!("apply -f {}", solo.display()));
    site.give_workload("solo");
    let ids = site.provider_ids("solo", 1);
    let [namespace, host, machine] = path_of(&ids[0]);
    assert_eq!([namespace, host], ["solo", "solo-1"]);
    let line = format!("-n solo {HOSTS}");
    management.await_output(&line, |out| {
        out == format!("solo-1:provisioned:{machine}\n")
    });
    management.get("-n solo delete machinedeployment own --wait=false");
    management.await_output(&line, |out| out == "solo-1:available:\n");
    let machines = "-n solo get metal3machines -o name";
    management.await_output(machines, str::is_empty);
}

/// A node with the label that bootstrap data gives it gets the provider ID of its machine.
fn assert_node_gets_its_provider_id(site: &Site, id: &str) {
    let [_, host, machine] = path_of(id);
    let uid = format!("-n depot get baremetalhost {host} -o jsonpath={{.metadata.uid}}");
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": machine, "labels": {"metal3.io/uuid": site.depot.get(&uid)}},
    });
    apply(&site.workload, &[node]);
    let line = format!("get node {machine} -o jsonpath={{.spec.providerID}}");
    site.workload.await_output(&line, |out| out == id);
    let ready = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
    let line = format!("-n red get metal3machine {machine} -o {ready}");
    site.management.await_output(&line, |out| out == "True");
}

/// User data and metadata are next to the host, and have no owners that are not there.
fn assert_secrets(depot: &Kubectl, host: &str, machine: &str) {
    for (suffix, key, expected) in [
        ("userdata", "value", "#cloud-config".to_owned()),
        (
            "metadata",
            "metaData",
            format!("host: {host}\nproviderid: red/{host}/{machine}\n"),
        ),
    ] {
        let line = format!("-n depot get secret {machine}-{suffix} -o json");
        let secret: Value = serde_json::from_str(&depot.get(&line)).unwrap();
        assert_eq!(secret["metadata"]["ownerReferences"], Value::Null);
        let line = format!(
            "-n depot get secret {machine}-{suffix} -o go-template='{{{{.data.{key} | base64decode}}}}'"
        );
        assert_eq!(depot.get(&line), expected);
    }
}

/// The fake Bare Metal Operator of other tests does the same as the real one.
fn assert_host_is_as_the_fake_one_makes_it(depot: &Kubectl, name: &str) {
    let line = format!("-n depot get baremetalhost {name} -o json");
    let host: Value = serde_json::from_str(&depot.get(&line)).unwrap();
    assert_eq!(
        host["metadata"]["finalizers"],
        json!(["baremetalhost.metal3.io"])
    );
    assert_eq!(host["metadata"]["ownerReferences"], Value::Null);
    let status = &host["status"];
    assert_eq!(status["operationalStatus"], "OK");
    assert_eq!(status["errorMessage"], "");
    assert_eq!(status["poweredOn"], true);
    assert_eq!(status["provisioning"]["image"], host["spec"]["image"]);
    assert!(status["provisioning"]["ID"].is_string(), "{status}");
    assert!(status["hardware"]["nics"][0]["mac"].is_string(), "{status}");
    let secret = depot.get("-n depot get secret bmc -o json");
    let secret: Value = serde_json::from_str(&secret).unwrap();
    let metadata = &secret["metadata"];
    assert_eq!(metadata["labels"]["environment.metal3.io"], "baremetal");
    assert_eq!(
        metadata["finalizers"],
        json!(["baremetalhost.metal3.io/secret"])
    );
    let owners = metadata["ownerReferences"].as_array().unwrap();
    assert!(
        owners.iter().all(|it| it["kind"] == "BareMetalHost"),
        "{owners:?}"
    );
}
