//! Identities that the system's space lends to tenants, and the floor of a credential.

use super::*;

fn lent(tenants: serde_json::Value) -> Identity {
    Identity {
        allowed_tenants: serde_json::from_value(tenants).unwrap(),
        ..identity(json!(null))
    }
}

#[test]
fn identity_is_lent_to_the_tenants_that_its_selector_allows() {
    let gold = json!({"selector": {"matchLabels": {"plan": "gold"}}});
    let tin = json!({"selector": {"matchLabels": {"plan": "tin"}}});
    let broken = json!({"selector": {"matchExpressions": [{"key": "plan", "operator": "?"}]}});
    let missing = Err("IdentityNotFound");
    for (tenants, tenant, expected) in [
        (json!(null), Some("acme"), missing),
        (json!({}), Some("acme"), missing),
        (json!({"selector": {}}), Some("acme"), Ok("lent-name")),
        (gold.clone(), Some("acme"), Ok("lent-name")),
        (gold.clone(), Some("gone"), missing),
        (tin, Some("acme"), missing),
        (broken, Some("acme"), missing),
        // The system's own objects are not tenants.
        (gold, None, missing),
    ] {
        let mut world = world();
        world.identities.clear();
        world
            .lent
            .insert("shared".to_owned(), lent(tenants.clone()));
        let mut question = question(by_identity());
        question.tenant = tenant.map(str::to_owned);
        let (_, got) = world.decide(&question);
        assert_eq!(account(&got), expected, "{tenants} {tenant:?}");
        // Cluster-scoped objects are written by the tenant's administrator, not by the lender.
        let mut cluster_scoped = question.clone();
        cluster_scoped.namespace = None;
        let (_, got) = world.decide(&cluster_scoped);
        assert_eq!(account(&got), expected, "{tenants} {tenant:?}");
        // The refusal is that of an identity that does not exist.
        world.lent.clear();
        if got.is_err() {
            assert_eq!(world.decide(&question).1, got, "{tenants} {tenant:?}");
        }
    }
}

#[test]
fn identity_of_the_tenant_precedes_a_lent_one() {
    let mut world = world();
    world
        .lent
        .insert("shared".to_owned(), lent(json!({"selector": {}})));
    let mut question = question(by_identity());
    question.tenant = Some("acme".to_owned());
    let (read, got) = world.decide(&question);
    assert_eq!(account(&got), Ok("hidden-name"));
    assert!(!read.contains(&Need::LentIdentity("shared".to_owned())));
    // An own identity that refuses the namespace is not replaced by a lent one.
    world.identities.get_mut("shared").unwrap().allowed = None;
    assert_eq!(
        account(&world.decide(&question).1),
        Err("NamespaceNotAllowed")
    );
}

#[test]
fn only_a_tenant_that_may_use_a_lent_identity_learns_its_state() {
    let mut world = world();
    world.identities.clear();
    let mut question = question(by_identity());
    question.tenant = Some("acme".to_owned());
    for (tenants, reason) in [
        (json!({"selector": {}}), "IdentityNotReady"),
        (json!(null), "IdentityNotFound"),
    ] {
        let identity = Identity {
            ready: false,
            ..lent(tenants)
        };
        world.lent.insert("shared".to_owned(), identity);
        assert_eq!(account(&world.decide(&question).1), Err(reason));
    }
}

#[test]
fn object_never_falls_from_its_namespaces_credential_to_the_operators() {
    let references = CredentialReferences {
        namespace: Some("everybody".to_owned()),
        operator: true,
        ..CredentialReferences::default()
    };
    let mut question = question(references);
    let mut world = world();
    let (_, got) = world.decide(&question);
    let level = got.unwrap().level;
    assert_eq!(level, Level::Namespace);
    world
        .secrets
        .remove(&("team-a".to_owned(), "everybody".to_owned()));
    assert_eq!(account(&world.decide(&question).1), Ok("given"));
    question.floor = level;
    let refusal = world.decide(&question).1.unwrap_err();
    assert_eq!(refusal.reason, Reason::SecretNotAvailable);
    assert_eq!(
        (refusal.to_string(), refusal.hint),
        (
            "the Secret everybody, which it used before, does not exist".to_owned(),
            Some("create it again; the operator's own account is not used instead".to_owned())
        )
    );
    question.references.namespace = None;
    let refusal = world.decide(&question).1.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the credential that it used before is not referenced any more"
    );
}

#[test]
fn provider_without_identities_refers_to_secrets_only() {
    let mut question = question(CredentialReferences::default());
    question.identity_kind = None;
    let refusal = world().decide(&question).1.unwrap_err();
    let hint = Some("reference a Secret of this namespace".to_owned());
    assert_eq!(
        (refusal.reason, refusal.hint),
        (Reason::NoCredentials, hint)
    );
}

#[test]
fn o03_identity_of_a_tenant_is_limited_by_the_operator() {
    for (tenant, own_bound, expected) in [
        (None, only("other.example"), Ok("hidden-name")),
        (Some("acme"), only("cloud.example"), Ok("hidden-name")),
        (
            Some("acme"),
            only("other.example"),
            Err("EndpointNotAllowed"),
        ),
    ] {
        let mut question = question(by_identity());
        question.tenant = tenant.map(str::to_owned);
        question.own_bound = own_bound.clone();
        let (_, got) = world().decide(&question);
        assert_eq!(account(&got), expected, "{tenant:?} {own_bound:?}");
    }
}
