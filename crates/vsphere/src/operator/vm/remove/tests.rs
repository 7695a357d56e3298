use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::kinds::VSphereVMStatus;

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("a time")
}

fn ago(seconds: i64) -> Time {
    Time(Timestamp::from_second(now().as_second() - seconds).expect("a time"))
}

fn intervals() -> Intervals {
    Intervals::default()
}

/// A VSphereVM that has been terminating for a while.
fn vm(mode: Option<&str>, status: VSphereVMStatus) -> VSphereVM {
    let mut vm: VSphereVM = serde_json::from_value(json!({
        "apiVersion": crate::names::API_VERSION,
        "kind": "VSphereVM",
        "metadata": {"name": "prod-1", "namespace": "team-a", "uid": "u"},
        "spec": {"template": "ubuntu"},
    }))
    .expect("a VSphereVM");
    vm.metadata.deletion_timestamp = Some(ago(100));
    vm.spec.machine.power_off_mode = mode.map(str::to_owned);
    vm.status = Some(status);
    vm
}

fn condition_since(kind: &str, reason: &str, since: i64) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: ago(since),
    }
}

fn object() -> Object {
    Object::new("VirtualMachine", "vm-65")
}

fn found(powered_on: bool, tools_running: bool) -> Found {
    Found::Machine(
        object(),
        Box::new(Machine {
            powered_on,
            tools_running,
            ..Machine::default()
        }),
    )
}

fn seen(task: Option<Task>, found: Found) -> Observed {
    Observed {
        now: now(),
        task,
        found,
    }
}

fn deleting(step: Step, message: &str) -> Plan {
    Plan::with_problem(step, "Deleting", message)
}

#[test]
fn running_machine_is_powered_off_and_stopped_one_destroyed() {
    let asked = |since| vec![condition_since(SHUTDOWN, "InProgress", since)];
    let off = || deleting(Step::PowerOff(object()), "it is being powered off");
    let ask = || deleting(Step::ShutDown(object()), "its guest is being shut down");
    let wait = || {
        deleting(
            Step::Wait(intervals().tasks),
            "waiting for its guest to shut down",
        )
    };
    for (mode, conditions, found, expected) in [
        (None, vec![], found(true, true), off()),
        (Some("hard"), vec![], found(true, true), off()),
        (Some("soft"), vec![], found(true, true), ask()),
        (Some("trySoft"), vec![], found(true, true), ask()),
        (Some("trySoft"), vec![], found(true, false), off()),
        (
            Some("soft"),
            vec![],
            found(true, false),
            deleting(
                Step::Wait(intervals().retry),
                "its guest cannot be shut down, because VMware Tools do not run, and powerOffMode \
                 is soft",
            ),
        ),
        (Some("soft"), asked(299), found(true, true), wait()),
        (Some("trySoft"), asked(299), found(true, false), wait()),
        (Some("trySoft"), asked(300), found(true, true), off()),
        (
            Some("soft"),
            asked(300),
            found(true, true),
            deleting(
                Step::ShutDownAgain(object()),
                "its guest did not shut down in time, and powerOffMode is soft",
            ),
        ),
        (
            Some("soft"),
            asked(10),
            found(false, false),
            deleting(Step::Destroy(object()), "it is being destroyed"),
        ),
    ] {
        let name = format!("{mode:?} {conditions:?} {found:?}");
        let status = VSphereVMStatus {
            conditions,
            ..VSphereVMStatus::default()
        };
        let plan = plan(&vm(mode, status), &seen(None, found), &intervals());
        assert_eq!(plan, expected, "{name}");
    }
}

#[test]
fn shutdown_timeout_is_configurable() {
    for (seconds, expected) in [(None, 300), (Some(0), 300), (Some(-4), 300), (Some(7), 7)] {
        let mut vm = vm(Some("soft"), VSphereVMStatus::default());
        vm.spec.machine.guest_soft_power_off_timeout_seconds = seconds;
        assert_eq!(shutdown_timeout(&vm), Duration::from_secs(expected));
    }
}

#[test]
fn finalizer_stays_while_a_clone_may_still_appear() {
    let known = |vm_ref: bool, mode: bool| VSphereVMStatus {
        vm_ref: vm_ref.then(|| "VirtualMachine:vm-65".to_owned()),
        clone_mode: mode.then(|| "fullClone".to_owned()),
        ..VSphereVMStatus::default()
    };
    let maybe = |seconds| {
        deleting(
            Step::Wait(Duration::from_secs(seconds)),
            "it may still appear: the outcome of its clone is not known",
        )
    };
    let gone = || Plan::without_problem(Step::RemoveFinalizer);
    for (status, bios, since, expected) in [
        (known(false, false), false, 0, gone()),
        (known(true, true), false, 0, gone()),
        (known(false, true), true, 0, gone()),
        (known(false, true), false, 0, maybe(60)),
        (known(false, true), false, 570, maybe(30)),
        (known(false, true), false, 600, gone()),
    ] {
        let mut vm = vm(None, status);
        vm.metadata.deletion_timestamp = Some(ago(since));
        vm.spec.bios_uuid = bios.then(|| "b".to_owned());
        let plan = plan(&vm, &seen(None, Found::Nothing), &intervals());
        assert_eq!(plan, expected, "{bios} {since}");
    }
}

#[test]
fn fr5_foreign_machine_is_kept_and_does_not_block_deletion() {
    let waits = deleting(
        Step::Wait(intervals().retry),
        "the virtual machine with its UUID belongs to another owner and stays, and the state of its \
         own is not known",
    );
    let status = |change: fn(&mut VSphereVMStatus)| {
        let mut status = VSphereVMStatus::default();
        change(&mut status);
        status
    };
    for (status, expected) in [
        (status(|_| ()), Plan::without_problem(Step::RemoveFinalizer)),
        (
            status(|status| status.ready = Some(false)),
            Plan::without_problem(Step::RemoveFinalizer),
        ),
        (
            status(|status| status.clone_mode = Some("fullClone".to_owned())),
            waits.clone(),
        ),
        (
            status(|status| status.vm_ref = Some("VirtualMachine:vm-65".to_owned())),
            waits,
        ),
    ] {
        let mut vm = vm(None, status);
        vm.spec.bios_uuid = Some("b".to_owned());
        let plan = plan(&vm, &seen(None, Found::Foreign), &intervals());
        assert_eq!(plan, expected);
    }
}

#[test]
fn invisible_machine_is_not_treated_as_gone() {
    let status = VSphereVMStatus {
        vm_ref: Some("VirtualMachine:vm-65".to_owned()),
        ..VSphereVMStatus::default()
    };
    let plan = plan(
        &vm(None, status),
        &seen(None, Found::Hidden(object())),
        &intervals(),
    );
    let expected = deleting(
        Step::Wait(intervals().retry),
        "VirtualMachine:vm-65 exists, but this account may not see it",
    );
    assert_eq!(plan, expected);
}

#[test]
fn task_failed_before_deletion_does_not_block_it() {
    let failed = || {
        Some(Task::Failed {
            fault: "NoDiskSpace".to_owned(),
            message: "it is full".to_owned(),
        })
    };
    let deletes = vec![condition_since("VirtualMachineProvisioned", "Deleting", 5)];
    let pauses = deleting(Step::Pause, "it is full (NoDiskSpace)");
    let running = Plan::without_problem(Step::Wait(intervals().tasks));
    for (conditions, task, expected) in [
        (vec![], failed(), Plan::without_problem(Step::EndPause)),
        (deletes.clone(), failed(), pauses),
        (vec![], Some(Task::Running), running.clone()),
        (deletes, Some(Task::Running), running),
    ] {
        let status = VSphereVMStatus {
            conditions,
            task_ref: Some("task-1".to_owned()),
            ..VSphereVMStatus::default()
        };
        let plan = plan(&vm(None, status), &seen(task, Found::Nothing), &intervals());
        assert_eq!(plan, expected);
    }
}

#[test]
fn pause_ends_with_the_deletion() {
    let deletes = vec![condition_since("VirtualMachineProvisioned", "Deleting", 5)];
    for (conditions, expected) in [
        (vec![], Step::EndPause),
        (deletes, Step::Wait(Duration::from_secs(30))),
    ] {
        let status = VSphereVMStatus {
            conditions,
            retry_after: Some(ago(-30)),
            ..VSphereVMStatus::default()
        };
        let plan = plan(&vm(None, status), &seen(None, Found::Nothing), &intervals());
        assert_eq!(plan, Plan::without_problem(expected));
    }
}

#[test]
fn started_work_is_recorded() {
    let status = |change: fn(&mut VSphereVMStatus)| {
        let mut status = VSphereVMStatus::default();
        change(&mut status);
        status
    };
    for (status, bios, expected) in [
        (status(|_| ()), false, false),
        (status(|_| ()), true, true),
        (
            status(|status| status.clone_mode = Some(String::new())),
            false,
            true,
        ),
        (
            status(|status| status.task_ref = Some(String::new())),
            false,
            true,
        ),
        (
            status(|status| status.vm_ref = Some(String::new())),
            false,
            true,
        ),
        (status(|status| status.ready = Some(false)), false, false),
    ] {
        let mut vm = vm(None, status);
        // An empty text does not count as a UUID.
        vm.spec.bios_uuid = Some(if bios { "b" } else { "" }.to_owned());
        assert_eq!(is_started(&vm), expected);
    }
}

proptest! {
    #[test]
    fn deletion_never_starts_a_clone(
        running in any::<bool>(), tools in any::<bool>(), there in any::<bool>(),
        mode in prop::sample::select(vec![None, Some("soft"), Some("trySoft"), Some("hard")]),
        since in 0..1000_i64, asked in any::<bool>(), cloned in any::<bool>(),
    ) {
        let conditions = asked.then(|| condition_since(SHUTDOWN, "InProgress", since));
        let status = VSphereVMStatus {
            conditions: conditions.into_iter().collect(),
            clone_mode: cloned.then(|| "fullClone".to_owned()),
            ..VSphereVMStatus::default()
        };
        let found = if there { found(running, tools) } else { Found::Nothing };
        let plan = plan(&vm(mode, status), &seen(None, found), &intervals());
        let begins = matches!(
            plan.step,
            Step::Clone | Step::PowerOn(_) | Step::WriteMetadata(..) | Step::RecordUuid(_) | Step::Done
        );
        prop_assert!(!begins, "{:?}", plan);
        prop_assert!(plan.step != Step::RemoveFinalizer || !there);
        prop_assert!(!matches!(plan.step, Step::Destroy(_)) || !running);
    }
}
