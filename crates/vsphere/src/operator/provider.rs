//! The provider: what the shell of the operator has to know about vSphere.

use insula_capi::{Cluster, Machine, owner};
use insula_identity::credential::Source;
use insula_identity::reason::Reason;
use insula_identity::shape::Shape;
use insula_operator::key::GroupKind;
use insula_operator::provider::{
    IdentityKind, IdentityUser, Members, Names, Provider, WatchedKind,
};
use insula_operator::retry::Outcome;
use kube::api::ApiResource;

use super::context::{Reconciliation, VSphere};
use super::credentials::{self, ACCOUNT, IDENTITY};
use super::{cluster, machine, vm, zone};
use crate::kinds::{
    VSphereCluster, VSphereClusterIdentity, VSphereDeploymentZone, VSphereFailureDomain,
    VSphereMachine, VSphereVM,
};
use crate::names::{IDENTITY_FINALIZER, NAMES};
use crate::vcenter::VCenters;

/// The kind of identities.
pub(crate) const IDENTITIES: IdentityKind = IdentityKind {
    kind: IDENTITY,
    resource: || ApiResource::erase::<VSphereClusterIdentity>(&()),
    finalizer: IDENTITY_FINALIZER,
    bound: credentials::identity_bound,
    users: &[
        IdentityUser {
            kind: "VSphereCluster",
            resource: || ApiResource::erase::<VSphereCluster>(&()),
            members: Some(Members {
                kinds: &[
                    || ApiResource::erase::<VSphereMachine>(&()),
                    || ApiResource::erase::<VSphereVM>(&()),
                ],
                value: |cluster| owner::cluster_name(cluster),
            }),
        },
        IdentityUser {
            kind: "VSphereDeploymentZone",
            resource: || ApiResource::erase::<VSphereDeploymentZone>(&()),
            members: None,
        },
    ],
};

impl Provider for VSphere {
    type Connector = VCenters;

    const NAMES: &'static Names = &NAMES;
    const SHAPE: &'static dyn Shape = &ACCOUNT;
    const IDENTITIES: Option<&'static IdentityKind> = Some(&IDENTITIES);

    fn kinds(&self) -> Vec<WatchedKind> {
        vec![
            WatchedKind::reconciled::<VSphereCluster>(),
            WatchedKind::reconciled::<VSphereMachine>(),
            WatchedKind::reconciled::<VSphereVM>(),
            WatchedKind::reconciled::<VSphereDeploymentZone>(),
            WatchedKind::dependency::<VSphereFailureDomain>(),
            WatchedKind::dependency::<Cluster>(),
            WatchedKind::dependency::<Machine>(),
        ]
    }

    fn login_hint(source: &Source, reason: Reason) -> Option<&'static str> {
        credentials::login_hint(source, reason)
    }

    async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
        let kind = &of.key.kind;
        if *kind == GroupKind::of::<VSphereCluster>() {
            cluster::reconcile(of).await
        } else if *kind == GroupKind::of::<VSphereMachine>() {
            machine::reconcile(of).await
        } else if *kind == GroupKind::of::<VSphereVM>() {
            vm::reconcile(of).await
        } else if *kind == GroupKind::of::<VSphereDeploymentZone>() {
            zone::reconcile(of).await
        } else {
            Ok(Outcome::Gone)
        }
    }
}
