//! Problems, their reasons and classes.

use super::*;

#[test]
fn r33_r49_problems_have_no_actions() {
    type But = fn(&mut Observed);
    let name = || NAMESPACE.to_owned();
    let here = tenant(TenantSpec::default());
    let mut moved = with_space();
    moved.status = Some(TenantStatus {
        namespace: Some(name()),
        ..TenantStatus::default()
    });
    let table: [(&Tenant, But, Problem); 10] = [
        (
            &with_space(),
            |observed| observed.space = None,
            Problem::NamespaceNotOurs(name()),
        ),
        (
            &here,
            |observed| observed.namespace.as_mut().unwrap().metadata.annotations = None,
            Problem::NamespaceNotOurs(name()),
        ),
        (
            &here,
            |observed| {
                let annotations = &mut observed.namespace.as_mut().unwrap().metadata.annotations;
                for uid in annotations.as_mut().unwrap().values_mut() {
                    *uid = "u-0".to_owned();
                }
            },
            Problem::NamespaceNotOurs(name()),
        ),
        (
            &here,
            |observed| {
                let metadata = &mut observed.namespace.as_mut().unwrap().metadata;
                metadata.deletion_timestamp = Some(Time(at(NOW)));
            },
            Problem::NamespaceTerminating(name()),
        ),
        (
            &here,
            |observed| {
                let token = observed.contents.token.as_mut().unwrap();
                token.data = None;
                token.metadata.creation_timestamp = Some(Time(at(NOW - 3)));
            },
            Problem::TokenPending,
        ),
        (
            &here,
            |observed| {
                let token = observed.contents.token.as_mut().unwrap();
                token.data = None;
                token.metadata.creation_timestamp = Some(Time(at(NOW - 61)));
            },
            Problem::TokenNotMade,
        ),
        (&moved, |_| {}, Problem::IsolationChanged),
        (
            &with_space(),
            |observed| observed.spaces_served = false,
            Problem::SpacesNotServed,
        ),
        (
            &with_space(),
            |observed| observed.space.as_mut().unwrap().metadata.annotations = None,
            Problem::SpaceNotOurs(name()),
        ),
        (
            &with_space(),
            |observed| {
                let metadata = &mut observed.space.as_mut().unwrap().metadata;
                metadata.deletion_timestamp = Some(Time(at(NOW)));
            },
            Problem::SpaceTerminating(name()),
        ),
    ];
    for (tenant, but, problem) in table {
        let found = planned(tenant, but);
        assert_eq!(found.0, State::Problem(problem));
        assert_eq!(found.1, NOTHING);
    }
}

#[test]
fn every_problem_has_a_unique_reason_and_class() {
    let text = || "x".to_owned();
    let table = [
        (
            Problem::InvalidName(InvalidTenantId::TooLong),
            Phase::Failed,
            Class::Mistaken,
        ),
        (
            Problem::InvalidAdmins { at: 0, why: text() },
            Phase::Failed,
            Class::Mistaken,
        ),
        (Problem::IsolationChanged, Phase::Failed, Class::Mistaken),
        (
            Problem::NamespaceNotOurs(text()),
            Phase::Failed,
            Class::Blocked,
        ),
        (Problem::SpaceNotOurs(text()), Phase::Failed, Class::Blocked),
        (Problem::SpacesNotServed, Phase::Failed, Class::Refused),
        (
            Problem::NamespaceTerminating(text()),
            Phase::Provisioning,
            Class::Blocked,
        ),
        (
            Problem::SpaceTerminating(text()),
            Phase::Provisioning,
            Class::Blocked,
        ),
        (
            Problem::PartTerminating(text()),
            Phase::Provisioning,
            Class::Blocked,
        ),
        (Problem::KindsNotServed, Phase::Provisioning, Class::Blocked),
        (Problem::TokenPending, Phase::Provisioning, Class::Blocked),
        (Problem::TokenNotMade, Phase::Failed, Class::Blocked),
        (Problem::Forbidden(text()), Phase::Failed, Class::Refused),
        (Problem::Rejected(text()), Phase::Failed, Class::Refused),
        (
            Problem::ServerUnavailable(text()),
            Phase::Failed,
            Class::Transient,
        ),
    ];
    let mut reasons = std::collections::BTreeSet::new();
    for (problem, phase, class) in table {
        assert!(reasons.insert(problem.reason()), "{problem:?}");
        assert_eq!(problem.class(), class, "{problem:?}");
        let mut tenant = tenant(TenantSpec::default());
        let status = concluded(&mut tenant, &State::Problem(problem.clone()), 1).unwrap();
        assert_eq!(status["phase"], json!(phase), "{problem:?}");
        assert_eq!(status["conditions"][0]["reason"], problem.reason());
    }
}

#[test]
fn server_errors_become_problems_with_the_attempted_operation() {
    let answered = |code| {
        let status = kube::core::Status {
            code,
            message: "no".to_owned(),
            ..Default::default()
        };
        Error::when("create role r")(kube::Error::Api(status.boxed()))
    };
    for (code, reason, message) in [
        (
            403,
            "Forbidden",
            "the operator lacks permissions: cannot create role r: no",
        ),
        (
            401,
            "Forbidden",
            "the operator lacks permissions: cannot create role r: no",
        ),
        (
            422,
            "Rejected",
            "the server rejects the request: cannot create role r: no",
        ),
        (
            500,
            "ServerUnavailable",
            "the server is unavailable: cannot create role r: no",
        ),
    ] {
        let problem = Problem::of(&answered(code), NAMESPACE);
        assert_eq!(
            (problem.reason(), problem.to_string().as_str()),
            (reason, message)
        );
    }
}
