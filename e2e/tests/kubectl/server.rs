//! Commands about the server, and commands that need nodes.

use insula_e2e::two_tenants::TwoTenants;

use crate::manifests::POD;

#[test]
fn tenants_see_a_complete_cluster() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    let url = two_tenants.server.url().to_owned();
    two_tenants.both(|tenant| {
        let resources = tenant.get("api-resources");
        for line in [
            "configmaps",
            "deployments",
            "namespaces",
            "nodes",
            "customresourcedefinitions",
        ] {
            assert!(
                resources.lines().any(|found| found.starts_with(line)),
                "{resources}"
            );
        }
        assert!(
            !resources.lines().any(|found| found.starts_with("tenants")),
            "{resources}"
        );
        tenant.shows("api-resources --namespaced=false -o name", &["namespaces"]);
        tenant.shows("api-versions", &["apps/v1", "networking.k8s.io/v1", "v1"]);
        tenant.shows("version", &["Client Version: v1.", "Server Version: v1."]);
        // Some versions print colours.
        tenant.shows("cluster-info", &[url.as_str()]);
        let name = format!("[{}]", tenant.name());
        tenant.shows(
            "auth whoami",
            &["Username admin", "Groups [system:authenticated]", &name],
        );
        tenant.may("create deployments");
        tenant.may("'*' '*' -A");
        tenant.shows("auth can-i --list", &["*.* [] [] [*]"]);
        tenant.prints("get --raw /healthz", "ok");
        tenant.shows(
            "get --raw '/readyz?verbose'",
            &["[+]ping ok", "readyz check passed"],
        );
        tenant.may_not("get pods --as=bob");
        tenant.refuses(
            "get tenants",
            "the server doesn't have a resource type \"tenants\"",
        );
    });
}

#[test]
fn kinds_can_be_explained() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.shows(
            "explain deployment.spec.strategy",
            &[
                "GROUP: apps",
                "KIND: Deployment",
                "VERSION: v1",
                "FIELD: strategy <DeploymentStrategy>",
                "rollingUpdate <RollingUpdateDeployment>",
                "type <string>",
            ],
        );
        tenant.shows(
            "explain configmap",
            &[
                "KIND: ConfigMap",
                "binaryData <map[string]string>",
                "immutable <boolean>",
            ],
        );
        tenant.shows(
            "explain pod.spec.containers --recursive",
            &[
                "FIELD: containers <[]Container>",
                "env <[]EnvVar>",
                "name <string> -required-",
                "valueFrom <EnvVarSource>",
            ],
        );
        tenant.refuses(
            "explain pod.spec.nonsense",
            "field \"nonsense\" does not exist",
        );
    });
}

#[test]
fn commands_that_need_nodes_are_refused() {
    let Some(two_tenants) = TwoTenants::start() else {
        return;
    };
    two_tenants.both(|tenant| {
        tenant.given(POD).get("apply -f -");
        let why = "needs a node that runs the pod, and nothing runs pods in Insula";
        tenant.refuses("logs lonely", why);
        tenant.refuses("exec lonely -- date", why);
        tenant.refuses("cp lonely:/etc/hosts hosts", why);
        tenant.refuses("attach lonely", why);
        tenant.refuses("port-forward pod/lonely :80", "pod is not running");
        let running = r#"{"status":{"phase":"Running"}}"#;
        tenant.get(&format!(
            "patch pod lonely --subresource=status -p '{running}'"
        ));
        tenant.refuses("port-forward pod/lonely :80", why);
        // The ephemeral container is added to the pod; a kubelet would start it.
        tenant.get("debug lonely --image=busybox --container=look --profile=general");
        tenant.prints(
            "get pod lonely -o jsonpath='{.spec.ephemeralContainers[*].name}'",
            "look",
        );
        tenant.refuses("top pods", "Metrics API not available");
        tenant.refuses("logs missing", "pods \"missing\" not found");
    });
}
