//! `subctl deploy axon-cp`: R11 to R19.

use http::Method;
use insula_e2e::insula::Insula;
use serde_json::{Value, json};

use crate::cluster::{AXEL, AXON, Cluster, Operator, TENANTS, classic, is_kubernetes, shared};
use crate::content::{at, condition, one};
use crate::fixture::{Tenant, await_phase, tenant};
use crate::user::FILE;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/axon-operator/deployments/axon-operator";

/// All objects that `deploy axon-cp` creates.
const ALL: [&str; 13] = [
    "/api/v1/namespaces/axon-operator",
    "/api/v1/namespaces/axon-operator/serviceaccounts/axon-operator",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tenants.submariner.io",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/brokers.submariner.io",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.submariner.io",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/endpoints.submariner.io",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/serviceimports.multicluster.x-k8s.io",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/serviceexports.multicluster.x-k8s.io",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/axon-operator/roles/axon-operator",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/axon-operator/rolebindings/axon-operator",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles/axon-operator",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/axon-operator",
    "/apis/apps/v1/namespaces/axon-operator/deployments/axon-operator",
];

#[test]
fn r11_kubeconfig_context_selects_the_cluster() {
    let Some(cluster) = Cluster::bare(Operator::Apart) else {
        return;
    };
    let other_folder = tempfile::tempdir().unwrap();
    let other = Insula::start(&other_folder.path().join("data"), &[]);
    let admin = cluster.admin();
    // Two files are merged into one list of contexts; the first file's is current.
    let text = cluster.kubeconfig("system").replace(": c,", ": here,");
    let text = text
        .replace("cluster: c,", "cluster: here,")
        .replace("context: c\n", "context: here\n");
    std::fs::write(admin.path("here.kubeconfig"), text).unwrap();
    let context = |name: &str| format!("deploy axon-cp --no-wait --kubeconfig {name}");
    admin.does(&context(&other.kubeconfig().display().to_string()));
    assert_eq!(cluster.root().find(AXON), None);
    let said = admin.subctl(&format!("{} --context nowhere", context("here.kubeconfig")));
    assert!(said.fails().contains("nowhere"));
    assert_eq!(cluster.root().find(AXON), None);
    admin.does(&format!("{} --context here", context("here.kubeconfig")));
    assert_eq!(
        cluster.root().get(AXON)["metadata"]["name"],
        "axon-operator"
    );
    drop(other);
}

#[test]
fn r12_r13_r14_r17_r18_axon_deployment_is_idempotent_and_repairs_drift() {
    let Some(cluster) = Cluster::bare(Operator::Apart) else {
        return;
    };
    let (admin, root) = (cluster.admin(), cluster.root());
    let deploy = "deploy axon-cp --no-wait --operator-image registry.example/insula:1";
    assert_eq!(root.find(AXON), None);
    admin.does(deploy);
    let versions = || {
        ALL.map(|path| {
            let meta = root.get(path)["metadata"].clone();
            (path, meta["uid"].clone(), meta["resourceVersion"].clone())
        })
    };
    let before = versions();
    admin.does(deploy);
    assert_eq!(versions(), before, "nothing is written again");
    for path in ALL {
        if path == AXON || path.contains("customresourcedefinitions") {
            continue;
        }
        root.delete(path);
        admin.does(deploy);
        assert!(root.find(path).is_some(), "{path} is made again");
    }
    let definition = format!("{DEFINITIONS}/clusters.submariner.io");
    root.delete(&definition);
    admin.does(deploy);
    let made = root.get(&definition);
    assert_eq!(condition(&made, "Established").unwrap()["status"], "True");
    is_as_it_should_be(&root.get(DEPLOYMENT));
}

#[track_caller]
fn is_as_it_should_be(deployment: &Value) {
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(pod["serviceAccountName"], "axon-operator");
    assert_eq!(container["image"], "registry.example/insula:1");
    let arguments = container["args"].to_string();
    assert!(
        arguments.starts_with(r#"["operator","broker","#),
        "{arguments}"
    );
    assert!(arguments.contains("--leader-elect"), "{arguments}");
    let security = &container["securityContext"];
    assert_eq!(security["allowPrivilegeEscalation"], false);
    assert_eq!(security["readOnlyRootFilesystem"], true);
    assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
    assert!(container["livenessProbe"].is_object() && container["readinessProbe"].is_object());
}

#[test]
fn r13_r14_definitions_match_those_of_submariner() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    for (name, version, status) in [
        ("tenants.submariner.io", "v1alpha1", true),
        ("brokers.submariner.io", "v1alpha1", true),
        ("clusters.submariner.io", "v1", false),
        ("endpoints.submariner.io", "v1", false),
        ("serviceimports.multicluster.x-k8s.io", "v1alpha1", true),
        ("serviceexports.multicluster.x-k8s.io", "v1alpha1", true),
    ] {
        let definition = root.get(&format!("{DEFINITIONS}/{name}"));
        assert_eq!(definition["spec"]["scope"], "Namespaced", "{name}");
        let served = &definition["spec"]["versions"][0];
        assert_eq!(served["name"], version, "{name}");
        assert_eq!(
            served["subresources"]["status"].is_object(),
            status,
            "{name}"
        );
        let established = condition(&definition, "Established").unwrap();
        assert_eq!(established["status"], "True", "{name}");
    }
}

#[test]
fn r14_valid_samples_are_accepted_and_invalid_ones_refused() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r14");
    let api = tenant.api(&cluster);
    let root = cluster.root();
    let cluster_of = |id: &str| {
        json!({"apiVersion": "submariner.io/v1", "kind": "Cluster", "metadata": {"name": "x"},
               "spec": {"cluster_id": id, "cluster_cidr": ["10.0.0.0/16"],
                        "service_cidr": ["100.0.0.0/16"], "global_cidr": [], "color_codes": ["blue"]}})
    };
    let endpoint = json!({
        "apiVersion": "submariner.io/v1", "kind": "Endpoint", "metadata": {"name": "x"},
        "spec": {"cluster_id": "east", "cable_name": "submariner-cable-east-10-0-0-1", "hostname": "h",
                 "subnets": ["10.0.0.0/16"], "private_ip": "10.0.0.1", "public_ip": "1.2.3.4",
                 "nat_enabled": true, "backend": "libreswan", "backend_config": {"a": "b"},
                 "healthCheckIP": "10.0.0.2"}});
    let import = json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": {"name": "x"},
        "spec": {"type": "ClusterSetIP", "ips": ["243.0.0.1"],
                 "ports": [{"port": 80, "name": "http", "protocol": "TCP", "appProtocol": "http"}],
                 "sessionAffinity": "ClientIP",
                 "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}}}});
    let export = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
                        "metadata": {"name": "x"}});
    let here = |resource: &str| at(&tenant.namespace, resource);
    for (resource, sample) in [
        ("clusters", cluster_of("east")),
        ("endpoints", endpoint.clone()),
        ("serviceimports", import.clone()),
    ] {
        let made = api.create(&here(resource), &sample);
        assert_eq!(made["spec"], sample["spec"], "{resource}");
    }
    root.create(&here("serviceexports"), &export);
    let lacking = |sample: &Value, field: &str| {
        let mut less = sample.clone();
        less["metadata"]["name"] = json!("y");
        less["spec"].as_object_mut().unwrap().remove(field);
        less
    };
    let mut wrong = vec![
        ("clusters", cluster_of(&"a".repeat(64)), "spec.cluster_id"),
        ("clusters", cluster_of(""), "spec.cluster_id"),
    ];
    for field in ["cluster_id", "cluster_cidr", "service_cidr", "global_cidr"] {
        wrong.push(("clusters", lacking(&cluster_of("east"), field), field));
    }
    for field in [
        "cluster_id",
        "cable_name",
        "hostname",
        "subnets",
        "private_ip",
        "public_ip",
        "nat_enabled",
        "backend",
    ] {
        wrong.push(("endpoints", lacking(&endpoint, field), field));
    }
    for field in ["type", "ports"] {
        wrong.push(("serviceimports", lacking(&import, field), field));
    }
    let mut strange = import.clone();
    strange["spec"]["type"] = json!("Other");
    wrong.push(("serviceimports", strange, "spec.type"));
    for (resource, object, about) in wrong {
        let mut object = object;
        object["metadata"]["name"] = json!("y");
        let answer = api.send(&Method::POST, &here(resource), Some(&object));
        assert_eq!(answer.status, 422, "{object}: {}", answer.text());
        assert!(answer.text().contains(about), "{about}: {}", answer.text());
    }
}

#[test]
fn r15_operator_has_only_its_granted_permissions() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    let root = cluster.root();
    root.create(TENANTS, &tenant("r15"));
    await_phase(&root, "r15", "Provisioned");
    let operator = cluster.api(&cluster.operator_token());
    for (method, path) in [
        (Method::GET, "/api/v1/pods".to_owned()),
        (Method::GET, "/api/v1/nodes".to_owned()),
        (Method::GET, format!("{RBAC}/clusterroles")),
        (Method::POST, format!("{RBAC}/clusterrolebindings")),
        (
            Method::DELETE,
            format!("{DEFINITIONS}/tenants.submariner.io"),
        ),
        (
            Method::POST,
            "/apis/apps/v1/namespaces/default/deployments".to_owned(),
        ),
        (Method::DELETE, format!("{TENANTS}/r15")),
    ] {
        let body = json!({"metadata": {"name": "x"}});
        let body = (method == Method::POST).then_some(&body);
        assert_eq!(operator.code(&method, &path, body), 403, "{method} {path}");
    }
    let rules = root.get(&format!("{RBAC}/clusterroles/axon-operator"))["rules"].to_string();
    for wide in ["escalate", "bind\"", "impersonate", "\"*\""] {
        assert!(!rules.contains(wide), "{wide} in {rules}");
    }
}

#[test]
fn r16_axon_admin_manages_tenants_and_nothing_else() {
    let Some(cluster) = shared() else { return };
    let (axel, api) = (cluster.bearer(AXEL), cluster.api(AXEL));
    assert_eq!(axel.does("create tenant r16"), "r16\n");
    assert_eq!(axel.reads(FILE).namespace(), Some("submariner-broker-r16"));
    assert!(axel.does("list tenants").contains("r16"));
    let there = axel.at("again");
    there.does("get tenant r16 --generate_subm");
    assert_eq!(there.reads(FILE).token(), axel.reads(FILE).token());
    for (method, path) in [
        (Method::GET, at("submariner-broker-r16", "secrets")),
        (Method::GET, at("kube-system", "secrets")),
        (Method::GET, at("axon-operator", "secrets")),
        (Method::GET, "/api/v1/namespaces".to_owned()),
        (Method::GET, DEFINITIONS.to_owned()),
        (
            Method::DELETE,
            one(
                "submariner-broker-r16",
                "roles",
                "submariner-k8s-broker-admin",
            ),
        ),
        (Method::PATCH, format!("{TENANTS}/r16/status")),
    ] {
        let body = json!({});
        let body = (method == Method::PATCH).then_some(&body);
        assert_eq!(api.code(&method, &path, body), 403, "{method} {path}");
    }
    axel.fails("deploy axon-cp --no-wait", &["customresourcedefinitions"]);
    axel.does("delete tenant r16");
    assert_eq!(cluster.root().find(&format!("{TENANTS}/r16")), None);
}

#[test]
fn r17_dry_run_prints_manifests_in_apply_order() {
    let Some(cluster) = classic() else { return };
    // No server is contacted: there is not even a kubeconfig.
    let somebody = cluster.nobody();
    let printed = somebody.does("deploy axon-cp --dry-run -o yaml");
    assert_eq!(somebody.does("deploy axon-cp --dry-run -o yaml"), printed);
    let documents: Vec<Value> = printed
        .split("---\n")
        .filter(|text| !text.trim().is_empty())
        .map(|text| serde_saphyr::from_str(text).unwrap())
        .collect();
    let kinds: Vec<&str> = documents
        .iter()
        .map(|document| document["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[0], "Namespace");
    assert_eq!(kinds.last(), Some(&"Deployment"));
    let count = |kind: &str| kinds.iter().filter(|found| **found == kind).count();
    assert_eq!(count("CustomResourceDefinition"), 6);
    assert_eq!((count("ClusterRole"), count("ClusterRoleBinding")), (1, 1));
}

#[test]
fn r18_newer_definitions_of_other_programs_are_kept() {
    let Some(cluster) = Cluster::bare(Operator::Apart) else {
        return;
    };
    let (admin, root) = (cluster.admin(), cluster.root());
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
               {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let newer = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "serviceimports.multicluster.x-k8s.io",
                     "labels": {"multicluster.x-k8s.io/release-version": "v0.5.0"},
                     "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": "multicluster.x-k8s.io", "scope": "Namespaced",
                 "names": {"plural": "serviceimports", "singular": "serviceimport",
                           "kind": "ServiceImport", "listKind": "ServiceImportList"},
                 "versions": [version("v1alpha1", false), version("v1beta1", true)]}});
    root.create(DEFINITIONS, &newer);
    admin.does("deploy axon-cp --no-wait");
    let path = format!("{DEFINITIONS}/serviceimports.multicluster.x-k8s.io");
    let found = root.get(&path);
    assert_eq!(found["spec"]["versions"].as_array().unwrap().len(), 2);
    assert_eq!(found["metadata"]["generation"], 1, "it is unchanged");
}

#[test]
fn r19_missing_permissions_are_listed_before_anything_is_written() {
    let Some(cluster) = Cluster::bare(Operator::Apart) else {
        return;
    };
    let nobody = cluster.bearer("nobody");
    let said = nobody.fails(
        "deploy axon-cp --no-wait",
        &[
            "customresourcedefinitions",
            "namespaces",
            "clusterroles",
            "hint:",
        ],
    );
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(cluster.root().find(AXON), None);
    let tenants = format!("{DEFINITIONS}/tenants.submariner.io");
    assert_eq!(cluster.root().find(&tenants), None);
    // The caller has written nothing, by the audit log.
    if !is_kubernetes() {
        let audit = cluster.audit();
        let writes = audit
            .lines()
            .filter(|line| line.contains(r#""username":"nobody""#));
        let is_review =
            |line: &&str| line.contains("accessreviews") || line.contains("rulesreviews");
        let writes = writes.filter(|line| line.contains(r#""verb":"create""#));
        assert_eq!(writes.filter(|line| !is_review(line)).count(), 0);
    }
}
