//! wait, get --watch and events.

use insula_e2e::two_tenants::TwoTenants;

#[test]
fn wait_succeeds_or_times_out() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create configmap note --from-literal=state=new");
        tenant.prints(
            "wait --for=jsonpath='{.data.state}'=new cm/note --timeout=20s",
            "configmap/note condition met",
        );
        let waiting = tenant.start("wait --for=jsonpath='{.data.state}'=old cm/note --timeout=20s");
        tenant.get(r#"patch cm note -p '{"data":{"state":"old"}}'"#);
        assert_eq!(
            waiting.finish().succeeds(),
            "configmap/note condition met\n"
        );
        let waiting = tenant.start("wait --for=delete cm/note --timeout=20s");
        tenant.get("delete cm note");
        waiting.finish().succeeds();
        tenant.get("create deployment web --image=nginx");
        tenant.refuses(
            "wait --for=condition=Available deployment/web --timeout=1s",
            "timed out waiting for the condition on deployments/web",
        );
        let available = r#"{"status":{"conditions":[{"type":"Available","status":"True"}]}}"#;
        tenant.prints(
            &format!("patch deployment web --subresource=status -p '{available}'"),
            "deployment.apps/web patched",
        );
        tenant.prints(
            "wait --for=condition=Available deployment/web --timeout=20s",
            "deployment.apps/web condition met",
        );
        tenant.refuses(
            "wait --for=condition=Ready pod/none --timeout=1s",
            "pods \"none\" not found",
        );
    });
}

#[test]
fn every_form_of_wait_works() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create deployment web --image=nginx");
        tenant.get("create deployment api --image=nginx");
        // An existing field with any value.
        tenant.prints(
            "wait --for=jsonpath='{.spec.replicas}' deployment/web --timeout=20s",
            "deployment.apps/web condition met",
        );
        tenant.shows(
            "wait --for=jsonpath='{.spec.replicas}'=1 deployment --all --timeout=20s",
            &[
                "deployment.apps/api condition met",
                "deployment.apps/web condition met",
            ],
        );
        let waiting = tenant
            .start("wait --for=condition=Available=False deployment -l app=web --timeout=20s");
        let told = r#"{"status":{"conditions":[{"type":"Available","status":"False"}]}}"#;
        tenant.get(&format!(
            "patch deployment web --subresource=status -p '{told}'"
        ));
        assert_eq!(
            waiting.finish().succeeds(),
            "deployment.apps/web condition met\n"
        );
        let waiting = tenant.start("wait --for=delete deployment --all --timeout=20s");
        tenant.get("delete deployment web api");
        waiting.finish().succeeds();
        tenant.prints("wait --for=delete deployment/none --timeout=1s", "");
        tenant.refuses(
            "wait --for=nonsense deployment --all",
            "unrecognized condition",
        );
    });
}

/// Supported since kubectl 1.31.
#[test]
fn missing_objects_can_be_awaited() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        if tenant.minor() < 31 {
            return;
        }
        let waiting = tenant.start("wait --for=create configmap/later --timeout=20s");
        tenant.get("create configmap later");
        assert_eq!(
            waiting.finish().succeeds(),
            "configmap/later condition met\n"
        );
        tenant.refuses(
            "wait --for=create configmap/never --timeout=1s",
            "timed out waiting for the condition",
        );
    });
}

#[test]
fn watch_shows_events_of_its_own_tenant_only() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create configmap first");
        let mut watch = tenant.start("get configmaps --watch");
        watch.await_line("NAME");
        watch.await_line("first");
        let values = format!("--from-literal=only-{}=1", tenant.name());
        tenant.get(&format!("create configmap second {values}"));
        watch.await_line("second");
        tenant.get("delete configmap first");
        watch.await_line("first");
        let said = watch.kill();
        // One line per event, the header, and the default ConfigMap: nothing from the other tenant.
        assert_eq!(said.out.lines().count(), 5, "{said}");
        let ended = tenant.get("get configmaps --watch-only --request-timeout=1s -o name");
        assert_eq!(ended, "", "it ends when the time is over");
        let mut events = tenant.start("get cm --watch -o json --output-watch-events");
        let line = events.await_line("ADDED");
        assert!(
            line.contains(&format!("\"tenant\":\"{}\"", tenant.name())),
            "{line}"
        );
    });
}

#[test]
fn events_can_be_shown() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let said = tenant.run("events");
        assert!(
            said.err.contains("No events found in default namespace."),
            "{said}"
        );
        tenant.get("create configmap note");
        tenant
            .given(EVENT)
            .prints("create -f -", "event/note.1 created");
        tenant.shows(
            "events",
            &[
                "LAST SEEN TYPE REASON OBJECT MESSAGE",
                "Normal Written ConfigMap/note written by a user",
            ],
        );
        tenant.shows(
            "get events",
            &[
                "LAST SEEN TYPE REASON OBJECT MESSAGE",
                "Normal Written configmap/note written by a user",
            ],
        );
        tenant.shows("events --for configmap/note", &["written by a user"]);
        tenant.prints("get events --field-selector reason=Other -o name", "");
        tenant.shows(
            "get events.v1.events.k8s.io -o yaml",
            &["note: written by a user", "regarding:"],
        );
    });
}

const EVENT: &str = r#"
apiVersion: v1
kind: Event
metadata: {name: note.1, namespace: default}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: note, namespace: default}
reason: Written
message: written by a user
type: Normal
count: 1
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
source: {component: test}
"#;
