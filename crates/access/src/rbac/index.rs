//! Bindings indexed by subject.

use std::collections::HashMap;
use std::sync::Arc;

use super::attributes::User;
use super::binding::{Binding, SERVICE_ACCOUNT, Subject};

/// The bindings of one namespace, or the cluster role bindings.
///
/// A lookup visits the bindings of one user only. Several bindings of a subject to the same
/// role are one grant, so the role's rules are evaluated once.
#[derive(Clone, Debug, Default)]
pub struct Bindings {
    named: HashMap<Box<str>, Arc<Binding>>,
    users: Grants,
    groups: Grants,
}

type Grants = HashMap<Box<str>, Vec<Grant>>;

/// The bindings of one subject to one role: never empty, sorted by name.
#[derive(Clone, Debug)]
pub struct Grant(Vec<Arc<Binding>>);

impl Bindings {
    /// Reports whether there are no bindings.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Reports whether there is a binding of this name.
    pub fn has(&self, name: &str) -> bool {
        self.named.contains_key(name)
    }

    /// Adds a binding. The caller has removed an earlier one of the same name.
    pub fn insert(&mut self, binding: Arc<Binding>) {
        for subject in &binding.subjects {
            let (grants, name) = self.place(subject);
            let grants = grants.entry(name).or_default();
            match find_role(grants, &binding) {
                Ok(at) => grants[at].insert(&binding),
                Err(at) => grants.insert(at, Grant(vec![Arc::clone(&binding)])),
            }
        }
        self.named.insert(binding.name.clone(), binding);
    }

    /// Removes and returns a binding.
    pub fn remove(&mut self, name: &str) -> Option<Arc<Binding>> {
        let binding = self.named.remove(name)?;
        for subject in &binding.subjects {
            let (places, name) = self.place(subject);
            let Some(grants) = places.get_mut(&name) else {
                continue;
            };
            if let Ok(at) = find_role(grants, &binding) {
                grants[at].remove(&binding);
                if grants[at].0.is_empty() {
                    grants.remove(at);
                }
            }
            if grants.is_empty() {
                places.remove(&name);
            }
        }
        Some(binding)
    }

    /// Iterates over the grants of a user and their groups.
    pub fn of<'a>(&'a self, user: User<'a>) -> impl Iterator<Item = &'a Grant> {
        let own = self.users.get(user.name);
        let groups = user
            .groups
            .iter()
            .filter_map(|group| self.groups.get(&**group));
        own.into_iter().chain(groups).flatten()
    }

    fn place(&mut self, subject: &Subject) -> (&mut Grants, Box<str>) {
        match subject {
            Subject::User(name) => (&mut self.users, name.clone()),
            Subject::Group(name) => (&mut self.groups, name.clone()),
            Subject::ServiceAccount { namespace, name } => {
                let user = format!("{SERVICE_ACCOUNT}{namespace}:{name}");
                (&mut self.users, user.into())
            }
        }
    }
}

impl Grant {
    /// Iterates over the bindings, sorted by name.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.0.iter().map(|binding| &**binding)
    }

    /// Adds a binding, unless it is already included by naming the subject twice.
    fn insert(&mut self, binding: &Arc<Binding>) {
        if let Err(at) = self.find(binding) {
            self.0.insert(at, Arc::clone(binding));
        }
    }

    fn remove(&mut self, binding: &Binding) {
        if let Ok(at) = self.find(binding) {
            self.0.remove(at);
        }
    }

    fn find(&self, binding: &Binding) -> Result<usize, usize> {
        self.0
            .binary_search_by(|other| other.name.cmp(&binding.name))
    }
}

/// Finds the grant of the binding's role, or its insertion point.
fn find_role(grants: &[Grant], binding: &Binding) -> Result<usize, usize> {
    let role = (&binding.role_kind, &binding.role);
    grants.binary_search_by(|grant| {
        let first = &grant.0[0];
        (&first.role_kind, &first.role).cmp(&role)
    })
}
