//! The rights of nodes, as the Node authorizer of Kubernetes decides: a kubelet reads what the pods
//! on its node refer to, and writes its own Node, its Lease and the status of its pods.
//!
//! What a write names only in its body is checked at admission, by `node_restriction`. Both are
//! about the node's own space: a node of another tenant does not exist there.

mod relations;

use std::sync::{Arc, LazyLock};

use insula_access::rbac::{Attributes, RbacKind, ResourceAttributes, Rule, bootstrap};
use insula_cache::Stored;
use insula_core::{Space, Verb};
use insula_kinds::selector::FieldSelector;
use insula_kinds::{Object, Value, core_kind, kinds};

use crate::pipeline::route::ResourcePath;
use crate::registry::{Address, Registry};
use crate::request::query::Query;
use relations::refers_to;
pub use relations::{Target, is_mirror_pod, node_of, refers_to_any};

/// The namespace of the leases that nodes renew.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";

/// The rights that all nodes have for the resources that are not decided one by one: those of the
/// built-in ClusterRole, which has no subjects.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let role = bootstrap::find(RbacKind::ClusterRole, "system:node");
    let rules = role.and_then(|role| role.object().clone().remove("rules"));
    let rules = rules.and_then(|rules| serde_json::from_value(rules).ok());
    rules.expect("the table of roles is generated, and a test reads it")
});

/// A request of a node for objects of its own space.
#[derive(Clone, Copy)]
pub struct NodeRequest<'a> {
    /// The objects of all spaces.
    pub registry: &'a Registry,
    /// The space of the node.
    pub space: &'a Space,
    /// The name of the node.
    pub node: &'a str,
    /// What the node asks for.
    pub attributes: &'a ResourceAttributes<'a>,
    /// The node of the pods that a list or watch is limited to by its field selector.
    pub selected_node: Option<&'a str>,
}

/// Why a node may not do something; often empty.
type Refusal = String;

impl NodeRequest<'_> {
    /// Decides whether the node may do it.
    ///
    /// # Errors
    ///
    /// The reason of a denial.
    pub fn decide(&self) -> Result<(), Refusal> {
        let asked = self.attributes;
        let is_status = asked.subresource == Some("status");
        match (asked.group, asked.resource) {
            ("", "secrets") => self.read_referenced(Target::Secret),
            ("", "configmaps") => self.read_referenced(Target::ConfigMap),
            ("", "persistentvolumeclaims") if is_status => {
                self.require_verb(&["update", "patch"], "can only update or patch the status")?;
                self.require_related(Target::Claim)
            }
            ("", "persistentvolumeclaims") => self.get_referenced(Target::Claim),
            ("", "persistentvolumes") => self.get_one(Self::is_volume_of_node),
            ("resource.k8s.io", "resourceclaims") => self.get_referenced(Target::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => self.get_one(Self::is_attached_to_node),
            ("", "serviceaccounts") => self.create_token(),
            ("coordination.k8s.io", "leases") => self.write_lease(),
            ("storage.k8s.io", "csinodes") => self.write_own("CSINode"),
            ("resource.k8s.io", "resourceslices") => Err(String::new()),
            ("", "nodes") => self.use_node(),
            ("", "pods") => self.use_pods(),
            _ => {
                let attributes = Attributes::Resource(*asked);
                let allowed = RULES.iter().any(|rule| rule.allows(&attributes));
                allowed.then_some(()).ok_or_else(String::new)
            }
        }
    }

    fn require_verb(&self, verbs: &[&str], why: &str) -> Result<(), Refusal> {
        match verbs.contains(&self.attributes.verb) {
            true => Ok(()),
            false => Err(why.to_owned()),
        }
    }

    fn require_no_subresource(&self) -> Result<(), Refusal> {
        match self.attributes.subresource {
            None => Ok(()),
            Some(_) => Err("cannot access subresources of this type".to_owned()),
        }
    }

    fn require_name(&self) -> Result<&str, Refusal> {
        let name = self.attributes.name.filter(|name| !name.is_empty());
        name.ok_or_else(|| "No Object name found".to_owned())
    }

    fn require(&self, is_related: bool) -> Result<(), Refusal> {
        let node = self.node;
        match is_related {
            true => Ok(()),
            false => Err(format!(
                "no relationship found between node '{node}' and this object"
            )),
        }
    }

    /// Fails unless a pod on the node refers to the requested object.
    fn require_related(&self, target: Target) -> Result<(), Refusal> {
        let name = self.require_name()?;
        let namespace = self.attributes.namespace.unwrap_or("");
        self.require(self.is_referenced(target, namespace, name))
    }

    /// Gets, lists or watches a single object that a pod on the node refers to.
    fn read_referenced(&self, target: Target) -> Result<(), Refusal> {
        self.require_verb(
            &["get", "list", "watch"],
            "can only read resources of this type",
        )?;
        self.require_no_subresource()?;
        if self.attributes.namespace.is_none_or(str::is_empty) {
            return Err("can only read namespaced object of this type".to_owned());
        }
        self.require_related(target)
    }

    fn get_referenced(&self, target: Target) -> Result<(), Refusal> {
        self.require_get()?;
        self.require_related(target)
    }

    fn get_one(&self, is_related: fn(&Self, &str) -> bool) -> Result<(), Refusal> {
        self.require_get()?;
        let name = self.require_name()?;
        self.require(is_related(self, name))
    }

    fn require_get(&self) -> Result<(), Refusal> {
        let why = "can only get individual resources of this type";
        self.require_verb(&["get"], why)?;
        self.require_no_subresource()
    }

    /// Requests a token of the account of a pod on the node.
    fn create_token(&self) -> Result<(), Refusal> {
        let why = "can only create tokens for individual service accounts";
        self.require_verb(&["create"], why)?;
        if self.attributes.subresource != Some("token") {
            return Err("can only create token subresource of serviceaccount".to_owned());
        }
        self.require_related(Target::ServiceAccount)
    }

    fn write_lease(&self) -> Result<(), Refusal> {
        if self.attributes.namespace != Some(LEASE_NAMESPACE) {
            return Err(format!(
                "can only access leases in the \"{LEASE_NAMESPACE}\" system namespace"
            ));
        }
        self.write_own("node lease")
    }

    /// Reads and writes the object of the node's own name; admission checks the name of a new one.
    fn write_own(&self, what: &str) -> Result<(), Refusal> {
        let verbs = ["get", "create", "update", "patch", "delete"];
        let why = format!("can only get, create, update, patch, or delete a {what}");
        self.require_verb(&verbs, &why)?;
        self.require_no_subresource()?;
        let is_own = self.attributes.name == Some(self.node);
        match is_own || self.attributes.verb == "create" {
            true => Ok(()),
            false => Err(format!(
                "can only access {what} with the same name as the requesting node"
            )),
        }
    }

    fn use_node(&self) -> Result<(), Refusal> {
        let node = self.node;
        match (self.attributes.subresource, self.attributes.verb) {
            // Admission limits these to the node's own object.
            (None, "create" | "update" | "patch") | (Some("status"), "update" | "patch") => Ok(()),
            // Its name is compared, so that a kubelet can look before it has created its Node.
            (None, "get" | "list" | "watch") => match self.attributes.name {
                Some(name) if name == node => Ok(()),
                None | Some("") => Err(format!(
                    "node '{node}' cannot read all nodes, only its own Node object"
                )),
                Some(name) => Err(format!(
                    "node '{node}' cannot read '{name}', only its own Node object"
                )),
            },
            _ => Err(String::new()),
        }
    }

    fn use_pods(&self) -> Result<(), Refusal> {
        match (self.attributes.subresource, self.attributes.verb) {
            (None, "get") => self.get_one(Self::is_pod_of_node),
            (None, "list" | "watch") if self.selected_node == Some(self.node) => Ok(()),
            (None, "list" | "watch") => match self.attributes.name {
                Some(name) => self.require(self.is_pod_of_node(name)),
                None => {
                    Err("can only list/watch pods with spec.nodeName field selector".to_owned())
                }
            },
            // Admission limits these to mirror pods and to pods on the node.
            (None, "create" | "delete")
            | (Some("status"), "update" | "patch")
            | (Some("eviction"), "create") => Ok(()),
            _ => Err(String::new()),
        }
    }

    fn is_pod_of_node(&self, name: &str) -> bool {
        let namespace = self.attributes.namespace.unwrap_or("");
        let pod = self.find("", "v1", "pods", Some(namespace), name);
        pod.is_some_and(|pod| node_of(&pod) == self.node)
    }

    /// Whether the volume is claimed by a claim that a pod on the node refers to.
    fn is_volume_of_node(&self, name: &str) -> bool {
        let volume = self.find("", "v1", "persistentvolumes", None, name);
        let claim = volume
            .as_ref()
            .and_then(|volume| volume.get("spec")?.get("claimRef"));
        let text = |member: &str| claim.and_then(|claim| claim.get(member)?.as_str());
        match (text("namespace"), text("name")) {
            (Some(namespace), Some(name)) => self.is_referenced(Target::Claim, namespace, name),
            _ => false,
        }
    }

    fn is_attached_to_node(&self, name: &str) -> bool {
        let found = self.find("storage.k8s.io", "v1", "volumeattachments", None, name);
        found.is_some_and(|attachment| node_of(&attachment) == self.node)
    }

    fn find(
        &self,
        group: &str,
        version: &str,
        resource: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Object> {
        let kind = kinds().find(group, version, resource)?;
        let found = self.registry.cached(&Address {
            kind: kind.into(),
            space: self.space.clone(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })?;
        Some(found.tree())
    }

    /// Whether a pod of the namespace that is on the node refers to an object.
    ///
    /// The pods of the namespace are visited. Most are ruled out by their encoding, because they
    /// are on other nodes or do not have the name in them.
    fn is_referenced(&self, target: Target, namespace: &str, name: &str) -> bool {
        let Some(pods) = self.registry.cache().find(core_kind("pods"), self.space) else {
            return false;
        };
        let on_node = format!("\"nodeName\":{}", Value::from(self.node));
        let on_node = memchr::memmem::Finder::new(on_node.as_bytes());
        // The name of a claim for an ephemeral volume is not in the pod.
        let named = match target {
            Target::Claim => String::new(),
            _ => Value::from(name).to_string(),
        };
        let named = memchr::memmem::Finder::new(named.as_bytes());
        let may_refer = |pod: &&Arc<Stored>| {
            let body = pod.body();
            on_node.find(&body).is_some() && named.find(&body).is_some()
        };
        let pods = pods.snapshot(&format!("{namespace}/"), None).objects;
        pods.iter().filter(may_refer).any(|pod| {
            let pod = pod.tree();
            node_of(&pod) == self.node && refers_to(&pod, target, name)
        })
    }
}

/// Returns the node of the pods that the field selector of a list or watch chooses.
pub fn selected_node(path: &ResourcePath, query: &Query) -> Option<String> {
    let of_many = matches!(path.verb, Verb::List | Verb::Watch);
    if !of_many || !path.kind.is(core_kind("pods")) {
        return None;
    }
    let fields = FieldSelector::parse(path.of(), query.get("fieldSelector")?).ok()?;
    fields.exact("spec.nodeName").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_all_nodes_are_those_of_the_built_in_role() {
        let allows = |verb, group, resource| {
            let attributes = Attributes::Resource(ResourceAttributes {
                verb,
                group,
                resource,
                ..ResourceAttributes::default()
            });
            RULES.iter().any(|rule| rule.allows(&attributes))
        };
        assert!(allows("list", "", "services"));
        assert!(allows(
            "create",
            "certificates.k8s.io",
            "certificatesigningrequests"
        ));
        assert!(allows("watch", "storage.k8s.io", "csidrivers"));
        assert!(!allows("delete", "", "nodes"));
        assert!(!allows("list", "", "namespaces"));
    }
}
