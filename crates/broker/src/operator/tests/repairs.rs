//! Which objects are created and repaired.

use super::*;

#[test]
fn objects_are_created_in_dependency_order() {
    let all = [
        "create namespace submariner-broker-acme",
        "create service account submariner-k8s-broker-admin",
        "create role submariner-k8s-broker-admin",
        "create role binding submariner-k8s-broker-admin",
        "create role submariner-k8s-broker-cluster",
        "create secret submariner-k8s-broker-admin-token",
        "create resource quota submariner-broker",
    ];
    let (state, actions) = planned(&tenant(TenantSpec::default()), no_namespace);
    assert_eq!(state, State::Provisioning);
    assert_eq!(actions, all);
    // Tenant managers can read the token as soon as it exists: a tenant with a token is
    // Provisioned, even if the operator died at that moment.
    let (_, actions) = planned(&tenant(TenantSpec::default()), |observed| {
        no_namespace(observed);
        observed.offering = Some(vec![subject("User", "olga")]);
    });
    assert_eq!(
        actions[5..],
        [
            "create role axon-admin",
            "create role binding axon-admin",
            "create secret submariner-k8s-broker-admin-token",
            "create resource quota submariner-broker",
        ]
    );
    // The operator died after creating the namespace: the rest follows.
    let (state, actions) = planned(&tenant(TenantSpec::default()), |observed| {
        observed.contents = NamespaceContents::default();
    });
    assert_eq!(state, State::Provisioning);
    assert_eq!(actions, all[1..]);
}

#[test]
fn desired_objects_are_left_alone() {
    for tenant in [tenant(TenantSpec::default()), with_space()] {
        let (state, actions) = planned(&tenant, |_| {});
        assert_eq!(
            (state, actions.as_slice()),
            (State::Provisioned, [].as_slice())
        );
    }
}

#[test]
fn r79_each_object_is_repaired_independently() {
    type But = fn(&mut Observed);
    let table: [(But, State, &[&str]); 9] = [
        (
            |observed| observed.contents.account = None,
            State::Provisioning,
            &["create service account submariner-k8s-broker-admin"],
        ),
        (
            |observed| observed.contents.cluster_role = None,
            State::Provisioning,
            &["create role submariner-k8s-broker-cluster"],
        ),
        (
            |observed| {
                let role = observed.contents.admin_role.as_mut().unwrap();
                role.rules.as_mut().unwrap().pop();
            },
            State::Provisioned,
            &["change role submariner-k8s-broker-admin"],
        ),
        (
            |observed| {
                let binding = observed.contents.admin_binding.as_mut().unwrap();
                binding.role_ref.name = "cluster-admin".to_owned();
            },
            State::Provisioned,
            &[
                "delete role binding submariner-k8s-broker-admin",
                "create role binding submariner-k8s-broker-admin",
            ],
        ),
        (
            |observed| observed.contents.token = None,
            State::Provisioning,
            &["create secret submariner-k8s-broker-admin-token"],
        ),
        (
            |observed| {
                let account = observed.contents.account.as_mut().unwrap();
                account.metadata.uid = Some("another".to_owned());
            },
            State::Provisioning,
            &[
                "delete secret submariner-k8s-broker-admin-token",
                "create secret submariner-k8s-broker-admin-token",
            ],
        ),
        (
            |observed| {
                let token = observed.contents.token.as_mut().unwrap();
                token.type_ = Some("Opaque".to_owned());
            },
            State::Provisioning,
            &[
                "delete secret submariner-k8s-broker-admin-token",
                "create secret submariner-k8s-broker-admin-token",
            ],
        ),
        (
            |observed| {
                let namespace = observed.namespace.as_mut().unwrap();
                namespace
                    .metadata
                    .labels
                    .as_mut()
                    .unwrap()
                    .remove(TENANT_LABEL);
            },
            State::Provisioned,
            &["change namespace submariner-broker-acme"],
        ),
        (
            |observed| {
                let token = observed.contents.token.as_mut().unwrap();
                token.metadata.labels = None;
            },
            State::Provisioned,
            &["change secret submariner-k8s-broker-admin-token"],
        ),
    ];
    for (number, (but, state, actions)) in table.into_iter().enumerate() {
        let found = planned(&tenant(TenantSpec::default()), but);
        assert_eq!(found.0, state, "{number}");
        assert_eq!(found.1, actions, "{number}");
    }
}

#[test]
fn token_within_the_grace_period_is_not_a_problem() {
    let found = planned(&tenant(TenantSpec::default()), |observed| {
        observed.contents.token.as_mut().unwrap().data = None;
    });
    assert_eq!(found.0, State::Provisioning);
    assert_eq!(found.1, NOTHING);
}

#[test]
fn space_is_created_before_its_kinds_and_contents() {
    let tenant = with_space();
    let definition = |there: Option<bool>| {
        move |observed: &mut Observed| {
            let mut definition = CustomResourceDefinition::default();
            definition.metadata.name = Some("brokers.submariner.io".to_owned());
            observed.definitions = vec![(definition, there)];
            no_namespace(observed);
        }
    };
    let found = planned(&tenant, |observed| {
        no_namespace(observed);
        observed.space = None;
    });
    assert_eq!(found.0, State::Provisioning);
    assert_eq!(found.1, ["create space submariner-broker-acme"]);
    let found = planned(&tenant, definition(None));
    assert_eq!(found.1, ["create definition brokers.submariner.io"]);
    let found = planned(&tenant, definition(Some(false)));
    assert_eq!(found.0, State::Problem(Problem::KindsNotServed));
    let found = planned(&tenant, definition(Some(true)));
    assert_eq!(found.1.len(), 7);
}

#[test]
fn object_that_is_being_deleted_counts_as_absent() {
    type But = fn(&mut Observed) -> &mut ObjectMeta;
    let table: [(But, &str); 3] = [
        (
            |observed| &mut observed.contents.token.as_mut().unwrap().metadata,
            "secret submariner-k8s-broker-admin-token",
        ),
        (
            |observed| &mut observed.contents.account.as_mut().unwrap().metadata,
            "service account submariner-k8s-broker-admin",
        ),
        (
            |observed| &mut observed.contents.cluster_role.as_mut().unwrap().metadata,
            "role submariner-k8s-broker-cluster",
        ),
    ];
    for (metadata, part) in table {
        let found = planned(&tenant(TenantSpec::default()), |observed| {
            let metadata = metadata(observed);
            metadata.deletion_timestamp = Some(Time(at(NOW)));
            metadata.finalizers = Some(vec!["mine".to_owned()]);
        });
        let problem = Problem::PartTerminating(part.to_owned());
        assert_eq!(found.0, State::Problem(problem));
        assert_eq!(
            found.1,
            [
                format!("remove finalizers of {part}"),
                format!("create {part}")
            ]
        );
    }
}

#[test]
fn secret_without_the_accounts_token_is_recreated() {
    type But = fn(&mut Secret);
    let own = "system:serviceaccount:submariner-broker-acme";
    assert_eq!(own, format!("system:serviceaccount:{NAMESPACE}"));
    let table: [(But, bool); 7] = [
        (|_| {}, true),
        (
            |secret| {
                let data = secret.data.as_mut().unwrap();
                data.insert("token".to_owned(), ByteString(b"nonsense".to_vec()));
            },
            false,
        ),
        (
            |secret| {
                let other = "system:serviceaccount:submariner-broker-other";
                secret.data = Some(filled(other, "account"));
            },
            false,
        ),
        (
            |secret| {
                let own = "system:serviceaccount:submariner-broker-acme";
                secret.data = Some(filled(own, "an earlier one"));
            },
            false,
        ),
        (
            |secret| {
                let data = secret.data.as_mut().unwrap();
                data.insert("namespace".to_owned(), ByteString(b"other".to_vec()));
            },
            false,
        ),
        (
            |secret| drop(secret.data.as_mut().unwrap().remove("namespace")),
            false,
        ),
        (
            |secret| {
                secret.data = None;
                secret.immutable = Some(true);
            },
            false,
        ),
    ];
    for (number, (but, right)) in table.into_iter().enumerate() {
        let found = planned(&tenant(TenantSpec::default()), |observed| {
            but(observed.contents.token.as_mut().unwrap());
        });
        let actions = match right {
            true => Vec::new(),
            false => vec![
                "delete secret submariner-k8s-broker-admin-token",
                "create secret submariner-k8s-broker-admin-token",
            ],
        };
        assert_eq!(found.1, actions, "{number}");
        let state = match right {
            true => State::Provisioned,
            false => State::Provisioning,
        };
        assert_eq!(found.0, state, "{number}");
    }
}

#[test]
fn r81_planned_secrets_are_not_in_debug_output() {
    let tenant = tenant(TenantSpec::default());
    let id = id();
    let desired = Desired {
        tenant: &tenant,
        id: &id,
    };
    let mut observed = whole(desired);
    observed.contents.token.as_mut().unwrap().metadata.labels = None;
    let plan = plan(desired, &observed, at(NOW));
    assert_eq!(
        format!("{plan:?}"),
        "Plan { state: Provisioned, actions: [change secret submariner-k8s-broker-admin-token] }"
    );
}

#[test]
fn ownership_requires_a_uid() {
    let mut nobody = tenant(TenantSpec::default());
    nobody.metadata.uid = None;
    let id = id();
    let desired = Desired {
        tenant: &nobody,
        id: &id,
    };
    assert!(!desired.owns(&ObjectMeta::default()));
    assert!(!desired.owns(&desired.namespace().metadata));
}
