//! The objects to install on a management cluster.

use insula_operator::manifests::{Deployment, Operator};
use insula_operator::roles::impersonation;
use serde_json::Value;

use crate::names::{ACCOUNT, NAMESPACE};
use crate::policy::{self, Reach};
use crate::{crds, roles, webhooks};

/// The Secret with credentials for clusters that name no identity. It may be missing.
const CREDENTIALS: &str = "capv-manager-bootstrap-credentials";
/// The path at which the operator reads them.
pub const CREDENTIALS_FILE: &str = "/etc/capv/credentials.yaml";

const OPERATOR: Operator<'static> = Operator {
    app: "insula-vsphere",
    namespace: NAMESPACE,
    account: ACCOUNT,
    role: "capv-manager",
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
    let reach = match settings.tenants {
        true => Reach::Tenants,
        false => Reach::Space,
    };
    let definitions = match settings.tenants {
        true => crds::published(),
        false => crds::all(),
    };
    let mut objects = vec![OPERATOR.namespace()];
    // Every object of Kubernetes can be represented as JSON.
    let values = definitions.iter().map(serde_json::to_value);
    objects.extend(values.map(Result::unwrap_or_default));
    objects.extend(policy::policies(reach));
    objects.extend(user_roles());
    objects.extend(account(settings));
    if let Some(image) = &settings.image {
        objects.push(OPERATOR.webhook_service(&webhooks::service()));
        objects.push(deployment(image, settings));
    }
    objects
}

/// Returns the objects that a tenant's space needs in addition: kinds and policies are published
/// to it, and the operator runs in the system's space.
pub fn tenant_manifests() -> Vec<Value> {
    let mut objects = vec![OPERATOR.namespace()];
    objects.extend(user_roles());
    objects
}

/// Returns the roles for users. The viewer's rights are part of the role `view`. The workload
/// role is not part of `edit`, because clusters without an identity use the operator's account.
fn user_roles() -> Vec<Value> {
    let role =
        |name, rules: Vec<_>, aggregate_to| OPERATOR.cluster_role(name, &rules, aggregate_to);
    vec![
        role(roles::PROVIDER, roles::provider(), None),
        role(roles::MANAGER, roles::manager(), None),
        role(roles::WORKLOAD, roles::workload(), None),
        role(roles::VIEWER, roles::viewer(), Some("view")),
        role(roles::IDENTITY_VIEWER, roles::identity_viewer(), None),
        role(roles::SERVICE_ACCOUNT, roles::service_account(), None),
    ]
}

/// Returns the account of the operator, with its rights.
fn account(settings: &Settings) -> Vec<Value> {
    let mut rules = roles::operator();
    let mut own_rules = roles::operator_in_own_namespace();
    if settings.tenants {
        rules.extend(roles::operator_for_tenants());
    }
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
    let mut arguments = vec!["operator".to_owned(), "vsphere".to_owned()];
    arguments.extend(settings.tenants.then(|| "--tenants".to_owned()));
    let account = settings.service_account.iter();
    arguments.extend(account.flat_map(|name| ["--service-account".to_owned(), name.clone()]));
    OPERATOR.deployment(&Deployment {
        name: "capv-controller-manager",
        image,
        arguments,
        container: "manager",
        requests: ("50m", "96Mi"),
        mounted_secrets: &[(CREDENTIALS, "/etc/capv")],
        webhook_port: Some(webhooks::service().target_port),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn installed(image: Option<&str>) -> Vec<Value> {
        manifests(&Settings {
            image: image.map(str::to_owned),
            ..Settings::default()
        })
    }

    #[test]
    fn deployment_serves_the_webhooks_that_the_definitions_name() {
        let objects = installed(Some("i"));
        let find = |kind: &str| objects.iter().find(|object| object["kind"] == kind);
        let container = &find("Deployment").unwrap()["spec"]["template"]["spec"]["containers"][0];
        let arguments = container["args"].to_string();
        assert!(
            arguments.contains(r#""--webhook-addr","0.0.0.0:9443""#),
            "{arguments}"
        );
        let port = json!({"name": "webhooks", "containerPort": 9443});
        assert_eq!(container["ports"][1], port);
        let service = find("Service").unwrap();
        let labels = &find("Deployment").unwrap()["spec"]["template"]["metadata"]["labels"];
        assert_eq!(&service["spec"]["selector"], labels);
        let definitions = objects.iter();
        let definitions = definitions.filter(|it| it["kind"] == "CustomResourceDefinition");
        for definition in definitions {
            let named = &definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"];
            for field in ["namespace", "name"] {
                assert_eq!(named[field], service["metadata"][field]);
            }
            let name = definition["metadata"]["name"].as_str().unwrap();
            let role = objects.iter().find(|object| {
                object["kind"] == "ClusterRole" && object["metadata"]["name"] == "capv-manager"
            });
            assert!(role.unwrap()["rules"].to_string().contains(name), "{name}");
        }
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
        let objects = installed(None);
        assert!(!objects.iter().any(|object| object["kind"] == "Service"));
        let rules = objects.iter().map(|object| object["rules"].to_string());
        let rules: String = rules.collect();
        assert!(!rules.contains("customresourcedefinitions"), "{rules}");
    }
}
