//! The deletion of a tenant.

use super::*;

#[test]
fn terminating_namespace_is_a_transient_problem() {
    let answered = |code: u16, message: &str, details: Value| {
        let status = json!({"code": code, "message": message, "details": details});
        let status: kube::core::Status = serde_json::from_value(status).unwrap();
        Error::when("create role r")(kube::Error::Api(status.boxed()))
    };
    let deleting = json!({"kind": "roles", "causes": [{"reason": "NamespaceTerminating"}]});
    let deleted = "object is being deleted: namespaces \"n\" already exists";
    for (code, message, details, reason) in [
        (403, "no", deleting, "NamespaceTerminating"),
        (
            409,
            deleted,
            json!({"kind": "namespaces"}),
            "NamespaceTerminating",
        ),
        (
            409,
            deleted,
            json!({"kind": "secrets"}),
            "ServerUnavailable",
        ),
        (
            409,
            "conflict",
            json!({"kind": "namespaces"}),
            "ServerUnavailable",
        ),
        (403, "no", json!({"kind": "roles"}), "Forbidden"),
        (403, "no", json!(null), "Forbidden"),
    ] {
        let problem = Problem::of(&answered(code, message, details), NAMESPACE);
        assert_eq!(problem.reason(), reason, "{message}");
    }
}

#[test]
fn r47_credentials_are_deleted_first() {
    let all = [
        "delete service account submariner-k8s-broker-admin",
        "delete secret submariner-k8s-broker-admin-token",
        "delete role binding submariner-k8s-broker-admin",
        "delete namespace submariner-broker-acme",
    ];
    let here = deleting(tenant(TenantSpec::default()), NOW);
    let only_here = |observed: &mut Observed| observed.space = None;
    let found = removal(&here, only_here);
    assert_eq!(found.1, all);
    assert_eq!(
        found.0,
        State::Deleting(DeletionProgress {
            reason: "Deleting",
            message: "namespace submariner-broker-acme is being deleted".to_owned(),
        })
    );
    let found = removal(&deleting(with_space(), NOW), |_| {});
    assert_eq!(found.1[..3], all[..3]);
    assert_eq!(found.1[3..], ["delete space submariner-broker-acme"]);
    // A finalizer does not keep a credential alive.
    let found = removal(&here, |observed| {
        only_here(observed);
        let account = observed.contents.account.as_mut().unwrap();
        account.metadata.finalizers = Some(vec!["mine".to_owned()]);
        let token = observed.contents.token.as_mut().unwrap();
        token.metadata.finalizers = Some(vec!["mine".to_owned()]);
        token.metadata.deletion_timestamp = Some(Time(at(NOW)));
    });
    assert_eq!(
        found.1,
        [
            "delete service account submariner-k8s-broker-admin",
            "delete role binding submariner-k8s-broker-admin",
            "delete namespace submariner-broker-acme",
            "remove finalizers of service account submariner-k8s-broker-admin",
            "remove finalizers of secret submariner-k8s-broker-admin-token",
        ]
    );
}

#[test]
fn r49_foreign_objects_are_not_deleted() {
    let here = deleting(tenant(TenantSpec::default()), NOW);
    for but in [
        |observed: &mut Observed| {
            observed.namespace = None;
            observed.space = None;
        },
        |observed: &mut Observed| {
            observed.namespace.as_mut().unwrap().metadata.annotations = None;
            observed.space.as_mut().unwrap().metadata.annotations = None;
        },
    ] {
        let found = removal(&here, but);
        assert_eq!(
            (found.0, found.1.as_slice()),
            (State::Removed, [].as_slice())
        );
    }
}

#[test]
fn r45_blocked_namespace_is_reported_with_its_conditions() {
    let condition = |kind: &str, status: &str, message: &str| NamespaceCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        message: Some(message.to_owned()),
        ..NamespaceCondition::default()
    };
    let conditions = vec![
        condition("NamespaceDeletionContentFailure", "False", "all is well"),
        condition("NamespaceFinalizersRemaining", "True", "f in 1 instances."),
        condition("NamespaceContentRemaining", "True", "configmaps. has 1"),
    ];
    for (since, conditions, reason, message) in [
        (NOW - 180, None, "Deleting", "is being deleted"),
        (
            NOW - 181,
            None,
            "DeletionTakesLong",
            "is being deleted, which takes unusually long",
        ),
        (
            NOW,
            Some(conditions.clone()),
            "Deleting",
            "is blocked: configmaps. has 1; f in 1 instances",
        ),
        (
            NOW - 600,
            Some(conditions.clone()),
            "DeletionTakesLong",
            "is blocked, which takes unusually long: configmaps. has 1; f in 1 instances",
        ),
    ] {
        let found = removal(
            &deleting(tenant(TenantSpec::default()), since),
            |observed| {
                observed.space = None;
                observed.contents = NamespaceContents::default();
                let namespace = observed.namespace.as_mut().unwrap();
                namespace.metadata.deletion_timestamp = Some(Time(at(since)));
                namespace.status = Some(NamespaceStatus {
                    conditions,
                    ..NamespaceStatus::default()
                });
            },
        );
        assert_eq!(found.1, NOTHING);
        let message = format!("namespace {NAMESPACE} {message}");
        assert_eq!(
            found.0,
            State::Deleting(DeletionProgress { reason, message })
        );
    }
}
