//! Which rights the accounts of operators have, as `kubectl auth can-i` shows them.

use std::collections::BTreeSet;

use insula_azure::manifests::Operators;
use insula_azure::{roles, table};
use insula_operator::roles::{Right, rights};
use insula_testkit::server::Client;
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::json;

use crate::scene::{FREE, Scene};

/// Returns whether a client has a right in a namespace, or everywhere.
async fn can(client: &Client, right: &Right, namespace: Option<&str>) -> anyhow::Result<bool> {
    let (resource, subresource) = match right.resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (right.resource.as_str(), None),
    };
    let review = json!({"spec": {"resourceAttributes": {
        "verb": right.verb, "group": right.group, "resource": resource,
        "subresource": subresource, "name": right.name, "namespace": namespace,
    }}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = client.post(path, &review).await?;
    let allowed = answer.json()["status"]["allowed"].as_bool();
    allowed.ok_or_else(|| anyhow::anyhow!("{}", answer.text()))
}

/// Returns those of the rights that a client has.
async fn had<'a>(
    client: &Client,
    asked: &'a BTreeSet<Right>,
    namespace: Option<&str>,
) -> anyhow::Result<BTreeSet<&'a Right>> {
    let mut had = BTreeSet::new();
    for right in asked {
        if can(client, right, namespace).await? {
            had.insert(right);
        }
    }
    Ok(had)
}

/// Returns all verbs for everything that a role names, for other objects than the named ones, and
/// for what no operator may touch.
fn asked(rules: &[PolicyRule]) -> BTreeSet<Right> {
    let verbs = [
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "impersonate",
        "escalate",
        "bind",
    ];
    let mut resources: BTreeSet<_> = rights(rules)
        .into_iter()
        .map(|right| (right.group, right.resource))
        .collect();
    for (group, resource) in [
        ("", "pods"),
        ("", "nodes"),
        ("", "serviceaccounts"),
        ("", "serviceaccounts/token"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
        ("apps", "deployments"),
        ("coordination.k8s.io", "leases"),
    ] {
        resources.insert((group.to_owned(), resource.to_owned()));
    }
    let names = [
        Some("aso-workload"),
        Some("azure-operator-claim"),
        Some("azureoperatorsettings"),
        Some("azureoperator-ownership-key"),
        Some("other"),
    ];
    // Only some objects of these are for operators.
    let named = ["leases", "secrets", "serviceaccounts/token"];
    let mut all = BTreeSet::new();
    for (group, resource) in &resources {
        for verb in verbs {
            let names = names.iter().filter(|_| named.contains(&resource.as_str()));
            all.extend([None].iter().chain(names).map(|name| Right {
                verb: verb.to_owned(),
                group: group.clone(),
                resource: resource.clone(),
                name: name.map(str::to_owned),
            }));
        }
    }
    all
}

/// Returns those of the rights that rules give.
fn granted<'a>(rules: &[PolicyRule], asked: &'a BTreeSet<Right>) -> BTreeSet<&'a Right> {
    let given = rights(rules);
    let of_all = |right: &Right| Right {
        name: None,
        ..right.clone()
    };
    let is_given = |right: &&Right| given.contains(*right) || given.contains(&of_all(right));
    asked.iter().filter(is_given).collect()
}

/// Returns the role with the kinds of one group: the others are the same.
fn manager() -> Vec<PolicyRule> {
    let is_asked = |rule: &PolicyRule| {
        let mut groups = rule.api_groups.iter().flatten();
        groups.any(|group| group == "resources.azure.com" || !group.ends_with(".azure.com"))
    };
    roles::manager().into_iter().filter(is_asked).collect()
}

#[tokio::test]
async fn r13_tenants_operator_has_the_printed_rights_in_its_namespaces_and_nowhere_else() {
    let scene = Scene::new(Operators::PerTenant).await.unwrap();
    let acme = scene.operator("acme-system").await.unwrap();
    let rules = manager();
    let asked = asked(&rules);
    let expected = granted(&rules, &asked);
    assert!(expected.len() > 50, "{}", expected.len());
    for namespace in ["a1", "a2"] {
        let had = had(&acme, &asked, Some(namespace)).await.unwrap();
        assert_eq!(had, expected, "{namespace}");
    }
    let own = roles::own_namespace();
    let expected = granted(&own, &asked);
    let found = had(&acme, &asked, Some("acme-system")).await.unwrap();
    assert_eq!(found, expected);
    let everywhere = [
        None,
        Some("b1"),
        Some("bolt-system"),
        Some(FREE),
        Some("default"),
        Some("kube-system"),
        Some("azureoperator-system"),
    ];
    for namespace in everywhere {
        let had = had(&acme, &asked, namespace).await.unwrap();
        assert_eq!(had, BTreeSet::new(), "{namespace:?}");
    }
}

#[tokio::test]
async fn r13_every_kind_of_the_table_may_be_listed_in_a_managed_namespace() {
    let scene = Scene::new(Operators::PerTenant).await.unwrap();
    let acme = scene.operator("acme-system").await.unwrap();
    for kind in table::kinds() {
        let right = |verb: &str| Right {
            verb: verb.to_owned(),
            group: kind.group().to_owned(),
            resource: kind.plural().to_owned(),
            name: None,
        };
        let list = right("list");
        assert!(can(&acme, &list, Some("a1")).await.unwrap(), "{list:?}");
        assert!(!can(&acme, &list, Some("b1")).await.unwrap(), "{list:?}");
        let create = right("create");
        assert!(
            !can(&acme, &create, Some("a1")).await.unwrap(),
            "{create:?}"
        );
    }
}

#[tokio::test]
async fn r13_requests_for_other_namespaces_are_forbidden() {
    let scene = Scene::new(Operators::PerTenant).await.unwrap();
    let acme = scene.operator("acme-system").await.unwrap();
    let kind = table::find("resources.azure.com", "ResourceGroup").unwrap();
    let stored = format!("/apis/resources.azure.com/{}", kind.storage_version());
    for (path, status) in [
        ("/api/v1/namespaces/a1".to_owned(), 200),
        ("/api/v1/namespaces/a1/secrets".to_owned(), 200),
        (format!("{stored}/namespaces/a1/resourcegroups"), 200),
        ("/apis".to_owned(), 200),
        ("/api/v1/namespaces/b1".to_owned(), 403),
        ("/api/v1/namespaces".to_owned(), 403),
        ("/api/v1/namespaces/b1/secrets".to_owned(), 403),
        ("/api/v1/namespaces/acme-system/secrets".to_owned(), 403),
        ("/api/v1/secrets".to_owned(), 403),
        (format!("{stored}/namespaces/b1/resourcegroups"), 403),
        (format!("{stored}/resourcegroups"), 403),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            403,
        ),
    ] {
        let answer = acme.get(&path).await.unwrap();
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn webhooks_have_no_right_to_custom_resources_and_secrets_of_namespaces() {
    let scene = Scene::new(Operators::PerTenant).await.unwrap();
    let webhooks = scene.operator("azureoperator-system").await.unwrap();
    let asked = asked(&manager());
    let expected = granted(&roles::definitions(), &asked);
    let found = had(&webhooks, &asked, None).await.unwrap();
    assert_eq!(found, expected);
    let found = had(&webhooks, &asked, Some("a1")).await.unwrap();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn global_operator_has_the_printed_rights_in_all_namespaces() {
    let scene = Scene::new(Operators::Global).await.unwrap();
    let global = scene.operator("azureoperator-system").await.unwrap();
    let mut rules = manager();
    rules.extend(roles::all_namespaces());
    rules.extend(roles::definitions());
    let asked = asked(&rules);
    let expected = granted(&rules, &asked);
    for namespace in [None, Some("b1"), Some(FREE)] {
        let had = had(&global, &asked, namespace).await.unwrap();
        assert_eq!(had, expected, "{namespace:?}");
    }
}
