//! Roles and bindings of one origin: a space's own, or the built-in ones.

use std::collections::HashMap;

use super::aggregate::ByName;
use super::index::Bindings;
use super::object::{Content, RbacKind, RbacObject, rules_weight};
use super::rule::RuleList;

/// Roles and bindings of one origin.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    pub cluster_roles: ByName,
    pub cluster_bindings: Bindings,
    namespaces: HashMap<Box<str>, Namespace>,
    weight: usize,
}

/// The roles and bindings of one namespace. Removed when empty.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    pub roles: HashMap<Box<str>, RuleList>,
    pub bindings: Bindings,
}

impl Layer {
    /// The roles and bindings of a namespace, if it has any.
    pub fn namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.get(name)
    }

    /// Inserts or replaces an object.
    pub fn put(&mut self, object: RbacObject) {
        self.remove(object.kind(), object.namespace.as_deref(), &object.name);
        self.weight += weigh(&object.name, &object.content);
        let RbacObject {
            namespace,
            name,
            content,
        } = object;
        match content {
            Content::ClusterRole(role) => {
                self.cluster_roles.insert(name, role);
            }
            Content::Role(rules) => {
                let namespace = self.namespaces.entry(namespace.unwrap_or_default());
                namespace.or_default().roles.insert(name, rules);
            }
            Content::Binding(binding) => {
                let bindings = match namespace {
                    None => &mut self.cluster_bindings,
                    Some(namespace) => &mut self.namespaces.entry(namespace).or_default().bindings,
                };
                bindings.insert(binding);
            }
        }
    }

    /// Removes an object, if present.
    pub fn remove(&mut self, kind: RbacKind, namespace: Option<&str>, name: &str) {
        let removed = match kind {
            RbacKind::ClusterRole => self.cluster_roles.remove(name).map(Content::ClusterRole),
            RbacKind::ClusterRoleBinding => {
                self.cluster_bindings.remove(name).map(Content::Binding)
            }
            RbacKind::Role | RbacKind::RoleBinding => {
                self.remove_namespaced(kind, namespace.unwrap_or_default(), name)
            }
        };
        if let Some(content) = removed {
            self.weight -= weigh(name, &content);
        }
    }

    /// Estimated memory use in bytes.
    pub const fn weight(&self) -> usize {
        self.weight
    }

    fn remove_namespaced(&mut self, kind: RbacKind, of: &str, name: &str) -> Option<Content> {
        let namespace = self.namespaces.get_mut(of)?;
        let removed = match kind {
            RbacKind::RoleBinding => namespace.bindings.remove(name).map(Content::Binding),
            _ => namespace.roles.remove(name).map(Content::Role),
        };
        if namespace.roles.is_empty() && namespace.bindings.is_empty() {
            self.namespaces.remove(of);
        }
        removed
    }
}

/// Estimated memory use of an object and its map entry, in bytes.
fn weigh(name: &str, content: &Content) -> usize {
    let content = match content {
        Content::Role(rules) => rules_weight(rules),
        Content::ClusterRole(role) => role.weight(),
        Content::Binding(binding) => binding.weight(),
    };
    2 * name.len() + 64 + content
}
