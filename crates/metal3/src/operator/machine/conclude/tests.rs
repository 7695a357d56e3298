use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn concluded(stored: &Metal3Machine, report: &Report, second: i64) -> Metal3Machine {
    let mut machine = stored.clone();
    conclude(&mut machine, stored, report, at(second));
    machine
}

fn conditions(machine: &Metal3Machine) -> Vec<Value> {
    let status = machine.status.as_ref().unwrap();
    let conditions = status.conditions.iter();
    conditions
        .map(|it| json!([it.type_, it.status, it.reason, it.message]))
        .collect()
}

fn older(machine: &Metal3Machine) -> Value {
    let status = json!(machine.status);
    let conditions = status["deprecated"]["v1beta1"]["conditions"].as_array();
    let conditions = conditions.unwrap().iter();
    conditions
        .map(|it| json!([it["type"], it["status"], it["reason"], it["severity"]]))
        .collect()
}

#[test]
fn conditions_are_those_of_the_last_step_reached() {
    let mut machine = Metal3Machine::default();
    machine.metadata.generation = Some(3);
    let report = Report {
        host: Some(State::new(false, FAILED, "no available host")),
        ..Report::default()
    };
    let machine = concluded(&machine, &report, 1);
    assert_eq!(
        conditions(&machine),
        [
            json!(["Paused", "False", "NotPaused", ""]),
            json!([
                "AssociateBareMetalHost",
                "False",
                FAILED,
                "no available host"
            ]),
            json!([
                "Ready",
                "False",
                "NotReady",
                "* AssociateBareMetalHost: no available host"
            ]),
        ]
    );
    assert_eq!(
        older(&machine),
        json!([
            ["Ready", "False", "NotReady", "Error"],
            ["AssociateBMH", "False", FAILED, "Error"],
        ])
    );
    let status = machine.status.as_ref().unwrap();
    assert_eq!(status.initialization, None);
    assert_eq!(status.last_updated, Some(seconds(at(1))));
    assert_eq!(status.conditions[0].observed_generation, Some(3));

    let report = Report {
        host: Some(State::new(true, ASSOCIATED, "BareMetalHost pool-a/h")),
        meta_data: Some(State::new(
            true,
            "AssociateMetal3MachineMetaDataSuccess",
            "",
        )),
        data: Some(State::new(true, "SecretsSetExternally", "")),
        node: Some(State::new(false, "WaitingForNode", "no node yet")),
        is_provisioned: true,
        paused: None,
    };
    let machine = concluded(&machine, &report, 2);
    assert_eq!(
        conditions(&machine),
        [
            json!(["Paused", "False", "NotPaused", ""]),
            json!([
                "AssociateBareMetalHost",
                "True",
                ASSOCIATED,
                "BareMetalHost pool-a/h"
            ]),
            json!([
                "Ready",
                "False",
                "NotReady",
                "* KubernetesNodeReady: no node yet"
            ]),
            json!([
                "AssociateMetal3MachineMetaData",
                "True",
                "AssociateMetal3MachineMetaDataSuccess",
                ""
            ]),
            json!(["Metal3DataReady", "True", "SecretsSetExternally", ""]),
            json!([
                "KubernetesNodeReady",
                "False",
                "WaitingForNode",
                "no node yet"
            ]),
        ]
    );
    assert_eq!(
        older(&machine),
        json!([
            ["Ready", "False", "NotReady", "Error"],
            ["AssociateBMH", "True", ASSOCIATED, null],
            ["Metal3DataReady", "True", "SecretsSetExternally", null],
            ["KubernetesNodeReady", "False", "WaitingForNode", "Info"],
        ])
    );

    // The credential breaks later: the machine stays provisioned.
    let report = Report {
        host: Some(State::new(false, "IdentityUnreachable", "away")),
        node: Some(State::new(true, "KubernetesNodeReady", "")),
        ..Report::default()
    };
    let machine = concluded(&machine, &report, 3);
    let status = machine.status.as_ref().unwrap();
    let provisioned = status.initialization.and_then(|it| it.provisioned);
    assert_eq!(provisioned, Some(true));
    assert_eq!(
        conditions(&machine)[2],
        json!([
            "Ready",
            "False",
            "NotReady",
            "* AssociateBareMetalHost: away"
        ])
    );
    assert_eq!(
        older(&machine)[1],
        json!(["AssociateBMH", "False", "IdentityUnreachable", "Warning"])
    );
}

#[test]
fn nothing_is_written_if_nothing_has_changed() {
    let report = Report {
        host: Some(State::new(true, ASSOCIATED, "BareMetalHost pool-a/h")),
        ..Report::default()
    };
    let first = concluded(&Metal3Machine::default(), &report, 1);
    assert_eq!(concluded(&first, &report, 2), first);
    let waits = "its host is not provisioned yet";
    assert_eq!(
        conditions(&first)[2..],
        [
            json!([
                "KubernetesNodeReady",
                "False",
                "WaitingForBareMetalHost",
                waits
            ]),
            json!([
                "Ready",
                "False",
                "NotReady",
                format!("* KubernetesNodeReady: {waits}")
            ]),
        ]
    );
}

#[test]
fn paused_machine_keeps_its_other_conditions() {
    let report = Report {
        host: Some(State::new(false, FAILED, "none")),
        ..Report::default()
    };
    let machine = concluded(&Metal3Machine::default(), &report, 1);
    let report = Report {
        paused: Some("by its cluster".to_owned()),
        ..Report::default()
    };
    let paused = concluded(&machine, &report, 2);
    let before = conditions(&machine);
    let after = conditions(&paused);
    assert_eq!(
        after[0],
        json!(["Paused", "True", "Paused", "by its cluster"])
    );
    assert_eq!(after[1..], before[1..]);
}

#[test]
fn events_are_about_hosts_and_problems() {
    let condition = |kind: &str, state: State| {
        let mut machine = Metal3Machine::default();
        let mut writer = ConditionWriter::of(&mut machine, at(1));
        match state.is_true {
            true => writer.set_true(kind, state.reason, state.message),
            false => writer.set_false(kind, state.reason, state.message),
        }
        machine.status.unwrap().conditions.remove(0)
    };
    let host = condition(HOST, State::new(true, ASSOCIATED, "a"));
    let other = condition(HOST, State::new(true, ASSOCIATED, "b"));
    let failed = condition(HOST, State::new(false, FAILED, ""));
    let waiting = condition(NODE, State::new(false, "WaitingForNode", ""));
    let conflict = condition(META_DATA, State::new(false, "SecretConflict", ""));
    let ready = condition(NODE, State::new(true, "KubernetesNodeReady", ""));
    for (before, now, expected) in [
        (None, &host, true),
        (Some(&host), &other, false),
        (Some(&host), &failed, true),
        (Some(&failed), &failed, false),
        (None, &waiting, false),
        (None, &conflict, true),
        (Some(&waiting), &ready, false),
    ] {
        assert_eq!(
            is_reported(before, now),
            expected,
            "{} {}",
            now.type_,
            now.reason
        );
    }
}
