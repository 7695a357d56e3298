//! kubectl with etcd as the store: same behaviour, with keys where Kubernetes tools expect them.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;

use insula_e2e::insula::Insula;
use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;
use insula_store::etcd::{Etcd, Options};
use insula_store::{Key, Store};
use insula_testkit::etcd::EtcdServer;

#[tokio::test]
async fn two_tenants_work_on_two_servers_sharing_etcd() {
    // Each of them reports a skip.
    if Kubectl::find().is_none() {
        return;
    }
    let Some(etcd) = EtcdServer::start() else {
        return;
    };
    let arguments = ["--store", "etcd", "--etcd-servers", &etcd.endpoint()];
    let Some(two_tenants) = TwoTenants::start_with(&arguments) else {
        return;
    };
    two_tenants.both(work);
    two_tenants.sees_both("/api/v1/tenants/all/configmaps");
    keys(&etcd).await;
    // A second server with the same signing keys is indistinguishable to clients.
    let second = two_tenants.folder().join("second");
    copy(&two_tenants.folder().join("data/pki"), &second.join("pki"));
    let second = Insula::start(&second, &arguments);
    let [one, _] = &two_tenants.tenants;
    let there = format!("--server {}", second.url());
    one.prints(
        &format!("{there} get cm note -o jsonpath={{.data.of}}"),
        "acme",
    );
    let mut watch = one.start("get cm --watch -o name");
    // The initial event: from here on none can be missed.
    watch.await_line("configmap/note");
    one.prints(
        &format!("{there} create configmap late"),
        "configmap/late created",
    );
    watch.await_line("configmap/late");
}

fn work(tenant: &Kubectl) {
    let name = tenant.name();
    tenant.prints(
        &format!("create configmap note --from-literal=of={name}"),
        "configmap/note created",
    );
    tenant.get("create deployment web --image=nginx:1.25 --replicas=2");
    tenant.shows("get deploy -A", &["default web 0/2 0 0"]);
    tenant.prints(
        "scale deployment web --replicas=3",
        "deployment.apps/web scaled",
    );
    tenant.prints("get deploy web -o jsonpath={.spec.replicas}", "3");
    tenant.get("create namespace team");
    tenant.get("create configmap note -n team");
    tenant.shows("delete namespace team", &["namespace \"team\" deleted"]);
    tenant.prints("get cm -A -o name", "configmap/note");
    let file = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\n";
    let applying = tenant.given(file);
    applying.prints("apply -f -", "configmap/applied created");
    applying.prints("apply -f -", "configmap/applied unchanged");
    tenant.shows("delete cm applied", &["configmap \"applied\" deleted"]);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// As any etcd client sees them.
async fn keys(etcd: &EtcdServer) {
    let store = Etcd::connect(Options::new(vec![etcd.endpoint()]))
        .await
        .unwrap();
    for key in [
        "/registry/tenants/acme",
        "/registry/namespaces/acme/default",
        "/registry/configmaps/acme/default/note",
        "/registry/configmaps/globex/default/note",
        "/registry/apps/deployments/acme/default/web",
    ] {
        let entry = store.get(&Key::from(key.to_owned())).await.unwrap();
        assert!(entry.is_some(), "{key}");
    }
}
