//! What proves that a host, or a Secret next to it, belongs to a machine.
//!
//! Names are no proof where hosts are shared by management clusters or tenants, and UIDs change
//! when a machine moves. So a machine keeps the UID that it had when it claimed its host, and the
//! host has the digest of it. Users of the host cannot compute the UID from that, and users of
//! other management clusters and tenants cannot read the machine.

use std::collections::BTreeMap;

use kube::Resource;
use kube::ResourceExt;
use ring::digest::{SHA256, digest};

use crate::names::{CLAIM_ANNOTATION, CLAIM_DIGEST};

/// Returns what proves that a host belongs to a machine, for the machine's annotation: the UID that
/// it had when it claimed the host.
pub fn proof(machine: &impl Resource) -> Option<String> {
    let kept = machine.annotations().get(CLAIM_ANNOTATION).cloned();
    kept.filter(|kept| !kept.is_empty())
        .or_else(|| machine.uid())
}

/// The digest of a proof, for annotations of hosts and Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProofDigest(String);

impl ProofDigest {
    /// Returns the digest of a proof.
    pub fn of(proof: &str) -> Self {
        let bytes = digest(&SHA256, proof.as_bytes());
        let text = bytes.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Self(text.collect())
    }

    /// Returns the text of the annotation.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether the digest that an object is annotated with is this one; none if it has none.
pub(crate) fn matches(
    annotations: Option<&BTreeMap<String, String>>,
    digest: Option<&ProofDigest>,
) -> Option<bool> {
    let found = annotations?.get(CLAIM_DIGEST)?;
    Some(digest.is_some_and(|digest| digest.as_str() == found))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::machine::Metal3Machine;

    #[test]
    fn proof_is_the_first_uid_of_the_machine() {
        let machine = |annotations| -> Metal3Machine {
            serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
                "metadata": {"name": "m", "uid": "second", "annotations": annotations}, "spec": {},
            }))
            .unwrap()
        };
        for (annotations, expected) in [
            (json!({}), "second"),
            (json!({CLAIM_ANNOTATION: ""}), "second"),
            (json!({CLAIM_ANNOTATION: "first"}), "first"),
        ] {
            let machine = machine(annotations);
            assert_eq!(proof(&machine).as_deref(), Some(expected));
        }
    }

    #[test]
    fn digest_does_not_contain_the_proof() {
        let digest = ProofDigest::of("first");
        let sha256 = "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e";
        assert_eq!(digest.as_str(), sha256);
        let annotated = |text: &str| BTreeMap::from([(CLAIM_DIGEST.to_owned(), text.to_owned())]);
        assert_eq!(matches(None, Some(&digest)), None);
        assert_eq!(matches(Some(&BTreeMap::new()), Some(&digest)), None);
        assert_eq!(matches(Some(&annotated(sha256)), Some(&digest)), Some(true));
        assert_eq!(
            matches(Some(&annotated("first")), Some(&digest)),
            Some(false)
        );
        assert_eq!(matches(Some(&annotated(sha256)), None), Some(false));
    }
}
