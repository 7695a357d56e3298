//! apply, diff, edit and replace.

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;

use crate::manifests::{APPLIED, POD, write_app};

/// Asserts the result that `kubectl apply` prints for each object.
#[track_caller]
fn applies(tenant: &Kubectl, line: &str, verdicts: [&str; 6]) {
    let said = tenant.get(line);
    let expected: Vec<String> = APPLIED
        .iter()
        .zip(verdicts)
        .map(|(object, verdict)| format!("{object} {verdict}"))
        .collect();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected, "{line}");
}

#[test]
fn directory_can_be_applied_reapplied_and_changed() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        write_app(tenant, "red", 3);
        applies(tenant, "apply -f app --dry-run=server", ["created (server dry run)"; 6]);
        tenant.prints("get all -o name", "service/kubernetes");
        applies(tenant, "apply -f app", ["created"; 6]);
        applies(tenant, "apply -f app", ["unchanged"; 6]);
        tenant.prints("diff -f app", "");
        write_app(tenant, "blue", 4);
        let (same, other) = ("unchanged", "configured");
        applies(tenant, "apply -f app", [same, other, same, other, same, same]);
        let owner = tenant.name();
        tenant.prints(
            "get cm web -o jsonpath='{.data.colour} {.data.owner}'",
            &format!("blue {owner}"),
        );
        tenant.prints(
            "get deploy web -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[0].image} {.metadata.generation}'",
            &format!("4 {owner}/web:1.0 2"),
        );
        tenant.shows("apply view-last-applied cm web", &["colour: blue", "name: web"]);
    });
    let seen = two_tenants.sees_both("/apis/apps/v1/tenants/all/deployments");
    assert_eq!(seen.len(), 2);
    two_tenants.sees_both("/apis/networking.k8s.io/v1/tenants/all/ingresses");
}

#[test]
fn diff_and_dry_run_change_nothing() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        write_app(tenant, "red", 3);
        tenant.get("apply -f app");
        write_app(tenant, "green", 5);
        let diff = tenant.run("diff -f app");
        assert_eq!(diff.code, Some(1), "{diff}");
        for line in [
            "-  replicas: 3",
            "+  replicas: 5",
            "-  colour: red",
            "+  colour: green",
        ] {
            assert!(diff.out.contains(line), "{diff}");
        }
        assert!(!diff.out.contains("StatefulSet"), "{diff}");
        tenant.prints("get cm web -o jsonpath={.data.colour}", "red");
        tenant.shows(
            "apply -f app --dry-run=server",
            &["deployment.apps/web configured (server dry run)"],
        );
        tenant.prints("get cm web -o jsonpath={.data.colour}", "red");
    });
}

#[test]
fn unknown_fields_are_refused_or_warned_about() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let wrong = POD.replace("image:", "imagge:");
        tenant.given(&wrong).refuses(
            "apply -f -",
            "strict decoding error: unknown field \"spec.containers[0].imagge\"",
        );
        let odd = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"odd\"},\"dat\":{}}";
        tenant.given(odd).refuses("create -f -", "unknown field \"dat\"");
        let warned = tenant.given(odd).run("apply --validate=warn -f -");
        assert!(warned.err.contains("Warning: unknown field \"dat\""), "{warned}");
        assert_eq!(warned.succeeds(), "configmap/odd created\n");
        tenant.refuses("get pod lonely", "pods \"lonely\" not found");
        tenant.given(&POD.replace("name: lonely", "name: Lonely_")).refuses(
            "apply -f -",
            "metadata.name: Invalid value: \"Lonely_\"",
        );
    });
}

#[test]
fn another_tenant_in_a_manifest_is_dropped_with_a_warning() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let file = |whose: &str| {
            let head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: whose\n";
            format!("{head}  tenant: {whose}\n")
        };
        let own = tenant.given(&file(tenant.name()));
        own.prints("apply -f -", "configmap/whose created");
        own.prints("apply -f -", "configmap/whose unchanged");
        for other in ["initech", "system"] {
            let said = tenant.given(&file(other)).run("apply -f -");
            let warning = format!(
                "Warning: metadata.tenant: dropped \"{other}\", since the object belongs to tenant \
                 \"{}\"",
                tenant.name()
            );
            assert!(
                said.code == Some(0) && said.err.contains(&warning),
                "{said}"
            );
        }
    });
}

#[test]
fn objects_can_be_edited_and_replaced() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.prints(
            "create configmap note --from-literal=text=first --from-literal=more=yes",
            "configmap/note created",
        );
        let editing = tenant.editing("sed -i s/first/second/");
        editing.prints("edit configmap note", "configmap/note edited");
        tenant.prints("get cm note -o jsonpath={.data.text}", "second");
        let patching = tenant.editing("sed -i s/second/other/");
        let patched = patching.get("edit configmap note --output-patch");
        assert!(
            patched.contains(r#"{"data":{"text":"other"}}"#),
            "{patched}"
        );
        let back = tenant.editing("sed -i s/other/second/");
        back.prints("edit configmap note", "configmap/note edited");
        let same = tenant.editing("true").run("edit configmap note");
        assert!(same.err.contains("no changes made"), "{same}");
        let text = tenant.get("get cm note -o yaml");
        let third = tenant.given(&text.replace("second", "third"));
        third.prints("replace -f -", "configmap/note replaced");
        // The same replacement again is about an outdated object.
        third.refuses("replace -f -", "the object has been modified");
        tenant.prints(
            "get cm note -o jsonpath='{.data}'",
            "{\"more\":\"yes\",\"text\":\"third\"}",
        );
        let old = tenant.get("get cm note -o jsonpath={.metadata.uid}");
        let forced = tenant.given(&text);
        forced.shows("replace --force -f -", &["configmap/note replaced"]);
        assert_ne!(tenant.get("get cm note -o jsonpath={.metadata.uid}"), old);
        tenant.prints("get cm note -o jsonpath={.data.text}", "second");
    });
    two_tenants.sees_both("/api/v1/tenants/all/configmaps");
}
