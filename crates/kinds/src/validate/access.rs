//! Revocations of credentials.

use super::check::{self, Errors};
use super::tree::Node;
use crate::time;

/// The most characters of a token's ID, a user or a reason.
const MAX_TEXT: usize = 1024;

/// The digits of a SHA-256 digest.
const FINGERPRINT_DIGITS: usize = 64;

/// Validates a CredentialRevocation.
pub(super) fn credential_revocation(object: &Node<'_>, errors: &mut Errors) {
    let spec = object.get("spec");
    let member = |name| spec.get(name);
    let named: Vec<&str> = ["certificate", "token", "user"]
        .into_iter()
        .filter(|name| !member(name).is_empty())
        .collect();
    let before = member("issuedBefore");
    match (&named[..], before.is_set()) {
        ([_], false) | ([], true) | (["user"], true) => {}
        ([], false) => errors.push(
            spec.required("one of `certificate`, `token`, `user` and `issuedBefore` is required"),
        ),
        ([_], true) => {
            errors.push(before.forbidden("may be combined with `user` only"));
        }
        ([_, second, ..], _) => {
            let detail = "only one of `certificate`, `token` and `user` may be set";
            errors.push(member(second).forbidden(detail));
        }
    }
    let certificate = member("certificate");
    if !certificate.is_empty() && !is_fingerprint(certificate.text()) {
        let detail = "must be the SHA-256 fingerprint of a certificate: 64 lower-case \
                      hexadecimal digits";
        errors.push(certificate.invalid_text(detail));
    }
    for text in ["token", "user", "reason"].map(member) {
        if text.text().len() > MAX_TEXT {
            errors.push(text.too_long(MAX_TEXT));
        }
    }
    for time in [before, member("expires")] {
        if time.is_set() && time::parse(time.text(), time::Precision::Seconds).is_err() {
            errors.push(time.invalid("must be a time in the form of RFC 3339"));
        }
    }
}

/// Validates an update: another credential is another revocation.
pub(super) fn credential_revocation_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (old, new) = (old.get("spec"), new.get("spec"));
    for name in ["certificate", "token", "user", "issuedBefore", "authority"] {
        check::immutable(&old.get(name), &new.get(name), errors);
    }
}

fn is_fingerprint(text: &str) -> bool {
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == FINGERPRINT_DIGITS && text.bytes().all(digit)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::validate::{create, update};
    use crate::{Object, kinds};

    fn object(spec: Value) -> Object {
        let metadata = json!({"name": "x", "uid": "u", "resourceVersion": "1"});
        let object = json!({"metadata": metadata, "spec": spec});
        object.as_object().cloned().unwrap_or_default()
    }

    fn kind() -> &'static crate::Kind {
        let found = kinds().find("access.insula.dev", "v1", "credentialrevocations");
        kinds().get(found.expect("the table has the kind"))
    }

    #[test]
    fn revocation_names_one_credential_or_user_or_a_time() {
        let fingerprint = "0123456789abcdef".repeat(4);
        let time = "2026-01-31T12:00:00Z";
        for (spec, error) in [
            (json!({"certificate": fingerprint}), None),
            (json!({"token": "t"}), None),
            (json!({"user": "dora", "reason": "left"}), None),
            (json!({"issuedBefore": time}), None),
            (
                json!({"user": "dora", "issuedBefore": time, "expires": time}),
                None,
            ),
            (json!({}), Some("spec: Required value: one of")),
            (json!({"reason": "x"}), Some("spec: Required value: one of")),
            (
                json!({"token": "t", "user": "u"}),
                Some("spec.user: Forbidden: only one"),
            ),
            (
                json!({"token": "t", "issuedBefore": time}),
                Some("spec.issuedBefore: Forbidden: may be combined"),
            ),
            (
                json!({"certificate": fingerprint.to_uppercase()}),
                Some("spec.certificate: Invalid value"),
            ),
            (
                json!({"certificate": "ab"}),
                Some("spec.certificate: Invalid value"),
            ),
            (
                json!({"user": "u".repeat(1025)}),
                Some("spec.user: Too long"),
            ),
        ] {
            let errors = create(kind(), &object(spec.clone()));
            let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
            match error {
                None => assert_eq!(found, [""; 0], "{spec}"),
                Some(error) => assert!(found[0].starts_with(error), "{spec}: {found:?}"),
            }
        }
    }

    #[test]
    fn only_reason_and_expiry_of_a_revocation_may_change() {
        let old = object(json!({"user": "dora", "authority": "System"}));
        for (spec, field) in [
            (
                json!({"user": "dora", "authority": "System", "reason": "r"}),
                None,
            ),
            (
                json!({"user": "mona", "authority": "System"}),
                Some("spec.user"),
            ),
            (
                json!({"token": "t", "authority": "System"}),
                Some("spec.token"),
            ),
            (
                json!({"user": "dora", "authority": "Tenant"}),
                Some("spec.authority"),
            ),
        ] {
            let errors = update(kind(), None, &old, &object(spec.clone()));
            let first = errors.first().map(ToString::to_string);
            match field {
                None => assert_eq!(first, None, "{spec}"),
                Some(field) => assert!(first.is_some_and(|it| it.starts_with(field)), "{spec}"),
            }
        }
    }
}
