//! The status of a tenant.

use super::*;

#[test]
fn r28_r32_status_has_phase_and_time_of_first_provisioning() {
    let mut tenant = tenant(TenantSpec::default());
    let condition = |status: &str, reason: &str, message: &str, since: &str| {
        json!([{
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": since, "observedGeneration": 3,
        }])
    };
    let places = json!({
        "namespace": NAMESPACE, "serviceAccount": "submariner-k8s-broker-admin",
        "tokenSecret": "submariner-k8s-broker-admin-token", "observedGeneration": 3,
    });
    let with = |more: Value| {
        let mut status = places.clone();
        status
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Some(status)
    };
    let (making, made) = (
        "the broker's prerequisites are being created",
        "all prerequisites of the broker are in place",
    );
    assert_eq!(
        concluded(&mut tenant, &State::Provisioning, 1),
        with(json!({
            "phase": "Provisioning", "message": making,
            "conditions": condition("False", "Provisioning", making, "1970-01-01T00:00:01Z"),
        }))
    );
    assert_eq!(
        concluded(&mut tenant, &State::Provisioning, 2),
        None,
        "it says so already"
    );
    assert_eq!(
        concluded(&mut tenant, &State::Provisioned, 3),
        with(json!({
            "phase": "Provisioned", "provisionedAt": "1970-01-01T00:00:03Z",
            "conditions": condition("True", "Provisioned", made, "1970-01-01T00:00:03Z"),
        }))
    );
    assert_eq!(concluded(&mut tenant, &State::Provisioned, 4), None);
    let problem = Problem::ServerUnavailable("cannot".to_owned());
    assert_eq!(
        concluded(&mut tenant, &State::Problem(problem), 5),
        with(json!({
            "phase": "Failed", "provisionedAt": "1970-01-01T00:00:03Z",
            "message": "the server is unavailable: cannot",
            "conditions": condition(
                "False", "ServerUnavailable", "the server is unavailable: cannot",
                "1970-01-01T00:00:05Z",
            ),
        }))
    );
    concluded(&mut tenant, &State::Provisioned, 6).unwrap();
    let status = tenant.status.as_ref().unwrap();
    assert_eq!(status.provisioned_at, Some(Time(at(3))));
    assert_eq!(concluded(&mut tenant, &State::Removed, 7), None);
}

#[test]
fn messages_are_truncated() {
    let mut tenant = tenant(TenantSpec::default());
    let problem = Problem::Rejected("ä".repeat(100_000));
    let status = concluded(&mut tenant, &State::Problem(problem), 1).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!((2040..=2048).contains(&message.len()), "{}", message.len());
    assert_eq!(status["conditions"][0]["message"], message);
}

#[test]
fn messages_are_sanitized() {
    let mut tenant = tenant(TenantSpec::default());
    let said = "a\u{1b}[2Jb\r\nc\0d\u{202e}e\u{2028}f\u{85}ä";
    let problem = Problem::Rejected(said.to_owned());
    let status = concluded(&mut tenant, &State::Problem(problem), 1).unwrap();
    assert_eq!(
        status["message"],
        "the server rejects the request: a\u{fffd}[2Jb\u{fffd}\u{fffd}c\u{fffd}d\u{fffd}e\u{fffd}f\u{fffd}ä"
    );
}

#[test]
fn status_names_the_space_only_once_it_exists() {
    let mut spaced = with_space();
    let status = concluded(&mut spaced, &State::Provisioning, 1).unwrap();
    assert_eq!(status["space"], NAMESPACE);
    let mut failed = tenant(TenantSpec::default());
    let problem = Problem::NamespaceNotOurs(NAMESPACE.to_owned());
    let status = concluded(&mut failed, &State::Problem(problem), 1).unwrap();
    assert_eq!(status.get("namespace"), None);
    assert_eq!(status["phase"], "Failed");
}
