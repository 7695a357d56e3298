//! kustomize, and the -k flag.

use insula_e2e::kubectl::Kubectl;
use insula_e2e::two_tenants::TwoTenants;

/// Writes a base and an overlay with a name prefix.
fn write(tenant: &Kubectl, colour: &str) {
    tenant.write(
        "base/kustomization.yaml",
        "resources: [map.yaml]\n\
         configMapGenerator: [{name: made, literals: [a=b], options: {disableNameSuffixHash: true}}]\n",
    );
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {colour: COLOUR}\n";
    tenant.write("base/map.yaml", &map.replace("COLOUR", colour));
    tenant.write(
        "stage/kustomization.yaml",
        "namePrefix: stage-\n\
         commonAnnotations: {from: kustomize}\n\
         resources: [../base]\n",
    );
}

#[test]
fn overlays_can_be_shown_applied_compared_and_deleted() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        write(tenant, "red");
        tenant.shows(
            "kustomize stage",
            &["from: kustomize", "name: stage-made", "name: stage-plain"],
        );
        let names = ["configmap/stage-made", "configmap/stage-plain"];
        let each = |verdict: &str| names.map(|name| format!("{name} {verdict}")).join("\n");
        tenant.prints("apply -k stage", &each("created"));
        tenant.prints("apply -k stage", &each("unchanged"));
        tenant.prints("diff -k stage", "");
        tenant.prints("get -k stage -o name", &names.join("\n"));
        tenant.prints(
            "get cm stage-plain -o jsonpath='{.data.colour} {.metadata.annotations.from}'",
            "red kustomize",
        );
        write(tenant, "blue");
        let diff = tenant.run("diff -k stage");
        assert_eq!(diff.code, Some(1), "{diff}");
        assert!(diff.out.contains("+  colour: blue"), "{diff}");
        tenant.shows(
            "apply -k stage",
            &[
                "configmap/stage-made unchanged",
                "configmap/stage-plain configured",
            ],
        );
        tenant.shows(
            "delete -k stage",
            &[
                "configmap \"stage-made\" deleted",
                "configmap \"stage-plain\" deleted",
            ],
        );
        tenant.prints("get cm -o name -l none", "");
        tenant.refuses("get -k stage", "configmaps \"stage-plain\" not found");
    });
}

#[test]
fn removed_objects_are_pruned() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        let file = |names: &[&str]| -> String {
            let one = |name: &&str| {
                format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{app: p}}}}\n")
            };
            names.iter().map(one).collect()
        };
        tenant.get("create configmap stranger");
        let prune = "apply -f - --prune -l app=p --prune-allowlist=core/v1/ConfigMap";
        tenant.given(&file(&["one", "two"])).get(prune);
        tenant.given(&file(&["two"])).shows(
            prune,
            &["configmap/two unchanged", "configmap/one pruned"],
        );
        tenant.refuses("get cm one", "configmaps \"one\" not found");
        tenant.prints("get cm stranger two -o name", "configmap/stranger\nconfigmap/two");
    });
}
