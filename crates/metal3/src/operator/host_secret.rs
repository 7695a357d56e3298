//! Secrets next to hosts that a kubeconfig reaches.
//!
//! Owner references do not work across clusters or namespaces, so an annotation names the owner.
//! A Secret of another owner is neither used nor changed nor deleted: where hosts are shared, two
//! teams can have machines of one name.

use std::collections::BTreeMap;
use std::fmt;

use insula_capi::names::CLUSTER_LABEL;
use insula_operator::commit;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::hosts::proof::{ProofDigest, matches};
use crate::names::{CLAIM_DIGEST, OWNER_ANNOTATION, SECRET_TYPE};

/// The machine that Secrets next to its host belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SecretOwner {
    /// The tenant, if the machine is in a tenant's space of an Insula.
    pub tenant: Option<String>,
    /// The namespace of the machine.
    pub namespace: String,
    /// The name of the machine.
    pub name: String,
    /// What tells the machine from others of the same name.
    pub digest: Option<ProofDigest>,
}

impl fmt::Display for SecretOwner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Metal3Machine/{}/{}", self.namespace, self.name)?;
        match &self.tenant {
            Some(tenant) => write!(out, " of tenant {tenant}"),
            None => Ok(()),
        }
    }
}

impl SecretOwner {
    /// Returns whether a Secret belongs to the machine. Its UID does not count, and its tenant only
    /// for Secrets without a digest: both may be other ones after a move.
    pub(super) fn owns(&self, secret: &Secret) -> bool {
        let annotations = secret.metadata.annotations.as_ref();
        matches(annotations, self.digest.as_ref()).unwrap_or_else(|| {
            let owner = secret.annotations().get(OWNER_ANNOTATION);
            owner.is_some_and(|owner| *owner == self.to_string())
        })
    }
}

/// A Secret that is to be next to a host.
#[derive(Clone, Debug)]
pub(super) struct HostSecret<'a> {
    /// Its name.
    pub name: String,
    /// Its owner.
    pub owner: &'a SecretOwner,
    /// The name of the cluster of the owner.
    pub cluster: &'a str,
    /// Its data.
    pub data: BTreeMap<String, ByteString>,
}

/// Whether a Secret that exists gets other data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It keeps its data, so that a host is provisioned the same way again.
    Keep,
    /// It gets the new data.
    Replace,
}

/// A Secret of the name belongs to another owner, which is not named: it may be another tenant's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Secret {name:?} exists next to the host and does not belong to this machine: delete it \
     there, or give the machine another name"
)]
pub(super) struct SecretConflict {
    name: String,
}

/// The reason of a [`SecretConflict`].
pub(super) const SECRET_CONFLICT: &str = "SecretConflict";

/// Creates a Secret, or checks that the existing one belongs to its owner. The inner error tells
/// that it does not.
///
/// # Errors
///
/// If a request to the server of the hosts fails.
pub(super) async fn create_or_check(
    secrets: &Api<Secret>,
    wanted: &HostSecret<'_>,
    existing: Existing,
) -> Result<Result<(), SecretConflict>, kube::Error> {
    let found = match secrets.get_opt(&wanted.name).await? {
        Some(found) => found,
        None => {
            let (parameters, object) = (PostParams::default(), wanted.object());
            secrets.create(&parameters, &object).await?;
            return Ok(Ok(()));
        }
    };
    if !wanted.owner.owns(&found) {
        let name = wanted.name.clone();
        return Ok(Err(SecretConflict { name }));
    }
    // The Bare Metal Operator adds labels, so only the data is compared.
    if existing == Existing::Replace
        && let Some(data) = changes(found.data.as_ref(), &wanted.data)
    {
        commit::patch(secrets, &found, json!({ "data": data })).await?;
    }
    Ok(Ok(()))
}

/// Deletes a Secret of that name if it belongs to this owner.
///
/// # Errors
///
/// If a request to the server of the hosts fails.
pub(super) async fn delete_own(
    secrets: &Api<Secret>,
    name: &str,
    owner: &SecretOwner,
) -> Result<(), kube::Error> {
    match secrets.get_opt(name).await? {
        Some(found) if owner.owns(&found) => commit::delete(secrets, &found).await,
        _ => Ok(()),
    }
}

impl HostSecret<'_> {
    fn object(&self) -> Secret {
        let label = (CLUSTER_LABEL.to_owned(), self.cluster.to_owned());
        let owner = (OWNER_ANNOTATION.to_owned(), self.owner.to_string());
        let digest = self.owner.digest.as_ref();
        let digest = digest.map(|digest| (CLAIM_DIGEST.to_owned(), digest.as_str().to_owned()));
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                labels: Some([label].into()),
                annotations: Some([owner].into_iter().chain(digest).collect()),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            data: Some(self.data.clone()),
            ..Secret::default()
        }
    }
}

type Changes = BTreeMap<String, Option<ByteString>>;

/// Returns the keys to write, and without a value those to remove; none if there are none.
fn changes(
    found: Option<&BTreeMap<String, ByteString>>,
    wanted: &BTreeMap<String, ByteString>,
) -> Option<Changes> {
    let value_of = |key: &String| found.and_then(|data| data.get(key));
    let written = wanted
        .iter()
        .filter(|(key, value)| value_of(key) != Some(value))
        .map(|(key, value)| (key.clone(), Some(value.clone())));
    let removed = found
        .into_iter()
        .flat_map(BTreeMap::keys)
        .filter(|key| !wanted.contains_key(*key))
        .map(|key| (key.clone(), None));
    let changes: Changes = written.chain(removed).collect();
    (!changes.is_empty()).then_some(changes)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn data(values: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
        let values = values.iter();
        values
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
            .collect()
    }

    #[test]
    fn only_different_keys_are_written() {
        let wanted = data(&[("value", "a"), ("format", "b")]);
        for (found, expected) in [
            (data(&[("value", "a"), ("format", "b")]), Value::Null),
            (data(&[("value", "a")]), json!({"format": "Yg=="})),
            (
                data(&[("value", "x"), ("format", "b"), ("old", "c")]),
                json!({"value": "YQ==", "old": null}),
            ),
        ] {
            assert_eq!(json!(changes(Some(&found), &wanted)), expected);
        }
        assert_eq!(
            json!(changes(None, &wanted)),
            json!({"value": "YQ==", "format": "Yg=="})
        );
    }

    #[test]
    fn secret_names_its_owner_by_annotation_only() {
        let owner = SecretOwner {
            tenant: None,
            namespace: "team-a".to_owned(),
            name: "m".to_owned(),
            digest: None,
        };
        let wanted = HostSecret {
            name: "m-userdata".to_owned(),
            owner: &owner,
            cluster: "c",
            data: data(&[("value", "a")]),
        };
        let object = wanted.object();
        assert_eq!(
            json!(object),
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {
                    "name": "m-userdata",
                    "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                    "annotations": {
                        "infrastructure.cluster.x-k8s.io/owner": "Metal3Machine/team-a/m",
                    },
                },
                "type": "infrastructure.cluster.x-k8s.io/secret",
                "data": {"value": "YQ=="},
            })
        );
        let other = SecretOwner {
            namespace: "team-b".to_owned(),
            ..owner.clone()
        };
        let of_tenant = SecretOwner {
            tenant: Some("t1".to_owned()),
            ..owner.clone()
        };
        assert_eq!(of_tenant.to_string(), "Metal3Machine/team-a/m of tenant t1");
        assert!(owner.owns(&object) && !other.owns(&object) && !owner.owns(&Secret::default()));
        assert!(!of_tenant.owns(&object));
        // After a move to another tenant, only the digest tells.
        let proven = SecretOwner {
            digest: Some(ProofDigest::of("uid")),
            ..owner.clone()
        };
        let object = HostSecret {
            owner: &proven,
            ..wanted
        };
        let object = object.object();
        let moved = SecretOwner {
            tenant: Some("t1".to_owned()),
            ..proven.clone()
        };
        let stranger = SecretOwner {
            digest: Some(ProofDigest::of("other uid")),
            ..proven.clone()
        };
        assert!(proven.owns(&object) && moved.owns(&object));
        assert!(!owner.owns(&object) && !stranger.owns(&object));
    }
}
