//! patch, label, annotate, scale and set.

use insula_e2e::two_tenants::TwoTenants;

#[test]
fn all_three_patch_types_work() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create configmap note --from-literal=a=1");
        let patch = |kind: &str, patch: &str| {
            tenant.prints(
                &format!("patch configmap note --type={kind} -p '{patch}'"),
                "configmap/note patched",
            );
        };
        patch("merge", r#"{"data":{"b":"2","c":"3"}}"#);
        patch("json", r#"[{"op":"replace","path":"/data/a","value":"one"},{"op":"remove","path":"/data/b"}]"#);
        patch("strategic", r#"{"data":{"c":null,"d":"4"}}"#);
        tenant.prints("get cm note -o jsonpath={.data}", r#"{"a":"one","d":"4"}"#);
        tenant.prints(
            r#"patch configmap note -p '{"data":{"d":"4"}}'"#,
            "configmap/note patched (no change)",
        );
        tenant.refuses(
            r#"patch configmap note --type=json -p '[{"op":"test","path":"/data/a","value":"two"}]'"#,
            "",
        );
        tenant.get("create deployment web --image=nginx:1.25");
        // Containers are merged by name: one is added, another changed.
        tenant.prints(
            r#"patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"}]}}}}'"#,
            "deployment.apps/web patched",
        );
        tenant.shows("get deploy -o wide", &["side,nginx side:1,nginx:1.25"]);
        tenant.refuses(
            r#"patch deployment web -p '{"spec":{"replicas":-1}}'"#,
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        );
        tenant.refuses(
            r#"patch deployment web -p '{"spec":{"selector":{"matchLabels":{"a":"b"}}}}'"#,
            "field is immutable",
        );
    });
    two_tenants.sees_both("/api/v1/tenants/all/configmaps");
}

#[test]
fn labels_and_annotations_are_not_overwritten_by_accident() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create configmap note");
        tenant.prints("label cm note tier=back", "configmap/note labeled");
        tenant.refuses(
            "label cm note tier=front",
            "'tier' already has a value (back), and --overwrite is false",
        );
        tenant.prints(
            "label cm note tier=front --overwrite",
            "configmap/note labeled",
        );
        tenant.shows(
            "get cm -l tier=front -L tier",
            &["NAME DATA AGE TIER", "note 0"],
        );
        tenant.prints("label cm note tier-", "configmap/note unlabeled");
        tenant.prints("get cm -l tier -o name", "");
        tenant.prints("annotate cm note by=me", "configmap/note annotated");
        tenant.refuses("annotate cm note by=you", "'by' already has a value (me)");
        tenant.prints(
            "annotate cm note by=you --overwrite",
            "configmap/note annotated",
        );
        tenant.prints(
            "get cm note -o jsonpath={.metadata.annotations}",
            "{\"by\":\"you\"}",
        );
        tenant.refuses("label cm note 'bad key=1'", "name part must consist of");
    });
}

#[test]
fn deployments_can_be_scaled_and_set() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.get("create deployment web --image=nginx:1.25 --replicas=2");
        tenant.prints("scale deployment web --replicas=5", "deployment.apps/web scaled");
        tenant.refuses(
            "scale deployment web --current-replicas=2 --replicas=1",
            "Expected replicas to be 2, was 5",
        );
        tenant.shows("get deploy", &["web 0/5 0 0"]);
        let image = format!("{}/nginx:2", tenant.name());
        tenant.prints(
            &format!("set image deployment/web nginx={image}"),
            "deployment.apps/web image updated",
        );
        tenant.prints("set env deployment/web MODE=fast", "deployment.apps/web env updated");
        tenant.prints(
            "set resources deployment/web --limits=cpu=0.2,memory=64Mi",
            "deployment.apps/web resource requirements updated",
        );
        tenant.prints(
            "set serviceaccount deployment/web default",
            "deployment.apps/web serviceaccount updated",
        );
        let container = "{.spec.template.spec.containers[0]";
        tenant.prints(
            &format!("get deploy web -o jsonpath='{container}.image}} {container}.env[0].value}} {container}.resources.limits}}'"),
            &format!("{image} fast {{\"cpu\":\"200m\",\"memory\":\"64Mi\"}}"),
        );
        tenant.prints("set env deployment/web --list", "# Deployment web, container nginx\nMODE=fast");
        tenant.get("create service clusterip web --tcp=80");
        tenant.prints("set selector service/web app=other", "service/web selector updated");
        tenant.get("create role r --verb=get --resource=pods");
        tenant.get("create rolebinding rb --role=r --user=joe");
        tenant.prints(
            "set subject rolebinding rb --user=jane",
            "rolebinding.rbac.authorization.k8s.io/rb subjects updated",
        );
        tenant.prints("get rolebinding rb -o jsonpath='{.subjects[*].name}'", "joe jane");
    });
    two_tenants.sees_both("/apis/apps/v1/tenants/all/deployments");
}
