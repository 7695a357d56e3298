//! rollout.

use insula_e2e::two_tenants::TwoTenants;

/// No kubelet runs pods here, so a rollout starts and does not complete.
#[test]
fn rollout_can_be_paused_resumed_restarted_and_awaited() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create deployment web --image=nginx:1.25");
        tenant.shows("rollout history deployment/web", &["deployment.apps/web"]);
        tenant.prints("rollout pause deployment/web", "deployment.apps/web paused");
        tenant.prints("get deploy web -o jsonpath={.spec.paused}", "true");
        tenant.refuses(
            "rollout restart deployment/web",
            "can't restart paused deployment",
        );
        tenant.prints(
            "rollout resume deployment/web",
            "deployment.apps/web resumed",
        );
        tenant.prints("get deploy web -o jsonpath={.spec.paused}", "");
        tenant.prints(
            "rollout restart deployment/web",
            "deployment.apps/web restarted",
        );
        tenant.shows(
            "get deploy web -o yaml",
            &["kubectl.kubernetes.io/restartedAt:"],
        );
        let status = tenant.run("rollout status deployment/web --timeout=1s");
        assert!(status.out.starts_with("Waiting for deployment"), "{status}");
        assert!(
            status.err.contains("timed out waiting for the condition"),
            "{status}"
        );
        assert_eq!(status.code, Some(1), "{status}");
        tenant.prints("get deploy web -o jsonpath={.metadata.generation}", "4");
    });
}

/// The ReplicaSet that a deployment controller would create for a revision.
fn replica_set(uid: &str, revision: u32, image: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-{revision}
  labels: {{app: web}}
  annotations: {{deployment.kubernetes.io/revision: "{revision}", kubernetes.io/change-cause: image {image}}}
  ownerReferences: [{{apiVersion: apps/v1, kind: Deployment, name: web, uid: {uid}, controller: true}}]
spec:
  replicas: 0
  selector: {{matchLabels: {{app: web, pod-template-hash: h{revision}}}}}
  template:
    metadata: {{labels: {{app: web, pod-template-hash: h{revision}}}}}
    spec: {{containers: [{{name: nginx, image: "{image}"}}]}}
"#
    )
}

/// kubectl does these on its own, based on the ReplicaSets of a tenant's deployment controller.
#[test]
fn rollout_history_undo_and_status_work() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create deployment web --image=nginx:2");
        tenant.refuses("rollout undo deployment/web", "no rollout history found");
        let uid = tenant.get("get deploy web -o jsonpath={.metadata.uid}");
        for (revision, image) in [(1, "nginx:1"), (2, "nginx:2")] {
            let made = replica_set(&uid, revision, image);
            tenant.given(&made).get("create -f -");
        }
        tenant.get("annotate deployment web deployment.kubernetes.io/revision=2");
        tenant.shows(
            "rollout history deployment/web",
            &["REVISION CHANGE-CAUSE", "1 image nginx:1", "2 image nginx:2"],
        );
        tenant.shows("rollout history deployment/web --revision=1", &["Image: nginx:1"]);
        tenant.prints("rollout undo deployment/web --to-revision=1", "deployment.apps/web rolled back");
        tenant.prints("get deploy web -o jsonpath='{.spec.template.spec.containers[0].image}'", "nginx:1");
        tenant.refuses("rollout undo deployment/web --to-revision=9", "unable to find specified revision 9 in history");
        let waiting = tenant.start("rollout status deployment/web --timeout=20s");
        let generation = tenant.get("get deploy web -o jsonpath={.metadata.generation}");
        let told = format!(
            r#"{{"status":{{"observedGeneration":{generation},"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}}}}"#
        );
        tenant.get(&format!("patch deployment web --subresource=status -p '{told}'"));
        let said = waiting.finish().succeeds();
        assert!(said.ends_with("deployment \"web\" successfully rolled out\n"), "{said}");
        tenant.shows("get deploy", &["web 1/1 1 1"]);
    });
}

#[test]
fn other_workloads_can_be_restarted() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let set = |kind: &str, more: &str| {
            format!(
                "apiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: db}}\nspec:\n  {more}\n  \
                 selector: {{matchLabels: {{app: db}}}}\n  template:\n    metadata: {{labels: {{app: db}}}}\n    \
                 spec: {{containers: [{{name: c, image: x}}]}}\n"
            )
        };
        for (kind, more, name) in [
            ("StatefulSet", "serviceName: db", "statefulset.apps/db"),
            ("DaemonSet", "minReadySeconds: 1", "daemonset.apps/db"),
        ] {
            tenant.given(&set(kind, more)).get("create -f -");
            tenant.prints(&format!("rollout restart {name}"), &format!("{name} restarted"));
            let stamp = "{.spec.template.metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt}";
            let when = tenant.get(&format!("get {name} -o jsonpath='{stamp}'"));
            assert!(when.starts_with("20"), "{when}");
        }
    });
}
