//! What there is of a virtual machine in its vCenter.

use k8s_openapi::jiff::Timestamp;

use super::plan::{Found, Seen, is_ours};
use crate::kinds::VSphereVM;
use crate::vcenter::{Error, Object, Session, Task};

/// Looks at the task that is waited for, and if there is nothing to wait for, at what there
/// is.
pub(super) async fn observe(session: &Session, vm: &VSphereVM) -> Result<Seen, Error> {
    let status = vm.status.clone().unwrap_or_default();
    let mut seen = Seen {
        now: Timestamp::now(),
        task: None,
        found: Found::Nothing,
    };
    if status.retry_after.is_some() {
        return Ok(seen);
    }
    if let Some(id) = status.task_ref {
        seen.task = Some(session.task(&Object::new("Task", id)).await?);
        if seen.task == Some(Task::Running) {
            return Ok(seen);
        }
    }
    seen.found = find(session, vm).await?;
    Ok(seen)
}

/// By its BIOS UUID if it is known; and by the instance UUID that it was made with, which is
/// ours. Never by its name, which anybody's may have.
async fn find(session: &Session, vm: &VSphereVM) -> Result<Found, Error> {
    let mut foreign = None;
    if let Some(uuid) = &vm.spec.bios_uuid
        && let Some(object) = session.find_vm_by_bios_uuid(uuid).await?
    {
        let machine = session.machine(&object).await?;
        if is_ours(vm, &machine) {
            return Ok(Found::Machine(object, Box::new(machine)));
        }
        foreign = Some(machine.name);
    }
    let uid = vm.metadata.uid.as_deref().unwrap_or_default();
    if let Some(object) = session.find_vm_by_instance_uuid(uid).await? {
        let machine = session.machine(&object).await?;
        return Ok(Found::Machine(object, Box::new(machine)));
    }
    Ok(foreign.map_or(Found::Nothing, Found::Foreign))
}
