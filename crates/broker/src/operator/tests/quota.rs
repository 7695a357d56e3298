//! The quota of a tenant.

use super::*;

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
