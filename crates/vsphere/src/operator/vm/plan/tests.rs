use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::kinds::VSphereVMStatus;
use crate::vcenter::MachineCard;

const UID: &str = "6f1e7c9a-0000-4000-8000-00000000000a";
const BIOS: &str = "42100000-0000-4000-8000-00000000000b";

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).expect("a time")
}

fn intervals() -> Intervals {
    Intervals::default()
}

fn vm(bios_uuid: Option<&str>) -> VSphereVM {
    let mut vm: VSphereVM = serde_json::from_value(json!({
        "apiVersion": crate::names::API_VERSION,
        "kind": "VSphereVM",
        "metadata": {
            "name": "prod-1", "namespace": "team-a", "uid": UID,
            "annotations": {metadata::MARK: "abc"},
        },
        "spec": {
            "template": "ubuntu",
            "network": {"devices": [{"networkName": "VM Network", "dhcp4": true}]},
        },
    }))
    .expect("a VSphereVM");
    vm.spec.bios_uuid = bios_uuid.map(str::to_owned);
    vm.metadata.creation_timestamp = Some(Time(now()));
    vm
}

fn unmarked(mut vm: VSphereVM) -> VSphereVM {
    vm.metadata.annotations = None;
    vm
}

fn object() -> Object {
    Object::new("VirtualMachine", "vm-65")
}

fn cards(addresses: &[&str]) -> Vec<MachineCard> {
    vec![MachineCard {
        key: 4000,
        mac: "00:50:56:00:00:01".to_owned(),
        addresses: addresses.iter().map(|&one| one.to_owned()).collect(),
        ..MachineCard::default()
    }]
}

/// A provisioned machine with these addresses.
fn machine(addresses: &[&str]) -> Machine {
    let cards = cards(addresses);
    Machine {
        name: "prod-1".to_owned(),
        bios_uuid: Some(BIOS.to_owned()),
        instance_uuid: Some(UID.to_owned()),
        powered_on: true,
        metadata: metadata::desired(&vm(None), &cards),
        cards,
        ..Machine::default()
    }
}

fn found(machine: Machine) -> Found {
    Found::Machine(object(), Box::new(machine))
}

fn seen(task: Option<Task>, found: Found) -> Observed {
    Observed {
        now: now(),
        task,
        found,
    }
}

fn failed(fault: &str) -> Option<Task> {
    Some(Task::Failed {
        fault: fault.to_owned(),
        message: "it went wrong".to_owned(),
    })
}

#[test]
fn each_state_has_one_next_step() {
    let described = metadata::desired(&vm(None), &cards(&[])).expect("all is known");
    let retry = Step::Wait(intervals().retry);
    let without = |change: fn(&mut Machine)| {
        let mut machine = machine(&["10.0.0.5"]);
        change(&mut machine);
        found(machine)
    };
    for (law, vm, found, step, problem) in [
        (
            "what is not there is cloned",
            vm(None),
            Found::Nothing,
            Step::Clone,
            Some(("WaitingForClone", "it is being cloned")),
        ),
        (
            "what was there and is not is never cloned again",
            vm(Some(BIOS)),
            Found::Nothing,
            retry.clone(),
            Some((
                "NotFoundByBIOSUUID",
                "there is no virtual machine with the BIOS UUID \
                 42100000-0000-4000-8000-00000000000b: it was created, and is not created again",
            )),
        ),
        (
            "a foreign machine is left alone",
            vm(Some(BIOS)),
            Found::Foreign,
            retry.clone(),
            Some((
                "NotFoundByBIOSUUID",
                "the virtual machine with the BIOS UUID of spec.biosUUID belongs to another owner",
            )),
        ),
        (
            "an invisible machine is not created again",
            vm(None),
            Found::Hidden(object()),
            retry.clone(),
            Some((
                "NotFoundByBIOSUUID",
                "VirtualMachine:vm-65 exists, but this account may not see it",
            )),
        ),
        (
            "a BIOS UUID that is empty is none",
            vm(Some("")),
            Found::Nothing,
            Step::Clone,
            Some(("WaitingForClone", "it is being cloned")),
        ),
        (
            "and the real one is noted",
            vm(Some("")),
            found(machine(&[])),
            Step::RecordUuid(BIOS.to_owned()),
            None,
        ),
        (
            "as is what it will be known by",
            unmarked(vm(Some(BIOS))),
            found(machine(&[])),
            Step::RecordUuid(BIOS.to_owned()),
            None,
        ),
        (
            "its BIOS UUID is noted first",
            vm(None),
            found(machine(&[])),
            Step::RecordUuid(BIOS.to_owned()),
            None,
        ),
        (
            "one that has none is still being made",
            vm(None),
            without(|machine| machine.bios_uuid = None),
            Step::Wait(intervals().tasks),
            Some(("WaitingForClone", "it is being cloned")),
        ),
        (
            "it is told about its network before it starts",
            vm(Some(BIOS)),
            without(|machine| {
                machine.metadata = None;
                machine.powered_on = false;
            }),
            Step::WriteMetadata(object(), described.clone()),
            Some(("PoweringOn", "its metadata is being written")),
        ),
        (
            "and again if that is not what it was told",
            vm(Some(BIOS)),
            without(|machine| machine.metadata = Some("eA==".to_owned())),
            Step::WriteMetadata(object(), described),
            None,
        ),
        (
            "nothing is told before its cards are there",
            vm(Some(BIOS)),
            without(|machine| machine.cards.clear()),
            Step::Wait(intervals().addresses.0),
            Some(("WaitingForClone", "its network cards are not known yet")),
        ),
        (
            "it is powered on whenever it is off",
            vm(Some(BIOS)),
            without(|machine| machine.powered_on = false),
            Step::PowerOn(object()),
            Some(("PoweringOn", "it is being powered on")),
        ),
        (
            "it waits for an address",
            vm(Some(BIOS)),
            found(machine(&[])),
            Step::Wait(intervals().addresses.0),
            Some(("WaitingForIPAddress", "it has no address yet")),
        ),
        (
            "one that others cannot reach does not count",
            vm(Some(BIOS)),
            found(machine(&[
                "169.254.1.1",
                "fe80::1",
                "127.0.0.1",
                "::1",
                "what",
            ])),
            Step::Wait(intervals().addresses.0),
            Some(("WaitingForIPAddress", "it has no address yet")),
        ),
        (
            "then it is as it should be",
            vm(Some(BIOS)),
            found(machine(&["fe80::1", "10.0.0.5"])),
            Step::Done,
            None,
        ),
    ] {
        let problem = problem.map(|(reason, message)| Problem::new(reason, message));
        let plan = plan(&vm, &seen(None, found), &intervals());
        assert_eq!(plan, Plan { step, problem }, "{law}");
    }
}

#[test]
fn running_task_is_awaited_and_failed_task_pauses() {
    let there = |powered_on| {
        let mut machine = machine(&["10.0.0.5"]);
        machine.powered_on = powered_on;
        found(machine)
    };
    let pauses = |message: &str| Plan::with_problem(Step::Pause, "TaskFailed", message);
    for (task, found, expected) in [
        (
            Some(Task::Running),
            Found::Nothing,
            Plan::without_problem(Step::Wait(intervals().tasks)),
        ),
        (
            Some(Task::Done(None)),
            Found::Nothing,
            Plan::without_problem(Step::ClearTask),
        ),
        (
            Some(Task::Unknown),
            there(true),
            Plan::without_problem(Step::ClearTask),
        ),
        (
            failed("InvalidPowerState"),
            there(true),
            Plan::without_problem(Step::ClearTask),
        ),
        (
            failed("InvalidPowerState"),
            there(false),
            pauses("it went wrong (InvalidPowerState)"),
        ),
        (
            failed("InvalidPowerState"),
            Found::Nothing,
            pauses("it went wrong (InvalidPowerState)"),
        ),
        (
            failed("NoPermission"),
            there(true),
            pauses("it went wrong (NoPermission)"),
        ),
        (
            failed("DuplicateName"),
            Found::Nothing,
            pauses(
                "the folder has a virtual machine \"prod-1\" that belongs to another owner: it went \
                 wrong",
            ),
        ),
    ] {
        let context = format!("{task:?} {found:?}");
        let plan = plan(&vm(Some(BIOS)), &seen(task, found), &intervals());
        assert_eq!(plan, expected, "{context}");
    }
}

#[test]
fn nothing_is_done_during_a_pause() {
    for (left, expected) in [
        (30, Step::Wait(Duration::from_secs(30))),
        (1, Step::Wait(Duration::from_secs(1))),
        (0, Step::EndPause),
        (-5, Step::EndPause),
    ] {
        let mut vm = vm(None);
        let at = Timestamp::from_second(now().as_second() + left).expect("a time");
        vm.status = Some(VSphereVMStatus {
            retry_after: Some(Time(at)),
            task_ref: Some("task-1".to_owned()),
            ..VSphereVMStatus::default()
        });
        let plan = plan(&vm, &seen(None, Found::Nothing), &intervals());
        assert_eq!(plan, Plan::without_problem(expected), "{left}");
    }
}

#[test]
fn card_without_address_source_delays_the_clone() {
    let waits =
        |reason, message: &str| Plan::with_problem(Step::Wait(intervals().retry), reason, message);
    let clones = || Plan::with_problem(Step::Clone, "WaitingForClone", "it is being cloned");
    for (device, expected) in [
        (json!({"networkName": "n", "dhcp4": true}), clones()),
        (json!({"networkName": "n", "dhcp6": true}), clones()),
        (
            json!({"networkName": "n", "ipAddrs": ["10.0.0.5/24"]}),
            clones(),
        ),
        (
            json!({"networkName": "n", "skipIPAllocation": true}),
            clones(),
        ),
        (
            json!({"networkName": "n", "dhcp4": false}),
            waits(
                "WaitingForStaticIPAllocation",
                "network.devices[0] (n) has neither DHCP nor ipAddrs",
            ),
        ),
        (
            json!({"networkName": "n", "addressesFromPools": [{"name": "p"}]}),
            waits(
                "WaitingForIPAllocation",
                "network.devices[0] (n) waits for addresses from its pools to be written to \
                 ipAddrs",
            ),
        ),
    ] {
        let mut vm = vm(None);
        let device_given = device.to_string();
        vm.spec.machine.network.devices = vec![serde_json::from_value(device).expect("a device")];
        let plan = plan(&vm, &seen(None, Found::Nothing), &intervals());
        assert_eq!(plan, expected, "{device_given}");
    }
}

#[test]
fn young_machine_is_polled_more_often() {
    for (age, expected) in [(0, 2), (15, 2), (50, 5), (100, 10), (100_000, 10), (-9, 2)] {
        let mut vm = vm(Some(BIOS));
        let made = Timestamp::from_second(now().as_second() - age).expect("a time");
        vm.metadata.creation_timestamp = Some(Time(made));
        let interval = address_poll_interval(&vm, now(), &intervals());
        assert_eq!(interval, Duration::from_secs(expected), "{age}");
    }
}

#[test]
fn fr5_machine_belongs_to_its_creator_or_to_the_owner_in_its_metadata() {
    let metadata_of = |namespace: &str, name: &str, mark: &str| {
        let mut other = vm(None);
        other.metadata.namespace = Some(namespace.to_owned());
        other.metadata.name = Some(name.to_owned());
        let mark = (metadata::MARK.to_owned(), mark.to_owned());
        other.metadata.annotations = Some([mark].into());
        metadata::desired(&other, &cards(&[]))
    };
    let other = Some("eA==".to_owned());
    for (law, instance, name, metadata, expected) in [
        ("made for it", UID, "any", None, true),
        ("in capitals", &UID.to_uppercase(), "any", None, true),
        (
            "moved",
            "else",
            "prod-1",
            metadata_of("team-a", "prod-1", "abc"),
            true,
        ),
        (
            "and renamed",
            "else",
            "odd",
            metadata_of("team-a", "prod-1", "abc"),
            true,
        ),
        ("never told anything", "else", "prod-1", None, false),
        ("told by others", "else", "prod-1", other, false),
        (
            "without a mark",
            "else",
            "prod-1",
            metadata_of("team-a", "prod-1", ""),
            false,
        ),
        (
            "of another space",
            "else",
            "prod-1",
            metadata_of("team-a", "prod-1", "abd"),
            false,
        ),
        (
            "of another team",
            "else",
            "prod-1",
            metadata_of("team-b", "prod-1", "abc"),
            false,
        ),
        (
            "of the same team",
            "else",
            "prod-1",
            metadata_of("team-a", "prod-2", "abc"),
            false,
        ),
    ] {
        let mut machine = Machine {
            name: name.to_owned(),
            instance_uuid: Some(instance.to_owned()),
            metadata,
            ..Machine::default()
        };
        assert_eq!(owns(&vm(Some(BIOS)), &machine), expected, "{law}");
        machine.is_template = true;
        assert!(!owns(&vm(Some(BIOS)), &machine), "{law}, a template");
    }
    // Without a UID and a mark, no machine is owned.
    let mut without = unmarked(vm(Some(BIOS)));
    without.metadata.uid = None;
    for metadata in [None, metadata_of("team-a", "prod-1", "")] {
        let machine = Machine {
            instance_uuid: Some(String::new()),
            metadata,
            ..Machine::default()
        };
        assert!(!owns(&without, &machine));
    }
}

#[test]
fn addresses_are_awaited_unless_all_cards_skip_allocation() {
    let card = |skips: bool| json!({"networkName": "n", "skipIPAllocation": skips, "dhcp4": true});
    let waits = || {
        let step = Step::Wait(intervals().addresses.0);
        Plan::with_problem(step, "WaitingForIPAddress", "it has no address yet")
    };
    for (devices, expected) in [
        (json!([card(true)]), Plan::without_problem(Step::Done)),
        (
            json!([card(true), card(true)]),
            Plan::without_problem(Step::Done),
        ),
        (json!([card(true), card(false)]), waits()),
        (json!([]), waits()),
    ] {
        let context = devices.to_string();
        let mut vm = vm(Some(BIOS));
        vm.spec.machine.network.devices = serde_json::from_value(devices).expect("devices");
        let cards = [cards(&[]), cards(&[])].concat();
        let machine = Machine {
            metadata: metadata::desired(&vm, &cards),
            cards,
            ..machine(&[])
        };
        let plan = plan(&vm, &seen(None, found(machine)), &intervals());
        assert_eq!(plan, expected, "{context}");
    }
}

fn any_task() -> impl Strategy<Value = Option<Task>> {
    prop_oneof![
        Just(None),
        Just(Some(Task::Running)),
        Just(Some(Task::Done(None))),
        Just(Some(Task::Unknown)),
        Just(failed("InvalidPowerState")),
        Just(failed("DuplicateName")),
    ]
}

fn any_found() -> impl Strategy<Value = Found> {
    let machine = (any::<[bool; 4]>()).prop_map(|[on, described, bios, address]| {
        let mut machine = machine(if address { &["10.0.0.5"] } else { &[] });
        machine.powered_on = on;
        machine.bios_uuid = machine.bios_uuid.filter(|_| bios);
        machine.metadata = machine.metadata.filter(|_| described);
        found(machine)
    });
    prop_oneof![
        Just(Found::Nothing),
        Just(Found::Foreign),
        Just(Found::Hidden(object())),
        machine,
    ]
}

proptest! {
    #[test]
    fn clone_only_if_no_machine_exists_or_existed(
        task in any_task(), found in any_found(), known in any::<bool>(),
    ) {
        let vm = vm(known.then_some(BIOS));
        let observed = seen(task, found);
        let plan = plan(&vm, &observed, &intervals());
        if plan.step == Step::Clone {
            prop_assert_eq!(&observed.found, &Found::Nothing);
            prop_assert!(!known && observed.task.is_none());
        }
        let ends = matches!(
            plan.step,
            Step::PowerOff(_) | Step::ShutDown(_) | Step::ShutDownAgain(_) | Step::Destroy(_) | Step::RemoveFinalizer
        );
        prop_assert!(!ends, "what is to be is never taken away: {:?}", plan);
    }

    #[test]
    fn steps_converge_to_a_ready_machine(found in any_found()) {
        let mut vm = vm(None);
        let mut found = found;
        prop_assume!(!matches!(found, Found::Foreign | Found::Hidden(_)));
        for _ in 0..10 {
            match plan(&vm, &seen(None, found.clone()), &intervals()).step {
                Step::Done => return Ok(()),
                Step::Clone => found = self::found(Machine { bios_uuid: None, ..machine(&[]) }),
                Step::RecordUuid(uuid) => vm.spec.bios_uuid = Some(uuid),
                Step::Wait(_) => found = change(found, |machine| {
                    machine.bios_uuid = Some(BIOS.to_owned());
                    if machine.powered_on {
                        machine.cards = cards(&["10.0.0.5"]);
                    }
                }),
                Step::WriteMetadata(_, text) => {
                    found = change(found, |machine| machine.metadata = Some(text.clone()));
                }
                Step::PowerOn(_) => found = change(found, |machine| machine.powered_on = true),
                step => prop_assert!(false, "{step:?}"),
            }
        }
        prop_assert!(false, "it does not end: {found:?}");
    }
}

fn change(found: Found, change: impl Fn(&mut Machine)) -> Found {
    match found {
        Found::Machine(object, mut machine) => {
            change(&mut machine);
            Found::Machine(object, machine)
        }
        other => other,
    }
}
