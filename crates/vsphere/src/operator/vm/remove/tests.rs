use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
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

fn pace() -> Pace {
    Pace::default()
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

fn told(kind: &str, reason: &str, since: i64) -> Condition {
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

fn seen(task: Option<Task>, found: Found) -> Seen {
    Seen {
        now: now(),
        task,
        found,
    }
}

fn deleting(act: Act, message: &str) -> Plan {
    Plan::saying(act, "Deleting", message)
}

#[test]
fn what_runs_is_ended_and_what_does_not_is_destroyed() {
    let asked = |since| vec![told(SOFT, "InProgress", since)];
    let off = || deleting(Act::PowerOff(object()), "it is being powered off");
    let ask = || deleting(Act::ShutDown(object()), "its guest is asked to end");
    let wait = || deleting(Act::Wait(pace().tasks), "its guest is to end");
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
                Act::Wait(pace().again),
                "its guest cannot be asked to end, as VMware Tools do not run, and powerOffMode \
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
                Act::ShutDownAgain(object()),
                "its guest was asked to end and did not in time, and powerOffMode is soft",
            ),
        ),
        (
            Some("soft"),
            asked(10),
            found(false, false),
            deleting(Act::Destroy(object()), "it is being destroyed"),
        ),
    ] {
        let name = format!("{mode:?} {conditions:?} {found:?}");
        let status = VSphereVMStatus {
            conditions,
            ..VSphereVMStatus::default()
        };
        let plan = plan(&vm(mode, status), &seen(None, found), &pace());
        assert_eq!(plan, expected, "{name}");
    }
}

#[test]
fn a_guest_has_as_long_to_end_as_its_user_says() {
    for (seconds, expected) in [(None, 300), (Some(0), 300), (Some(-4), 300), (Some(7), 7)] {
        let mut vm = vm(Some("soft"), VSphereVMStatus::default());
        vm.spec.machine.guest_soft_power_off_timeout_seconds = seconds;
        assert_eq!(soft_patience(&vm), Duration::from_secs(expected));
    }
}

#[test]
fn it_is_let_go_only_when_nothing_of_it_can_appear_any_more() {
    let known = |vm_ref: bool, mode: bool| VSphereVMStatus {
        vm_ref: vm_ref.then(|| "VirtualMachine:vm-65".to_owned()),
        clone_mode: mode.then(|| "fullClone".to_owned()),
        ..VSphereVMStatus::default()
    };
    let maybe = |seconds| {
        deleting(
            Act::Wait(Duration::from_secs(seconds)),
            "it may be about to be made: the vCenter did not say what became of its clone",
        )
    };
    let gone = || Plan::silently(Act::LetGo);
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
        let plan = plan(&vm, &seen(None, Found::Nothing), &pace());
        assert_eq!(plan, expected, "{bios} {since}");
    }
}

#[test]
fn fr5_somebody_elses_machine_stays_and_holds_nobody_who_made_none() {
    let waits = deleting(
        Act::Wait(pace().again),
        "the virtual machine with its UUID is not this one's and stays, and what became of this \
         one's is not known",
    );
    let status = |change: fn(&mut VSphereVMStatus)| {
        let mut status = VSphereVMStatus::default();
        change(&mut status);
        status
    };
    for (status, expected) in [
        (status(|_| ()), Plan::silently(Act::LetGo)),
        (
            status(|status| status.ready = Some(false)),
            Plan::silently(Act::LetGo),
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
        let plan = plan(&vm, &seen(None, Found::Foreign), &pace());
        assert_eq!(plan, expected);
    }
}

#[test]
fn what_is_there_and_not_to_be_seen_is_not_gone() {
    let status = VSphereVMStatus {
        vm_ref: Some("VirtualMachine:vm-65".to_owned()),
        ..VSphereVMStatus::default()
    };
    let plan = plan(
        &vm(None, status),
        &seen(None, Found::Hidden(object())),
        &pace(),
    );
    let expected = deleting(
        Act::Wait(pace().again),
        "VirtualMachine:vm-65 is there, and what it is cannot be seen with this account",
    );
    assert_eq!(plan, expected);
}

#[test]
fn a_task_that_failed_before_it_was_to_go_holds_nothing_up() {
    let failed = || {
        Some(Task::Failed {
            fault: "NoDiskSpace".to_owned(),
            message: "it is full".to_owned(),
        })
    };
    let goes = vec![told("VirtualMachineProvisioned", "Deleting", 5)];
    let pauses = deleting(Act::Pause, "it is full (NoDiskSpace)");
    let running = Plan::silently(Act::Wait(pace().tasks));
    for (conditions, task, expected) in [
        (vec![], failed(), Plan::silently(Act::Begin)),
        (goes.clone(), failed(), pauses),
        (vec![], Some(Task::Running), running.clone()),
        (goes, Some(Task::Running), running),
    ] {
        let status = VSphereVMStatus {
            conditions,
            task_ref: Some("task-1".to_owned()),
            ..VSphereVMStatus::default()
        };
        let plan = plan(&vm(None, status), &seen(task, Found::Nothing), &pace());
        assert_eq!(plan, expected);
    }
}

#[test]
fn a_pause_from_before_it_was_to_go_is_over() {
    let goes = vec![told("VirtualMachineProvisioned", "Deleting", 5)];
    for (conditions, expected) in [
        (vec![], Act::Begin),
        (goes, Act::Wait(Duration::from_secs(30))),
    ] {
        let status = VSphereVMStatus {
            conditions,
            retry_after: Some(ago(-30)),
            ..VSphereVMStatus::default()
        };
        let plan = plan(&vm(None, status), &seen(None, Found::Nothing), &pace());
        assert_eq!(plan, Plan::silently(expected));
    }
}

#[test]
fn what_was_begun_is_known() {
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
        assert_eq!(is_begun(&vm), expected);
    }
}

proptest! {
    #[test]
    fn nothing_is_ever_begun_for_what_goes(
        running in any::<bool>(), tools in any::<bool>(), there in any::<bool>(),
        mode in prop::sample::select(vec![None, Some("soft"), Some("trySoft"), Some("hard")]),
        since in 0..1000_i64, asked in any::<bool>(), cloned in any::<bool>(),
    ) {
        let conditions = asked.then(|| told(SOFT, "InProgress", since));
        let status = VSphereVMStatus {
            conditions: conditions.into_iter().collect(),
            clone_mode: cloned.then(|| "fullClone".to_owned()),
            ..VSphereVMStatus::default()
        };
        let found = if there { found(running, tools) } else { Found::Nothing };
        let plan = plan(&vm(mode, status), &seen(None, found), &pace());
        let begins = matches!(
            plan.act,
            Act::Clone | Act::PowerOn(_) | Act::Describe(..) | Act::Identify(_) | Act::Nothing
        );
        prop_assert!(!begins, "{:?}", plan);
        prop_assert!(plan.act != Act::LetGo || !there);
        prop_assert!(!matches!(plan.act, Act::Destroy(_)) || !running);
    }
}
