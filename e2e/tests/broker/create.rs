//! `subctl create tenant`: R20 to R42.

use std::thread;

use http::Method;
use regex::Regex;
use serde_json::{Value, json};

use crate::api::runtime;
use crate::cluster::{Cluster, Operator, TENANTS, shared};
use crate::content::{at, condition, namespace, one, snapshot};
use crate::fixture::{Tenant, await_gone, await_phase, namespace as a_namespace, tenant};
use crate::subm::{Subm, mode};
use crate::user::FILE;
use crate::wait::until;

const ADMIN: &str = "submariner-k8s-broker-admin";

#[test]
fn r20_missing_id_is_generated_as_a_uuid() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    let [one, other] = [(); 2].map(|()| admin.does("create tenant"));
    assert_ne!(one, other);
    let uuid = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$";
    assert!(Regex::new(uuid).unwrap().is_match(&one), "{one:?}");
    let object = cluster.root().get(&format!("{TENANTS}/{}", one.trim_end()));
    assert_eq!(object["status"]["phase"], "Provisioned");
}

#[test]
fn r21_r26_r27_id_is_printed_before_the_wait_and_the_wait_times_out() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    cluster.kill_operator();
    let (admin, root) = (cluster.admin(), cluster.root());
    let mut waits = admin.start("create tenant r21 --timeout 50s");
    // The ID was printed, although nothing is provisioned.
    assert_eq!(waits.await_line("r21"), "r21\n");
    until("the object is there", || {
        root.find(&format!("{TENANTS}/r21"))
    });
    let killed = waits.kill();
    assert_eq!(killed.out, "r21\n", "{killed}");
    let said = admin.subctl("create tenant r26 --timeout 1s");
    assert_eq!((said.code, said.out.as_str()), (Some(1), "r26\n"), "{said}");
    assert!(said.err.contains("takes longer than 1s"), "{said}");
    assert!(said.err.contains("hint: "), "{said}");
    assert_eq!(
        admin.files(),
        Vec::<String>::new(),
        "no file of what is not there"
    );
    // A waiting command succeeds once the operator is back.
    let waits = admin.start("create tenant r27 --timeout 50s");
    until("the object is there", || {
        root.find(&format!("{TENANTS}/r27"))
    });
    cluster.start_lone_operator();
    assert_eq!(waits.finish().succeeds(), "r27\n");
    // So do the tenants that were created during the downtime (R27).
    for id in ["r21", "r26", "r27"] {
        await_phase(&root, id, "Provisioned");
    }
    assert_eq!(admin.reads(FILE).namespace(), Some("submariner-broker-r27"));
}

#[test]
fn r22_r24_id_is_the_object_name_and_the_namespace_suffix() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    for id in ["r22", "r22-with-more", "0"] {
        let tenant = Tenant::create(&cluster, id);
        let object = tenant.object(&root);
        assert_eq!(object["metadata"]["name"], id);
        assert_eq!(object["metadata"]["namespace"], "axon-operator");
        assert_eq!(object["status"]["namespace"], tenant.namespace);
        assert!(root.find(&namespace(&tenant.namespace)).is_some());
        assert_eq!(tenant.file.namespace(), Some(tenant.namespace.as_str()));
    }
}

#[test]
fn r23_existing_id_is_refused_without_changes() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    let tenant = Tenant::create(&cluster, "r23");
    let (object, before) = (tenant.object(&root), snapshot(&root, &tenant.namespace));
    admin.fails(
        "create tenant r23 --owner another",
        &["tenant r23 exists already", "hint: choose another ID"],
    );
    assert_eq!(tenant.object(&root), object);
    assert_eq!(snapshot(&root, &tenant.namespace), before);
    assert_eq!(admin.files(), Vec::<String>::new());
}

#[test]
fn r23_one_of_many_concurrent_creations_succeeds() {
    let Some(cluster) = shared() else { return };
    let ends: Vec<Option<i32>> = thread::scope(|scope| {
        let create = || cluster.admin().subctl("create tenant r23-race").code;
        let racers: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
        racers
            .into_iter()
            .map(|racer| racer.join().unwrap())
            .collect()
    });
    let won = ends.iter().filter(|code| **code == Some(0)).count();
    let lost = ends.iter().filter(|code| **code == Some(1)).count();
    assert_eq!((won, lost), (1, 3), "{ends:?}");
}

#[test]
fn r25_invalid_ids_are_refused_by_command_and_server() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    let (longest, long) = ("a".repeat(45), "a".repeat(46));
    for id in ["A", "a_b", "a.b", "a-", long.as_str(), "' '"] {
        let said = admin.subctl(&format!("create tenant {id}"));
        assert!(matches!(said.code, Some(1 | 2)), "{said}");
        assert!(said.err.contains("a tenant ID has"), "{said}");
        assert_eq!(said.out, "", "{said}");
    }
    // As kubectl would send it: an object's name may have dots, and be longer.
    for id in ["a.b", long.as_str()] {
        let answer = root.send(&Method::POST, TENANTS, Some(&tenant(id)));
        assert_eq!(answer.status, 422, "{id}: {}", answer.text());
    }
    let there = Tenant::create(&cluster, &longest);
    assert_eq!(there.namespace.len(), 63);
}

#[test]
fn r28_r32_phase_is_provisioning_then_provisioned() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let mut events = root.watch(&format!(
        "{TENANTS}?watch=true&fieldSelector=metadata.name=r28&timeoutSeconds=60"
    ));
    root.create(TENANTS, &tenant("r28"));
    let mut phases: Vec<Value> = Vec::new();
    while phases.last() != Some(&json!("Provisioned")) {
        let event = runtime().block_on(events.next()).unwrap().unwrap();
        let phase = event["object"]["status"]["phase"].clone();
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
    }
    assert_eq!(
        phases,
        [json!(null), json!("Provisioning"), json!("Provisioned")]
    );
    let made = root.get(&format!("{TENANTS}/r28"));
    let status = &made["status"];
    assert_eq!(status["namespace"], "submariner-broker-r28");
    assert_eq!(status["serviceAccount"], ADMIN);
    assert_eq!(status["tokenSecret"], "submariner-k8s-broker-admin-token");
    assert_eq!(status["observedGeneration"], made["metadata"]["generation"]);
    let instant = Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$").unwrap();
    assert!(
        instant.is_match(status["provisionedAt"].as_str().unwrap()),
        "{status}"
    );
    let ready = condition(&made, "Ready").unwrap();
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("True"), &json!("Provisioned"))
    );
}

#[test]
fn r29_r30_r31_tenant_namespace_has_exactly_its_objects_and_rules() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let tenant = Tenant::create(&cluster, "r30");
    let here = &tenant.namespace;
    let labels = root.get(&namespace(here))["metadata"]["labels"].clone();
    assert_eq!(labels["axon.submariner.io/tenant"], "r30");
    assert_eq!(labels["app.kubernetes.io/managed-by"], "axon-operator");
    let all = [
        "rolebindings/axon-admin",
        "rolebindings/submariner-k8s-broker-admin",
        "roles/axon-admin",
        "roles/submariner-k8s-broker-admin",
        "roles/submariner-k8s-broker-cluster",
        "secrets/submariner-k8s-broker-admin-token",
        "serviceaccounts/submariner-k8s-broker-admin",
    ];
    assert_eq!(crate::content::names(&root, here), all);
    let every = [
        "create", "delete", "get", "list", "patch", "update", "watch",
    ];
    let most = ["create", "delete", "get", "list", "update", "watch"];
    let admin = rights(&root.get(&one(here, "roles", ADMIN)));
    let mut expected: Vec<(String, Vec<&str>)> = vec![
        ("/namespaces/submariner-broker-r30".into(), vec!["get"]),
        ("/configmaps".into(), most.to_vec()),
        ("/secrets".into(), most.to_vec()),
        ("/serviceaccounts".into(), most.to_vec()),
        ("discovery.k8s.io/endpointslices".into(), every.to_vec()),
        (
            "discovery.k8s.io/endpointslices/restricted".into(),
            every.to_vec(),
        ),
        ("/resourcequotas".into(), vec!["get", "list"]),
        (
            "multicluster.x-k8s.io/serviceexports".into(),
            every.to_vec(),
        ),
        (
            "multicluster.x-k8s.io/serviceexports/status".into(),
            every.to_vec(),
        ),
        (
            "multicluster.x-k8s.io/serviceimports".into(),
            every.to_vec(),
        ),
        (
            "multicluster.x-k8s.io/serviceimports/status".into(),
            every.to_vec(),
        ),
        (
            "rbac.authorization.k8s.io/rolebindings".into(),
            vec!["create", "delete", "get", "list", "patch", "update"],
        ),
        (
            "rbac.authorization.k8s.io/roles".into(),
            vec!["create", "get", "list", "patch", "update"],
        ),
        ("submariner.io/brokers".into(), every.to_vec()),
        ("submariner.io/clusters".into(), every.to_vec()),
        ("submariner.io/endpoints".into(), every.to_vec()),
    ];
    expected.sort();
    assert_eq!(admin, owned(&expected));
    let cluster_role = rights(&root.get(&one(here, "roles", "submariner-k8s-broker-cluster")));
    for (what, verbs) in &cluster_role {
        let held = admin
            .iter()
            .find(|(held, _)| held == what)
            .map(|(_, verbs)| verbs);
        let held = held.unwrap_or_else(|| panic!("{what} is beyond the administrator"));
        assert!(
            verbs.iter().all(|verb| held.contains(verb)),
            "{what}: {verbs:?}"
        );
    }
    let binding = root.get(&one(here, "rolebindings", ADMIN));
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": ADMIN, "namespace": here}])
    );
}

/// Returns the permissions of a role: each resource with its verbs, sorted.
fn rights(role: &Value) -> Vec<(String, Vec<String>)> {
    let words = |value: &Value| -> Vec<String> {
        let words = value.as_array().into_iter().flatten();
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    let mut rights = std::collections::BTreeMap::<String, Vec<String>>::new();
    for rule in role["rules"].as_array().unwrap() {
        let named = words(&rule["resourceNames"]);
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                let what = match &named[..] {
                    [] => format!("{group}/{resource}"),
                    [name] => format!("{group}/{resource}/{name}"),
                    _ => panic!("{rule}"),
                };
                rights
                    .entry(what)
                    .or_default()
                    .extend(words(&rule["verbs"]));
            }
        }
    }
    for verbs in rights.values_mut() {
        verbs.sort();
        verbs.dedup();
    }
    rights.into_iter().collect()
}

fn owned(rights: &[(String, Vec<&str>)]) -> Vec<(String, Vec<String>)> {
    let owned = |verbs: &Vec<&str>| verbs.iter().map(|verb| (*verb).to_owned()).collect();
    rights
        .iter()
        .map(|(what, verbs)| (what.clone(), owned(verbs)))
        .collect()
}

#[test]
fn r30_rules_review_is_empty_outside_the_tenants_namespace() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r30-review");
    let api = tenant.api(&cluster);
    let review = |namespace: &str| {
        let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
                            "spec": {"namespace": namespace}});
        let done = api.create(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            &review,
        );
        let rules = done["status"]["resourceRules"].as_array().unwrap().clone();
        // Every user may ask for their permissions and identity.
        let own = |rule: &Value| !rule.to_string().contains("selfsubject");
        rules.into_iter().filter(own).collect::<Vec<_>>()
    };
    assert!(!review(&tenant.namespace).is_empty());
    for elsewhere in [
        "default",
        "kube-system",
        "axon-operator",
        "submariner-broker-r30",
    ] {
        assert_eq!(review(elsewhere), Vec::<Value>::new(), "{elsewhere}");
    }
}

#[test]
fn r31_tenant_token_can_bind_a_cluster_to_the_cluster_role() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r31");
    let (here, api) = (&tenant.namespace, tenant.api(&cluster));
    let secret = cluster
        .root()
        .get(&one(here, "secrets", "submariner-k8s-broker-admin-token"));
    assert!(secret["data"]["token"].is_string());
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cluster-east"}});
    api.create(&at(here, "serviceaccounts"), &account);
    let bind = |role: &str, name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
               "metadata": {"name": name},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
               "subjects": [{"kind": "ServiceAccount", "name": "cluster-east", "namespace": here}]})
    };
    let role = "submariner-k8s-broker-cluster";
    api.create(
        &at(here, "rolebindings"),
        &bind(role, "cluster-east-submariner-k8s-broker-cluster"),
    );
}

#[test]
fn r33_r34_r49_foreign_namespace_is_neither_adopted_nor_deleted_and_is_reported() {
    let Some(cluster) = shared() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    let theirs = root.create("/api/v1/namespaces", &a_namespace("submariner-broker-r33"));
    let said = admin.subctl("create tenant r33");
    assert_eq!((said.code, said.out.as_str()), (Some(1), "r33\n"), "{said}");
    assert!(
        said.err.contains("tenant r33 could not be provisioned: "),
        "{said}"
    );
    assert!(said.err.contains("submariner-broker-r33"), "{said}");
    assert!(said.err.contains("hint: "), "{said}");
    assert_eq!(admin.files(), Vec::<String>::new());
    let failed = root.get(&format!("{TENANTS}/r33"));
    assert_eq!(failed["status"]["phase"], "Failed");
    let ready = condition(&failed, "Ready").unwrap();
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("NamespaceNotOurs"))
    );
    let namespace = namespace("submariner-broker-r33");
    assert_eq!(
        root.get(&namespace)["metadata"]["labels"],
        theirs["metadata"]["labels"]
    );
    assert_eq!(snapshot(&root, "submariner-broker-r33").len(), 0);
    // Nor is it deleted with the tenant (R49).
    admin.does("delete tenant r33");
    assert_eq!(
        root.get(&namespace)["metadata"]["uid"],
        theirs["metadata"]["uid"]
    );
    assert_eq!(root.get(&namespace)["status"]["phase"], "Active");
    // Provisioning continues once the problem is solved.
    let said = admin.subctl("create tenant r33");
    assert_eq!(said.code, Some(1), "{said}");
    root.delete(&namespace);
    await_phase(&root, "r33", "Provisioned");
}

#[test]
fn r33_terminating_namespace_is_awaited() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let there = namespace("submariner-broker-r33-going");
    let theirs = root.create(
        "/api/v1/namespaces",
        &a_namespace("submariner-broker-r33-going"),
    );
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap",
                      "metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    let map = at("submariner-broker-r33-going", "configmaps");
    root.create(&map, &held);
    root.delete(&there);
    root.create(TENANTS, &tenant("r33-going"));
    let waits = until("it says that it waits", || {
        let tenant = root.get(&format!("{TENANTS}/r33-going"));
        let ready = condition(&tenant, "Ready")?.clone();
        (ready["reason"] == "NamespaceTerminating").then_some(tenant)
    });
    assert_ne!(waits["status"]["phase"], "Provisioned");
    root.merge(
        &format!("{map}/held"),
        &json!({"metadata": {"finalizers": null}}),
    );
    await_phase(&root, "r33-going", "Provisioned");
    assert_ne!(
        root.get(&there)["metadata"]["uid"],
        theirs["metadata"]["uid"]
    );
}

#[test]
fn r35_r36_r37_r38_r39_file_of_a_new_tenant_is_partial_private_and_valid() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    admin.does("create tenant r35");
    assert_eq!(admin.files(), [FILE]);
    let path = admin.path(FILE);
    assert_eq!(mode(&path), 0o600);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.ends_with('\n') && !text.contains(['+', '/']));
    assert_eq!(
        Subm::keys(&path),
        [
            "brokerURL",
            "ClientToken",
            "IPSecPSK",
            "ServiceDiscovery",
            "CustomDomains",
            "namespace"
        ]
    );
    let file = admin.reads(FILE);
    assert_eq!(file.namespace(), Some("submariner-broker-r35"));
    assert_eq!(file.token_namespace(), "submariner-broker-r35");
    assert_eq!(file.url(), cluster.url());
    assert_eq!(
        file.authority(),
        std::fs::read_to_string(cluster.authority()).unwrap()
    );
    assert_eq!(
        (
            &file.0["IPSecPSK"],
            &file.0["ServiceDiscovery"],
            &file.0["Components"]
        ),
        (&json!(null), &json!(false), &json!(null))
    );
    let annotations = &file.0["ClientToken"]["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/service-account.name"], ADMIN);
    // The user of the token.
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let who = cluster
        .api(&file.token())
        .create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review);
    assert_eq!(
        who["status"]["userInfo"]["username"],
        format!("system:serviceaccount:submariner-broker-r35:{ADMIN}")
    );
}

#[test]
fn r38_broker_url_flag_is_written_to_the_file() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    admin.does("create tenant r38 --broker-url https://broker.example.com:6443");
    assert_eq!(admin.reads(FILE).url(), "https://broker.example.com:6443");
}

#[test]
fn r40_file_name_can_be_unique_or_given() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    admin.does("create tenant r40 --unique-file");
    let files = admin.files();
    let name = r"^broker-info-r40-\d{4}-\d\d-\d\dT\d\d_\d\d_\d\d(Z|[+-]\d\d_\d\d)\.subm$";
    assert!(
        files.len() == 1 && Regex::new(name).unwrap().is_match(&files[0]),
        "{files:?}"
    );
    assert_eq!(
        admin.reads(&files[0]).namespace(),
        Some("submariner-broker-r40")
    );
    admin.does("create tenant r40-named --output-file mine.subm");
    assert_eq!(
        admin.reads("mine.subm").namespace(),
        Some("submariner-broker-r40-named")
    );
}

#[test]
fn r41_existing_file_is_backed_up() {
    let Some(cluster) = shared() else { return };
    let admin = cluster.admin();
    admin.does("create tenant r41-a");
    let first = std::fs::read(admin.path(FILE)).unwrap();
    let said = admin.subctl("create tenant r41-b");
    assert_eq!(said.code, Some(0), "{said}");
    let files = admin.files();
    let backup = r"^broker-info\.subm\.\d{4}-\d\d-\d\dT\d\d_\d\d_\d\d(Z|[+-]\d\d_\d\d)$";
    let [file, old] = &files[..] else {
        panic!("{files:?}")
    };
    assert_eq!(file, FILE);
    assert!(Regex::new(backup).unwrap().is_match(old), "{old}");
    assert!(said.err.contains(old), "{said}");
    assert_eq!(std::fs::read(admin.path(old)).unwrap(), first);
    assert_eq!(mode(&admin.path(old)), 0o600);
    assert_eq!(
        admin.reads(FILE).namespace(),
        Some("submariner-broker-r41-b")
    );
}

#[test]
fn additional_administrators_have_the_same_permissions() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create_with(
        &cluster,
        "admins",
        "--admin user:nobody --owner us --display-name 'Admins Inc.'",
    );
    let nobody = cluster.api("nobody");
    assert_eq!(
        nobody.list(&at(&tenant.namespace, "brokers")),
        Vec::<Value>::new()
    );
    assert_eq!(
        nobody.code(&Method::GET, &at("default", "secrets"), None),
        403
    );
    let spec = &tenant.object(&cluster.root())["spec"];
    assert_eq!(
        (&spec["owner"], &spec["displayName"]),
        (&json!("us"), &json!("Admins Inc."))
    );
    cluster.admin().does("delete tenant admins");
    await_gone(&cluster.root(), &namespace(&tenant.namespace));
    assert_eq!(
        nobody.code(&Method::GET, &at(&tenant.namespace, "brokers"), None),
        403
    );
}
