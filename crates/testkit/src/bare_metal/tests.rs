//! Decisions of the fake operator.

use serde_json::{Value, json};

use super::decide::{Action, next};
use super::knobs::{ErrorType, Problem};
use super::state::State;
use super::{FINALIZER, digest, host, status};

/// Returns a host with the finalizer in a state, changed by a merge patch.
fn in_state(state: State, change: Value) -> Value {
    let [_, mut host] = host("pool", "h");
    host["metadata"]["finalizers"] = json!([FINALIZER]);
    host["status"] = status::entered(&host, state, 1);
    merge(&mut host, change);
    host
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn deployed() -> Value {
    let image = json!({"url": "http://i"});
    json!({
        "spec": {"online": true, "image": image},
        "status": {"poweredOn": true, "provisioning": {"image": image}},
    })
}

#[test]
fn host_goes_through_its_states() {
    let requested = json!({"spec": {"online": true, "image": {"url": "http://i"}}});
    let unmanaged = json!({"spec": {"bmc": null}});
    let external = json!({"spec": {"externallyProvisioned": true}});
    let mut cleared = deployed();
    cleared["spec"]["image"] = Value::Null;
    let mut changed = deployed();
    changed["spec"]["image"]["url"] = "http://j".into();
    let custom = json!({"spec": {"online": true, "customDeploy": {"method": "m"}}});
    let off = json!({"spec": {"image": {"url": "http://i"}}});
    let enter = Action::Enter;
    for (state, change, expected) in [
        (State::None, json!({}), enter(State::Registering)),
        (State::None, unmanaged.clone(), enter(State::Unmanaged)),
        (State::Unmanaged, unmanaged, Action::Rest),
        (State::Unmanaged, json!({}), enter(State::Registering)),
        (State::Registering, json!({}), enter(State::Inspecting)),
        (
            State::Registering,
            external.clone(),
            enter(State::ExternallyProvisioned),
        ),
        (State::Inspecting, json!({}), enter(State::Preparing)),
        (State::Preparing, json!({}), enter(State::Available)),
        (State::Available, json!({}), Action::Rest),
        (State::Available, off, Action::Rest),
        (
            State::Available,
            requested.clone(),
            enter(State::Provisioning),
        ),
        (State::Available, custom, enter(State::Provisioning)),
        (State::Provisioning, requested, enter(State::Provisioned)),
        (State::Provisioning, json!({}), enter(State::Deprovisioning)),
        (State::Provisioned, deployed(), Action::Rest),
        (State::Provisioned, cleared, enter(State::Deprovisioning)),
        (State::Provisioned, changed, enter(State::Deprovisioning)),
        (State::Deprovisioning, json!({}), enter(State::Available)),
        (State::ExternallyProvisioned, external, Action::Rest),
        (
            State::ExternallyProvisioned,
            json!({}),
            enter(State::Inspecting),
        ),
    ] {
        let host = in_state(state, change);
        assert_eq!(next(&host), expected, "{state}: {host}");
    }
}

#[test]
fn host_is_deprovisioned_and_switched_off_before_it_is_deleted() {
    let enter = Action::Enter;
    for (state, expected) in [
        (State::Provisioned, enter(State::Deprovisioning)),
        (State::Deprovisioning, enter(State::PoweringOffBeforeDelete)),
        (State::Available, enter(State::PoweringOffBeforeDelete)),
        (State::PoweringOffBeforeDelete, enter(State::Deleting)),
        (State::ExternallyProvisioned, enter(State::Deleting)),
        (State::Unmanaged, enter(State::Deleting)),
        (State::Deleting, Action::RemoveFinalizer),
    ] {
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(next(&in_state(state, deleted)), expected, "{state}");
    }
}

#[test]
fn annotations_stop_the_work() {
    let annotated = |name: &str, value: &str| json!({"metadata": {"annotations": {name: value}}});
    let paused = annotated(super::PAUSED, "metal3.io/capm3");
    for state in [State::None, State::Registering, State::Deprovisioning] {
        assert_eq!(next(&in_state(state, paused.clone())), Action::Rest);
    }
    let detached = annotated(super::DETACHED, "");
    let host = in_state(State::Available, detached.clone());
    assert_eq!(next(&host), Action::Detach);
    let mut host = host;
    host["status"] = status::detached(&host);
    assert_eq!(host["status"]["operationalStatus"], "detached");
    assert_eq!(next(&host), Action::Rest);
    // A host that is on its way is not detached before it has arrived.
    let host = in_state(State::Inspecting, detached);
    assert_eq!(next(&host), Action::Enter(State::Preparing));
    let stored = json!({"provisioning": {"state": "provisioned", "ID": "1"}});
    let mut host = in_state(State::None, annotated(super::STATUS, &stored.to_string()));
    host["status"] = Value::Null;
    assert_eq!(next(&host), Action::Restore(stored.clone()));
    host["status"] = stored;
    assert_eq!(next(&host), Action::DropStatusAnnotation);
}

#[test]
fn annotations_switch_a_host_off_until_they_are_removed() {
    let [once, until_removed] = ["reboot.metal3.io", "reboot.metal3.io/other"];
    let (hard, force) = (r#"{"mode":"hard"}"#, r#"{"mode":"hard","force":true}"#);
    let stays_on = json!({"spec": {"disablePowerOff": true}});
    for (state, name, value, spec, is_on, expected) in [
        (
            State::Provisioned,
            until_removed,
            hard,
            json!({}),
            true,
            Action::Refresh,
        ),
        (
            State::Provisioned,
            until_removed,
            hard,
            json!({}),
            false,
            Action::Rest,
        ),
        (
            State::Provisioned,
            until_removed,
            "",
            json!({}),
            true,
            Action::Refresh,
        ),
        (
            State::Provisioned,
            once,
            hard,
            json!({}),
            true,
            Action::Refresh,
        ),
        (
            State::Provisioned,
            once,
            hard,
            json!({}),
            false,
            Action::DropRebootAnnotation,
        ),
        (
            State::Provisioned,
            once,
            hard,
            stays_on.clone(),
            true,
            Action::DropRebootAnnotation,
        ),
        (
            State::Provisioned,
            until_removed,
            hard,
            stays_on,
            true,
            Action::Rest,
        ),
        (
            State::Provisioned,
            "reboot.metal3.iox",
            hard,
            json!({}),
            true,
            Action::Rest,
        ),
        (
            State::Available,
            until_removed,
            hard,
            json!({}),
            true,
            Action::Rest,
        ),
        (
            State::Available,
            until_removed,
            force,
            json!({}),
            true,
            Action::Refresh,
        ),
    ] {
        let mut change = match state {
            State::Provisioned => deployed(),
            _ => json!({"spec": {"online": true}}),
        };
        merge(&mut change, spec);
        merge(
            &mut change,
            json!({"metadata": {"annotations": {name: value}}}),
        );
        change["status"]["poweredOn"] = is_on.into();
        let host = in_state(state, change);
        assert_eq!(next(&host), expected, "{state} {name} {value} {is_on}");
    }
}

#[test]
fn secret_of_another_namespace_is_refused() {
    for field in ["userData", "metaData", "networkData"] {
        let named = |namespace: &str| {
            let secret = json!({"name": "s", "namespace": namespace});
            next(&in_state(
                State::Available,
                json!({"spec": {field: secret}}),
            ))
        };
        assert_eq!(named("pool"), Action::Rest);
        assert_eq!(named(""), Action::Rest);
        let message = format!(
            "spec.{field}.namespace: is team, but only Secrets of namespace pool are allowed"
        );
        let kind = ErrorType::Provisioning;
        assert_eq!(named("team"), Action::Refuse(Problem { kind, message }));
    }
}

#[test]
fn status_has_the_required_fields_and_the_hardware() {
    let [_, host] = host("pool", "h");
    let mut status = status::entered(&host, State::Preparing, 258);
    assert_eq!(
        status,
        json!({
            "operationalStatus": "OK", "errorMessage": "", "errorCount": 0,
            "provisioningFailCount": 0, "poweredOn": false,
            "provisioning": {"state": "preparing", "ID": ""},
            "hardware": {"hostname": "h", "nics": [
                {"name": "eth0", "mac": "52:54:00:00:01:02", "ip": "10.0.1.2", "pxe": true},
                {"name": "eth1", "mac": "52:54:00:01:01:02", "ip": "10.1.1.2", "pxe": false},
            ]},
        })
    );
    let problem = Problem {
        kind: ErrorType::Provisioning,
        message: "no".to_owned(),
    };
    let mut failed = host.clone();
    failed["status"] = status::failed(&host, &problem);
    assert!(status::has_problem(&failed, &problem));
    assert_eq!(failed["status"]["errorCount"], 1);
    assert_eq!(failed["status"]["errorType"], "provisioning error");
    status = status::entered(&failed, State::Available, 1);
    assert_eq!(status.get("errorType"), None);
    assert_eq!(status["errorCount"], 0);
}

#[test]
fn digest_is_hexadecimal() {
    let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest("abc"), expected);
}
