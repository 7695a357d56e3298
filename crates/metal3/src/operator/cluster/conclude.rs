//! The status of a cluster, from what was observed.

use insula_capi::{Initialization, paused};
use insula_operator::condition::{ConditionWriter, READY, seconds};
use k8s_openapi::jiff::Timestamp;

use super::super::access::Problem;
use super::super::conditions::mirror;
use crate::kinds::cluster::Metal3Cluster;

/// Whether hosts can be used and the endpoint is known.
pub(crate) const INFRASTRUCTURE: &str = "BaremetalInfrastructureReady";

/// What was observed of a cluster.
pub(super) struct Observed {
    pub hosts: Hosts,
    /// Whether a Cluster owns it.
    pub has_owner: bool,
    /// Sentences about settings that have no effect.
    pub warnings: Vec<String>,
}

/// The hosts of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hosts {
    /// They are next to the cluster, and the operator uses its own account.
    InCluster,
    /// The credential is being verified: what was known before still holds.
    Verifying,
    /// The credential is verified.
    Verified {
        namespace: String,
        server: String,
        /// Sentences about what should be changed.
        warnings: Vec<String>,
    },
    /// The credential cannot be used.
    Refused(Problem),
}

/// Returns the cluster with its new status. Once it is provisioned it stays so, because Cluster API
/// does not take that back either; its conditions tell what broke later.
pub(super) fn conclude(cluster: &Metal3Cluster, found: &Observed, now: Timestamp) -> Metal3Cluster {
    let mut after = cluster.clone();
    let domains = cluster.spec.failure_domains.clone();
    let status = after.status.get_or_insert_default();
    status.failure_domains = domains;
    let infrastructure = infrastructure(cluster, found);
    let mut writer = ConditionWriter::of(&mut after, now);
    paused::set_condition(&mut writer, None);
    let is_ready = match &infrastructure {
        Infrastructure::Ready(message) => {
            writer.set_true(INFRASTRUCTURE, READY, message.as_str());
            true
        }
        Infrastructure::NotReady(reason, message) => {
            writer.set_false(INFRASTRUCTURE, reason, message.as_str());
            false
        }
        Infrastructure::AsBefore => false,
    };
    writer.summary(&[INFRASTRUCTURE]);
    let status = after.status.get_or_insert_default();
    if is_ready {
        status.initialization = Some(Initialization {
            provisioned: Some(true),
        });
    }
    let names = &[(READY, READY), (INFRASTRUCTURE, INFRASTRUCTURE)];
    mirror(&status.conditions, &mut status.deprecated, names);
    // The time is not written alone, because each write would trigger the next one.
    if after.status != cluster.status {
        let status = after.status.get_or_insert_default();
        status.last_updated = Some(seconds(now));
    }
    after
}

enum Infrastructure {
    Ready(String),
    NotReady(&'static str, String),
    AsBefore,
}

fn infrastructure(cluster: &Metal3Cluster, found: &Observed) -> Infrastructure {
    let mut warnings = match &found.hosts {
        Hosts::Verifying => return Infrastructure::AsBefore,
        Hosts::Refused(Problem { reason, message }) => {
            return Infrastructure::NotReady(reason, message.clone());
        }
        Hosts::InCluster => Vec::new(),
        Hosts::Verified { warnings, .. } => warnings.clone(),
    };
    warnings.extend(found.warnings.clone());
    let endpoint = cluster.spec.control_plane_endpoint.as_ref();
    let host = endpoint.and_then(|endpoint| endpoint.host.as_deref());
    let port = endpoint.and_then(|endpoint| endpoint.port);
    if host.unwrap_or_default().is_empty() || port.unwrap_or_default() == 0 {
        let message = "spec.controlPlaneEndpoint has no host or no port: set both, because \
                       bare-metal clusters bring their own load balancer or virtual address";
        return Infrastructure::NotReady("InvalidConfiguration", message.to_owned());
    }
    if !found.has_owner {
        let message = "no Cluster owns it yet: create a Cluster with an infrastructureRef to it";
        return Infrastructure::NotReady("WaitingForOwnerCluster", message.to_owned());
    }
    Infrastructure::Ready(warnings.join("; "))
}

#[cfg(test)]
mod tests;
