//! The roles and bindings of one space, and what they allow.

use std::sync::{Arc, OnceLock};

use insula_core::MASTERS;

use super::aggregate::{Aggregated, Roles};
use super::attributes::{Attributes, Reach, User};
use super::binding::{Binding, RoleRef};
use super::bootstrap;
use super::decision::{Decision, Unresolved, Verdict};
use super::index::Bindings;
use super::layer::Layer;
use super::object::{RbacKind, RbacObject, Source};
use super::rule::Rule;

/// The roles and bindings of one space, layered over the built-in ones.
///
/// An object of the space replaces the built-in one of its name for as long as it exists.
/// Built-in objects are shared by all policies, so an empty policy takes almost no memory.
///
/// A decision examines the user's own bindings only. A change costs time proportional to the
/// changed object; aggregated rules are recomputed when they are next needed.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    own: Layer,
    /// The rules of all aggregated roles, if computed since a cluster role last changed.
    aggregated: OnceLock<Aggregated>,
}

/// The rules that apply to a user.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The rules of every binding of the user: first the cluster role bindings by name, then
    /// those of the namespace. Two bindings to one role yield its rules twice.
    pub rules: Vec<Arc<Rule>>,
    /// References to missing roles, in the same order.
    pub unresolved: Unresolved,
}

impl Policy {
    /// A policy with the built-in objects only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Inserts or replaces an object.
    pub fn put(&mut self, object: RbacObject) {
        if object.kind() == RbacKind::ClusterRole {
            self.aggregated.take();
        }
        self.own.put(object);
    }

    /// Removes an object. If it replaced a built-in one, that becomes effective again.
    /// Built-in objects cannot be removed.
    pub fn remove(&mut self, kind: RbacKind, namespace: Option<&str>, name: &str) {
        if kind == RbacKind::ClusterRole {
            self.aggregated.take();
        }
        self.own.remove(kind, namespace, name);
    }

    /// Decides whether the user may make this request.
    ///
    /// It is allowed if and only if the user is in `system:masters`, or a rule allows it that
    /// belongs to a role bound to the user by a cluster role binding or, at home, by a role
    /// binding in the request's namespace. The reason names the first such binding in the
    /// order of [`Policy::rules`].
    ///
    /// Allowing a request allocates nothing.
    pub fn decide<'a>(
        &'a self,
        user: User<'a>,
        attributes: &Attributes<'_>,
        reach: Reach,
    ) -> Decision<'a> {
        if user.groups.iter().any(|group| group == MASTERS) {
            return Decision(Verdict::Master);
        }
        let mut complete = true;
        for place in self.places(attributes.namespace(), reach) {
            if let Some(binding) = self.find(place, user, attributes, &mut complete) {
                return Decision(Verdict::Granted { binding, user });
            }
        }
        Decision(Verdict::NoOpinion(match complete {
            true => Unresolved::default(),
            false => self.rules(user, attributes.namespace(), reach).unresolved,
        }))
    }

    /// Returns every rule that applies to the user in the namespace, or outside namespaces.
    /// The implicit permissions of `system:masters` are not included.
    pub fn rules(&self, user: User<'_>, namespace: Option<&str>, reach: Reach) -> Rules {
        let mut found = Rules::default();
        for place in self.places(namespace.filter(|name| !name.is_empty()), reach) {
            for binding in place.bindings(user) {
                match self.rules_of(binding) {
                    Some(rules) => found.rules.extend(rules.iter().cloned()),
                    None => found.unresolved.0.push(binding.unresolved()),
                }
            }
        }
        found
    }

    /// Returns the rules of a role, if it exists. For an aggregated role, these are the rules
    /// of the roles it currently matches.
    pub fn role_rules(&self, role: RoleRef<'_>) -> Option<&[Arc<Rule>]> {
        match role {
            RoleRef::ClusterRole(name) => self.cluster_role_rules(name),
            RoleRef::Role { namespace, name } => [&self.own, bootstrap::layer()]
                .into_iter()
                .find_map(|layer| layer.namespace(namespace)?.roles.get(name))
                .map(|rules| &**rules),
        }
    }

    /// Estimated memory use in bytes, without built-in objects.
    pub fn weight(&self) -> usize {
        let aggregated = self.aggregated.get().into_iter().flatten();
        let aggregated = aggregated.map(|(name, rules)| name.len() + 48 + size_of_val(&**rules));
        size_of::<Self>() + self.own.weight() + aggregated.sum::<usize>()
    }

    fn cluster_role_rules(&self, name: &str) -> Option<&[Arc<Rule>]> {
        match &self.cluster_roles().get(name)?.source {
            Source::Own(rules) => Some(rules),
            Source::Aggregated(_) => self.aggregated().get(name).map(|rules| &**rules),
        }
    }

    fn rules_of(&self, binding: &Binding) -> Option<&[Arc<Rule>]> {
        self.role_rules(binding.role_ref()?)
    }

    fn cluster_roles(&self) -> Roles<'_> {
        Roles {
            own: &self.own.cluster_roles,
            built_in: &bootstrap::layer().cluster_roles,
        }
    }

    fn aggregated(&self) -> &Aggregated {
        match self.own.cluster_roles.is_empty() {
            true => bootstrap::aggregated(),
            false => {
                let aggregate = || self.cluster_roles().aggregate();
                self.aggregated.get_or_init(aggregate)
            }
        }
    }

    /// The bindings that apply: cluster role bindings first.
    fn places(&self, namespace: Option<&str>, reach: Reach) -> impl Iterator<Item = Place<'_>> {
        let built_in = bootstrap::layer();
        let cluster = Place {
            own: Some(&self.own.cluster_bindings),
            built_in: Some(&built_in.cluster_bindings),
        };
        let namespace = namespace.filter(|_| reach == Reach::Home);
        let namespace = namespace.map(|name| Place {
            own: self.own.namespace(name).map(|of| &of.bindings),
            built_in: built_in.namespace(name).map(|of| &of.bindings),
        });
        [Some(cluster), namespace].into_iter().flatten()
    }

    /// Finds the first binding by name that allows the request.
    fn find<'a>(
        &'a self,
        place: Place<'a>,
        user: User<'a>,
        attributes: &Attributes<'_>,
        complete: &mut bool,
    ) -> Option<&'a Binding> {
        let mut found: Option<&Binding> = None;
        for binding in place.grants(user) {
            if found.is_some_and(|found| found.name <= binding.name) {
                continue;
            }
            match self.rules_of(binding) {
                None => *complete = false,
                Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    found = Some(binding)
                }
                Some(_) => {}
            }
        }
        found
    }
}

/// The bindings of one namespace, or the cluster role bindings.
#[derive(Clone, Copy)]
struct Place<'a> {
    own: Option<&'a Bindings>,
    built_in: Option<&'a Bindings>,
}

impl<'a> Place<'a> {
    /// For each role granted to the user or a group, the first binding that grants it.
    fn grants(self, user: User<'a>) -> impl Iterator<Item = &'a Binding> {
        let own = self.own.into_iter().flat_map(move |own| own.of(user));
        let own = own.filter_map(|grant| grant.bindings().next());
        let built_in = self.built_in.into_iter().flat_map(move |of| of.of(user));
        let built_in = built_in.filter_map(move |grant| {
            let mut bindings = grant.bindings();
            bindings.find(|binding| !self.replaces(binding))
        });
        own.chain(built_in)
    }

    /// All bindings of the user, sorted by name.
    fn bindings(self, user: User<'a>) -> Vec<&'a Binding> {
        let own = self.own.into_iter().flat_map(|own| own.of(user));
        let built_in = self.built_in.into_iter().flat_map(|of| of.of(user));
        let built_in = built_in.flat_map(|grant| grant.bindings());
        let built_in = built_in.filter(|binding| !self.replaces(binding));
        let own = own.flat_map(|grant| grant.bindings());
        let mut bindings: Vec<_> = own.chain(built_in).collect();
        bindings.sort_by(|one, other| one.name.cmp(&other.name));
        bindings.dedup_by(|one, other| one.name == other.name);
        bindings
    }

    /// Reports whether the space has replaced a built-in binding.
    fn replaces(&self, built_in: &Binding) -> bool {
        self.own.is_some_and(|own| own.has(&built_in.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rbac::attributes::ResourceAttributes;
    use crate::rbac::rule::CHECKS;

    const ROLES: usize = 200;

    /// A policy with [`ROLES`] roles of one rule each.
    fn roles() -> Policy {
        let mut policy = Policy::new();
        for n in 0..ROLES {
            let resource = format!("things{n}");
            let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
            let role = json!({"metadata": {"name": format!("r{n}")}, "rules": [rule]});
            put(&mut policy, RbacKind::ClusterRole, &role);
        }
        policy
    }

    fn bind(policy: &mut Policy, name: &str, role: usize, user: &str) {
        let binding = json!({
            "metadata": {"name": name, "namespace": "x"},
            "roleRef": {"kind": "ClusterRole", "name": format!("r{role}")},
            "subjects": [{"kind": "User", "name": user}],
        });
        put(policy, RbacKind::RoleBinding, &binding);
        put(policy, RbacKind::ClusterRoleBinding, &binding);
    }

    fn put(policy: &mut Policy, kind: RbacKind, object: &serde_json::Value) {
        let object = RbacObject::parse(kind, object.to_string().as_bytes());
        policy.put(object.unwrap());
    }

    /// Returns whether the request is allowed, and how many rules were evaluated.
    fn count(policy: &Policy, user: &str, resource: &str) -> (bool, usize) {
        let attributes = Attributes::Resource(ResourceAttributes {
            verb: "get",
            resource,
            namespace: Some("x"),
            ..ResourceAttributes::default()
        });
        let before = CHECKS.get();
        let decision = policy.decide(
            User {
                name: user,
                groups: &[],
            },
            &attributes,
            Reach::Home,
        );
        (decision.is_allowed(), CHECKS.get() - before)
    }

    #[test]
    fn decision_evaluates_only_the_rules_of_the_user() {
        let mut policy = roles();
        for n in 0..1_000 {
            bind(
                &mut policy,
                &format!("b{n}"),
                n % ROLES,
                &format!("user{n}"),
            );
        }
        bind(&mut policy, "alice", 7, "alice");
        assert_eq!(count(&policy, "alice", "things7"), (true, 1));
        // One cluster role binding and one role binding.
        assert_eq!(count(&policy, "alice", "things8"), (false, 2));
        assert_eq!(count(&policy, "mallory", "things8"), (false, 0));
    }

    #[test]
    fn role_bound_a_thousand_times_is_evaluated_once() {
        let mut policy = roles();
        for n in 0..1_000 {
            bind(&mut policy, &format!("b{n}"), n % 2, "alice");
        }
        assert_eq!(count(&policy, "alice", "things8"), (false, 4));
        assert_eq!(count(&policy, "alice", "things0"), (true, 1));
    }
}
