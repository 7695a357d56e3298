//! Annotations of a request's audit event.

use insula_core::Space;

/// An annotation of an audit event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Whose it is.
    pub owner: AnnotationOwner,
}

/// Whose an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationOwner {
    /// A plugin of the server.
    Server,
    /// A webhook or policy of the system. The tenant does not see it.
    System,
    /// A webhook or policy of the tenant.
    Tenant,
}

/// The annotations that are collected while a request is handled.
///
/// A tenant may have any number of webhooks and policies, and names them itself. So its
/// annotations take no room from those of the server and the system, and do not replace them.
#[derive(Debug, Default)]
pub struct Annotations {
    trusted: Vec<Annotation>,
    tenants: Vec<Annotation>,
}

/// The most annotations of the tenant, and the most of the server and the system.
const MAX_ANNOTATIONS: usize = 64;

/// Domains of keys that a tenant cannot choose, with those below them.
const RESERVED_DOMAINS: [&str; 3] = ["k8s.io", "kubernetes.io", "insula.dev"];

impl AnnotationOwner {
    /// Returns the owner of what a space has configured.
    pub const fn of(space: &Space) -> Self {
        match space {
            Space::System => Self::System,
            Space::Tenant(_) => Self::Tenant,
        }
    }
}

impl Annotations {
    /// Adds an annotation with a key that the server chose. The first value of a key stays.
    pub fn add(&mut self, annotation: Annotation) {
        let list = match annotation.owner {
            AnnotationOwner::Server | AnnotationOwner::System => &mut self.trusted,
            AnnotationOwner::Tenant => &mut self.tenants,
        };
        let is_known = list.iter().any(|known| known.key == annotation.key);
        if list.len() < MAX_ANNOTATIONS && !is_known {
            list.push(annotation);
        }
    }

    /// Adds an annotation with a key that its owner chose, unless that is reserved.
    pub fn add_configured(&mut self, annotation: Annotation) {
        if annotation.owner != AnnotationOwner::Tenant || !is_reserved(&annotation.key) {
            self.add(annotation);
        }
    }

    /// Takes all annotations. Those of the tenant give way to others with the same key.
    pub fn take(&mut self) -> Vec<Annotation> {
        let mut all = std::mem::take(&mut self.trusted);
        let mut tenants = std::mem::take(&mut self.tenants);
        tenants.retain(|one| all.iter().all(|known| known.key != one.key));
        all.append(&mut tenants);
        all
    }
}

/// Whether a key is in a domain that a tenant cannot choose.
fn is_reserved(key: &str) -> bool {
    let (domain, _) = key.split_once('/').unwrap_or((key, ""));
    let domain = domain.to_ascii_lowercase();
    RESERVED_DOMAINS.iter().any(|reserved| {
        let below = domain.strip_suffix(reserved);
        below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotation(owner: AnnotationOwner, key: &str, value: &str) -> Annotation {
        Annotation {
            key: key.to_owned(),
            value: value.to_owned(),
            owner,
        }
    }

    #[test]
    fn tenant_takes_no_room_and_no_key_of_others() {
        let mut annotations = Annotations::default();
        for index in 0..100 {
            let key = format!("w.ex.io/{index}");
            annotations.add_configured(annotation(AnnotationOwner::Tenant, &key, "t"));
        }
        for owner in [AnnotationOwner::System, AnnotationOwner::Server] {
            annotations.add(annotation(owner, &format!("{owner:?}.ex.io/k"), "first"));
            annotations.add(annotation(owner, &format!("{owner:?}.ex.io/k"), "second"));
        }
        annotations.add_configured(annotation(AnnotationOwner::System, "w.ex.io/5", "s"));
        let all = annotations.take();
        let value = |key: &str| {
            let mut found = all.iter().filter(|one| one.key == key);
            (found.next().map(|one| one.value.as_str()), found.count())
        };
        assert_eq!(value("System.ex.io/k"), (Some("first"), 0));
        assert_eq!(value("Server.ex.io/k"), (Some("first"), 0));
        assert_eq!(value("w.ex.io/5"), (Some("s"), 0));
        assert_eq!(all.len(), 3 + MAX_ANNOTATIONS - 1);
        assert_eq!(annotations.take(), []);
    }

    #[test]
    fn tenant_cannot_choose_reserved_keys() {
        for (key, expected) in [
            ("mutation.webhook.admission.k8s.io/round_0_index_0", true),
            ("pod-security.kubernetes.io/enforce-policy", true),
            ("authorization.K8S.io/decision", true),
            ("k8s.io/a", true),
            ("insula.dev/space", true),
            ("a.insula.dev/space", true),
            ("w.ex.io/k8s.io", false),
            ("myk8s.io/a", false),
            ("p1/k", false),
        ] {
            assert_eq!(is_reserved(key), expected, "{key}");
            for (owner, is_kept) in [
                (AnnotationOwner::Tenant, !expected),
                (AnnotationOwner::System, true),
            ] {
                let mut annotations = Annotations::default();
                annotations.add_configured(annotation(owner, key, "v"));
                assert_eq!(annotations.take().len(), usize::from(is_kept), "{key}");
            }
        }
    }
}
