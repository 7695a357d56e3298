//! Observes a virtual machine in its vCenter.

use k8s_openapi::jiff::Timestamp;

use super::plan::{Found, Observed, bios_uuid, owns};
use crate::kinds::VSphereVM;
use crate::vcenter::{Error, Object, Session, Task};

/// Reads the state of the current task, and, unless it is still running, the virtual machine.
pub(super) async fn observe(session: &Session, vm: &VSphereVM) -> Result<Observed, Error> {
    let status = vm.status.clone().unwrap_or_default();
    let mut observed = Observed {
        now: Timestamp::now(),
        task: None,
        found: Found::Nothing,
    };
    if status.retry_after.is_some() {
        return Ok(observed);
    }
    if let Some(id) = status.task_ref {
        observed.task = Some(session.task(&Object::new("Task", id)).await?);
        if observed.task == Some(Task::Running) {
            return Ok(observed);
        }
    }
    observed.found = find(session, vm).await?;
    Ok(observed)
}

/// Finds the virtual machine by its BIOS UUID if it is known, and by the instance UUID that it was
/// created with. It is never found by name, which another virtual machine may have. If both
/// searches fail, the account may lack the permission to see it: the recorded managed object
/// reference tells that apart from a virtual machine that is gone.
async fn find(session: &Session, vm: &VSphereVM) -> Result<Found, Error> {
    let mut found = Found::Nothing;
    let named = match bios_uuid(vm) {
        Some(uuid) => session.find_vm_by_bios_uuid(uuid).await?,
        None => None,
    };
    if let Some(object) = named {
        let machine = session.machine(&object).await?;
        if owns(vm, &machine) {
            return Ok(Found::Machine(object, Box::new(machine)));
        }
        found = Found::Foreign;
    }
    let uid = vm.metadata.uid.as_deref().unwrap_or_default();
    if let Some(object) = session.find_vm_by_instance_uuid(uid).await? {
        let machine = session.machine(&object).await?;
        return Ok(match owns(vm, &machine) {
            true => Found::Machine(object, Box::new(machine)),
            false => Found::Foreign,
        });
    }
    let status = vm.status.as_ref();
    let known = status.and_then(|status| status.vm_ref.as_ref()?.parse::<Object>().ok());
    let Some(object) = known else {
        return Ok(found);
    };
    match session.machine(&object).await {
        Ok(machine) if owns(vm, &machine) => Ok(Found::Machine(object, Box::new(machine))),
        Ok(machine) if machine.instance_uuid.is_none() => Ok(Found::Hidden(object)),
        Ok(_) | Err(Error::Gone(_)) => Ok(found),
        Err(error) => Err(error),
    }
}
