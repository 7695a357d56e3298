//! Reconciles claimed Secrets. Claimants that no longer exist or no longer reference the Secret
//! are removed from it, and with the last one its finalizer; so are all claimants of a Secret that
//! contains no account any more. The claimants are recorded on the Secret itself, so no other
//! state has to be kept.

use std::collections::BTreeSet;

use insula_identity::claim::Owner;
use insula_operator::retry::Outcome;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use tracing::info;

use super::claim::{ignore_not_found, is_account, write_owners};
use super::commit::has_finalizer;
use super::context::{Context, Dependency};
use super::key::Key;
use super::read::get_named;
use crate::kinds::{VSphereCluster, VSphereClusterIdentity};
use crate::names::{CLAIMANTS, GROUP, SECRET_FINALIZER};

/// Reconciles a claimed Secret.
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    _failures: u32,
) -> Result<Outcome, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(
        context.client(key.space.as_deref()),
        key.namespace_or_empty(),
    );
    let found = secrets.get_opt(&key.name).await?;
    let Some(secret) = found.filter(|secret| has_finalizer(secret, SECRET_FINALIZER)) else {
        context.forget(key);
        return Ok(Outcome::Gone);
    };
    let mut depends = BTreeSet::new();
    let (mut owners, mut claimants) = (Vec::new(), 0);
    let has_account = is_account(&secret);
    for owner in secret.owner_references() {
        if !is_claimant(owner) {
            owners.push(owner.clone());
        } else if has_account && is_valid_claim(context, key, owner, &mut depends).await? {
            owners.push(owner.clone());
            claimants += 1;
        }
    }
    context.set_dependencies(key, depends);
    if claimants > 0 && owners.len() == secret.owner_references().len() {
        return Ok(Outcome::Settled(context.resync_after(key)));
    }
    let mut finalizers = secret.finalizers().to_vec();
    if claimants == 0 {
        finalizers.retain(|held| held != SECRET_FINALIZER);
    }
    ignore_not_found(write_owners(&secrets, &secret, &owners, &finalizers).await)?;
    info!(%key, claimants, "Secret released");
    Ok(Outcome::Progressed)
}

/// Returns whether an owner is of a kind that claims Secrets.
fn is_claimant(owner: &Owner) -> bool {
    let group = owner.api_version.split('/').next().unwrap_or_default();
    group == GROUP && CLAIMANTS.contains(&owner.kind.as_str())
}

/// Returns whether an owner exists and references this Secret. A terminating one releases the
/// Secret itself.
async fn is_valid_claim(
    context: &Context,
    key: &Key,
    owner: &Owner,
    depends: &mut BTreeSet<Dependency>,
) -> Result<bool, kube::Error> {
    let (client, space) = (context.client(key.space.as_deref()), key.space.clone());
    let name = owner.name.clone();
    if owner.kind == "VSphereCluster" {
        let on = Dependency::VSphereCluster {
            space,
            namespace: key.namespace_or_empty().to_owned(),
            name,
        };
        context.depend_on(key, depends, on);
        let clusters: Api<VSphereCluster> = Api::namespaced(client, key.namespace_or_empty());
        let found = get_named(&clusters, &owner.name).await?;
        return Ok(found.is_some_and(|cluster| references_secret(&cluster, &key.name)));
    }
    context.depend_on(key, depends, Dependency::Identity { space, name });
    let identities: Api<VSphereClusterIdentity> = Api::all(client);
    let found = get_named(&identities, &owner.name).await?;
    let in_operator_namespace = key.namespace_or_empty() == context.operator_namespace;
    Ok(
        in_operator_namespace
            && found.is_some_and(|identity| identity.spec.secret_name == key.name),
    )
}

fn references_secret(cluster: &VSphereCluster, name: &str) -> bool {
    let reference = cluster.spec.identity_ref.as_ref();
    reference.is_some_and(|reference| reference.kind == "Secret" && reference.name == name)
}
