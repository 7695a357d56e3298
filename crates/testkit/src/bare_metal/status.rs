//! The status of a host after a step.

use serde_json::{Value, json};

use super::decide::{operational, state_of};
use super::knobs::Problem;
use super::power;
use super::state::State;

/// Returns the status of a host that enters a state, or stays in it, without problems. `number` is
/// the number of the host, for its addresses.
pub(super) fn entered(host: &Value, state: State, number: u16) -> Value {
    let mut status = complete(&host["status"]);
    let spec = &host["spec"];
    status["operationalStatus"] = operational(state).into();
    status["errorMessage"] = "".into();
    status["errorCount"] = 0.into();
    remove(&mut status, "errorType");
    status["provisioning"]["state"] = state.as_str().into();
    if state.is_stable() {
        status["poweredOn"] = power::is_wanted_on(host, state).into();
    }
    match state {
        State::Inspecting | State::ExternallyProvisioned if status["provisioning"]["ID"] == "" => {
            status["provisioning"]["ID"] = uuid::Uuid::new_v4().to_string().into();
        }
        State::Preparing => status["hardware"] = hardware(host, number),
        State::Provisioned => {
            for field in ["image", "customDeploy"] {
                match spec[field].is_null() {
                    true => remove(&mut status["provisioning"], field),
                    false => status["provisioning"][field] = spec[field].clone(),
                }
            }
        }
        State::Available => {
            remove(&mut status["provisioning"], "image");
            remove(&mut status["provisioning"], "customDeploy");
        }
        State::Deleting => status["poweredOn"] = false.into(),
        _ => {}
    }
    status
}

/// Returns the status of a host with a problem.
pub(super) fn failed(host: &Value, problem: &Problem) -> Value {
    let mut status = complete(&host["status"]);
    let count = status["errorCount"].as_u64().unwrap_or_default();
    status["operationalStatus"] = "error".into();
    status["errorType"] = problem.kind.as_str().into();
    status["errorMessage"] = problem.message.as_str().into();
    status["errorCount"] = (count + 1).into();
    status
}

/// Returns whether the status has this problem.
pub(super) fn has_problem(host: &Value, problem: &Problem) -> bool {
    let status = &host["status"];
    status["operationalStatus"] == "error"
        && status["errorType"] == problem.kind.as_str()
        && status["errorMessage"] == problem.message.as_str()
}

/// Returns the status of a detached host.
pub(super) fn detached(host: &Value) -> Value {
    let mut status = entered(host, state_of(host), 0);
    status["operationalStatus"] = "detached".into();
    // Its power is not changed any more.
    status["poweredOn"] = host["status"]["poweredOn"].clone();
    status
}

/// Returns a status with all required fields.
pub(super) fn complete(status: &Value) -> Value {
    let mut whole = json!({
        "operationalStatus": "", "errorMessage": "", "errorCount": 0, "provisioningFailCount": 0,
        "poweredOn": false, "provisioning": {"state": "", "ID": ""},
    });
    let known = status.as_object().into_iter().flatten();
    for (name, value) in known {
        whole[name] = value.clone();
    }
    whole
}

/// Returns the hardware of a host: two interfaces with addresses that no other host has.
fn hardware(host: &Value, number: u16) -> Value {
    let [high, low] = number.to_be_bytes();
    let boot = host["spec"]["bootMACAddress"].as_str();
    let boot = boot.map_or_else(
        || format!("52:54:00:00:{high:02x}:{low:02x}"),
        str::to_owned,
    );
    json!({
        "hostname": host["metadata"]["name"],
        "nics": [
            {"name": "eth0", "mac": boot, "ip": format!("10.0.{high}.{low}"), "pxe": true},
            {
                "name": "eth1", "mac": format!("52:54:00:01:{high:02x}:{low:02x}"),
                "ip": format!("10.1.{high}.{low}"), "pxe": false,
            },
        ],
    })
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
