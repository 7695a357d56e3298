//! The objects of a tenant's operator. None of them is cluster-scoped, except for the namespace of
//! the operator itself.

use insula_operator::roles::RBAC;
use serde_json::{Value, json};

use super::deployment::{self, IDENTITY_LABEL};
use super::{account, operator, own_role, subject};
use crate::roles;

/// The names of the AzureIdentity and its binding.
const IDENTITY: &str = "aso-manager-identity";
const IDENTITY_BINDING: &str = "aso-manager-identity-binding";
const IDENTITY_VERSION: &str = "aadpodidentity.k8s.io/v1";

/// A tenant's operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// The name of the tenant. The operator is in the namespace `NAME-system`.
    pub name: String,
    /// The namespaces that the operator manages.
    pub namespaces: Vec<String>,
    /// The image to run.
    pub image: String,
    /// The managed identity that the operator is, if it is one.
    pub managed_identity: Option<ManagedIdentity>,
}

/// A user-assigned managed identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedIdentity {
    /// The client id.
    pub client_id: String,
    /// The ARM id.
    pub resource_id: Option<String>,
}

impl Tenant {
    /// Returns the namespace of the operator.
    pub fn namespace(&self) -> String {
        format!("{}-system", self.name)
    }
}

/// Returns the objects of a tenant's operator, in the order in which they are created.
pub fn tenant_manifests(tenant: &Tenant) -> Vec<Value> {
    let namespace = tenant.namespace();
    let operator = operator(&namespace);
    let mut objects = vec![operator.namespace(), account(&operator)];
    objects.extend(own_role(&operator, &roles::own_namespace()));
    let subject = subject(&operator);
    let bindings = tenant.namespaces.iter();
    objects.extend(bindings.map(|namespace| {
        let mut metadata = operator.metadata(roles::MANAGER_BINDING);
        metadata["namespace"] = namespace.as_str().into();
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": roles::MANAGER},
            "subjects": [subject],
        })
    }));
    if let Some(identity) = &tenant.managed_identity {
        objects.extend(identity.objects(&namespace));
    }
    objects.push(deployment::of_tenant(&operator, tenant));
    objects
}

impl ManagedIdentity {
    /// Returns the objects that give pods of a namespace the identity.
    fn objects(&self, namespace: &str) -> [Value; 2] {
        let metadata = |name: &str| json!({"name": name, "namespace": namespace});
        let mut identity = json!({
            "apiVersion": IDENTITY_VERSION, "kind": "AzureIdentity",
            "metadata": metadata(IDENTITY),
            // A user-assigned managed identity.
            "spec": {"type": 0, "clientID": self.client_id},
        });
        if let Some(id) = &self.resource_id {
            identity["spec"]["resourceID"] = id.as_str().into();
        }
        let binding = json!({
            "apiVersion": IDENTITY_VERSION, "kind": "AzureIdentityBinding",
            "metadata": metadata(IDENTITY_BINDING),
            "spec": {"azureIdentity": IDENTITY, "selector": IDENTITY_LABEL.1},
        });
        [identity, binding]
    }
}
