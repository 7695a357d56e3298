//! The objects to install on a management cluster, and those for access to hosts.

use insula_operator::manifests::{Deployment, Operator};
use insula_operator::roles::{RBAC, impersonation};
use serde_json::{Value, json};

use crate::names::{ACCOUNT, NAMESPACE};
use crate::pool::rights::host_access as host_rights;
use crate::webhooks::Reach;
use crate::{crds, roles, webhooks};

const OPERATOR: Operator<'static> = Operator {
    app: "insula-metal3",
    namespace: NAMESPACE,
    account: ACCOUNT,
    role: "capm3-manager",
};

/// How the operator is deployed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The image to run. Without one, no Deployment is created.
    pub image: Option<String>,
    /// Whether it also works in all tenants' spaces of an Insula.
    pub tenants: bool,
    /// The service account of each namespace to act as there; none to act as the operator.
    pub service_account: Option<String>,
}

/// Returns all objects, in the order in which they are created.
pub fn manifests(settings: &Settings) -> Vec<Value> {
    let (definitions, reach) = match settings.tenants {
        true => (crds::published(), Reach::Tenants),
        false => (crds::all(), Reach::Space),
    };
    let mut objects = vec![OPERATOR.namespace()];
    // Every object of Kubernetes can be represented as JSON.
    let values = definitions.iter().map(serde_json::to_value);
    objects.extend(values.map(Result::unwrap_or_default));
    objects.extend(user_roles());
    objects.extend(account(settings));
    if let Some(image) = &settings.image {
        objects.push(OPERATOR.webhook_service(&webhooks::service()));
        objects.push(deployment(image, settings));
    }
    // After the program that answers it: it is asked about every later write.
    objects.push(webhooks::configuration(reach));
    objects
}

/// Returns the objects that a tenant's space needs in addition: kinds and validation are published
/// to it, and the operator runs in the system's space.
pub fn tenant_manifests() -> Vec<Value> {
    user_roles()
}

/// Returns the account for a kubeconfig that reaches the hosts of a namespace, with its rights.
/// They are to be applied where the hosts are.
pub fn host_access(namespace: &str) -> Vec<Value> {
    let name = roles::HOST_ACCESS;
    let metadata = json!({"name": name, "namespace": namespace});
    let version = format!("{RBAC}/v1");
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({"apiVersion": version, "kind": "Role", "metadata": metadata,
            "rules": host_rights()}),
        json!({
            "apiVersion": version, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }),
    ]
}

/// Returns the roles for users. The viewer's rights are part of the role `view`. The workload role
/// is not part of `edit`, because machines without an identity use the operator's account.
fn user_roles() -> Vec<Value> {
    vec![
        OPERATOR.cluster_role(roles::WORKLOAD, &roles::workload(), None),
        OPERATOR.cluster_role(roles::VIEWER, &roles::viewer(), Some("view")),
        OPERATOR.cluster_role(roles::SERVICE_ACCOUNT, &roles::service_account(), None),
    ]
}

/// Returns the account of the operator, with its rights.
fn account(settings: &Settings) -> Vec<Value> {
    let mut rules = roles::operator();
    let mut own_rules = roles::operator_in_own_namespace();
    if let Some(account) = &settings.service_account {
        rules.extend(impersonation(account, settings.tenants));
    }
    // An operator in the server process has no certificate.
    if settings.image.is_some() {
        rules.extend(roles::webhooks());
        own_rules.extend(roles::webhooks_in_own_namespace());
    }
    OPERATOR.account_with_roles(&rules, &own_rules)
}

fn deployment(image: &str, settings: &Settings) -> Value {
    let mut arguments = vec!["operator".to_owned(), "metal3".to_owned()];
    arguments.extend(settings.tenants.then(|| "--tenants".to_owned()));
    let account = settings.service_account.iter();
    arguments.extend(account.flat_map(|name| ["--service-account".to_owned(), name.clone()]));
    OPERATOR.deployment(&Deployment {
        name: "capm3-controller-manager",
        image,
        arguments,
        container: "manager",
        requests: ("50m", "96Mi"),
        mounted_secrets: &[],
        webhook_port: Some(webhooks::service().target_port),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_to_hosts_is_limited_to_their_namespace() {
        let objects = host_access("pool-a");
        let kinds: Vec<_> = objects.iter().map(|object| &object["kind"]).collect();
        assert_eq!(kinds, ["ServiceAccount", "Role", "RoleBinding"]);
        for object in &objects {
            assert_eq!(object["metadata"]["namespace"], "pool-a");
        }
        assert_eq!(objects[1]["rules"], json!(host_rights()));
    }

    #[test]
    fn o08_operator_may_impersonate_the_one_account_that_it_acts_as() {
        let objects = manifests(&Settings {
            image: Some("i".to_owned()),
            tenants: true,
            service_account: Some("acts".to_owned()),
        });
        let named = |kind: &str, name: &str| {
            let mut found = objects.iter();
            let found = found.find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
            found.cloned().unwrap_or_default()
        };
        let rules = named("ClusterRole", OPERATOR.role)["rules"].clone();
        let rules: Vec<_> = serde_json::from_value(rules).unwrap();
        let rights = insula_operator::roles::escalations(&rules);
        let rights: Vec<_> = rights
            .iter()
            .map(|right| (right.resource.as_str(), right.name.as_deref()))
            .collect();
        assert_eq!(
            rights,
            [("serviceaccounts", Some("acts")), ("tenants", None)]
        );
        let deployment = objects.iter().find(|it| it["kind"] == "Deployment");
        let pod = &deployment.unwrap()["spec"]["template"]["spec"];
        let arguments = pod["containers"][0]["args"].to_string();
        assert!(
            arguments.contains(r#""--service-account","acts""#),
            "{arguments}"
        );
    }

    #[test]
    fn operator_in_the_server_gets_no_rights_for_a_certificate() {
        for (image, expected) in [(Some("i".to_owned()), true), (None, false)] {
            let objects = manifests(&Settings {
                image,
                ..Settings::default()
            });
            let has = |kind: &str| objects.iter().any(|object| object["kind"] == kind);
            assert_eq!((has("Service"), has("Deployment")), (expected, expected));
            let rules = objects.iter().map(|object| object["rules"].to_string());
            let rules: String = rules.collect();
            assert_eq!(rules.contains("customresourcedefinitions"), expected);
        }
    }
}
