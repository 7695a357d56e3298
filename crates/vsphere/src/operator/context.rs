//! The state of the provider, and the reconciliation of one object.

use insula_operator::provider::{self, SessionLiveness};

use super::intervals::Intervals;

/// The state of the provider.
pub(super) struct VSphere {
    /// When each session was last checked for a cluster.
    pub liveness: SessionLiveness,
    /// How often states are polled that are not watched.
    pub intervals: Intervals,
}

/// The reconciliation of one object.
pub(super) type Reconciliation<'a> = provider::Reconciliation<'a, VSphere>;
