//! Tests of plans and statuses, without I/O.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_operator::retry::Class;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    NamespaceCondition, NamespaceStatus, ResourceQuota, ResourceQuotaStatus, Secret,
};
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde_json::{Value, json};

use super::desired::Desired;
use super::observe::{NamespaceContents, Observed};
use super::plan::{DeletionProgress, Plan, State, plan};
use super::problem::Problem;
use super::remove;
use super::status::desired_status;
use crate::error::Error;
use crate::names::{InvalidTenantId, TENANT_LABEL, TenantId};
use crate::tenant::{Isolation, Phase, Tenant, TenantSpec, TenantStatus};

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn id() -> TenantId {
    "acme".parse().unwrap()
}

fn tenant(spec: TenantSpec) -> Tenant {
    let mut tenant = Tenant::new("acme", spec);
    tenant.metadata.uid = Some("u-1".to_owned());
    tenant.metadata.generation = Some(3);
    tenant
}

fn with_space() -> Tenant {
    tenant(TenantSpec {
        isolation: Some(Isolation::Space),
        ..TenantSpec::default()
    })
}

fn deleting(mut tenant: Tenant, since: i64) -> Tenant {
    tenant.metadata.deletion_timestamp = Some(Time(at(since)));
    tenant
}

/// Adds the metadata that the server sets.
fn made<K: Resource>(mut object: K, uid: &str) -> K {
    object.meta_mut().uid = Some(uid.to_owned());
    object.meta_mut().creation_timestamp = Some(Time(at(NOW)));
    object
}

/// The data that the token controller writes into a Secret.
fn filled(prefix: &str, uid: &str) -> BTreeMap<String, ByteString> {
    let claims = json!({
        "sub": format!("{prefix}:submariner-k8s-broker-admin"),
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "kubernetes.io/serviceaccount/secret.name": "submariner-k8s-broker-admin-token",
    });
    let jwt = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let data = [("token", jwt), ("namespace", NAMESPACE.to_owned())];
    let data = data.map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
    data.into()
}

/// Adds the counts that the server keeps.
fn counted(mut quota: ResourceQuota) -> ResourceQuota {
    let used = [("count/secrets".to_owned(), Quantity("1".to_owned()))];
    quota.status = Some(ResourceQuotaStatus {
        used: Some(used.into()),
        ..ResourceQuotaStatus::default()
    });
    quota
}

/// All objects in their desired state.
fn whole(desired: Desired<'_>) -> Observed {
    let mut token = made(desired.token(), "token");
    let annotations = token.metadata.annotations.get_or_insert_default();
    annotations.insert(
        "kubernetes.io/service-account.uid".to_owned(),
        "account".to_owned(),
    );
    token.data = Some(filled(
        "system:serviceaccount:submariner-broker-acme",
        "account",
    ));
    Observed {
        spaces_served: true,
        space: Some(made(desired.space(), "space")),
        definitions: Vec::new(),
        namespace: Some(made(desired.namespace(), "namespace")),
        contents: NamespaceContents {
            account: Some(made(desired.account(), "account")),
            admin_role: Some(made(desired.admin_role(), "role")),
            admin_binding: Some(made(desired.admin_binding(), "binding")),
            cluster_role: Some(made(desired.cluster_role(), "cluster")),
            token: Some(token),
            quota: Some(counted(made(desired.quota(), "quota"))),
            offering_role: None,
            offering_binding: None,
        },
        offering: None,
    }
}

/// Returns the plan when all objects are as desired but for this change.
fn planned(tenant: &Tenant, but: impl FnOnce(&mut Observed)) -> (State, Vec<String>) {
    let id = id();
    let desired = Desired { tenant, id: &id };
    let mut observed = whole(desired);
    but(&mut observed);
    let Plan { state, actions } = plan(desired, &observed, at(NOW));
    (state, actions.iter().map(ToString::to_string).collect())
}

fn removal(tenant: &Tenant, but: impl FnOnce(&mut Observed)) -> (State, Vec<String>) {
    let id = id();
    let desired = Desired { tenant, id: &id };
    let mut observed = whole(desired);
    but(&mut observed);
    let Plan { state, actions } = remove::plan(desired, &observed, at(NOW));
    (state, actions.iter().map(ToString::to_string).collect())
}

const NOTHING: [&str; 0] = [];
const NAMESPACE: &str = "submariner-broker-acme";

/// Removes the namespace and its contents.
fn no_namespace(observed: &mut Observed) {
    observed.namespace = None;
    observed.contents = NamespaceContents::default();
}

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
fn quota_has_the_amounts_of_the_spec_and_else_the_defaults() {
    let replaced = ["change resource quota submariner-broker"];
    let change = |quota: &mut ResourceQuota, name: &str, amount: &str| {
        let hard = quota.spec.as_mut().unwrap().hard.as_mut().unwrap();
        hard.insert(name.to_owned(), Quantity(amount.to_owned()));
    };
    let plain = tenant(TenantSpec::default());
    // As a server writes 5000.
    let (state, actions) = planned(&plain, |observed| {
        let quota = observed.contents.quota.as_mut().unwrap();
        change(quota, "count/endpointslices.discovery.k8s.io", "5k");
    });
    assert_eq!((state, actions.len()), (State::Provisioned, 0));
    // A change of another writer is undone: the Tenant's spec is where amounts are set.
    for (name, amount) in [("count/secrets", "901"), ("count/pods", "1")] {
        let (state, actions) = planned(&plain, |observed| {
            change(observed.contents.quota.as_mut().unwrap(), name, amount);
        });
        assert_eq!(
            (state, &actions[..]),
            (State::Provisioned, &replaced.map(str::to_owned)[..])
        );
    }
    let raised = tenant(TenantSpec {
        quota: Some([("count/secrets".to_owned(), 2_000)].into()),
        ..TenantSpec::default()
    });
    let (state, actions) = planned(&raised, |observed| {
        change(
            observed.contents.quota.as_mut().unwrap(),
            "count/secrets",
            "900",
        );
    });
    assert_eq!(
        (state, &actions[..]),
        (State::Provisioned, &replaced.map(str::to_owned)[..])
    );
    let (state, actions) = planned(&raised, |_| {});
    assert_eq!((state, actions.len()), (State::Provisioned, 0));
}

#[test]
fn missing_quota_is_a_repair_and_a_new_one_is_awaited() {
    let create = ["create resource quota submariner-broker".to_owned()];
    let (state, actions) = planned(&tenant(TenantSpec::default()), |observed| {
        observed.contents.quota = None;
    });
    assert_eq!((state, &actions[..]), (State::Provisioned, &create[..]));
    let uncounted = |age: i64| {
        move |observed: &mut Observed| {
            let quota = observed.contents.quota.as_mut().unwrap();
            quota.status = None;
            quota.metadata.creation_timestamp = Some(Time(at(NOW - age)));
        }
    };
    let new = tenant(TenantSpec::default());
    let mut old = new.clone();
    old.status.get_or_insert_default().provisioned_at = Some(Time(at(NOW - 100)));
    for (tenant, age, expected) in [
        (&new, 1, State::Provisioning),
        (&new, 6, State::Provisioned),
        (&old, 1, State::Provisioned),
    ] {
        let (state, actions) = planned(tenant, uncounted(age));
        assert_eq!((state, actions.len()), (expected, 0), "{age}");
    }
}

#[test]
fn quota_refusals_are_no_missing_permissions() {
    let refused = |message: &str| {
        let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
        let error = Error::when("create secret s")(kube::Error::Api(status.boxed()));
        Problem::of(&error, NAMESPACE).reason()
    };
    assert_eq!(
        refused(
            "secrets \"s\" is forbidden: exceeded quota: submariner-broker, requested: count/secrets=1, used: count/secrets=900, limited: count/secrets=900"
        ),
        "Rejected"
    );
    assert_eq!(
        refused(
            "secrets \"s\" is forbidden: status unknown for quota: submariner-broker, resources: count/secrets"
        ),
        "Rejected"
    );
    assert_eq!(
        refused("secrets is forbidden: User \"u\" cannot create"),
        "Forbidden"
    );
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

fn subject(kind: &str, name: &str) -> Subject {
    Subject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..Subject::default()
    }
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

fn concluded(tenant: &mut Tenant, state: &State, now: i64) -> Option<Value> {
    let id = id();
    let desired = Desired { tenant, id: &id };
    let status = desired_status(desired, state, at(now))?;
    tenant.status = Some(status.clone());
    Some(serde_json::to_value(status).unwrap())
}

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
