//! A fake Bare Metal Operator: it drives BareMetalHosts through their states, and reads the Secrets
//! of provisioned hosts with the rules of the real one.
//!
//! | module | content |
//! |---|---|
//! | `state` | the states of a host |
//! | `decide` | what is done next with a host |
//! | `power` | whether a host is switched on |
//! | `status` | the status of a host after a step |
//! | `secrets` | the Secrets of a host |
//! | `hardware` | the HardwareData of a host, where that kind is defined |
//! | `knobs` | requested delays, holds and errors |
//! | `drive` | the watch, and one task for each host |

mod decide;
mod drive;
mod hardware;
mod knobs;
mod power;
mod secrets;
mod state;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use self::drive::Shared;
use crate::server::Client;

pub use knobs::ErrorType;
pub use secrets::{HostData, digest};
pub use state::State;

/// Finalizer of hosts.
pub const FINALIZER: &str = "baremetalhost.metal3.io";
/// Finalizer of the credentials of management controllers.
pub const SECRET_FINALIZER: &str = "baremetalhost.metal3.io/secret";
/// Annotation of hosts that are left alone.
pub const PAUSED: &str = "baremetalhost.metal3.io/paused";
/// Annotation of hosts that are not managed while they are in a stable state.
pub const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// Annotation of hosts that are to restart. With a suffix, they stay off until it is removed.
pub const REBOOT: &str = "reboot.metal3.io";
/// Annotation of hosts with a status to restore.
pub const STATUS: &str = "baremetalhost.metal3.io/status";
/// Label of Secrets that were read.
pub const ENVIRONMENT: (&str, &str) = ("environment.metal3.io", "baremetal");
/// Annotations of provisioned hosts with the SHA-256 of the user data, metadata and network data.
/// The real operator has no such annotations.
pub const DIGESTS: [&str; 3] = [
    "bare-metal.test/user-data-sha256",
    "bare-metal.test/meta-data-sha256",
    "bare-metal.test/network-data-sha256",
];

/// How long a host stays in a state that passes by itself.
const DEFAULT_DELAY: Duration = Duration::from_millis(3);

/// A fake Bare Metal Operator. Dropping it stops it.
pub struct FakeBareMetalOperator {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl FakeBareMetalOperator {
    /// Starts one for all namespaces that the client's space has, or for one of them.
    pub fn start(client: Client, namespace: Option<&str>) -> Self {
        let shared = Arc::new(Shared::new(client, namespace, DEFAULT_DELAY));
        let task = tokio::spawn(drive::run(Arc::clone(&shared)));
        Self { shared, task }
    }

    /// Sets how long hosts stay in a state before they go on.
    pub fn delay(&self, state: State, delay: Duration) {
        self.shared.change(|knobs| knobs.delay(state, delay));
    }

    /// Keeps all hosts in a state that they are in or enter.
    pub fn hold(&self, state: State) {
        self.shared.change(|knobs| knobs.hold(None, state));
    }

    /// Keeps a host, `namespace/name`, in a state that it is in or enters.
    pub fn hold_host(&self, host: &str, state: State) {
        self.shared.change(|knobs| knobs.hold(Some(host), state));
    }

    /// Lets all hosts go on.
    pub fn release(&self) {
        self.shared.change(knobs::Knobs::release);
    }

    /// Makes a host, `namespace/name`, fail in a state that it is in or enters.
    pub fn fail(&self, host: &str, state: State, kind: ErrorType, message: &str) {
        self.shared
            .change(|knobs| knobs.fail(host, state, kind, message));
    }

    /// Ends the requested errors of a host.
    pub fn heal(&self, host: &str) {
        self.shared.change(|knobs| knobs.heal(host));
    }

    /// Returns what a host, `namespace/name`, was last provisioned with.
    pub fn data(&self, host: &str) -> Option<HostData> {
        self.shared.data(host)
    }

    /// Returns all states that a host, `namespace/name`, has entered, in order.
    pub fn path(&self, host: &str) -> Vec<State> {
        self.shared.path(host)
    }

    /// Returns how a host, `namespace/name`, was switched on and off, in order.
    pub fn power(&self, host: &str) -> Vec<bool> {
        self.shared.power(host)
    }

    /// Stops it and waits until it has ended.
    pub async fn stop(&mut self) {
        self.task.abort();
        (&mut self.task).await.ok();
    }
}

impl Drop for FakeBareMetalOperator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns a host that is switched off, with a management controller, and the Secret with the
/// credentials of that.
pub fn host(namespace: &str, name: &str) -> [Value; 2] {
    let credentials = format!("{name}-bmc");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": credentials, "namespace": namespace},
        "stringData": {"username": "root", "password": "calvin"},
    });
    let host = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "online": false,
            "bmc": {"address": format!("ipmi://{name}.test"), "credentialsName": credentials},
        },
    });
    [secret, host]
}
