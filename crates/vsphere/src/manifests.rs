//! The objects to install on a management cluster.

use insula_operator::manifests::{Deployment, Operator};
use serde_json::Value;

use crate::names::{ACCOUNT, NAMESPACE};
use crate::policy::{self, Reach};
use crate::{crds, roles};

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
    objects.extend(account(settings.tenants));
    if let Some(image) = &settings.image {
        objects.push(deployment(image, settings.tenants));
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
    ]
}

/// Returns the account of the operator, with its rights.
fn account(tenants: bool) -> Vec<Value> {
    let mut rules = roles::operator();
    if tenants {
        rules.extend(roles::operator_for_tenants());
    }
    OPERATOR.account_with_roles(&rules, &roles::operator_in_own_namespace())
}

fn deployment(image: &str, tenants: bool) -> Value {
    let mut arguments = vec!["operator".to_owned(), "vsphere".to_owned()];
    arguments.extend(tenants.then(|| "--tenants".to_owned()));
    OPERATOR.deployment(&Deployment {
        name: "capv-controller-manager",
        image,
        arguments,
        container: "manager",
        requests: ("50m", "96Mi"),
        mounted_secrets: &[(CREDENTIALS, "/etc/capv")],
    })
}
