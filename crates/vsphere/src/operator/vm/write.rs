//! Writes to a VSphereVM.

use insula_operator::retry::Outcome;
use serde_json::json;
use tracing::info;

use super::plan::bios_uuid;
use super::{VmReconciler, metadata};
use crate::names::VM_FINALIZER;

impl VmReconciler<'_> {
    pub(super) async fn annotate(&mut self, name: &str, value: &str) -> Result<(), kube::Error> {
        let annotations = json!({"annotations": {name: value}});
        self.vm.patch(json!({"metadata": annotations})).await
    }

    /// Records the BIOS UUID in the spec: from then on the virtual machine is found only by it. An
    /// existing value stays.
    pub(super) async fn record_uuid(&mut self, uuid: &str) -> Result<(), kube::Error> {
        let mark = metadata::mark(&self.vm.object);
        let mark = mark.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let uuid = bios_uuid(&self.vm.object).unwrap_or(uuid);
        let patch = json!({
            "metadata": {"annotations": {metadata::MARK: mark}},
            "spec": {"biosUUID": uuid},
        });
        self.vm.patch(patch).await
    }

    pub(super) async fn remove_finalizer(&mut self) -> Result<Outcome, kube::Error> {
        self.of.release_session();
        self.vm.remove_finalizer(VM_FINALIZER).await?;
        info!(vm = %self.of.key, "VSphereVM deleted");
        Ok(Outcome::Gone)
    }
}
