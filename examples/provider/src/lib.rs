//! An example of a provider: records of a DNS service, for many tenants, each with the account
//! that is theirs.
//!
//! A provider is made of its kinds, a client for its servers, and one reconciler per kind. The
//! shell in `insula-operator` does the rest: watches, retries, leader election, the choice of the
//! credential and its bounds, sessions, holds on Secrets, events, and all tenants of an Insula.
//!
//! | module | is |
//! |---|---|
//! | [`kinds`] | `DnsRecord`, and `DnsAccount` for accounts that namespaces or tenants share |
//! | `service` | the client of the DNS service |
//! | `provider` | the reconciler of records |
//! | [`install`] | the objects to install |

pub mod install;
pub mod kinds;
mod provider;
mod service;

pub use provider::Dns;

use insula_operator::outbound::HttpClients;
use insula_operator::provider::{Settings, run};
use kube::Client;

/// Returns the settings of the operator.
pub fn settings(tenants: bool) -> Settings {
    Settings {
        tenants,
        ..Settings::new("dns-operator", install::NAMESPACE, service::TIMEOUT)
    }
}

/// Runs the operator; it trusts DNS services with certificates of these authorities, in DER.
pub async fn operate(
    client: Client,
    authorities: Vec<Vec<u8>>,
    settings: Settings,
    stop: impl Future<Output = ()>,
) {
    let services = service::Services(HttpClients::new(authorities));
    run(client, Dns, services, settings, stop).await;
}
