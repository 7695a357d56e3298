//! Rights of the roles, as the server decides them, in the system's space and in a tenant's.

use insula_testkit::server::{Client, bindings};
use serde_json::json;

use crate::scene::Scene;

const INFRA: &str = "infrastructure.cluster.x-k8s.io";

/// Asks with a SelfSubjectAccessReview whether the client may do this.
async fn may(client: &Client, verb: &str, what: &str, namespace: &str) -> anyhow::Result<bool> {
    let (resource, group) = what.split_once('.').unwrap_or((what, ""));
    let attributes =
        json!({"verb": verb, "group": group, "resource": resource, "namespace": namespace});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = client.post(path, &review).await?;
    anyhow::ensure!(answer.status == 201, "{}", answer.text());
    Ok(answer.json()["status"]["allowed"] == true)
}

/// Binds the three roles as documented.
async fn bind(admin: &Client) -> anyhow::Result<()> {
    admin
        .bind("infra", "User:infra", "capv-infrastructure-provider")
        .await?;
    admin
        .bind("ops", "User:ops", "capv-management-cluster-operator")
        .await?;
    admin.bind("viewers", "User:dev", "capv-viewer").await?;
    for namespace in ["team-a", "team-b"] {
        let object = json!({"metadata": {"name": namespace}});
        admin.post("/api/v1/namespaces", &object).await?;
    }
    let binding = json!({
        "metadata": {"name": "dev"},
        "subjects": [insula_testkit::server::subject("User:dev")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "capv-workload-cluster-operator"},
    });
    let made = admin.post(&bindings("team-a"), &binding).await?;
    anyhow::ensure!(made.status == 201, "{}", made.text());
    Ok(())
}

#[tokio::test]
async fn cr4_s2_roles_write_exactly_their_kinds() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let identities = format!("vsphereclusteridentities.{INFRA}");
    let clusters = format!("vsphereclusters.{INFRA}");
    let zones = format!("vspheredeploymentzones.{INFRA}");
    let machines = format!("vspheremachines.{INFRA}");
    let vms = format!("vspherevms.{INFRA}");
    // Resource, namespace, whether each of the three roles may write it, and whether the third may
    // read it.
    let table = [
        (&*identities, "", [true, true, false], true),
        (&clusters, "team-a", [true, true, true], true),
        (&clusters, "team-b", [true, true, false], true),
        (&machines, "team-a", [true, true, true], true),
        (&vms, "team-a", [false, false, false], true),
        (&zones, "", [true, false, false], true),
        (
            "clusters.cluster.x-k8s.io",
            "team-a",
            [true, true, true],
            true,
        ),
        ("secrets", "team-a", [true, true, true], true),
        ("secrets", "team-b", [true, true, false], false),
        ("secrets", "capv-system", [true, true, false], false),
        ("secrets", "", [true, true, false], false),
        (
            "clusterroles.rbac.authorization.k8s.io",
            "",
            [false, false, false],
            false,
        ),
    ];
    for (space, admin) in scene.spaces() {
        bind(admin).await?;
        let mut people = Vec::new();
        for who in ["infra", "ops", "dev"] {
            people.push(scene.server.client(&format!("{space}-{who}")).await?);
        }
        for (what, namespace, may_write, may_read) in table {
            for (client, expected) in people.iter().zip(may_write) {
                for verb in ["create", "update", "patch", "delete"] {
                    let decided = may(client, verb, what, namespace).await?;
                    assert_eq!(decided, expected, "{space}: {verb} {what} in {namespace:?}");
                }
            }
            for verb in ["get", "list", "watch"] {
                let decided = may(&people[2], verb, what, namespace).await?;
                assert_eq!(decided, may_read, "{space}: {verb} {what} in {namespace:?}");
            }
        }
        // The labels of namespaces decide who may use an identity.
        for (client, labels) in people.iter().zip([true, true, false]) {
            for (verb, expected) in [("create", false), ("patch", labels), ("delete", false)] {
                let decided = may(client, verb, "namespaces", "").await?;
                assert_eq!(decided, expected, "{space}: {verb} namespaces");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn cr4_view_role_includes_clusters_and_edit_role_does_not() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    for (space, admin) in scene.spaces() {
        admin.bind("ops-view", "User:ops", "view").await?;
        admin.bind("dev-edit", "User:dev", "edit").await?;
        let viewer = scene.server.client(&format!("{space}-ops")).await?;
        let editor = scene.server.client(&format!("{space}-dev")).await?;
        for (client, verb, what, expected) in [
            (&viewer, "list", "vsphereclusters", true),
            (&viewer, "get", "vsphereclusteridentities", true),
            (&viewer, "create", "vsphereclusters", false),
            (&editor, "create", "vsphereclusters", false),
            (&editor, "delete", "vspheremachines", false),
            (&editor, "create", "vspherevms", false),
            (&editor, "update", "vsphereclusteridentities", false),
            (&editor, "update", "vspheredeploymentzones", false),
        ] {
            let decided = may(client, verb, &format!("{what}.{INFRA}"), "default").await?;
            assert_eq!(decided, expected, "{space}: {verb} {what}");
        }
        assert!(
            !may(&viewer, "get", "secrets", "capv-system").await?,
            "{space}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn cr4_operator_has_its_rights_in_every_space_and_no_more() -> anyhow::Result<()> {
    let scene = Scene::new().await?;
    let ask = async |verb: &str, what: &str, namespace: &str, at: &str| {
        let (resource, group) = what.split_once('.').unwrap_or((what, ""));
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "system:serviceaccount:capv-system:capv-manager",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:capv-system", "system:authenticated"],
                "resourceAttributes": {"verb": verb, "group": group, "resource": resource,
                    "subresource": part, "namespace": namespace},
            },
        });
        let answer = scene.system.post(at, &review).await?;
        anyhow::ensure!(answer.status == 201, "{}", answer.text());
        Ok(answer.json()["status"]["allowed"] == true)
    };
    let here = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    for (verb, what, namespace, expected) in [
        (
            "patch",
            "vsphereclusters/status.infrastructure.cluster.x-k8s.io",
            "a",
            true,
        ),
        (
            "patch",
            "vsphereclusters.infrastructure.cluster.x-k8s.io",
            "a",
            true,
        ),
        (
            "create",
            "vspherevms.infrastructure.cluster.x-k8s.io",
            "a",
            true,
        ),
        (
            "create",
            "vsphereclusters.infrastructure.cluster.x-k8s.io",
            "a",
            false,
        ),
        (
            "delete",
            "vsphereclusteridentities.infrastructure.cluster.x-k8s.io",
            "",
            false,
        ),
        ("delete", "secrets", "a", true),
        ("create", "secrets", "a", false),
        ("watch", "namespaces", "", true),
        ("update", "namespaces", "", false),
        ("create", "leases.coordination.k8s.io", "capv-system", true),
        ("create", "leases.coordination.k8s.io", "a", false),
        ("get", "configmaps", "capv-system", false),
    ] {
        let decided: bool = ask(verb, what, namespace, here).await?;
        assert_eq!(decided, expected, "{verb} {what} in {namespace:?}");
    }
    Ok(())
}
