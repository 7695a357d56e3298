//! Tasks and power operations.

use super::call::shorten;
use super::element::Element;
use super::properties::{ObjectContent, RETRIEVE};
use super::{Error, Object, Session};

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// It is queued or running.
    Running,
    /// It succeeded, with this result.
    Done(Option<Object>),
    /// It failed, with the type of a fault (`InvalidPowerState`, `DuplicateName`) and the message
    /// of the vCenter.
    Failed {
        /// The type of the fault.
        fault: String,
        /// The message of the vCenter.
        message: String,
    },
    /// The vCenter does not know it: tasks are forgotten after a while.
    Unknown,
}

impl Session {
    /// Reads the state of a task.
    pub async fn task(&self, task: &Object) -> Result<Task, Error> {
        let paths = &["info.state", "info.error", "info.result"];
        match self.retrieve_one(task, paths).await {
            Ok(Some(found)) => read(&found),
            Ok(None) | Err(Error::Gone(_)) => Ok(Task::Unknown),
            Err(error) => Err(error),
        }
    }

    /// Powers on a virtual machine.
    pub async fn power_on(&self, vm: &Object) -> Result<Object, Error> {
        self.caller().start("PowerOnVM_Task", vm, |_| ()).await
    }

    /// Powers off a virtual machine without shutting down its guest.
    pub async fn power_off(&self, vm: &Object) -> Result<Object, Error> {
        self.caller().start("PowerOffVM_Task", vm, |_| ()).await
    }

    /// Asks the guest to shut down. There is no task.
    pub async fn shut_down_guest(&self, vm: &Object) -> Result<(), Error> {
        self.caller()
            .call("ShutdownGuest", vm, |_| ())
            .await
            .map(|_| ())
    }

    /// Destroys a virtual machine and its disks. It must not run.
    pub async fn destroy(&self, vm: &Object) -> Result<Object, Error> {
        self.caller().start("Destroy_Task", vm, |_| ()).await
    }

    /// Sets keys of the extra configuration, and keeps the others.
    pub async fn set_extra_config(
        &self,
        vm: &Object,
        extra: &[(String, String)],
    ) -> Result<Object, Error> {
        let reconfigure = self.caller().start("ReconfigVM_Task", vm, |text| {
            text.element("spec", |spec| {
                for (key, value) in extra {
                    spec.option("extraConfig", key, value);
                }
            });
        });
        reconfigure.await
    }
}

fn read(found: &ObjectContent) -> Result<Task, Error> {
    match found.text("info.state").map(str::trim) {
        Some("queued" | "running") => Ok(Task::Running),
        Some("success") => Ok(Task::Done(found.object("info.result"))),
        Some("error") => Ok(failed(found.get("info.error"))),
        _ => Err(Error::unexpected(RETRIEVE, "a task has no state")),
    }
}

fn failed(error: Option<&Element>) -> Task {
    let fault = error.and_then(|error| error.at("fault")).map(Element::kind);
    let message = error.and_then(|error| error.text("localizedMessage"));
    Task::Failed {
        fault: shorten(fault.unwrap_or_default()),
        message: shorten(message.unwrap_or_default().trim()),
    }
}
