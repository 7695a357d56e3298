//! The layout of keys in the store: the only place where keys are built and parsed.
//!
//! ```text
//! system, cluster-scoped    /registry/{resource}/{name}
//! system, namespaced        /registry/{resource}/{namespace}/{name}
//! tenant, cluster-scoped    /registry/{resource}/{tenant}/{name}
//! tenant, namespaced        /registry/{resource}/{tenant}/{namespace}/{name}
//! tenant, its fence         /registry/insula/fences/{tenant}
//! keys of encryption        /registry/insula/encryption/{record}
//! ```
//!
//! with `{group}/{resource}` for groups outside the core. On its own this is ambiguous: the keys of
//! system namespace `x` begin like those of tenant `x`. It is not ambiguous here, because no tenant
//! ever has the name of a system namespace, and because the scope of a resource determines how many
//! segments its keys have.

use crate::space::{Space, TenantName};

/// Builds and parses keys below one prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
}

/// A resource as it appears in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceName<'a> {
    /// The API group, empty for the core group.
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
}

/// The location of an object within its resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place<'a> {
    /// The space.
    pub space: Space,
    /// The namespace, for namespaced resources.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

/// The prefix of the tenants' fence keys.
const FENCES: &str = "insula/fences";

/// The prefix of the records of encryption at rest.
const ENCRYPTION: &str = "insula/encryption";

impl Default for Layout {
    fn default() -> Self {
        Self::new("/registry")
    }
}

impl Layout {
    /// A layout below `prefix`.
    pub fn new(prefix: &str) -> Self {
        let prefix = prefix.trim_end_matches('/').to_owned();
        Self { prefix }
    }

    /// The prefix of all keys.
    pub fn everything(&self) -> String {
        format!("{}/", self.prefix)
    }

    /// The key of an object.
    pub fn key(&self, resource: ResourceName<'_>, place: &Place<'_>) -> String {
        let mut key = self.resource(resource);
        if let Some(tenant) = place.space.tenant() {
            push(&mut key, tenant.as_str());
        }
        if let Some(namespace) = place.namespace {
            push(&mut key, namespace);
        }
        key.push_str(place.name);
        key
    }

    /// The key prefix of a resource, in every space.
    pub fn resource(&self, resource: ResourceName<'_>) -> String {
        let mut key = self.everything();
        if !resource.group.is_empty() {
            push(&mut key, resource.group);
        }
        push(&mut key, resource.resource);
        key
    }

    /// The key prefix of a resource in one space, optionally in one namespace.
    ///
    /// The system space has no segment of its own, so its prefix also covers the tenants' keys: the
    /// caller must [`place`](Self::place) every key that it reads.
    pub fn collection(
        &self,
        resource: ResourceName<'_>,
        space: &Space,
        namespace: Option<&str>,
    ) -> String {
        let mut key = self.resource(resource);
        if let Some(tenant) = space.tenant() {
            push(&mut key, tenant.as_str());
        }
        if let Some(namespace) = namespace {
            push(&mut key, namespace);
        }
        key
    }

    /// The fence of a tenant: an empty key that is written by every write that needs more of the
    /// tenant's quota, so that such writes conflict with each other. It cannot collide with an
    /// object, because `insula` is not an API group.
    pub fn fence(&self, tenant: &TenantName) -> String {
        format!("{}/{FENCES}/{}", self.prefix, tenant.as_str())
    }

    /// The tenant of a fence key.
    pub fn fenced(&self, key: &str) -> Option<TenantName> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        let tenant = rest.strip_prefix(FENCES)?.strip_prefix('/')?;
        TenantName::parse(tenant).ok()
    }

    /// The key of a record of encryption at rest: a wrapped key, or the mark of a destroyed one.
    /// The empty name is the prefix of all. It cannot collide with an object, see
    /// [`fence`](Self::fence).
    pub fn encryption_record(&self, name: &str) -> String {
        format!("{}/{ENCRYPTION}/{name}", self.prefix)
    }

    /// The name of the record of encryption at rest that a key belongs to.
    pub fn encryption_record_name<'a>(&self, key: &'a str) -> Option<&'a str> {
        let rest = key.strip_prefix(&self.prefix)?.strip_prefix('/')?;
        rest.strip_prefix(ENCRYPTION)?.strip_prefix('/')
    }

    /// The segments of a key below the prefix.
    pub fn below<'a>(&self, key: &'a str) -> Option<std::str::Split<'a, char>> {
        Some(
            key.strip_prefix(&self.prefix)?
                .strip_prefix('/')?
                .split('/'),
        )
    }

    /// The location that the segments after the resource describe, if a resource of that scope can
    /// have such a key.
    pub fn place<'a>(segments: &[&'a str], namespaced: bool) -> Option<Place<'a>> {
        let (tenant, namespace, name) = match (segments, namespaced) {
            ([name], false) => (None, None, *name),
            ([tenant, name], false) => (Some(*tenant), None, *name),
            ([namespace, name], true) => (None, Some(*namespace), *name),
            ([tenant, namespace, name], true) => (Some(*tenant), Some(*namespace), *name),
            _ => return None,
        };
        let space = match tenant {
            None => Space::System,
            Some(tenant) => Space::Tenant(TenantName::parse(tenant).ok()?),
        };
        Some(Place {
            space,
            namespace,
            name,
        })
    }
}

fn push(key: &mut String, segment: &str) {
    key.push_str(segment);
    key.push('/');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(resource: &str) -> ResourceName<'_> {
        ResourceName {
            group: "",
            resource,
        }
    }

    fn tenant(name: &str) -> Space {
        Space::parse(name).unwrap()
    }

    #[test]
    fn keys_match_the_arktos_document() {
        let layout = Layout::default();
        let key = |resource, space, namespace, name| {
            layout.key(
                resource,
                &Place {
                    space,
                    namespace,
                    name,
                },
            )
        };
        let services = ResourceName {
            group: "apiregistration.k8s.io",
            resource: "apiservices",
        };
        assert_eq!(
            key(services, Space::System, None, "v1beta1.node.k8s.io"),
            "/registry/apiregistration.k8s.io/apiservices/v1beta1.node.k8s.io"
        );
        assert_eq!(
            key(
                core("serviceaccounts"),
                Space::System,
                Some("kube-system"),
                "job-controller"
            ),
            "/registry/serviceaccounts/kube-system/job-controller"
        );
        assert_eq!(
            key(core("namespaces"), tenant("tenant-a"), None, "kube-public"),
            "/registry/namespaces/tenant-a/kube-public"
        );
        let account = (Some("kube-system"), "job-controller");
        assert_eq!(
            key(
                core("serviceaccounts"),
                tenant("tenant-a"),
                account.0,
                account.1
            ),
            "/registry/serviceaccounts/tenant-a/kube-system/job-controller"
        );
    }

    #[test]
    fn fence_key_round_trips() {
        let layout = Layout::default();
        let name = TenantName::parse("t1").unwrap();
        assert_eq!(layout.fence(&name), "/registry/insula/fences/t1");
        assert_eq!(layout.fenced("/registry/insula/fences/t1"), Some(name));
        for other in [
            "/registry/insula/fences/",
            "/registry/pods/t1",
            "insula/fences/t1",
        ] {
            assert_eq!(layout.fenced(other), None, "{other}");
        }
    }

    #[test]
    fn encryption_record_key_round_trips() {
        let layout = Layout::new("/other");
        let key = layout.encryption_record("data-keys/u");
        assert_eq!(key, "/other/insula/encryption/data-keys/u");
        assert_eq!(layout.encryption_record_name(&key), Some("data-keys/u"));
        assert_eq!(layout.fenced(&key), None);
        assert_eq!(
            layout.encryption_record_name("/other/insula/fences/t1"),
            None
        );
    }

    #[test]
    fn scope_of_the_resource_determines_the_meaning_of_segments() {
        let cluster = |segments: &[&'static str]| Layout::place(segments, false);
        let namespaced = |segments: &[&'static str]| Layout::place(segments, true);
        let space = |place: Option<Place<'_>>| place.unwrap().space;
        assert_eq!(space(cluster(&["pv"])), Space::System);
        assert_eq!(space(cluster(&["t1", "pv"])), tenant("t1"));
        assert_eq!(space(namespaced(&["t1", "pod"])), Space::System);
        assert_eq!(space(namespaced(&["t1", "ns", "pod"])), tenant("t1"));
        for bad in [&["a", "b", "c"][..], &[], &["all", "pv"], &["system", "pv"]] {
            assert_eq!(cluster(bad), None, "{bad:?}");
        }
    }
}
