//! The tenant of an object, and how equal names of two tenants are distinguished.
//!
//! A watch over all spaces returns objects with the same namespace and name from several
//! tenants. The stores of kube are keyed by namespace and name, so one tenant's object would
//! replace another's. Therefore the tenant is added to the namespace of every received object
//! ([`qualify`]), and split off again before a write ([`Place::of`]). Namespaces have no slash
//! in their names, so the two forms cannot be confused, and the server would refuse a write
//! with a qualified namespace.

use kube::{Resource, ResourceExt};

/// The space of the system or of a tenant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Space {
    /// The system's space.
    System,
    /// The space of the tenant of this name.
    Tenant(String),
}

/// A namespace of a space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The space.
    pub space: Space,
    /// The namespace in it.
    pub namespace: String,
}

impl Place {
    /// Returns the place of a qualified object.
    pub fn of(object: &impl Resource) -> Self {
        Self::parse(object.meta().namespace.as_deref().unwrap_or_default())
    }

    /// Parses the form of `Display`.
    pub fn parse(text: &str) -> Self {
        match text.split_once('/') {
            Some((tenant, namespace)) => Self {
                space: Space::Tenant(tenant.to_owned()),
                namespace: namespace.to_owned(),
            },
            None => Self {
                space: Space::System,
                namespace: text.to_owned(),
            },
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.space {
            Space::System => f.write_str(&self.namespace),
            Space::Tenant(tenant) => write!(f, "{tenant}/{}", self.namespace),
        }
    }
}

/// Adds the tenant of an object to its namespace: `acme/default`.
///
/// The tenant is in `metadata.tenant`, which types generated for Kubernetes do not have, and
/// in the path in `metadata.selfLink`, which they do.
pub fn qualify(object: &mut impl Resource) {
    let link = object.meta().self_link.as_deref().unwrap_or_default();
    let Some(tenant) = tenant_in(link) else {
        return;
    };
    let qualified = format!("{tenant}/{}", object.namespace().unwrap_or_default());
    object.meta_mut().namespace = Some(qualified);
}

/// Returns `acme` for `/api/v1/tenants/acme/namespaces/…` and `/apis/g/v1/tenants/acme/…`. An
/// object may be called `tenants`, so only the segments after the version count.
fn tenant_in(link: &str) -> Option<&str> {
    let mut segments = link.strip_prefix('/')?.split('/');
    let before = match segments.next()? {
        "api" => 1,
        "apis" => 2,
        _ => return None,
    };
    let mut below = segments.skip(before);
    (below.next()? == "tenants").then_some(())?;
    below.next()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn config_map(namespace: &str, link: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some(namespace.to_owned());
        object.metadata.self_link = Some(link.to_owned());
        object
    }

    #[test]
    fn equal_names_of_two_tenants_and_of_the_system_are_three_places() {
        for (link, namespace) in [
            (
                "/api/v1/tenants/acme/namespaces/default/configmaps/c",
                "acme/default",
            ),
            (
                "/api/v1/tenants/globex/namespaces/default/configmaps/c",
                "globex/default",
            ),
            ("/api/v1/namespaces/default/configmaps/c", "default"),
            (
                "/apis/example.com/v1/tenants/acme/namespaces/default/sites/s",
                "acme/default",
            ),
            (
                "/apis/example.com/v1/namespaces/default/tenants/s",
                "default",
            ),
        ] {
            let mut object = config_map("default", link);
            qualify(&mut object);
            assert_eq!(
                object.metadata.namespace.as_deref(),
                Some(namespace),
                "{link}"
            );
            let place = Place::of(&object);
            assert_eq!(place.namespace, "default", "{link}");
            assert_eq!(place.to_string(), namespace, "{link}");
        }
    }
}
