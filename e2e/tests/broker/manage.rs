//! `subctl delete|get|list tenant`: R43 to R53.

use http::Method;
use insula_e2e::kubectl::{Kubectl, squeezed};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Operator, TENANTS, shared};
use crate::content::{at, namespace, one, snapshot};
use crate::fixture::{Tenant, await_gone, await_phase, await_refused, tenant};
use crate::subm::mode;
use crate::user::FILE;
use crate::wait::until;

#[test]
fn r43_missing_or_unknown_id_is_an_error() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    admin.misuses("delete tenant", "ID");
    admin.misuses("get tenant", "ID");
    for verb in ["delete", "get"] {
        admin.fails(
            &format!("{verb} tenant r43-unknown"),
            &[
                "there is no tenant r43-unknown",
                "hint: `subctl list tenants`",
            ],
        );
    }
}

#[test]
fn r44_deletion_removes_all_objects_of_the_tenant_only() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let [gone, stays] = ["r44-gone", "r44-stays"].map(|id| {
        let tenant = Tenant::create(&cluster, id);
        tenant.deploy_broker("--globalnet");
        tenant.join(
            &cluster.workload(id),
            "east",
            "--clustercidr 10.0.0.0/16 --servicecidr 100.0.0.0/16",
        );
        fill(&root, &tenant.namespace);
        tenant
    });
    let before = snapshot(&root, &stays.namespace);
    assert_eq!(cluster.admin().does("delete tenant r44-gone"), "");
    assert_eq!(root.find(&namespace(&gone.namespace)), None);
    assert_eq!(root.find(&format!("{TENANTS}/r44-gone")), None);
    assert_eq!(snapshot(&root, &gone.namespace).len(), 0);
    assert_eq!(snapshot(&root, &stays.namespace), before);
    assert_eq!(stays.object(&root)["status"]["phase"], "Provisioned");
}

/// Creates objects that running clusters would publish.
fn fill(root: &crate::api::Api, here: &str) {
    let meta = json!({"name": "seed"});
    for (resource, object) in [
        (
            "clusters",
            json!({"apiVersion": "submariner.io/v1", "kind": "Cluster", "metadata": meta,
            "spec": {"cluster_id": "x", "cluster_cidr": [], "service_cidr": [], "global_cidr": []}}),
        ),
        (
            "endpoints",
            json!({"apiVersion": "submariner.io/v1", "kind": "Endpoint", "metadata": meta,
            "spec": {"cluster_id": "x", "cable_name": "c", "hostname": "h", "subnets": [], "private_ip": "i",
                     "public_ip": "p", "nat_enabled": false, "backend": "b"}}),
        ),
        (
            "serviceimports",
            json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
            "metadata": meta, "spec": {"type": "Headless", "ports": []}}),
        ),
        (
            "serviceexports",
            json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
            "metadata": meta}),
        ),
        (
            "endpointslices",
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": meta, "addressType": "IPv4", "endpoints": []}),
        ),
        (
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}),
        ),
    ] {
        root.create(&at(here, resource), &object);
    }
}

#[test]
fn r45_blocked_deletion_is_reported_and_completes_when_unblocked() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    let tenant = Tenant::create(&cluster, "r45");
    let other = Tenant::create(&cluster, "r45-other");
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
                      "metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    let maps = at(&tenant.namespace, "configmaps");
    root.create(&maps, &held);
    root.delete(&format!("{TENANTS}/r45"));
    until("the object says what holds it", || {
        let message = tenant.object(&root)["status"]["message"].to_string();
        message.contains("example.com/held").then_some(())
    });
    let said = admin.subctl("delete tenant r45 --timeout 1s");
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.err.contains("takes longer than 1s"), "{said}");
    assert!(
        said.err.contains("example.com/held"),
        "what holds it: {said}"
    );
    let object = tenant.object(&root);
    assert_eq!(object["status"]["phase"], "Deleting");
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["axon.submariner.io/cleanup"])
    );
    // Its token is already invalid, although the namespace still exists.
    await_refused(&tenant.api(&cluster), &at(&tenant.namespace, "brokers"));
    // Other deletions do not wait for it.
    admin.does("delete tenant r45-other");
    assert_eq!(root.find(&namespace(&other.namespace)), None);
    let waits = admin.start("delete tenant r45");
    root.merge(
        &format!("{maps}/held"),
        &json!({"metadata": {"finalizers": null}}),
    );
    waits.finish().succeeds();
    assert_eq!(root.find(&format!("{TENANTS}/r45")), None);
    assert_eq!(root.find(&namespace(&tenant.namespace)), None);
}

#[test]
fn r46_kubectl_delete_removes_a_tenant() {
    let Some(cluster) = shared() else { return };
    let Some(program) = Kubectl::find() else {
        return;
    };
    let (admin, root) = (cluster.admin(), cluster.root());
    let tenant = Tenant::create(&cluster, "r46");
    let shown = admin
        .run(&program, "get tenants.submariner.io -n axon-operator r46")
        .succeeds();
    let shown: Vec<String> = shown.lines().map(squeezed).collect();
    assert_eq!(shown[0], "NAME STATUS NAMESPACE AGE");
    assert!(
        shown[1].starts_with("r46 Provisioned submariner-broker-r46 "),
        "{shown:?}"
    );
    let line =
        "wait tenants.submariner.io/r46 -n axon-operator --for=condition=Ready --timeout=30s";
    admin.run(&program, line).succeeds();
    admin
        .run(
            &program,
            "delete tenants.submariner.io r46 -n axon-operator --timeout=50s",
        )
        .succeeds();
    assert_eq!(root.find(&namespace(&tenant.namespace)), None);
}

#[test]
fn kubectl_gets_and_explains_tenants_by_their_short_name() {
    let Some(cluster) = shared() else { return };
    let Some(program) = Kubectl::find() else {
        return;
    };
    let admin = cluster.admin();
    let tenant = Tenant::create_with(&cluster, "short", "--quota count/secrets=77");
    let shown = admin.run(&program, "get btenant short -n axon-operator -o name");
    assert_eq!(shown.succeeds(), "tenant.submariner.io/short\n");
    let explained = admin.run(&program, "explain btenant.spec.quota").succeeds();
    assert!(
        explained.contains("The number of objects that the tenant's namespace may have"),
        "{explained}"
    );
    let line = format!(
        "get resourcequota submariner-broker -n {} -o jsonpath={{.spec.hard.count/secrets}}",
        tenant.namespace
    );
    assert_eq!(admin.run(&program, &line).succeeds(), "77");
    admin.does("delete tenant short");
}

#[test]
fn r47_token_of_a_deleted_tenant_is_invalid_even_if_its_id_is_reused() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    let old = Tenant::create(&cluster, "r47");
    let brokers = at(&old.namespace, "brokers");
    assert_eq!(old.api(&cluster).code(&Method::GET, &brokers, None), 200);
    admin.does("delete tenant r47");
    await_refused(&old.api(&cluster), &brokers);
    let new = Tenant::create(&cluster, "r47");
    assert_ne!(new.file.token(), old.file.token());
    assert_eq!(new.api(&cluster).code(&Method::GET, &brokers, None), 200);
    assert_eq!(old.api(&cluster).code(&Method::GET, &brokers, None), 401);
    // And using the old file fails.
    old.admin.fails(
        &format!("deploy broker --broker-info-from {FILE}"),
        &["hint: the credential is not known to this server, or has expired"],
    );
}

#[test]
fn r48_tenant_can_be_deleted_in_any_phase() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    let (admin, root) = (cluster.admin(), cluster.root());
    // Failed.
    root.create(
        "/api/v1/namespaces",
        &crate::fixture::namespace("submariner-broker-r48-failed"),
    );
    root.create(TENANTS, &tenant("r48-failed"));
    await_phase(&root, "r48-failed", "Failed");
    admin.does("delete tenant r48-failed");
    assert!(
        root.find(&namespace("submariner-broker-r48-failed"))
            .is_some()
    );
    // Immediately, in any state of provisioning.
    for number in 0..5 {
        let id = format!("r48-{number}");
        root.create(TENANTS, &tenant(&id));
        admin.does(&format!("delete tenant {id}"));
        assert_eq!(
            root.find(&namespace(&format!("submariner-broker-{id}"))),
            None
        );
    }
    // While the operator is not running.
    let down = Tenant::create(&cluster, "r48-down");
    cluster.kill_operator();
    root.delete(&format!("{TENANTS}/r48-down"));
    let said = admin.subctl("delete tenant r48-down --timeout 1s");
    assert!(said.fails().contains("hint: is the operator running?"));
    assert!(root.find(&namespace(&down.namespace)).is_some());
    cluster.start_lone_operator();
    await_gone(&root, &format!("{TENANTS}/r48-down"));
    assert_eq!(root.find(&namespace(&down.namespace)), None);
}

#[test]
fn r50_get_shows_status_and_creation_in_every_format() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    let tenant = Tenant::create(&cluster, "r50");
    let table: Vec<String> = admin.does("get tenant r50").lines().map(squeezed).collect();
    assert_eq!(table[0], "NAME STATUS NAMESPACE CREATED");
    let object = tenant.object(&cluster.root());
    let created = object["metadata"]["creationTimestamp"].as_str().unwrap();
    assert_eq!(
        table[1],
        format!("r50 Provisioned submariner-broker-r50 {created}")
    );
    let json: Value = serde_json::from_str(&admin.does("get tenant r50 -o json")).unwrap();
    let yaml: Value = serde_saphyr::from_str(&admin.does("get tenant r50 -o yaml")).unwrap();
    assert_eq!(json, yaml);
    for field in ["name", "uid", "creationTimestamp"] {
        assert_eq!(
            json["metadata"][field], object["metadata"][field],
            "{field}"
        );
    }
    assert_eq!(json["status"], object["status"]);
    assert_eq!(
        admin.does("get tenant r50 -o name"),
        "tenant.submariner.io/r50\n"
    );
    let wide = admin.does("get tenants r50 -o wide");
    assert!(wide.lines().count() == 2 && wide.contains("r50"), "{wide}");
    admin.misuses("get tenant r50 -o xml", "xml");
    assert_eq!(
        admin.files(),
        Vec::<String>::new(),
        "no file without --generate_subm"
    );
}

#[test]
fn r51_file_is_written_for_provisioned_tenants_only() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    let tenant = Tenant::create(&cluster, "r51");
    for flag in ["--generate_subm", "--generate-subm"] {
        let there = admin.at(flag);
        there.does(&format!("get tenant r51 {flag}"));
        assert_eq!(there.reads(FILE), tenant.file, "{flag}");
        assert_eq!(mode(&there.path(FILE)), 0o600);
    }
    root.create(
        "/api/v1/namespaces",
        &crate::fixture::namespace("submariner-broker-r51-failed"),
    );
    root.create(TENANTS, &crate::fixture::tenant("r51-failed"));
    await_phase(&root, "r51-failed", "Failed");
    let there = admin.at("failed");
    there.fails(
        "get tenant r51-failed --generate_subm",
        &["tenant r51-failed is Failed, not Provisioned", "hint: "],
    );
    assert_eq!(there.files(), Vec::<String>::new());
}

#[test]
fn r51_token_rotation_invalidates_the_old_token() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    let tenant = Tenant::create(&cluster, "r51-rotate");
    admin.does("get tenant r51-rotate --generate_subm --rotate-token");
    let new = admin.reads(FILE);
    assert_ne!(new.token(), tenant.file.token());
    let brokers = at(&tenant.namespace, "brokers");
    assert_eq!(
        cluster.api(&new.token()).code(&Method::GET, &brokers, None),
        200
    );
    await_refused(&tenant.api(&cluster), &brokers);
}

#[test]
fn r52_list_shows_a_thousand_tenants() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    cluster.kill_operator();
    let (admin, root) = (cluster.admin(), cluster.root());
    let none = admin.subctl("list tenants");
    assert_eq!(none.code, Some(0), "{none}");
    assert!(
        !format!("{}{}", none.out, none.err).contains("Provisioned"),
        "{none}"
    );
    root.create(TENANTS, &tenant("t0"));
    let one: Vec<String> = admin.does("list tenants").lines().map(squeezed).collect();
    assert!(one.len() == 2 && one[1].starts_with("t0 "), "{one:?}");
    for number in 1..1_000 {
        root.create(TENANTS, &tenant(&format!("t{number}")));
    }
    let all = admin.does("list tenants");
    assert_eq!(all.lines().count(), 1_001);
    let names = admin.does("list tenants -o name");
    assert_eq!(names.lines().count(), 1_000);
    assert!(
        names
            .lines()
            .all(|line| line.starts_with("tenant.submariner.io/t"))
    );
    let json: Value = serde_json::from_str(&admin.does("list tenants -o json")).unwrap();
    assert_eq!(json["items"].as_array().unwrap().len(), 1_000);
}

#[test]
fn r52_list_shows_the_status_of_each_tenant() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    Tenant::create(&cluster, "r52");
    root.create(
        "/api/v1/namespaces",
        &crate::fixture::namespace("submariner-broker-r52-failed"),
    );
    root.create(TENANTS, &tenant("r52-failed"));
    await_phase(&root, "r52-failed", "Failed");
    let lines: Vec<String> = admin.does("list tenants").lines().map(squeezed).collect();
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("r52 Provisioned ")),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("r52-failed Failed ")),
        "{lines:?}"
    );
}

#[test]
fn r53_tenant_token_cannot_manage_tenants() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let tenant = Tenant::create(&cluster, "r53");
    let somebody = cluster.bearer(&tenant.file.token());
    for line in [
        "create tenant r53-other",
        "get tenant r53",
        "get tenant r53 --generate_subm",
        "list tenants",
        "delete tenant r53",
    ] {
        let said = somebody.subctl(line);
        assert_eq!(said.code, Some(1), "{said}");
        assert!(said.err.contains("tenants.submariner.io"), "{said}");
        assert!(
            said.err.contains("orbidden") || said.err.contains("cannot"),
            "{said}"
        );
        assert!(said.err.contains("hint: "), "{said}");
    }
    assert_eq!(root.find(&format!("{TENANTS}/r53-other")), None);
    assert_eq!(tenant.object(&root)["status"]["phase"], "Provisioned");
    let role = one(&tenant.namespace, "roles", "submariner-k8s-broker-admin");
    assert!(root.find(&role).is_some());
}
