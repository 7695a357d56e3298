//! Resolves the credential of an object: reads the facts for the decision.

use insula_identity::claim::Hold;
use insula_identity::credential::{Credential, Hidden, Source};
use insula_identity::decide::{
    self, CredentialReader, Identity, Known, Labels, Need, Question, Refusal, Target,
};
use insula_identity::endpoint::{AllowedEndpoints, Endpoint, Trust};
use insula_identity::reason::Reason;
use insula_identity::reference::{CredentialReferences, Level, Reference};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::{Bounds, Dependency, IdentityKind, Provider, Reconciliation};
use crate::commit::has_finalizer;
use crate::condition::find;
use crate::key::{GroupKind, Key};
use crate::read::{get_named, get_named_metadata, is_valid_name};

impl<P: Provider> Reconciliation<'_, P> {
    /// Resolves the credential of the object.
    ///
    /// # Errors
    ///
    /// If a fact cannot be read, which is neither a refusal nor a reason to use another
    /// credential.
    pub async fn resolve(
        &self,
        question: &Question,
    ) -> Result<Result<Credential, Refusal>, kube::Error> {
        let question = Question {
            tenant: self.key.space.as_deref().map(str::to_owned),
            ..question.clone()
        };
        let resolved = decide::resolve(&question, self).await?;
        let borrowed = resolved.as_ref().ok().and_then(|granted| {
            let Source::Identity {
                name, lent: true, ..
            } = &granted.source
            else {
                return None;
            };
            lent_key::<P>(name)
        });
        self.set_borrowed(borrowed);
        Ok(resolved)
    }

    /// Records that the object references an identity. It counts as a user, whether it may use
    /// the identity or not. One that it borrowed before stays in use until a credential is
    /// resolved again.
    pub fn depend_on_identity(&self, name: &str) {
        let Some(kind) = P::IDENTITIES.filter(|_| is_valid_name(name)) else {
            return;
        };
        self.depend_on_kind(GroupKind::of_resource(&(kind.resource)()), None, name);
        let lent = lent_key::<P>(name).filter(|_| self.key.space.is_some());
        if let Some(lent) = lent.filter(|lent| self.context.borrows(self.key, lent)) {
            self.depend_on(Dependency::Object(lent.clone()));
            self.set_borrowed(Some(lent));
        }
    }

    async fn identity(&self, name: &str) -> Result<Option<Identity>, kube::Error> {
        let Some(kind) = P::IDENTITIES else {
            return Ok(None);
        };
        let found = self.read_dynamic(&(kind.resource)(), None, name).await?;
        Ok(found.map(|found| as_identity(kind, &found, &self.context.operator_namespace)))
    }

    /// Reads an identity of the operator's own space.
    async fn lent_identity(&self, name: &str) -> Result<Option<Identity>, kube::Error> {
        let Some(kind) = P::IDENTITIES else {
            return Ok(None);
        };
        let resource = (kind.resource)();
        let group_kind = GroupKind::of_resource(&resource);
        let key = Key::cluster_scoped(group_kind, None, name);
        self.depend_on(Dependency::Object(key));
        let api: Api<DynamicObject> = Api::all_with(self.context.client.clone(), &resource);
        let found = get_named(&api, name).await?;
        Ok(found.map(|found| as_identity(kind, &found, &self.context.operator_namespace)))
    }

    async fn tenant_labels(&self, name: &str) -> Result<Option<Labels>, kube::Error> {
        let resource = tenant_resource();
        let key = Key::cluster_scoped(GroupKind::of_resource(&resource), None, name);
        self.depend_on(Dependency::Object(key));
        let tenants: Api<DynamicObject> = Api::all_with(self.context.client.clone(), &resource);
        let found = get_named_metadata(&tenants, name).await?;
        Ok(found.map(|found| found.labels().clone()))
    }

    pub(super) async fn namespace_labels(&self, name: &str) -> Result<Option<Labels>, kube::Error> {
        self.depend_on_object::<Namespace>(None, name);
        let found = get_named_metadata(&self.cluster_api::<Namespace>(), name).await?;
        Ok(found.map(|found| found.labels().clone()))
    }

    async fn secret(
        &self,
        lent: bool,
        namespace: &str,
        name: &str,
    ) -> Result<Option<decide::Secret>, kube::Error> {
        let space = self.key.space.clone().filter(|_| !lent);
        let key = Key::namespaced(GroupKind::of::<Secret>(), space, namespace, name);
        self.depend_on(Dependency::Object(key));
        let found = match lent {
            true => {
                let secrets = Api::namespaced(self.context.client.clone(), namespace);
                get_named(&secrets, name).await?
            }
            false => self.read_secret(namespace, name).await?,
        };
        Ok(found.map(|found| as_secret(found, P::NAMES.secret_finalizer)))
    }

    /// The static credentials are for the operator's own space and for the spaces in its
    /// settings.
    fn static_credentials(&self) -> Option<decide::Static> {
        self.depend_on(Dependency::StaticCredentials);
        let is_for = |space: &str| self.context.static_credentials_for.contains(space);
        if !self.key.space.as_deref().is_none_or(is_for) {
            return None;
        }
        let given = self.context.static_credentials.borrow();
        given.as_ref().map(|given| decide::Static {
            data: given.data.clone(),
            bound: given.bound.clone(),
        })
    }
}

impl<P: Provider> CredentialReader for Reconciliation<'_, P> {
    type Error = kube::Error;

    async fn read(&self, need: Need, known: &mut Known) -> Result<(), kube::Error> {
        match need {
            Need::Identity(name) => known.identity = Some(self.identity(&name).await?),
            Need::LentIdentity(name) => {
                known.lent_identity = Some(self.lent_identity(&name).await?);
            }
            Need::Tenant(name) => known.tenant = Some(self.tenant_labels(&name).await?),
            Need::Namespace(name) => known.namespace = Some(self.namespace_labels(&name).await?),
            Need::Secret {
                lent,
                namespace,
                name,
            } => known.secret = Some(self.secret(lent, &namespace, &name).await?),
            Need::Operator => known.operator = Some(self.static_credentials()),
        }
        Ok(())
    }
}

/// Returns the question which credential an object of this namespace gets, in the operator's own
/// space, for a Secret that is not held and lists no servers.
pub fn question<P: Provider>(
    bounds: &Bounds,
    namespace: Option<&str>,
    references: CredentialReferences,
    target: Target,
) -> Question {
    Question {
        namespace: namespace.map(str::to_owned),
        tenant: None,
        references,
        floor: Level::Operator,
        target,
        shape: P::SHAPE,
        hold: Hold::None,
        operator_credential: "static credentials",
        identity_kind: P::IDENTITIES.map(|kind| kind.kind),
        endpoint_key: None,
        default_port: 443,
        default_bound: bounds.default.clone(),
        own_bound: bounds.namespace_secrets.clone(),
    }
}

/// Returns the key of an identity of the operator's own space.
fn lent_key<P: Provider>(name: &str) -> Option<Key> {
    let resource = (P::IDENTITIES?.resource)();
    let kind = GroupKind::of_resource(&resource);
    Some(Key::cluster_scoped(kind, None, name))
}

/// Returns the resource of tenants.
pub(crate) fn tenant_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("", "v1", "Tenant");
    ApiResource::from_gvk_with_plural(&kind, "tenants")
}

/// Parses the address of a server.
///
/// # Errors
///
/// If it is no host, and no host with a port.
pub fn parse_endpoint(field: &str, server: &str, port: u16) -> Result<Endpoint, Refusal> {
    Endpoint::parse(server, port).map_err(|error| Refusal {
        reason: Reason::EndpointNotAllowed,
        message: format!("{field}: {error}"),
        hint: None,
    })
}

/// Returns which certificate of a server to trust: the one with this fingerprint, if there is one.
///
/// # Errors
///
/// If it is no fingerprint.
pub fn parse_thumbprint(field: &str, thumbprint: Option<&str>) -> Result<Trust, Refusal> {
    let Some(text) = thumbprint.filter(|text| !text.is_empty()) else {
        return Ok(Trust::Verified);
    };
    Trust::pinned(text).map_err(|error| Refusal {
        reason: Reason::CertificateNotTrusted,
        message: format!("{field}: {error}"),
        hint: None,
    })
}

/// Returns the reference that a `spec.identityRef` with kind and name makes. The schema allows no
/// other kind, but it may have been replaced.
///
/// # Errors
///
/// If the kind is neither that of identities nor `Secret`, or the name is invalid.
pub fn named_reference(kind: &str, name: &str, identities: &str) -> Result<Reference, Refusal> {
    let (reason, reference) = match kind {
        "Secret" => (Reason::SecretNotAvailable, Reference::secret(name)),
        kind if kind == identities => (
            Reason::IdentityNotFound,
            Reference::Identity(name.to_owned()),
        ),
        _ => {
            return Err(Refusal {
                reason: Reason::IdentityNotFound,
                message: format!("spec.identityRef: kind must be {identities} or Secret"),
                hint: None,
            });
        }
    };
    match is_valid_name(name) {
        true => Ok(reference),
        false => Err(Refusal {
            reason,
            message: format!("spec.identityRef: invalid name {name:?}"),
            hint: None,
        }),
    }
}

/// Returns the message of a refusal, with its hint.
pub fn full_message(refusal: &Refusal) -> String {
    match &refusal.hint {
        Some(hint) => format!("{}: {hint}", refusal.message),
        None => refusal.message.clone(),
    }
}

/// Describes the source of a credential in conditions.
pub fn source_text(source: &Source, identity_kind: &str) -> String {
    match source {
        Source::Secret {
            name,
            part: Some(part),
            ..
        } => format!("with the credentials of Secret {name}, {part}"),
        Source::Secret { name, .. } => format!("with the credentials of Secret {name}"),
        Source::Identity { name, .. } => format!("with the credentials of {identity_kind} {name}"),
        Source::Operator => "with the credentials of the operator".to_owned(),
    }
}

/// Converts an identity for the decision. A terminating identity stays ready if it was: its
/// users could not clean up otherwise. A selector or bound that cannot be parsed allows nothing.
pub fn as_identity(kind: &IdentityKind, found: &DynamicObject, secret_namespace: &str) -> Identity {
    let (spec, status) = (&found.data["spec"], super::identity::status_of(found));
    let available = find(&status.conditions, super::identity::AVAILABLE);
    let trouble = available.filter(|condition| condition.status != "True");
    let allowed = |key: &str| match &spec[key] {
        Value::Null => None,
        allowed => serde_json::from_value(allowed.clone()).ok(),
    };
    Identity {
        uid: found.uid().unwrap_or_default(),
        ready: status.ready == Some(true),
        trouble: trouble.map(|condition| condition.reason.clone()),
        allowed: allowed("allowedNamespaces"),
        allowed_tenants: allowed("allowedTenants"),
        secret_namespace: secret_namespace.to_owned(),
        secret_name: super::identity::secret_name(found).to_owned(),
        bound: (kind.bound)(spec).unwrap_or(AllowedEndpoints::Only(Vec::new())),
    }
}

/// Converts a Secret for the decision. A terminating Secret that is held remains usable.
pub fn as_secret(found: Secret, finalizer: &str) -> decide::Secret {
    let is_held = has_finalizer(&found, finalizer);
    let data = found.data.unwrap_or_default().into_iter();
    decide::Secret {
        uid: found.metadata.uid.unwrap_or_default(),
        deleting: found.metadata.deletion_timestamp.is_some() && !is_held,
        data: data
            .map(|(name, value)| (name, Hidden::new(value.0)))
            .collect(),
        owners: found.metadata.owner_references.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o02_invalid_name_in_a_reference_is_refused_before_any_read() {
        for name in ["shared/status", "%73hared", "shared?x", "..", "", "Shared"] {
            for (kind, reason) in [
                ("CloudIdentity", Reason::IdentityNotFound),
                ("Secret", Reason::SecretNotAvailable),
            ] {
                let refusal = named_reference(kind, name, "CloudIdentity").unwrap_err();
                let message = format!("spec.identityRef: invalid name {name:?}");
                assert_eq!((refusal.reason, refusal.message), (reason, message));
            }
        }
        let refusal = named_reference("Pod", "a", "CloudIdentity").unwrap_err();
        assert_eq!(
            refusal.message,
            "spec.identityRef: kind must be CloudIdentity or Secret"
        );
        let secret = named_reference("Secret", "a", "CloudIdentity");
        assert_eq!(secret, Ok(Reference::secret("a")));
    }
}
