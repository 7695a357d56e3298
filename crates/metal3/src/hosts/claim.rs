//! What makes a host that of a machine.

use super::consumer::Consumer;
use crate::kinds::host::BareMetalHost;
use crate::names::NODE_REUSE;
use insula_capi::names::CLUSTER_LABEL;

/// Makes a host that of a machine of a cluster. The patch needs
/// [`Guard::SameVersion`](super::patch::Guard): another operator may claim the host as well. The
/// annotation of the machine is written afterwards; if that does not happen, the consumer of the
/// host tells.
pub fn claim(host: &mut BareMetalHost, machine: &Consumer, version: &str, cluster: &str) {
    let labels = host.metadata.labels.get_or_insert_default();
    labels.insert(CLUSTER_LABEL.to_owned(), cluster.to_owned());
    labels.remove(NODE_REUSE);
    machine.take(host, version);
}
