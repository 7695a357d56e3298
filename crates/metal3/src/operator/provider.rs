//! What the shell of the operator has to know about Metal3.

use insula_capi::names::CLUSTER_LABEL;
use insula_capi::{Cluster, Machine};
use insula_identity::shape::Shape;
use insula_operator::key::GroupKind;
use insula_operator::provider::{IdentityKind, Names, Provider, WatchedKind};
use insula_operator::retry::Outcome;

use super::context::{Metal3, Reconciliation};
use super::{
    claims, cluster, data, data_template, ip_pool, machine, machine_template, remediation,
};
use crate::ipam::contract;
use crate::ipam::kinds::{IPAddress, IPClaim, IPPool};
use crate::kinds::cluster::Metal3Cluster;
use crate::kinds::data::Metal3Data;
use crate::kinds::data_claim::Metal3DataClaim;
use crate::kinds::data_template::Metal3DataTemplate;
use crate::kinds::machine::{Metal3Machine, Metal3MachineTemplate};
use crate::kinds::remediation::Metal3Remediation;
use crate::kubeconfig::Kubeconfig;
use crate::names::{API_VERSION, LEASE, PAUSED, WATCH_LABEL};
use crate::pool::Pools;

impl Provider for Metal3 {
    type Connector = Pools;

    const NAMES: &'static Names = &Names {
        controller: "infrastructure.cluster.x-k8s.io/capm3-manager",
        lease: LEASE,
        watch_label: WATCH_LABEL,
        pause_annotation: PAUSED,
        member_label: CLUSTER_LABEL,
        api_version: API_VERSION,
        // A kubeconfig may be shared, and belongs to its author: no object holds it.
        claimant_kinds: &[],
        claimants: &[],
        secret_finalizer: "metal3.infrastructure.cluster.x-k8s.io/identity",
    };
    const SHAPE: &'static dyn Shape = Kubeconfig::VERIFIED;
    const IDENTITIES: Option<&'static IdentityKind> = None;

    fn kinds(&self) -> Vec<WatchedKind> {
        vec![
            WatchedKind::reconciled::<Metal3Cluster>(),
            WatchedKind::reconciled::<Metal3Machine>(),
            WatchedKind::reconciled::<Metal3MachineTemplate>(),
            WatchedKind::reconciled::<Metal3DataTemplate>(),
            WatchedKind::reconciled::<Metal3DataClaim>(),
            WatchedKind::reconciled::<Metal3Data>(),
            WatchedKind::reconciled::<Metal3Remediation>(),
            WatchedKind::reconciled::<IPPool>(),
            WatchedKind::reconciled::<IPClaim>(),
            WatchedKind::dependency::<IPAddress>(),
            WatchedKind::reconciled_if_served::<contract::IPAddressClaim>(),
            WatchedKind::dependency::<contract::IPAddress>(),
            WatchedKind::dependency::<Cluster>(),
            WatchedKind::dependency::<Machine>(),
        ]
    }

    async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
        let kind = &of.key.kind;
        if *kind == GroupKind::of::<Metal3Cluster>() {
            cluster::reconcile(of).await
        } else if *kind == GroupKind::of::<Metal3Machine>() {
            machine::reconcile(of).await
        } else if *kind == GroupKind::of::<Metal3MachineTemplate>() {
            machine_template::reconcile(of).await
        } else if *kind == GroupKind::of::<Metal3DataTemplate>() {
            data_template::reconcile(of).await
        } else if *kind == GroupKind::of::<Metal3DataClaim>() {
            claims::reconcile_data_claim(of).await
        } else if *kind == GroupKind::of::<Metal3Data>() {
            data::reconcile(of).await
        } else if *kind == GroupKind::of::<Metal3Remediation>() {
            remediation::reconcile(of).await
        } else if *kind == GroupKind::of::<IPPool>() {
            ip_pool::reconcile(of).await
        } else if *kind == GroupKind::of::<IPClaim>() {
            claims::reconcile_ip_claim(of).await
        } else if *kind == GroupKind::of::<contract::IPAddressClaim>() {
            claims::reconcile_ip_address_claim(of).await
        } else {
            Ok(Outcome::Gone)
        }
    }
}
