//! delete.

use insula_e2e::two_tenants::TwoTenants;

#[test]
fn objects_can_be_deleted_by_name_label_and_all() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        for name in ["a", "b", "c", "d"] {
            tenant.get(&format!("create configmap {name}"));
        }
        tenant.get("label cm b c group=x");
        tenant.refuses(
            "delete cm",
            "resource(s) were provided, but no name was specified",
        );
        tenant.shows("delete cm a", &["configmap \"a\" deleted"]);
        tenant.refuses("delete cm a", "configmaps \"a\" not found");
        tenant.prints("delete cm a --ignore-not-found", "");
        tenant.shows(
            "delete cm -l group=x",
            &["configmap \"b\" deleted", "configmap \"c\" deleted"],
        );
        tenant.prints("get cm -o name", "configmap/d");
        tenant.shows(
            "delete cm --all --dry-run=server",
            &["configmap \"d\" deleted"],
        );
        tenant.prints("get cm -o name", "configmap/d");
        tenant.shows("delete cm --all", &["configmap \"d\" deleted"]);
        tenant.prints("get cm -o name", "");
        tenant.get("create deployment web --image=nginx");
        tenant.shows(
            "delete deployment web --cascade=foreground",
            &["deployment.apps \"web\" deleted"],
        );
        tenant.get("run shell --image=busybox");
        tenant.shows("delete pod shell", &["pod \"shell\" deleted"]);
        tenant.refuses("get pod shell", "pods \"shell\" not found");
    });
}

#[test]
fn deleting_a_namespace_deletes_its_content() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let [one, other] = &two_tenants.tenants;
    two_tenants.both(|tenant| {
        tenant.get("create namespace team");
        tenant.get("create configmap note -n team");
        tenant.get("create deployment web --image=nginx -n team");
        tenant.refuses(
            "delete namespace default",
            "namespaces \"default\" is forbidden: this namespace may not be deleted",
        );
    });
    // kubectl waits until the namespace is gone.
    one.shows("delete namespace team", &["namespace \"team\" deleted"]);
    one.refuses("get namespace team", "namespaces \"team\" not found");
    one.prints("get deploy,cm -A -o name", "");
    one.refuses(
        "create configmap late -n team",
        "namespaces \"team\" not found",
    );
    // The other tenant's namespace of the same name is unchanged.
    other.prints(
        "get deploy,cm -n team -o name",
        "deployment.apps/web\nconfigmap/note",
    );
    other.prints("get ns team -o jsonpath={.status.phase}", "Active");
    // The namespace can be recreated and is empty.
    one.prints("create namespace team", "namespace/team created");
    one.prints("get deploy,cm -n team -o name", "");
    one.prints("get sa -n team -o name", "serviceaccount/default");
}

/// A ConfigMap with an owner reference.
fn owned(name: &str, owner: &str, uid: &str) -> String {
    let reference = format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "name": "{owner}", "uid": "{uid}",
            "blockOwnerDeletion": true}}"#
    );
    format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {{"name": "{name}", "ownerReferences": [{reference}]}}}}"#
    )
}

#[test]
fn cascade_modes_work() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        for cascade in ["background", "foreground", "orphan"] {
            tenant.get("create configmap owner");
            let uid = tenant.get("get cm owner -o jsonpath={.metadata.uid}");
            let create = |name: &str, owner: &str, uid: &str| {
                tenant
                    .given(&owned(name, owner, uid))
                    .get("create -f - -o jsonpath={.metadata.uid}")
            };
            let child = create("child", "owner", &uid);
            create("grandchild", "child", &child);
            // kubectl waits until the owner is gone.
            tenant.shows(
                &format!("delete cm owner --cascade={cascade}"),
                &["configmap \"owner\" deleted"],
            );
            if cascade == "orphan" {
                tenant.prints("get cm child -o jsonpath={.metadata.ownerReferences}", "");
                tenant.prints(
                    "get cm grandchild -o jsonpath={.metadata.ownerReferences[0].name}",
                    "child",
                );
                tenant.get("delete cm child");
            }
            if cascade == "foreground" {
                tenant.prints("get cm child grandchild --ignore-not-found -o name", "");
            }
            for name in ["child", "grandchild"] {
                tenant.get(&format!("wait cm/{name} --for=delete --timeout=30s"));
            }
        }
    });
}
