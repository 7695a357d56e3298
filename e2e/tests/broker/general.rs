//! General requirements: R78 to R81, R83 and R84.

use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Operator, TENANTS, lacks, shared};
use crate::content::{at, condition, names, namespace, one};
use crate::fixture::{Tenant, await_phase, tenant};
use crate::journal::readable_files;
use crate::user::FILE;
use crate::wait::until;

const ADMIN: &str = "submariner-k8s-broker-admin";

#[test]
fn r78_partial_or_invalid_file_cannot_join() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r78");
    let joining = cluster.workload("r78");
    let line = format!(
        "join {FILE} --clusterid east --kubeconfig '{}'",
        joining.kubeconfig()
    );
    tenant.admin.fails(&line, &["subctl deploy broker"]);
    let accounts = cluster
        .root()
        .names(&at(&tenant.namespace, "serviceaccounts"));
    assert!(
        !accounts.iter().any(|name| name.starts_with("cluster-")),
        "{accounts:?}"
    );
    for (name, text) in [
        ("garbage.subm", "}{"),
        ("empty.subm", ""),
        ("other.subm", "e30="),
    ] {
        std::fs::write(tenant.admin.path(name), text).unwrap();
        let line = format!(
            "join {name} --clusterid east --kubeconfig '{}'",
            joining.kubeconfig()
        );
        tenant.admin.fails(&line, &[name]);
    }
    let line = format!(
        "join nowhere.subm --clusterid east --kubeconfig '{}'",
        joining.kubeconfig()
    );
    tenant.admin.fails(&line, &["nowhere.subm"]);
}

#[test]
fn r79_deleted_or_changed_objects_are_restored() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let tenant = Tenant::create(&cluster, "r79");
    let here = &tenant.namespace;
    let whole = names(&root, here);
    for name in &whole {
        let (kind, name) = name.split_once('/').unwrap();
        let path = one(here, kind, name);
        let before = root.get(&path);
        root.delete(&path);
        let again = until(&format!("{path} comes back"), || {
            root.find(&path)
                .filter(|found| found["metadata"]["uid"] != before["metadata"]["uid"])
        });
        assert_eq!(again["rules"], before["rules"], "{path}");
        assert_eq!(again["roleRef"], before["roleRef"], "{path}");
    }
    // Rules that are extended or removed, and other subjects.
    let role = one(here, "roles", ADMIN);
    let binding = one(here, "rolebindings", ADMIN);
    let (rules, subjects) = (
        root.get(&role)["rules"].clone(),
        root.get(&binding)["subjects"].clone(),
    );
    for (path, field, wrong, right) in [
        (&role, "rules", json!([]), &rules),
        (
            &role,
            "rules",
            json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
            &rules,
        ),
        (&binding, "subjects", json!([]), &subjects),
        (
            &binding,
            "subjects",
            json!([{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]),
            &subjects,
        ),
    ] {
        root.merge(path, &json!({field: wrong}));
        until(&format!("{path} is put right"), || {
            (root.get(path)[field] == *right).then_some(())
        });
    }
    // Additions of others stay.
    root.merge(
        &role,
        &json!({"metadata": {"labels": {"example.com/mine": "yes"}}}),
    );
    // The namespace itself.
    let uid = root.get(&namespace(here))["metadata"]["uid"].clone();
    root.delete(&namespace(here));
    until("the namespace comes back", || {
        root.find(&namespace(here))
            .filter(|found| found["metadata"]["uid"] != uid)
    });
    until("all of it", || (names(&root, here) == whole).then_some(()));
    let again = await_phase(&root, "r79", "Provisioned");
    assert!(again["status"]["provisionedAt"].is_string());
    let admin = cluster.admin();
    until("its file is good", || {
        admin
            .subctl("get tenant r79 --generate_subm --output-file new.subm")
            .code
            .filter(|code| *code == 0)
    });
    let new = cluster.api(&admin.reads("new.subm").token());
    assert_eq!(new.code(&Method::GET, &at(here, "brokers"), None), 200);
}

#[test]
fn r80_operator_recovers_after_an_outage_with_expired_watches() {
    if lacks("server that starts again where it was, in this suite") {
        return;
    }
    let cluster = Cluster::with_axon(Operator::Apart).unwrap();
    let root = cluster.root();
    let before = Tenant::create_with(&cluster, "r80-before", "--quota count/configmaps=2000");
    // The server is restarted at the same address.
    cluster.kill_server();
    let root_again = cluster.root();
    drop(root);
    let root = root_again;
    // So many events that earlier watches have expired.
    let map = |number: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("m{number}"), "labels": {"app.kubernetes.io/managed-by": "axon-operator"}}})
    };
    for number in 0..1_500 {
        root.create(&at(&before.namespace, "configmaps"), &map(number));
    }
    root.delete(&one(&before.namespace, "roles", ADMIN));
    root.create(TENANTS, &tenant("r80-after"));
    await_phase(&root, "r80-after", "Provisioned");
    until("what drifted is put right", || {
        root.find(&one(&before.namespace, "roles", ADMIN))
    });
    await_phase(&root, "r80-before", "Provisioned");
}

#[test]
fn r81_no_secret_appears_in_output_logs_or_readable_files() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    let root = cluster.root();
    let offering = cluster.admin().verbose();
    offering.does("create tenant r81");
    offering.reads(FILE);
    offering.does(&format!(
        "deploy broker --broker-info-from {FILE} --globalnet"
    ));
    offering.reads(FILE);
    for line in [
        "get tenant r81 -o yaml",
        "list tenants -o json",
        "get tenant r81 --generate_subm --output-file again.subm",
        "show brokers",
        "deploy broker --broker-info-from again.subm --components nonsense",
        "create tenant r81",
    ] {
        offering.subctl(line);
    }
    offering.reads("again.subm");
    let joining = cluster.workload("r81");
    let kubeconfig = joining.kubeconfig();
    offering.does(&format!(
        "join {FILE} --clusterid east --kubeconfig '{kubeconfig}'"
    ));
    offering.does(&format!("recover-broker-info --kubeconfig '{kubeconfig}'"));
    let file = offering.reads(FILE);
    // With a refused token, and with an unreachable broker.
    let broken = file.with("brokerURL", json!("https://127.0.0.1:1"));
    broken.write(&offering.path("unreachable.subm"));
    offering.fails(
        &format!("join unreachable.subm --clusterid west --kubeconfig '{kubeconfig}'"),
        &["127.0.0.1:1", "hint: "],
    );
    offering.does("get tenant r81 --generate_subm --rotate-token");
    offering.reads(FILE);
    // What users without permission to read Secrets can see.
    let tenant = root.get(&format!("{TENANTS}/r81")).to_string();
    let events = root.get("/apis/events.k8s.io/v1/events").to_string();
    let token = file.token();
    let signature = token.rsplit('.').next().unwrap();
    assert!(!tenant.contains(signature) && !events.contains(signature));
    offering.does("delete tenant r81");
    cluster.kill_operator();
    assert!(cluster.journal.hidden() > 8);
    assert_eq!(cluster.journal.leaks(), Vec::<String>::new());
    // Nor is it in a file that others may read.
    let open = readable_files(cluster.folder());
    for path in open {
        let text = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&text);
        let store = path.components().any(|part| part.as_os_str() == "data");
        assert!(store || !text.contains(signature), "{}", path.display());
    }
}

#[test]
fn r83_two_tenants_may_use_the_same_cluster_ids_and_addresses() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let mut seen = Vec::new();
    for id in ["r83-a", "r83-b"] {
        let tenant = Tenant::create(&cluster, id);
        tenant.deploy_broker("--globalnet --enable-clusterset-ip");
        for member in ["east", "west"] {
            let cidrs = "--clustercidr 10.0.0.0/16 --servicecidr 100.0.0.0/16";
            tenant.join(&cluster.workload(member), member, cidrs);
        }
        let here = &tenant.namespace;
        let object = json!({"apiVersion": "submariner.io/v1", "kind": "Cluster", "metadata": {"name": "east"},
            "spec": {"cluster_id": "east", "cluster_cidr": ["10.0.0.0/16"],
                     "service_cidr": ["100.0.0.0/16"], "global_cidr": ["242.0.0.0/16"]}});
        tenant.api(&cluster).create(&at(here, "clusters"), &object);
        let map = root.get(&one(here, "configmaps", "submariner-globalnet-info"));
        let info: Value =
            serde_json::from_str(map["data"]["clusterinfo"].as_str().unwrap()).unwrap();
        seen.push(info);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(
        seen[0],
        json!([{"cluster_id": "east", "global_cidr": ["242.0.0.0/16"]},
               {"cluster_id": "west", "global_cidr": ["242.1.0.0/16"]}])
    );
}

#[test]
fn r84_operator_objects_grant_nothing_outside_the_tenants_namespace() {
    let Some(cluster) = shared() else { return };
    let root = cluster.root();
    let tenant = Tenant::create(&cluster, "r84");
    tenant.deploy_broker("");
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    for binding in root.list(&format!("{rbac}/clusterrolebindings")) {
        let text = binding["subjects"].to_string();
        assert!(!text.contains("submariner-broker-"), "{binding}");
    }
    let own = |binding: &Value| binding["metadata"]["namespace"] == tenant.namespace.as_str();
    for binding in root.list(&format!("{rbac}/rolebindings")) {
        let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
        let ours = subjects
            .iter()
            .any(|subject| subject["namespace"] == tenant.namespace.as_str());
        assert!(!ours || own(&binding), "{binding}");
        if own(&binding) {
            assert_eq!(binding["roleRef"]["kind"], "Role", "{binding}");
        }
    }
    let everything = root.get(&format!("{TENANTS}/r84"));
    assert_eq!(condition(&everything, "Ready").unwrap()["status"], "True");
}
