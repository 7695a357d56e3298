//! The claim of a machine for rendered data, and its result.

use insula_capi::owner;
use insula_operator::retry::Outcome;
use kube::api::{ObjectMeta, PostParams};
use kube::{Resource, ResourceExt};
use tracing::info;

use super::conclude::State;
use super::{Halt, MachineReconciler, RETRY, Step};
use crate::kinds::ObjectReference;
use crate::kinds::data::Metal3Data;
use crate::kinds::data_claim::{Metal3DataClaim, Metal3DataClaimSpec};
use crate::kinds::machine::Metal3Machine;
use crate::names::{GROUP, MACHINE_FINALIZER};

/// The data is not rendered yet.
const WAITING: &str = "WaitingForMetal3Data";
/// The data cannot be rendered.
const RENDERING_FAILED: &str = "Metal3DataFailed";
/// The data is rendered.
const RENDERED: &str = "Metal3DataSecretsReady";
/// The machine has no template: its Secrets, if any, are the user's.
const EXTERNAL: &str = "SecretsSetExternally";
/// The Secrets of a machine cannot be used.
pub(super) const META_DATA_FAILED: &str = "AssociateMetal3MachineMetaDataFailed";

/// The Secrets with rendered data of a machine. They are next to its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RenderedSecrets {
    pub meta_data: Option<String>,
    pub network_data: Option<String>,
}

/// What is known about rendered data.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rendering {
    Done(RenderedSecrets),
    Waits(State),
}

impl MachineReconciler<'_> {
    /// Returns the rendered data of the machine, which is claimed first.
    pub(super) async fn rendered_data(&mut self) -> Step<RenderedSecrets> {
        let Some(template) = self.machine.stored.spec.data_template.clone() else {
            self.report.data = Some(State::new(true, EXTERNAL, ""));
            return Ok(RenderedSecrets::default());
        };
        let namespace = self.of.key.namespace.clone();
        if template.namespace.is_some() && template.namespace != namespace {
            let message = "dataTemplate is in another namespace than the machine";
            self.report.meta_data = Some(State::new(false, META_DATA_FAILED, message));
            return Err(self.wait_for_events());
        }
        let claim = match self.of.read::<Metal3DataClaim>(&self.of.key.name).await? {
            Some(claim) => claim,
            None => self.create_claim(&template).await?,
        };
        if !is_owned(&claim, &self.machine.stored) {
            let name = claim.name_any();
            let message = format!("Metal3DataClaim {name:?} does not belong to this machine");
            self.report.meta_data = Some(State::new(false, META_DATA_FAILED, message));
            return Err(self.wait_for_events());
        }
        let status = claim.status.as_ref();
        let reference = status.and_then(|status| status.rendered_data.as_ref());
        let data = match reference {
            Some(reference) => self.of.read::<Metal3Data>(&reference.name).await?,
            None => None,
        };
        if let Some(reference) = reference {
            self.status().rendered_data = Some(ObjectReference {
                name: reference.name.clone(),
                namespace,
            });
        }
        match rendering(&claim, data.as_ref()) {
            Rendering::Done(secrets) => {
                self.report.data = Some(State::new(true, RENDERED, ""));
                Ok(secrets)
            }
            Rendering::Waits(state) => {
                self.report.data = Some(state);
                Err(Halt::Stop(Outcome::Waits(RETRY)))
            }
        }
    }

    async fn create_claim(&self, template: &ObjectReference) -> Step<Metal3DataClaim> {
        let machine = &self.machine.stored;
        let spec = Metal3DataClaimSpec {
            template: ObjectReference {
                name: template.name.clone(),
                namespace: self.of.key.namespace.clone(),
            },
        };
        let mut claim = Metal3DataClaim::new(&self.of.key.name, spec);
        claim.metadata = ObjectMeta {
            name: Some(self.of.key.name.clone()),
            labels: machine.metadata.labels.clone(),
            finalizers: Some(vec![MACHINE_FINALIZER.to_owned()]),
            owner_references: machine.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        };
        let claims = self.of.api::<Metal3DataClaim>();
        let claim = claims.create(&PostParams::default(), &claim).await?;
        info!(key = %self.of.key, template = template.name, "data claimed");
        Ok(claim)
    }
}

/// Returns whether a claim belongs to a machine.
pub(super) fn is_owned(claim: &Metal3DataClaim, machine: &Metal3Machine) -> bool {
    owner::of_kind(claim, GROUP, "Metal3Machine") == machine.metadata.name.as_deref()
}

/// Returns the result of a claim.
fn rendering(claim: &Metal3DataClaim, data: Option<&Metal3Data>) -> Rendering {
    let failed = |message: &str| Rendering::Waits(State::new(false, RENDERING_FAILED, message));
    let waits = |message: String| Rendering::Waits(State::new(false, WAITING, message));
    let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let status = claim.status.clone().unwrap_or_default();
    if let Some(message) = non_empty(&status.error_message) {
        return failed(&message);
    }
    let Some(reference) = &status.rendered_data else {
        let template = &claim.spec.template.name;
        return waits(format!(
            "Metal3DataTemplate {template:?} has no Metal3Data for this machine yet"
        ));
    };
    let name = &reference.name;
    let Some(data) = data else {
        return waits(format!("there is no Metal3Data {name:?}"));
    };
    let status = data.status.clone().unwrap_or_default();
    if let Some(message) = non_empty(&status.error_message) {
        return failed(&message);
    }
    if status.ready != Some(true) {
        return waits(format!("Metal3Data {name:?} is not rendered yet"));
    }
    let secret = |reference: &Option<crate::kinds::SecretReference>| {
        let name = reference.as_ref().and_then(|one| one.name.as_ref());
        name.filter(|name| !name.is_empty()).cloned()
    };
    Rendering::Done(RenderedSecrets {
        meta_data: secret(&data.spec.meta_data),
        network_data: secret(&data.spec.network_data),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn data_is_used_when_it_is_ready() {
        let ready = json!({"ready": true});
        let secrets = json!({
            "metaData": {"name": "m-metadata", "namespace": "elsewhere"},
            "networkData": {"name": ""},
        });
        let waits = |reason, message: &str| Rendering::Waits(State::new(false, reason, message));
        for (claim, data, expected) in [
            (
                json!({}),
                None,
                waits(
                    WAITING,
                    "Metal3DataTemplate \"t\" has no Metal3Data for this machine yet",
                ),
            ),
            (
                json!({"errorMessage": "no template"}),
                None,
                waits(RENDERING_FAILED, "no template"),
            ),
            (
                json!({"renderedData": {"name": "t-0"}}),
                None,
                waits(WAITING, "there is no Metal3Data \"t-0\""),
            ),
            (
                json!({"renderedData": {"name": "t-0"}}),
                Some((json!({}), json!({}))),
                waits(WAITING, "Metal3Data \"t-0\" is not rendered yet"),
            ),
            (
                json!({"renderedData": {"name": "t-0"}}),
                Some((
                    json!({}),
                    json!({"ready": true, "errorMessage": "no address"}),
                )),
                waits(RENDERING_FAILED, "no address"),
            ),
            (
                json!({"renderedData": {"name": "t-0"}}),
                Some((secrets, ready)),
                Rendering::Done(RenderedSecrets {
                    meta_data: Some("m-metadata".to_owned()),
                    network_data: None,
                }),
            ),
        ] {
            let spec = json!({"template": {"name": "t"}});
            let claim: Metal3DataClaim = object("Metal3DataClaim", spec, claim);
            let data = data.map(|(spec, status)| object("Metal3Data", spec, status));
            assert_eq!(rendering(&claim, data.as_ref()), expected);
        }
    }

    fn object<T: serde::de::DeserializeOwned>(kind: &str, spec: Value, status: Value) -> T {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "x"}, "spec": spec, "status": status,
        }))
        .unwrap()
    }
}
