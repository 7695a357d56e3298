//! Clients of workload clusters.

use std::time::Duration;

use insula_capi::workload::{self, Unavailable};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;

use super::context::Reconciliation;
use crate::names::AGENT;

/// The timeout of requests to workload clusters.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns a client of a workload cluster. The object is triggered when its kubeconfig changes.
///
/// # Errors
///
/// If there is no kubeconfig that can be used.
pub(super) async fn client(of: &Reconciliation<'_>, cluster: &str) -> Result<Client, Unavailable> {
    let namespace = of.key.namespace_or_empty();
    let secret = workload::secret_name(cluster);
    of.depend_on_object::<Secret>(Some(namespace), &secret);
    let clients = &of.context.provider.clients;
    workload::client(&of.secrets(namespace), cluster, AGENT, |config| {
        clients.kubernetes(&config, REQUEST_TIMEOUT)
    })
    .await
}
