//! The deny list of a space: credentials that are revoked before they expire.
//!
//! A CredentialRevocation is an object of the space that the credential belongs to, so it ends
//! with its tenant. The list is compiled when it is first needed and after each change; a space
//! without revocations has an empty one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use insula_access::jwt;
use insula_cache::{Cache, Derived, SpaceState, Stored};
use insula_core::{CredentialRef, Principal, Proof, Space};
use insula_kinds::time::{self, Precision};
use insula_kinds::{Object, Value};

use crate::registry::Registry;
use crate::registry::access_kinds::revocations;

/// The compiled revocations of a space.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DenyList {
    certificates: HashSet<Box<str>>,
    tokens: HashSet<Box<str>>,
    /// The users of revoked credentials, with the time before which these were issued.
    users: HashMap<Box<str>, i64>,
    /// The time before which all revoked credentials were issued.
    issued_before: Option<i64>,
}

/// The time of issue of credentials that are revoked whenever they were issued.
const ALWAYS: i64 = i64::MAX;

impl DenyList {
    /// Adds a revocation.
    pub fn add(&mut self, revocation: &Object) {
        if let Some(spec) = revocation.get("spec") {
            self.add_spec(spec);
        }
    }

    fn add_spec(&mut self, spec: &Value) {
        let text = |member: &str| {
            let value = spec.get(member).and_then(Value::as_str);
            value.filter(|text| !text.is_empty())
        };
        let before = text("issuedBefore");
        let before = before.and_then(|text| time::parse(text, Precision::Seconds).ok());
        let before = before.map(|time| time.seconds);
        if let Some(fingerprint) = text("certificate") {
            self.certificates.insert(fingerprint.into());
        } else if let Some(id) = text("token") {
            self.tokens.insert(jwt::bounded_id(id).as_ref().into());
        } else if let Some(user) = text("user") {
            let latest = self.users.entry(user.into()).or_insert(i64::MIN);
            *latest = before.unwrap_or(ALWAYS).max(*latest);
        } else if before.is_some() {
            self.issued_before = self.issued_before.max(before);
        }
    }

    /// Whether the credential that authenticated a principal is revoked.
    pub fn denies(&self, holder: &Principal) -> bool {
        let credential = &holder.credential;
        let ids = match holder.proof {
            Proof::Certificate => &self.certificates,
            _ => &self.tokens,
        };
        let of_user = self.users.get(holder.user.as_str());
        ids.contains(&*credential.id)
            || credential
                .twin
                .as_deref()
                .is_some_and(|id| ids.contains(id))
            || of_user.is_some_and(|time| is_issued_before(credential, *time))
            || self
                .issued_before
                .is_some_and(|time| is_issued_before(credential, time))
    }
}

/// Whether a credential was issued before a time. One that does not say when it was issued was.
fn is_issued_before(credential: &CredentialRef, time: i64) -> bool {
    credential.issued.is_none_or(|issued| issued < time)
}

/// Whether the credential behind a principal is revoked: its own, or that of its impersonator.
/// Impersonation needs no credential of the impersonated user, so revoking that user does not
/// end it.
pub fn is_revoked(registry: &Registry, principal: &Principal) -> bool {
    let holder = principal.authenticated();
    let state = registry.cache().space_state(&holder.home);
    state.is_some_and(|state| is_revoked_in(registry, &state, holder))
}

/// Like [`is_revoked`], of an authenticated principal with this state of its home.
pub fn is_revoked_in(registry: &Registry, state: &Arc<SpaceState>, holder: &Principal) -> bool {
    let denies = |list: &DenyList| list.denies(holder);
    ask(registry.cache(), state, &holder.home, denies)
}

/// Reads the deny list of a space, as of the cache.
fn ask<R>(
    cache: &Cache,
    state: &Arc<SpaceState>,
    space: &Space,
    read: impl Fn(&DenyList) -> R,
) -> R {
    if let Some(answer) = cache.derived(state, Derived::Revocations, &read) {
        return answer;
    }
    let derive = |_: Option<Box<DenyList>>, _| {
        let collection = cache.find(revocations(), space);
        let objects = collection.map(|collection| collection.snapshot("", None).objects);
        Box::new(compile(&objects.unwrap_or_default()))
    };
    cache.derive(state, Derived::Revocations, derive, read)
}

/// Compiles the list. Requests wait for that, so the rest of the objects is not decoded.
fn compile(objects: &[Arc<Stored>]) -> DenyList {
    let mut list = DenyList::default();
    for object in objects {
        match serde_json::from_slice::<Revocation>(&object.body()) {
            Ok(revocation) => list.add_spec(&revocation.spec),
            Err(_) => list.add(&object.tree()),
        }
    }
    list
}

/// The part of a stored revocation that says what is revoked.
#[derive(serde::Deserialize)]
struct Revocation {
    #[serde(default)]
    spec: Value,
}

#[cfg(test)]
mod tests {
    use insula_core::{Extra, TenantBinding};
    use serde_json::json;

    use super::*;

    fn list(specs: &[Value]) -> DenyList {
        let mut list = DenyList::default();
        for spec in specs {
            let object = json!({"spec": spec});
            list.add(object.as_object().unwrap());
        }
        list
    }

    fn holder(user: &str, proof: Proof, id: &str, issued: Option<i64>) -> Principal {
        Principal {
            user: user.to_owned(),
            uid: None,
            groups: Vec::new(),
            extra: Extra::new(),
            home: Space::System,
            tenant_binding: TenantBinding::Name,
            proof,
            credential: CredentialRef {
                id: id.into(),
                issued,
                ..CredentialRef::default()
            },
            impersonator: None,
        }
    }

    #[test]
    fn credential_is_denied_by_its_own_id_its_user_or_its_time() {
        let (at_100, at_200) = ("1970-01-01T00:01:40Z", "1970-01-01T00:03:20Z");
        let dora = |issued| holder("dora", Proof::Oidc, "j", issued);
        let certificate = holder("dora", Proof::Certificate, "f", Some(50));
        for (spec, holder, denied) in [
            (json!({"certificate": "f"}), certificate.clone(), true),
            (json!({"certificate": "g"}), certificate.clone(), false),
            // An ID of a token is no fingerprint.
            (json!({"token": "f"}), certificate.clone(), false),
            (json!({"token": "j"}), dora(Some(1)), true),
            (json!({"certificate": "j"}), dora(Some(1)), false),
            (json!({"user": "dora"}), dora(Some(1)), true),
            (json!({"user": "dora"}), dora(None), true),
            (json!({"user": "dora"}), certificate, true),
            (json!({"user": "mona"}), dora(Some(1)), false),
            (
                json!({"user": "dora", "issuedBefore": at_100}),
                dora(Some(99)),
                true,
            ),
            (
                json!({"user": "dora", "issuedBefore": at_100}),
                dora(Some(100)),
                false,
            ),
            (
                json!({"user": "mona", "issuedBefore": at_100}),
                dora(Some(99)),
                false,
            ),
            (json!({"issuedBefore": at_100}), dora(Some(99)), true),
            (json!({"issuedBefore": at_100}), dora(Some(100)), false),
            (json!({"issuedBefore": at_100}), dora(None), true),
        ] {
            let list = list(std::slice::from_ref(&spec));
            assert_eq!(list.denies(&holder), denied, "{spec} {holder:?}");
        }
        let both = [at_200, at_100].map(|time| json!({"issuedBefore": time}));
        assert!(
            list(&both).denies(&dora(Some(150))),
            "the later time counts"
        );
        let both = [
            json!({"user": "dora"}),
            json!({"user": "dora", "issuedBefore": at_100}),
        ];
        assert!(list(&both).denies(&dora(Some(150))), "the wider one counts");
    }

    #[test]
    fn token_with_a_long_id_is_denied_by_the_id_and_by_its_digest() {
        let long = "x".repeat(1000);
        let olga = holder("olga", Proof::Oidc, &jwt::bounded_id(&long), Some(50));
        assert!(list(&[json!({"token": long})]).denies(&olga));
        assert!(list(&[json!({"token": *jwt::bounded_id(&long)})]).denies(&olga));
        assert!(!list(&[json!({"token": "x".repeat(999)})]).denies(&olga));
    }

    #[test]
    fn certificate_is_denied_by_the_fingerprint_of_its_twin() {
        let mut carl = holder("carl", Proof::Certificate, "f", Some(50));
        carl.credential.twin = Some("g".into());
        for (spec, denied) in [
            (json!({"certificate": "f"}), true),
            (json!({"certificate": "g"}), true),
            (json!({"certificate": "h"}), false),
            (json!({"token": "g"}), false),
        ] {
            assert_eq!(
                list(std::slice::from_ref(&spec)).denies(&carl),
                denied,
                "{spec}"
            );
        }
    }

    #[test]
    fn empty_list_denies_no_credential_without_an_id() {
        let nameless = holder("dora", Proof::StaticToken, "", None);
        assert!(!DenyList::default().denies(&nameless));
        assert!(!list(&[json!({"token": ""}), json!({})]).denies(&nameless));
    }
}
