//! The object that uses a host.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::proof::ProofDigest;
use crate::kinds::host::BareMetalHost;
use crate::names::{CLAIM_DIGEST, GROUP, TENANT_ANNOTATION};

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
    /// The tenant, if it is in a tenant's space of an Insula and reaches the host through a
    /// kubeconfig.
    pub tenant: Option<String>,
    /// What tells it from others of the same name, if it is a machine that reaches the host through
    /// a kubeconfig.
    pub digest: Option<ProofDigest>,
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
            digest: None,
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
            digest: None,
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

    /// Returns the same object with what tells it from others of the same name.
    #[must_use]
    pub fn with_digest(self, digest: Option<ProofDigest>) -> Self {
        Self { digest, ..self }
    }

    /// Returns whether a reference is to this object, or to one of another tenant. Version and UID
    /// do not count: both are other ones after a move to another management cluster.
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

    /// Returns whether a host is used by this object. The tenant counts only without a digest: a
    /// move may lead to another tenant.
    pub fn has(&self, host: &BareMetalHost) -> bool {
        let digest = annotation(host, CLAIM_DIGEST);
        let is_own = match &self.digest {
            Some(own) => digest == Some(own.as_str()),
            None => {
                let tenant = annotation(host, TENANT_ANNOTATION);
                digest.is_none() && tenant == self.tenant.as_deref()
            }
        };
        is_own && self.is_named_by(host)
    }

    /// Returns whether a host that this object names is used by it. Such a host may have nothing
    /// that tells machines of one name apart: it was claimed without a kubeconfig, and is reached
    /// with one now.
    pub fn has_named(&self, host: &BareMetalHost) -> bool {
        let tenant = annotation(host, TENANT_ANNOTATION);
        let is_unmarked = annotation(host, CLAIM_DIGEST).is_none()
            && tenant.is_none_or(|tenant| Some(tenant) == self.tenant.as_deref());
        self.has(host) || (is_unmarked && self.is_named_by(host))
    }

    /// Returns whether a host names this object, or another one of the same name.
    pub fn is_named_by(&self, host: &BareMetalHost) -> bool {
        let consumer = host.spec.consumer_ref.as_ref();
        consumer.is_some_and(|consumer| self.is(consumer))
    }

    /// Makes this object the user of a host.
    pub fn take(&self, host: &mut BareMetalHost, version: &str) {
        host.spec.consumer_ref = Some(self.reference(version));
        self.mark(host);
    }

    /// Writes the annotations that tell this object from others of the same name.
    pub fn mark(&self, host: &mut BareMetalHost) {
        let marks = [
            (TENANT_ANNOTATION, self.tenant.as_deref()),
            (CLAIM_DIGEST, self.digest.as_ref().map(ProofDigest::as_str)),
        ];
        forget_marks(host);
        for (name, value) in marks {
            if let Some(value) = value {
                let annotations = host.metadata.annotations.get_or_insert_default();
                annotations.insert(name.to_owned(), value.to_owned());
            }
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
    forget_marks(host);
}

fn annotation<'a>(host: &'a BareMetalHost, name: &str) -> Option<&'a str> {
    let annotations = host.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

fn forget_marks(host: &mut BareMetalHost) {
    if let Some(annotations) = &mut host.metadata.annotations {
        annotations.remove(TENANT_ANNOTATION);
        annotations.remove(CLAIM_DIGEST);
    }
}

/// Removes machines from the owners of a host. Metal3's own provider adds them up to its version
/// 1.13; the garbage collector would delete the host after its machine.
pub fn remove_owners(host: &mut BareMetalHost) {
    if let Some(owners) = &mut host.metadata.owner_references {
        owners.retain(|owner| !is_machine(owner));
    }
}

/// Returns whether a machine is among the owners of a host.
pub fn is_owned(host: &BareMetalHost) -> bool {
    let owners = host.metadata.owner_references.as_deref();
    owners.unwrap_or_default().iter().any(is_machine)
}

fn is_machine(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split('/').next();
    owner.kind == "Metal3Machine" && group == Some(GROUP)
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
