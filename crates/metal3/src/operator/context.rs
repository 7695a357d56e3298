//! The state that all reconciliations share.

use std::sync::Arc;

use insula_operator::outbound::HttpClients;
use insula_operator::provider::{Requeue, SessionLiveness};

use super::reported::ReportedProblems;
use super::workload::Workloads;
use crate::hosts::release::FastTrack;
use crate::kubeconfig::Kubeconfig;

/// The provider.
pub struct Metal3 {
    /// Which kubeconfigs are accepted.
    pub(super) kubeconfigs: &'static Kubeconfig,
    /// Whether hosts stay on between two machines.
    pub(super) fast_track: FastTrack,
    /// The clients of workload clusters.
    pub(super) clients: HttpClients,
    /// The requests to workload clusters.
    pub(super) workloads: Workloads,
    /// When pools were last verified.
    pub(super) liveness: SessionLiveness,
    /// The problems that were reported with events.
    pub(super) reported: ReportedProblems,
    /// Takes the objects that other objects trigger.
    pub(super) requeue: Arc<Requeue>,
}

/// The reconciliation of one object.
pub(super) type Reconciliation<'a> = insula_operator::provider::Reconciliation<'a, Metal3>;
