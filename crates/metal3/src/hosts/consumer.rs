//! The object that uses a host.

use k8s_openapi::api::core::v1::ObjectReference;

use crate::kinds::host::BareMetalHost;
use crate::names::{GROUP, TENANT_ANNOTATION};

/// An object that can use a host: a machine, or a cluster that keeps the host for its next
/// machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The kind.
    pub kind: &'static str,
    /// The group of the kind.
    pub group: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The tenant, if it is in a tenant's space of an Insula.
    pub tenant: Option<String>,
}

impl Consumer {
    /// Returns a machine of the operator's own space.
    pub fn machine(namespace: &str, name: &str) -> Self {
        Self {
            kind: "Metal3Machine",
            group: GROUP,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            tenant: None,
        }
    }

    /// Returns a cluster of the operator's own space.
    pub fn cluster(namespace: &str, name: &str) -> Self {
        Self {
            kind: "Cluster",
            group: insula_capi::names::GROUP,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            tenant: None,
        }
    }

    /// Returns the object of the same name in a space.
    #[must_use]
    pub fn in_space(self, tenant: Option<&str>) -> Self {
        Self {
            tenant: tenant.map(str::to_owned),
            ..self
        }
    }

    /// Returns whether a reference is to this object, or to one of another tenant. Version and UID do not count: both are
    /// other ones after a move to another management cluster.
    pub(super) fn is(&self, reference: &ObjectReference) -> bool {
        let version = reference.api_version.as_deref().unwrap_or_default();
        let group = match version.split_once('/') {
            Some((_, version)) if version.contains('/') => return false,
            Some((group, _)) => group,
            None => "",
        };
        group == self.group
            && reference.kind.as_deref() == Some(self.kind)
            && reference.namespace.as_deref() == Some(&self.namespace)
            && reference.name.as_deref() == Some(&self.name)
    }

    /// Returns whether a host is used by this object.
    pub fn has(&self, host: &BareMetalHost) -> bool {
        let consumer = host.spec.consumer_ref.as_ref();
        let annotations = host.metadata.annotations.as_ref();
        let tenant = annotations.and_then(|all| all.get(TENANT_ANNOTATION));
        tenant == self.tenant.as_ref() && consumer.is_some_and(|consumer| self.is(consumer))
    }

    /// Makes this object the user of a host.
    pub fn take(&self, host: &mut BareMetalHost, version: &str) {
        host.spec.consumer_ref = Some(self.reference(version));
        match &self.tenant {
            Some(tenant) => {
                let annotations = host.metadata.annotations.get_or_insert_default();
                annotations.insert(TENANT_ANNOTATION.to_owned(), tenant.clone());
            }
            None => forget_tenant(host),
        }
    }

    /// Returns the reference to this object, of a version.
    pub(super) fn reference(&self, version: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some(format!("{}/{version}", self.group)),
            kind: Some(self.kind.to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectReference::default()
        }
    }
}

/// Removes the user of a host.
pub fn clear(host: &mut BareMetalHost) {
    host.spec.consumer_ref = None;
    forget_tenant(host);
}

fn forget_tenant(host: &mut BareMetalHost) {
    if let Some(annotations) = &mut host.metadata.annotations {
        annotations.remove(TENANT_ANNOTATION);
    }
}

/// Returns the host that the annotation of a machine names.
///
/// # Errors
///
/// If the host is in another namespace than the hosts that the machine's credential is for, or the
/// text has another form: users can write annotations, which must not lead elsewhere.
pub fn annotated_host<'a>(
    annotation: &'a str,
    host_namespace: &str,
) -> Result<&'a str, InvalidAnnotation> {
    let parts = annotation.split_once('/');
    let (namespace, name) = parts.ok_or(InvalidAnnotation::Form)?;
    if namespace != host_namespace {
        return Err(InvalidAnnotation::Namespace);
    }
    match name.is_empty() || name.contains('/') {
        true => Err(InvalidAnnotation::Form),
        false => Ok(name),
    }
}

/// Returns the annotation of a machine that names its host.
pub fn host_annotation(host_namespace: &str, host: &str) -> String {
    format!("{host_namespace}/{host}")
}

/// Why an annotation names no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnnotation {
    /// The text has another form.
    #[error("annotation metal3.io/BareMetalHost is not NAMESPACE/NAME")]
    Form,
    /// The namespace is another one.
    #[error("annotation metal3.io/BareMetalHost names a host outside of the namespace of hosts")]
    Namespace,
}
