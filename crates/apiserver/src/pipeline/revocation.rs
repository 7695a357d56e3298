//! The deny list of a space: credentials that are revoked before they expire.
//!
//! A CredentialRevocation is an object of the space that the credential belongs to, so it ends
//! with its tenant. The list is compiled when it is first needed and after each change; a space
//! without revocations has an empty one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use insula_access::jwt;
use insula_cache::{Cache, Derived, SpaceState, Stored};
use insula_core::{CredentialRef, Principal, Proof, Revision, Space};
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

/// The credentials that one revocation denies.
#[derive(Debug)]
enum Revoked {
    Certificate(Box<str>),
    Token(Box<str>),
    /// The credentials of a user that were issued before a time.
    User(Box<str>, i64),
    IssuedBefore(i64),
    Nothing,
}

impl Revoked {
    fn read(spec: &Value) -> Self {
        let text = |member: &str| {
            let value = spec.get(member).and_then(Value::as_str);
            value.filter(|text| !text.is_empty())
        };
        let before = text("issuedBefore");
        let before = before.and_then(|text| time::parse(text, Precision::Seconds).ok());
        let before = before.map(|time| time.seconds);
        if let Some(fingerprint) = text("certificate") {
            Self::Certificate(fingerprint.into())
        } else if let Some(id) = text("token") {
            Self::Token(jwt::bounded_id(id).as_ref().into())
        } else if let Some(user) = text("user") {
            Self::User(user.into(), before.unwrap_or(ALWAYS))
        } else {
            before.map_or(Self::Nothing, Self::IssuedBefore)
        }
    }
}

impl DenyList {
    /// Adds a revocation.
    pub fn add(&mut self, revocation: &Object) {
        if let Some(spec) = revocation.get("spec") {
            self.insert(&Revoked::read(spec));
        }
    }

    fn insert(&mut self, revoked: &Revoked) {
        match revoked {
            Revoked::Certificate(fingerprint) => {
                self.certificates.insert(fingerprint.clone());
            }
            Revoked::Token(id) => {
                self.tokens.insert(id.clone());
            }
            Revoked::User(user, before) => {
                let latest = self.users.entry(user.clone()).or_insert(i64::MIN);
                *latest = (*before).max(*latest);
            }
            Revoked::IssuedBefore(time) => {
                self.issued_before = self.issued_before.max(Some(*time));
            }
            Revoked::Nothing => {}
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
    let read = |compiled: &Compiled| read(&compiled.list);
    if let Some(answer) = cache.derived(state, Derived::Revocations, read) {
        return answer;
    }
    let derive = |stale: Option<Box<Compiled>>, _| {
        let collection = cache.find(revocations(), space);
        let objects = collection.map(|collection| collection.snapshot("", None).objects);
        Box::new(Compiled::new(stale, &objects.unwrap_or_default()))
    };
    cache.derive(state, Derived::Revocations, derive, read)
}

/// The deny list of a space, and what it was compiled from.
#[derive(Debug, Default)]
struct Compiled {
    list: DenyList,
    /// The decoded objects by key. Requests wait while the list is compiled, so only objects
    /// that have changed are decoded.
    decoded: HashMap<Arc<str>, Decoded>,
}

#[derive(Debug)]
struct Decoded {
    revision: Revision,
    revoked: Revoked,
}

impl Compiled {
    fn new(stale: Option<Box<Self>>, objects: &[Arc<Stored>]) -> Self {
        let mut before = stale.map(|stale| stale.decoded).unwrap_or_default();
        let mut compiled = Self::default();
        for object in objects {
            let known = before.remove(&object.key);
            let known = known.filter(|known| known.revision == object.revision);
            let decoded = known.unwrap_or_else(|| Decoded::new(object));
            compiled.list.insert(&decoded.revoked);
            compiled.decoded.insert(Arc::clone(&object.key), decoded);
        }
        compiled
    }
}

impl Decoded {
    fn new(object: &Stored) -> Self {
        /// The part of a revocation that says what is revoked.
        #[derive(serde::Deserialize)]
        struct Revocation {
            #[serde(default)]
            spec: Value,
        }
        let revocation = serde_json::from_slice::<Revocation>(&object.body());
        let revoked = revocation.map(|revocation| Revoked::read(&revocation.spec));
        Self {
            revision: object.revision,
            revoked: revoked.unwrap_or(Revoked::Nothing),
        }
    }
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
    fn only_changed_revocations_are_decoded_again() {
        let stored = |key: &str, revision, user: &str| {
            let body = json!({"metadata": {"name": key}, "spec": {"user": user}});
            let revision = Revision::new(revision);
            Arc::new(Stored::new(
                key.into(),
                revision,
                body.to_string().as_bytes(),
            ))
        };
        let users = |compiled: &Compiled| {
            let mut users: Vec<_> = compiled.list.users.keys().cloned().collect();
            users.sort();
            users
        };
        let first = Compiled::new(None, &[stored("a", 1, "alice"), stored("b", 2, "bob")]);
        assert_eq!(users(&first), ["alice".into(), "bob".into()]);
        // The content of the first object at the same revision would be the same.
        let changed = [stored("a", 1, "unread"), stored("b", 3, "eve")];
        let second = Compiled::new(Some(Box::new(first)), &changed);
        assert_eq!(users(&second), ["alice".into(), "eve".into()]);
        let third = Compiled::new(Some(Box::new(second)), &changed[1..]);
        assert_eq!(users(&third), ["eve".into()]);
        assert_eq!(third.decoded.len(), 1);
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
