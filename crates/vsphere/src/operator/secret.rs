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

use super::claim::{absent_is_fine, is_fit, write};
use super::commit::is_held;
use super::context::{Context, Dependency};
use super::key::Key;
use super::read::named;
use crate::kinds::{VSphereCluster, VSphereClusterIdentity};
use crate::names::{CLAIMANTS, GROUP, SECRET_FINALIZER};

/// Reconciles a claimed Secret.
pub(super) async fn reconcile(
    context: &Context,
    key: &Key,
    _failures: u32,
) -> Result<Outcome, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(context.client(key.space.as_deref()), key.place());
    let found = secrets.get_opt(&key.name).await?;
    let Some(secret) = found.filter(|secret| is_held(secret, SECRET_FINALIZER)) else {
        context.forget(key);
        return Ok(Outcome::Gone);
    };
    let mut depends = BTreeSet::new();
    let (mut owners, mut holders) = (Vec::new(), 0);
    let fit = is_fit(&secret);
    for owner in secret.owner_references() {
        if !is_ours(owner) {
            owners.push(owner.clone());
        } else if fit && holds(context, key, owner, &mut depends).await? {
            owners.push(owner.clone());
            holders += 1;
        }
    }
    context.settle(key, depends);
    if holders > 0 && owners.len() == secret.owner_references().len() {
        return Ok(Outcome::Settled(context.anyway(key)));
    }
    let mut finalizers = secret.finalizers().to_vec();
    if holders == 0 {
        finalizers.retain(|held| held != SECRET_FINALIZER);
    }
    absent_is_fine(write(&secrets, &secret, &owners, &finalizers).await)?;
    info!(%key, holders, "Secret released");
    Ok(Outcome::Progressed)
}

/// Returns whether an owner is of a kind that claims Secrets.
fn is_ours(owner: &Owner) -> bool {
    let group = owner.api_version.split('/').next().unwrap_or_default();
    group == GROUP && CLAIMANTS.contains(&owner.kind.as_str())
}

/// Returns whether an owner exists and references this Secret. A terminating one releases the
/// Secret itself.
async fn holds(
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
            namespace: key.place().to_owned(),
            name,
        };
        context.note(key, depends, on);
        let clusters: Api<VSphereCluster> = Api::namespaced(client, key.place());
        let found = named(&clusters, &owner.name).await?;
        return Ok(found.is_some_and(|cluster| names_secret(&cluster, &key.name)));
    }
    context.note(key, depends, Dependency::Identity { space, name });
    let identities: Api<VSphereClusterIdentity> = Api::all(client);
    let found = named(&identities, &owner.name).await?;
    let is_home = key.place() == context.home;
    Ok(is_home && found.is_some_and(|identity| identity.spec.secret_name == key.name))
}

fn names_secret(cluster: &VSphereCluster, name: &str) -> bool {
    let reference = cluster.spec.identity_ref.as_ref();
    reference.is_some_and(|reference| reference.kind == "Secret" && reference.name == name)
}
