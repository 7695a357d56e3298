//! Managers and administrators of a tenant.

use super::*;

#[test]
fn tenant_managers_role_exists_while_there_are_managers() {
    let tenant = tenant(TenantSpec::default());
    let id = id();
    let desired = Desired {
        tenant: &tenant,
        id: &id,
    };
    let olga = vec![subject("User", "olga")];
    let (role, binding) = (
        made(desired.offering_role(), "r"),
        made(desired.offering_binding(&olga), "b"),
    );
    let found = planned(&tenant, |observed| observed.offering = Some(olga.clone()));
    assert_eq!(found.0, State::Provisioned);
    assert_eq!(
        found.1,
        ["create role axon-admin", "create role binding axon-admin"]
    );
    let there = |observed: &mut Observed| {
        observed.contents.offering_role = Some(role.clone());
        observed.contents.offering_binding = Some(binding.clone());
    };
    let found = planned(&tenant, |observed| {
        there(observed);
        observed.offering = Some(vec![subject("User", "otto")]);
    });
    assert_eq!(found.1, ["change role binding axon-admin"]);
    let found = planned(&tenant, there);
    assert_eq!(
        found.1,
        ["delete role binding axon-admin", "delete role axon-admin"]
    );
    // A role that only has that name belongs to the tenant.
    let found = planned(&tenant, |observed| {
        there(observed);
        observed
            .contents
            .offering_role
            .as_mut()
            .unwrap()
            .metadata
            .labels = None;
        observed
            .contents
            .offering_binding
            .as_mut()
            .unwrap()
            .metadata
            .labels = None;
    });
    assert_eq!(found.1, NOTHING);
}

#[test]
fn valid_administrators_are_accepted_and_others_refused() {
    let account = |namespace: Option<&str>| Subject {
        namespace: namespace.map(str::to_owned),
        ..subject("ServiceAccount", "ci")
    };
    let grouped = |group: &str, subject: Subject| Subject {
        api_group: Some(group.to_owned()),
        ..subject
    };
    let table = [
        (subject("User", "jane@example.com"), Ok(())),
        (
            grouped("rbac.authorization.k8s.io", subject("Group", "g")),
            Ok(()),
        ),
        (account(Some("ci")), Ok(())),
        (account(Some(NAMESPACE)), Ok(())),
        (account(None), Err("a ServiceAccount needs a namespace")),
        (
            account(Some("submariner-broker-other")),
            Err("a ServiceAccount of another tenant is not allowed"),
        ),
        (subject("User", " "), Err("the name is empty")),
        (
            subject("Group", "system:masters"),
            Err("Group \"system:masters\" is one of the system's own"),
        ),
        (
            subject("Group", "system:unauthenticated"),
            Err("Group \"system:unauthenticated\" is one of the system's own"),
        ),
        (
            subject("User", "system:serviceaccount:n:a"),
            Err("User \"system:serviceaccount:n:a\" is one of the system's own"),
        ),
        (
            subject("Robot", "r"),
            Err("\"Robot\" is not User, Group or ServiceAccount"),
        ),
        (
            grouped("example.com", subject("User", "u")),
            Err("User is not of the API group \"example.com\""),
        ),
    ];
    for (subject, expected) in table {
        let spec = TenantSpec {
            admins: Some(vec![self::subject("User", "first"), subject.clone()]),
            ..TenantSpec::default()
        };
        let found = planned(&tenant(spec), |_| {}).0;
        let expected = match expected {
            Ok(()) => State::Provisioned,
            Err(why) => State::Problem(Problem::InvalidAdmins {
                at: 1,
                why: why.to_owned(),
            }),
        };
        assert_eq!(found, expected, "{subject:?}");
    }
}

#[test]
fn invalid_admin_does_not_stop_repairs_or_other_admins() {
    let spec = |names: &[&str]| TenantSpec {
        admins: Some(names.iter().map(|name| subject("User", name)).collect()),
        ..TenantSpec::default()
    };
    let invalid = State::Problem(Problem::InvalidAdmins {
        at: 1,
        why: "User \"system:admin\" is one of the system's own".to_owned(),
    });
    let mut tenant = tenant(spec(&["jane", "system:admin"]));
    let found = planned(&tenant, no_namespace);
    assert_eq!(
        (found.0, found.1.len()),
        (invalid.clone(), 0),
        "nothing yet"
    );
    tenant.status = Some(TenantStatus {
        namespace: Some(NAMESPACE.to_owned()),
        ..TenantStatus::default()
    });
    let found = planned(&tenant, |_| {});
    assert_eq!((found.0, found.1.len()), (invalid.clone(), 0));
    // Removed admins lose their binding, and valid new ones are bound.
    let found = planned(&tenant, |observed| {
        let binding = observed.contents.admin_binding.as_mut().unwrap();
        binding.subjects.as_mut().unwrap()[1].name = "joe".to_owned();
    });
    assert_eq!(found.0, invalid);
    assert_eq!(found.1, ["change role binding submariner-k8s-broker-admin"]);
    let found = planned(&tenant, no_namespace);
    assert_eq!((found.0, found.1.len()), (State::Provisioning, 7));
    let id = id();
    let desired = Desired {
        tenant: &tenant,
        id: &id,
    };
    let subjects = desired.admin_binding().subjects.unwrap();
    let names: Vec<_> = subjects.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["submariner-k8s-broker-admin", "jane"]);
}
