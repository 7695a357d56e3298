//! Writes to a VSphereVM.

use insula_operator::commit;
use insula_operator::retry::Outcome;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tracing::info;

use super::plan::bios_uuid;
use super::{VmReconciler, metadata};
use crate::names::VM_FINALIZER;

impl VmReconciler<'_> {
    pub(super) async fn annotate(&mut self, name: &str, value: &str) -> Result<(), kube::Error> {
        let annotations = json!({"annotations": {name: value}});
        let stored = commit::metadata(&self.vm.api, &self.vm.stored, annotations).await?;
        self.vm.adopt(stored);
        Ok(())
    }

    /// Records the BIOS UUID in the spec: from then on the virtual machine is found only by it. An
    /// existing value stays.
    pub(super) async fn record_uuid(&mut self, uuid: &str) -> Result<(), kube::Error> {
        let version = self.vm.stored.metadata.resource_version.clone();
        let mark = metadata::mark(&self.vm.object);
        let mark = mark.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let patch = json!({
            "metadata": {"resourceVersion": version, "annotations": {metadata::MARK: mark}},
            "spec": {"biosUUID": bios_uuid(&self.vm.object).unwrap_or(uuid)},
        });
        let (name, patch) = (&self.of.key.name, Patch::Merge(patch));
        let vms = &self.vm.api;
        let patched = vms.patch(name, &PatchParams::default(), &patch).await?;
        self.vm.adopt(patched);
        Ok(())
    }

    pub(super) async fn remove_finalizer(&mut self) -> Result<Outcome, kube::Error> {
        self.of.release_session();
        self.vm.remove_finalizer(VM_FINALIZER).await?;
        info!(vm = %self.of.key, "VSphereVM deleted");
        Ok(Outcome::Gone)
    }
}
