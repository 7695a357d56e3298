//! Writes to a VSphereVM.

use insula_operator::retry::Outcome;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tracing::info;

use super::plan::bios_uuid;
use super::{Reconciliation, metadata};
use crate::kinds::VSphereVM;
use crate::names::VM_FINALIZER;
use crate::operator::commit;

impl Reconciliation<'_> {
    pub(super) async fn annotate(&mut self, name: &str, value: &str) -> Result<(), kube::Error> {
        let annotations = json!({"annotations": {name: value}});
        let stored = commit::metadata(&self.vms, &self.stored, annotations).await?;
        self.adopt(stored);
        Ok(())
    }

    /// Records the BIOS UUID in the spec: from then on the virtual machine is found only by it. An
    /// existing value stays.
    pub(super) async fn record_uuid(&mut self, uuid: &str) -> Result<(), kube::Error> {
        let version = self.stored.metadata.resource_version.clone();
        let mark = metadata::mark(&self.vm);
        let mark = mark.map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let patch = json!({
            "metadata": {"resourceVersion": version, "annotations": {metadata::MARK: mark}},
            "spec": {"biosUUID": bios_uuid(&self.vm).unwrap_or(uuid)},
        });
        let patched = self
            .vms
            .patch(
                &self.key.name,
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await?;
        self.adopt(patched);
        Ok(())
    }

    /// Takes over a newly stored object, and keeps the status that is not written yet.
    pub(super) fn adopt(&mut self, stored: VSphereVM) {
        let status = self.vm.status.take();
        self.vm = VSphereVM {
            status,
            ..stored.clone()
        };
        self.stored = stored;
    }

    pub(super) async fn add_finalizer(&mut self) -> Result<(), kube::Error> {
        let held = commit::add_finalizer(&self.vms, &self.stored, VM_FINALIZER).await?;
        self.adopt(held);
        Ok(())
    }

    pub(super) async fn remove_finalizer(&mut self) -> Result<Outcome, kube::Error> {
        self.context.sessions.release(&self.asker);
        commit::remove_finalizer(&self.vms, &self.stored, VM_FINALIZER).await?;
        info!(vm = %self.key, "VSphereVM deleted");
        Ok(Outcome::Gone)
    }

    pub(super) async fn commit(&mut self) -> Result<(), kube::Error> {
        if commit::status(&self.vms, &self.stored, &self.vm).await? {
            let stored = self.vms.get(&self.key.name).await?;
            self.adopt(stored);
        }
        Ok(())
    }
}
