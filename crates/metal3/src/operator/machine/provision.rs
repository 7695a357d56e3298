//! What the host of a machine is to run.

use insula_operator::retry::Outcome;

use super::conclude::{State, WAITING_FOR_HOST};
use super::secrets::HostSecrets;
use super::{Halt, MachineReconciler, RETRY, Step, host_text};
use crate::hosts::addresses::addresses;
use crate::hosts::provision::{Deployment, provision};
use crate::kinds::host::{BareMetalHost, HostCustomDeploy, HostImage, ProvisioningState};
use crate::kinds::machine::{MachineAddress, Metal3Machine};
use crate::pool::HostPool;

/// The specification of the machine cannot be provisioned.
const INVALID: &str = "InvalidConfiguration";
/// The Bare Metal Operator reports an error.
const HOST_ERROR: &str = "BareMetalHostError";

impl MachineReconciler<'_> {
    /// Tells the host what to run, and copies its addresses.
    pub(super) async fn provision(
        &mut self,
        pool: &HostPool,
        host: BareMetalHost,
        secrets: &HostSecrets,
    ) -> Step<BareMetalHost> {
        let mut after = host.clone();
        let wanted = deployment(&self.machine.stored, secrets);
        if let Err(error) = provision(&mut after, &wanted) {
            self.report.node = Some(State::new(false, INVALID, error.to_string()));
            return Err(self.wait_for_events());
        }
        let host = self.change_host(pool, &host, &after).await?;
        let addresses = addresses(&host).into_iter();
        self.status().addresses = addresses
            .map(|one| MachineAddress {
                kind: one.kind.to_owned(),
                address: one.address,
            })
            .collect();
        Ok(host)
    }

    /// Ends the reconciliation unless the host is provisioned.
    pub(super) fn wait_until_provisioned(&mut self, host: &BareMetalHost) -> Step<()> {
        match progress(host) {
            None => Ok(()),
            Some(state) => {
                self.report.node = Some(state);
                // Changes of the host trigger the machine.
                Err(Halt::Stop(Outcome::Waits(RETRY)))
            }
        }
    }
}

/// Returns what a machine wants on its host.
fn deployment(machine: &Metal3Machine, secrets: &HostSecrets) -> Deployment {
    let spec = &machine.spec;
    Deployment {
        image: spec.image.as_ref().map(|image| HostImage {
            url: image.url.clone(),
            checksum: image.checksum.clone(),
            checksum_type: image.checksum_type.clone(),
            format: image.disk_format.clone(),
        }),
        custom_deploy: spec.custom_deploy.as_ref().map(|custom| HostCustomDeploy {
            method: custom.method.clone(),
        }),
        user_data: secrets.user_data.clone(),
        meta_data: secrets.meta_data.clone(),
        network_data: secrets.network_data.clone(),
        automated_cleaning_mode: spec.automated_cleaning_mode.clone(),
    }
}

/// Returns why a host is not provisioned; none if it is.
fn progress(host: &BareMetalHost) -> Option<State> {
    if host.state() == ProvisioningState::Provisioned {
        return None;
    }
    let (text, status) = (host_text(host), host.status.clone().unwrap_or_default());
    Some(match status.error_message.as_str() {
        "" => {
            let state = &status.provisioning.state;
            let message = format!("BareMetalHost {text} is in state {state:?}");
            State::new(false, WAITING_FOR_HOST, message)
        }
        error => State::new(false, HOST_ERROR, format!("BareMetalHost {text}: {error}")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn host_is_provisioned_in_exactly_one_state() {
        let waits = |state: &str| {
            let message = format!("BareMetalHost pool-a/h is in state {state:?}");
            Some(State::new(false, "WaitingForBareMetalHost", message))
        };
        let failed = State::new(
            false,
            "BareMetalHostError",
            "BareMetalHost pool-a/h: no power",
        );
        for (state, error, expected) in [
            ("provisioned", "", None),
            ("provisioned", "power", None),
            ("provisioning", "", waits("provisioning")),
            (
                "externally provisioned",
                "",
                waits("externally provisioned"),
            ),
            ("", "", waits("")),
            ("provisioning", "no power", Some(failed)),
        ] {
            let host: BareMetalHost = serde_json::from_value(json!({
                "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": "h", "namespace": "pool-a"}, "spec": {},
                "status": {"provisioning": {"state": state}, "errorMessage": error},
            }))
            .unwrap();
            assert_eq!(progress(&host), expected);
        }
    }

    #[test]
    fn deployment_is_what_the_machine_says() {
        let machine: Metal3Machine = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
            "metadata": {"name": "m"},
            "spec": {
                "image": {"url": "u", "checksum": "c", "checksumType": "sha256",
                    "diskFormat": "qcow2"},
                "customDeploy": {"method": "install"},
                "automatedCleaningMode": "disabled",
            },
        }))
        .unwrap();
        let expected = Deployment {
            image: Some(HostImage {
                url: "u".to_owned(),
                checksum: Some("c".to_owned()),
                checksum_type: Some("sha256".to_owned()),
                format: Some("qcow2".to_owned()),
            }),
            custom_deploy: Some(HostCustomDeploy {
                method: "install".to_owned(),
            }),
            automated_cleaning_mode: Some("disabled".to_owned()),
            ..Deployment::default()
        };
        assert_eq!(deployment(&machine, &HostSecrets::default()), expected);
    }
}
