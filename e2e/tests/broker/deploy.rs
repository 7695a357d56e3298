//! `subctl deploy broker`: R54 to R71 and R75 to R77.

use std::path::Path;
use std::thread;

use http::Method;
use insula_testkit::peer;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Operator, classic, is_kubernetes, shared};
use crate::content::{at, names, namespace, one, snapshot};
use crate::fixture::{Tenant, hand_over};
use crate::user::FILE;
use crate::wait::until;

const ADMIN: &str = "submariner-k8s-broker-admin";

#[test]
fn r54_file_overrides_the_kubeconfig_context() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r54");
    // A context of an unreachable server.
    let nowhere = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                   clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n\
                   users: [{name: u, user: {token: 'stranger'}}]\n\
                   contexts: [{name: c, context: {cluster: c, user: u, namespace: elsewhere}}]\n";
    std::fs::write(tenant.admin.path(".nowhere"), nowhere).unwrap();
    tenant.admin.does(&format!(
        "deploy broker --broker-info-from {FILE} --kubeconfig .nowhere"
    ));
    let file = tenant.admin.reads(FILE);
    assert_eq!(
        (file.url(), file.namespace()),
        (cluster.url().as_str(), Some("submariner-broker-r54"))
    );
    assert_eq!(file.token(), tenant.file.token());
    // And without a kubeconfig.
    tenant.deploy_broker("");
}

#[test]
fn r55_deprecated_flag_works_with_a_warning() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r55");
    let said = tenant
        .admin
        .subctl(&format!("deploy broker --ipsec-psk-from {FILE}"));
    assert_eq!(said.code, Some(0), "{said}");
    assert!(
        said.err.contains("--ipsec-psk-from") && said.err.contains("--broker-info-from"),
        "{said}"
    );
    let first = tenant.admin.reads(FILE);
    // Both flags are aliases: they may have the same value, but not different ones.
    let both = format!("deploy broker --ipsec-psk-from {FILE} --broker-info-from {FILE}");
    tenant.admin.does(&both);
    assert_eq!(tenant.admin.reads(FILE).psk(), first.psk());
    let said = tenant.admin.subctl(&format!(
        "deploy broker --ipsec-psk-from other --broker-info-from {FILE}"
    ));
    assert!(matches!(said.code, Some(1 | 2)), "{said}");
    assert!(said.err.contains("--ipsec-psk-from"), "{said}");
}

#[test]
fn r56_namespace_is_from_the_file_then_the_flag_then_the_default() {
    let Some(cluster) = classic() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    admin.does("deploy broker -n r56-first");
    let file = admin.reads(FILE);
    file.write(&admin.path("with.subm"));
    file.without(&["namespace", "ClientToken"])
        .write(&admin.path("without.subm"));
    for (line, expected, warns) in [
        (
            "deploy broker --broker-info-from with.subm -n r56-flag",
            "r56-first",
            true,
        ),
        (
            "deploy broker --broker-info-from with.subm -n r56-first",
            "r56-first",
            false,
        ),
        (
            "deploy broker --broker-info-from with.subm",
            "r56-first",
            false,
        ),
        (
            "deploy broker --broker-info-from without.subm -n r56-flag",
            "r56-flag",
            false,
        ),
        (
            "deploy broker --broker-info-from without.subm",
            "submariner-k8s-broker",
            false,
        ),
    ] {
        let said = admin.subctl(line);
        assert_eq!(said.code, Some(0), "{said}");
        assert_eq!(admin.reads(FILE).namespace(), Some(expected), "{line}");
        let both = said.err.contains("r56-first") && said.err.contains("r56-flag");
        assert_eq!(both, warns, "a warning names both: {said}");
        if warns {
            assert_eq!(root.find(&namespace("r56-flag")), None);
        }
    }
    let torn = file.with("namespace", json!("r56-other"));
    torn.write(&admin.path("torn.subm"));
    admin.fails(
        "deploy broker --broker-info-from torn.subm",
        &["inconsistent", "r56-other", "r56-first"],
    );
    assert_eq!(root.find(&namespace("r56-other")), None);
}

#[test]
fn r57_context_provides_what_the_file_lacks() {
    let Some(cluster) = classic() else { return };
    let (admin, nobody) = (cluster.admin(), cluster.nobody());
    admin.does("deploy broker -n r57");
    let file = admin.reads(FILE);
    // Neither: everything but the key comes from the context.
    let neither = file
        .without(&["ClientToken", "namespace"])
        .with("brokerURL", json!(""));
    neither.write(&admin.path("neither.subm"));
    admin.does("deploy broker --broker-info-from neither.subm -n r57");
    assert_eq!(admin.reads(FILE).psk(), file.psk());
    // A URL but no user: the context's user, at the file's URL, if that is the same cluster.
    let url = file.without(&["ClientToken"]);
    url.write(&admin.path("url.subm"));
    admin.does("deploy broker --broker-info-from url.subm");
    assert_eq!(admin.reads(FILE).namespace(), Some("r57"));
    // Without a context there is no user.
    url.write(&nobody.path("url.subm"));
    let said = nobody.subctl("deploy broker --broker-info-from url.subm");
    assert_eq!(said.code, Some(1), "{said}");
    // A token of one cluster is not sent to another one of the context.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = insula_e2e::insula::Insula::start(&elsewhere.path().join("data"), &[]);
    let token_only = file.with("brokerURL", json!(""));
    token_only.write(&admin.path("token.subm"));
    let said = admin.subctl(&format!(
        "deploy broker --broker-info-from token.subm --kubeconfig '{}'",
        other.kubeconfig().display()
    ));
    assert_eq!(said.code, Some(1), "{said}");
    assert!(said.err.contains("hint: "), "{said}");
}

#[test]
fn r58_tenant_does_not_create_its_namespace() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "r58"), cluster.root());
    let before = root.get(&namespace(&tenant.namespace));
    tenant.deploy_broker("");
    assert_eq!(root.get(&namespace(&tenant.namespace)), before);
    // A deleted namespace is reported.
    cluster.admin().does("delete tenant r58");
    let said = tenant
        .admin
        .subctl(&format!("deploy broker --broker-info-from {FILE}"));
    assert_eq!(said.code, Some(1), "{said}");
    assert_eq!(root.find(&namespace(&tenant.namespace)), None);
}

#[test]
fn r59_r62_r66_drift_of_a_classic_broker_is_repaired() {
    let Some(cluster) = classic() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    admin.does("deploy broker -n r59");
    let parts = [
        ("serviceaccounts", ADMIN),
        ("roles", ADMIN),
        ("rolebindings", ADMIN),
        ("roles", "submariner-k8s-broker-cluster"),
        ("serviceaccounts", "submariner-k8s-broker-client"),
        (
            "rolebindings",
            "submariner-k8s-broker-client-submariner-k8s-broker-cluster",
        ),
        ("brokers", "submariner-broker"),
        ("configmaps", "submariner-globalnet-info"),
        ("configmaps", "submariner-clustersetip-info"),
    ];
    let before = snapshot(&root, "r59");
    admin.does("deploy broker -n r59");
    assert_eq!(
        snapshot(&root, "r59"),
        before,
        "a second time changes nothing"
    );
    for (kind, name) in parts {
        root.delete(&one("r59", kind, name));
    }
    admin.does("deploy broker -n r59");
    for (kind, name) in parts {
        assert!(
            root.find(&one("r59", kind, name)).is_some(),
            "{kind}/{name}"
        );
    }
    // Removed rules, and a binding to another role.
    let role = one("r59", "roles", ADMIN);
    let rules = root.get(&role)["rules"].clone();
    root.merge(&role, &json!({"rules": []}));
    let binding = one("r59", "rolebindings", ADMIN);
    let mut other = root.get(&binding);
    root.delete(&binding);
    other["roleRef"]["name"] = json!("submariner-k8s-broker-cluster");
    other["metadata"] = json!({"name": ADMIN});
    root.create(&at("r59", "rolebindings"), &other);
    admin.does("deploy broker -n r59");
    assert_eq!(root.get(&role)["rules"], rules);
    assert_eq!(root.get(&binding)["roleRef"]["name"], ADMIN);
}

#[test]
fn r60_role_that_cannot_be_updated_is_reported_with_its_missing_rules() {
    // Without an operator, which would repair it.
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    let (tenant, root) = (Tenant::create(&cluster, "r60"), cluster.root());
    cluster.kill_operator();
    let role = one(&tenant.namespace, "roles", ADMIN);
    let whole = root.get(&role);
    let mut less = whole.clone();
    let rules = less["rules"].as_array_mut().unwrap();
    rules.retain(|rule| !rule["resources"].to_string().contains("serviceimports"));
    root.replace(&role, &less);
    let line = format!("deploy broker --broker-info-from {FILE}");
    let said = tenant.admin.fails(&line, &["serviceimports", "hint: "]);
    assert!(said.contains("multicluster.x-k8s.io"), "{said}");
    assert!(
        tenant.admin.reads(FILE).psk().is_none(),
        "the file is as it was"
    );
    // A cluster administrator repairs it.
    let admin = cluster.admin();
    hand_over(&tenant.admin, &admin);
    admin.does(&format!("deploy broker -n {}", tenant.namespace));
    assert!(
        root.get(&role)["rules"]
            .to_string()
            .contains("serviceimports")
    );
}

#[test]
fn r61_axon_mode_has_the_cluster_role_but_no_legacy_account() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "r61"), cluster.root());
    tenant.deploy_broker("");
    let here = &tenant.namespace;
    assert!(
        root.find(&one(here, "roles", "submariner-k8s-broker-cluster"))
            .is_some()
    );
    let found = names(&root, here);
    assert!(
        !found.iter().any(|name| name.contains("broker-client")),
        "{found:?}"
    );
    // Axon mode is detected by discovery, so it applies to cluster administrators too.
    cluster.admin().does("deploy broker -n r61-by-admin");
    let found = names(&root, "r61-by-admin");
    assert!(
        !found.iter().any(|name| name.contains("broker-client")),
        "{found:?}"
    );
    assert!(found.contains(&"roles/submariner-k8s-broker-cluster".to_owned()));
}

#[test]
fn r63_concurrent_deployments_wait_for_the_token() {
    let Some(cluster) = classic() else { return };
    let root = cluster.root();
    // Each finds a new namespace, and a token that is not issued yet.
    let files: Vec<_> = thread::scope(|scope| {
        let deploy = || {
            let admin = cluster.admin();
            admin.does("deploy broker -n r63");
            admin.reads(FILE)
        };
        let all: Vec<_> = (0..3).map(|_| scope.spawn(deploy)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let brokers = at("r63", "brokers");
    for file in files {
        assert_eq!(file.token_namespace(), "r63");
        assert_eq!(
            cluster
                .api(&file.token())
                .code(&Method::GET, &brokers, None),
            200
        );
    }
    for secret in root.list(&at("r63", "secrets")) {
        assert_eq!(secret["type"], "kubernetes.io/service-account-token");
        assert!(
            secret["data"]["token"].is_string(),
            "{}",
            secret["metadata"]
        );
    }
}

#[test]
fn r64_deploy_broker_installs_broker_kinds_and_no_operator() {
    let Some(cluster) = classic() else { return };
    let (admin, root) = (cluster.admin(), cluster.root());
    admin.does("deploy broker -n r64");
    assert_eq!(
        root.names("/apis/apps/v1/deployments"),
        Vec::<String>::new()
    );
    assert_eq!(root.find(&namespace("submariner-operator")), None);
    let definitions = root.names("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    assert_eq!(
        definitions,
        [
            "brokers.submariner.io",
            "clusters.submariner.io",
            "endpoints.submariner.io",
            "serviceexports.multicluster.x-k8s.io",
            "serviceimports.multicluster.x-k8s.io",
        ]
    );
}

#[test]
fn r65_missing_kinds_are_installed_for_an_administrator_and_reported_to_a_tenant() {
    let Some(cluster) = Cluster::with_axon(Operator::Apart) else {
        return;
    };
    let (tenant, root) = (Tenant::create(&cluster, "r65"), cluster.root());
    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/endpoints.submariner.io";
    root.delete(definition);
    until("it is served no more", || {
        let path = at(&tenant.namespace, "endpoints");
        root.find(&path).is_none().then_some(())
    });
    tenant.admin.fails(
        &format!("deploy broker --broker-info-from {FILE}"),
        &[
            "endpoints",
            "hint: ask the offering admin",
            "subctl deploy axon-cp",
        ],
    );
    cluster
        .admin()
        .does("deploy axon-cp --without-deployment --no-wait");
    tenant.deploy_broker("");
}

#[test]
fn r66_broker_object_is_replaced_by_the_requested_settings() {
    let Some(cluster) = shared() else { return };
    let (tenant, root) = (Tenant::create(&cluster, "r66"), cluster.root());
    let path = one(&tenant.namespace, "brokers", "submariner-broker");
    tenant.deploy_broker("--components connectivity --custom-domains a.example");
    let first = root.get(&path)["spec"].clone();
    assert_eq!(first["components"], json!(["connectivity"]));
    assert_eq!(first["defaultCustomDomains"], json!(["a.example"]));
    tenant.deploy_broker("--components service-discovery");
    let second = root.get(&path)["spec"].clone();
    assert_eq!(second["components"], json!(["service-discovery"]));
    assert_eq!(second.get("defaultCustomDomains"), None);
    assert_eq!(
        root.names(&at(&tenant.namespace, "brokers")),
        ["submariner-broker"]
    );
}

#[test]
fn r67_r69_key_is_kept_and_the_old_file_backed_up() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r67");
    let partial = std::fs::read(tenant.admin.path(FILE)).unwrap();
    let first = tenant.deploy_broker("");
    let key = first.psk().unwrap();
    assert_eq!(key.len(), 48);
    let backups: Vec<String> = tenant
        .admin
        .files()
        .into_iter()
        .filter(|name| name != FILE)
        .collect();
    let [backup] = &backups[..] else {
        panic!("{backups:?}")
    };
    assert_eq!(std::fs::read(tenant.admin.path(backup)).unwrap(), partial);
    // The input is also the output: its key is kept.
    let second = tenant.deploy_broker("--components connectivity");
    assert_eq!(second.psk(), Some(key.clone()));
    assert_eq!(tenant.admin.files().len(), 3);
    // By default the existing file of the same broker is used, with a warning.
    let admin = cluster.admin();
    let elsewhere = Tenant::create(&cluster, "r67-other");
    let other = elsewhere.deploy_broker("");
    assert_ne!(
        other.psk(),
        Some(key.clone()),
        "every broker has a key of its own"
    );
    hand_over(&tenant.admin, &admin);
    let said = admin.subctl(&format!("deploy broker -n {}", tenant.namespace));
    assert_eq!(said.code, Some(0), "{said}");
    assert_eq!(admin.reads(FILE).psk(), Some(key.clone()));
    assert!(said.err.to_lowercase().contains("psk"), "{said}");
    // But not that of another broker.
    hand_over(&tenant.admin, &admin);
    admin.does(&format!("deploy broker -n {}", elsewhere.namespace));
    assert_ne!(admin.reads(FILE).psk(), Some(key));
}

#[test]
fn r69_generated_keys_are_random() {
    let Some(cluster) = classic() else { return };
    let mut seen = Vec::new();
    for number in 0..4 {
        let admin = cluster.admin();
        admin.does(&format!("deploy broker -n r69-{number}"));
        let key = admin.reads(FILE).psk().unwrap();
        let different = key.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(
            key.len() == 48 && different > 24,
            "{different} different bytes"
        );
        assert!(!seen.contains(&key));
        seen.push(key);
    }
}

#[test]
fn r68_r70_r71_file_has_url_namespace_and_token() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r70");
    let file = tenant.deploy_broker("");
    assert_eq!(file.url(), cluster.url());
    assert_eq!(file.namespace(), Some("submariner-broker-r70"));
    assert_eq!(file.token(), tenant.file.token());
    assert_eq!(
        file.0["ClientToken"]["metadata"]["annotations"]["kubernetes.io/service-account.name"],
        ADMIN
    );
    // The written URL may differ; the contacted one does not.
    let line = format!(
        "deploy broker --broker-info-from {FILE} --broker-url https://broker.example.com:6443"
    );
    tenant.admin.does(&line);
    assert_eq!(
        tenant.admin.reads(FILE).url(),
        "https://broker.example.com:6443"
    );
}

#[test]
fn r75_tenant_writes_in_its_namespace_only_and_reads_no_definitions() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r75");
    tenant.deploy_broker("--globalnet --enable-clusterset-ip");
    tenant.join(&cluster.workload("r75"), "east", "");
    if is_kubernetes() {
        return;
    }
    let user = format!("system:serviceaccount:{}:{ADMIN}", tenant.namespace);
    let audit = until("the last of it is written down", || {
        let audit = cluster.audit();
        audit.contains("cluster-east").then_some(audit)
    });
    let events = audit
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let own: Vec<Value> = events
        .filter(|event| event["user"]["username"] == user.as_str())
        .collect();
    assert!(own.len() > 10, "{own:?}");
    for event in own {
        let target = &event["objectRef"];
        let resource = target["resource"].as_str().unwrap_or("");
        assert_ne!(resource, "customresourcedefinitions", "{event}");
        let verb = event["verb"].as_str().unwrap();
        let reads = matches!(verb, "get" | "list" | "watch");
        // Every user may ask for their permissions.
        let asks = resource.starts_with("selfsubject");
        let inside = target["namespace"] == tenant.namespace.as_str();
        assert!(reads || asks || inside, "{event}");
        assert!(event["responseStatus"]["code"] != 403, "{event}");
    }
}

#[test]
fn r76_killed_deployment_can_be_repeated_without_losing_the_key() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r76");
    let key = tenant.deploy_broker("").psk();
    assert!(key.is_some());
    let line = format!("deploy broker --broker-info-from {FILE} --globalnet");
    for milliseconds in (0..300).step_by(25) {
        let running = tenant.admin.start(&line);
        thread::sleep(std::time::Duration::from_millis(milliseconds));
        drop(running);
        // Whatever was done: the file is complete, and has the key.
        assert_eq!(
            tenant.admin.reads(FILE).psk(),
            key,
            "after {milliseconds} ms"
        );
    }
    let file = tenant.deploy_broker("--globalnet");
    assert_eq!(file.psk(), key);
    let strays: Vec<String> = tenant
        .admin
        .files()
        .into_iter()
        .filter(|name| !name.starts_with(FILE))
        .collect();
    assert_eq!(strays, Vec::<String>::new());
}

#[test]
fn r77_file_is_complete_and_readable_by_python() {
    let Some(cluster) = shared() else { return };
    let tenant = Tenant::create(&cluster, "r77");
    let file = tenant.deploy_broker("--custom-domains a.example");
    for field in [
        "brokerURL",
        "ClientToken",
        "IPSecPSK",
        "ServiceDiscovery",
        "Components",
        "CustomDomains",
        "namespace",
    ] {
        assert!(!file.0[field].is_null(), "{field}");
    }
    let python = Path::new("python3");
    if std::process::Command::new(python)
        .arg("--version")
        .output()
        .is_err()
    {
        peer::skipped("there is no python3");
        return;
    }
    let script = "import base64, json\n\
        f = json.loads(base64.urlsafe_b64decode(open(\"broker-info.subm\").read()))\n\
        t = f[\"ClientToken\"][\"data\"]\n\
        print(f[\"brokerURL\"], f[\"namespace\"], base64.b64decode(t[\"namespace\"]).decode(),\n\
              len(base64.b64decode(f[\"IPSecPSK\"][\"data\"][\"psk\"])), \",\".join(f[\"Components\"]), f[\"ServiceDiscovery\"])\n";
    let printed = tenant
        .admin
        .run(python, &format!("-c '{script}'"))
        .succeeds();
    let expected = format!(
        "{} submariner-broker-r77 submariner-broker-r77 48 connectivity,service-discovery True\n",
        cluster.url()
    );
    assert_eq!(printed, expected);
}
