//! get in its common formats.

use insula_e2e::two_tenants::TwoTenants;
use serde_json::Value;

use crate::manifests::{POD, write_app};

#[test]
fn objects_are_shown_as_tables() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        write_app(tenant, "red", 3);
        tenant.get("apply -f app");
        tenant.shows(
            "get deployments",
            &["NAME READY UP-TO-DATE AVAILABLE AGE", "web 0/3 0 0"],
        );
        let image = format!("{}/web:1.0 app=web", tenant.name());
        tenant.shows(
            "get deploy -o wide",
            &["CONTAINERS IMAGES SELECTOR", &format!("web {image}")],
        );
        tenant.shows(
            "get all,cm,secret,ing --show-labels",
            &[
                "service/web ClusterIP 10.",
                "deployment.apps/web 0/3 0 0",
                "statefulset.apps/db 0/1",
                "configmap/web 2",
                "secret/web Opaque 1",
                "ingress.networking.k8s.io/web <none> web.example 80",
            ],
        );
        tenant.shows(
            "get svc -A",
            &[
                "NAMESPACE NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE",
                "default web ClusterIP",
            ],
        );
        tenant.shows(
            "get cm,sts --no-headers --show-kind",
            &["configmap/web 2", "statefulset.apps/db 0/1"],
        );
        tenant.shows(
            "get ns",
            &["default Active", "kube-public Active", "kube-system Active"],
        );
        tenant.prints("get pods", "");
        tenant.refuses("get cm nothing", "configmaps \"nothing\" not found");
        tenant.refuses(
            "get nonsense",
            "the server doesn't have a resource type \"nonsense\"",
        );
    });
}

#[test]
fn machine_readable_formats_work() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        write_app(tenant, "red", 3);
        tenant.get("apply -f app");
        let name = tenant.name();
        let json: Value = serde_json::from_str(&tenant.get("get deploy web -o json")).unwrap();
        assert_eq!(json["apiVersion"], "apps/v1");
        assert_eq!(json["metadata"]["tenant"], name);
        let link = format!("/apis/apps/v1/tenants/{name}/namespaces/default/deployments/web");
        assert_eq!(json["metadata"]["selfLink"], link.as_str());
        assert_eq!(
            json["spec"]["template"]["spec"]["dnsPolicy"],
            "ClusterFirst"
        );
        tenant.shows(
            "get cm web -o yaml",
            &["colour: red", "kind: ConfigMap", &format!("tenant: {name}")],
        );
        tenant.prints(
            "get svc,cm -o name",
            "service/kubernetes\nservice/web\nconfigmap/web",
        );
        tenant.prints(
            "get svc web -o jsonpath={.spec.ports[0].targetPort}",
            "8080",
        );
        tenant.prints("get cm -o jsonpath='{.items[*].data.owner}'", name);
        tenant.shows(
            "get deploy -o custom-columns=N:.metadata.name,R:.spec.replicas",
            &["N R", "web 3"],
        );
        tenant.prints("get cm web -o go-template={{.data.colour}}", "red");
        tenant.prints(
            "get deploy web --subresource=scale -o jsonpath={.spec.replicas}",
            "3",
        );
        let raw = tenant.get("get --raw /api/v1/namespaces/default/configmaps/web");
        let raw: Value = serde_json::from_str(&raw).unwrap();
        assert_eq!(raw["data"]["owner"], name);
    });
}

#[test]
fn selectors_filter() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.given(POD).prints("apply -f -", "pod/lonely created");
        tenant.get("run other --image=busybox --labels=app=other,tier=front");
        for (selector, found) in [
            ("app=lonely", "pod/lonely"),
            ("app!=lonely", "pod/other"),
            ("'tier in (back,front)'", "pod/lonely\npod/other"),
            ("'tier notin (back)'", "pod/other"),
            ("app,tier=back", "pod/lonely"),
            ("!app", ""),
        ] {
            tenant.prints(&format!("get pods -o name -l {selector}"), found);
        }
        for (selector, found) in [
            ("metadata.name=lonely", "pod/lonely"),
            ("metadata.name!=lonely", "pod/other"),
            (
                "status.phase=Pending,spec.restartPolicy=Always",
                "pod/lonely\npod/other",
            ),
            ("status.phase=Running", ""),
        ] {
            tenant.prints(
                &format!("get pods -o name --field-selector {selector}"),
                found,
            );
        }
        tenant.refuses(
            "get pods --field-selector spec.nonsense=1",
            "field label not supported: spec.nonsense",
        );
        tenant.prints(
            "get pods -A --sort-by=.metadata.name -o jsonpath='{.items[*].metadata.name}'",
            "lonely other",
        );
        // In pages of one item, as kubectl does with large lists.
        tenant.prints("get pods -o name --chunk-size=1", "pod/lonely\npod/other");
    });
    two_tenants.sees_both("/api/v1/tenants/all/pods?labelSelector=tier%3Dback");
}
