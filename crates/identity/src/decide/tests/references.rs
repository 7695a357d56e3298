//! Which reference decides, and what is read for it.

use super::*;

#[test]
fn o05_first_reference_decides_without_fallback() {
    let mine = || Some(Reference::secret("mine"));
    let parent = |name: &str| {
        let reference = Reference::secret(name);
        Some(("Cloud team-a/prod".to_owned(), reference))
    };
    let identity = |name: &str| Some(Reference::Identity(name.to_owned()));
    let namespace = |name: &str| Some(name.to_owned());
    let all = |own, parent, namespace, operator| CredentialReferences {
        own,
        parent,
        namespace,
        operator,
    };
    for (references, account_or_reason) in [
        (
            all(mine(), parent("gone"), namespace("everybody"), true),
            Ok("mine"),
        ),
        (
            all(
                identity("shared"),
                parent("mine"),
                namespace("everybody"),
                true,
            ),
            Ok("hidden-name"),
        ),
        (
            all(None, parent("mine"), namespace("everybody"), true),
            Ok("mine"),
        ),
        (
            all(None, None, namespace("everybody"), true),
            Ok("everybody"),
        ),
        // Only the namespace's Secret is optional.
        (all(None, None, namespace("gone"), true), Ok("given")),
        (all(None, None, None, true), Ok("given")),
        (
            all(None, None, namespace("gone"), false),
            Err("NoCredentials"),
        ),
        (all(None, None, None, false), Err("NoCredentials")),
        // A reference to a missing or refused object is an error.
        (
            all(
                Some(Reference::secret("gone")),
                parent("mine"),
                namespace("everybody"),
                true,
            ),
            Err("SecretNotAvailable"),
        ),
        (
            all(
                identity("gone"),
                parent("mine"),
                namespace("everybody"),
                true,
            ),
            Err("IdentityNotFound"),
        ),
        (
            all(None, parent("gone"), namespace("everybody"), true),
            Err("SecretNotAvailable"),
        ),
        // A Secret of another namespace cannot be referenced.
        (
            all(Some(Reference::secret("theirs")), None, None, true),
            Err("SecretNotAvailable"),
        ),
    ] {
        let (_, got) = world().decide(&question(references.clone()));
        assert_eq!(account(&got), account_or_reason, "{references:?}");
    }
}

#[test]
fn fr5_only_needed_objects_are_read() {
    let secret = |namespace: &str, name: &str| Need::Secret {
        lent: false,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let shared = || Need::Identity("shared".to_owned());
    let gold = json!({"selector": {"matchLabels": {"tier": "gold"}}});
    let tin = json!({"selector": {"matchLabels": {"tier": "tin"}}});
    for (allowed, references, needs) in [
        (
            json!({}),
            by_identity(),
            vec![shared(), secret("home", "hidden-name")],
        ),
        (
            gold,
            by_identity(),
            vec![
                shared(),
                Need::Namespace("team-a".to_owned()),
                secret("home", "hidden-name"),
            ],
        ),
        // The Secret of an identity that is not allowed is not read.
        (
            tin,
            by_identity(),
            vec![shared(), Need::Namespace("team-a".to_owned())],
        ),
        (json!(null), by_identity(), vec![shared()]),
        (json!({}), by_secret("mine"), vec![secret("team-a", "mine")]),
        (
            json!({}),
            CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            },
            vec![Need::Operator],
        ),
        (json!({}), CredentialReferences::default(), vec![]),
    ] {
        let mut world = world();
        world
            .identities
            .insert("shared".to_owned(), identity(allowed.clone()));
        let (read, _) = world.decide(&question(references.clone()));
        assert_eq!(read, needs, "{allowed} {references:?}");
    }
}

#[test]
fn cluster_scoped_object_may_use_any_identity() {
    let mut world = world();
    world.identities.get_mut("shared").unwrap().allowed = None;
    let mut question = question(by_identity());
    question.namespace = None;
    let (read, got) = world.decide(&question);
    assert_eq!(account(&got), Ok("hidden-name"));
    assert_eq!(read.len(), 2);
}

#[test]
fn terminating_secret_is_used_until_it_is_gone() {
    let mut world = world();
    for secret in world.secrets.values_mut() {
        secret.deleting = true;
    }
    for references in [by_identity(), by_secret("mine")] {
        assert!(world.decide(&question(references)).1.is_ok());
    }
}

#[test]
fn x1_external_owners_are_ignored() {
    let mut world = world();
    let at = ("team-a".to_owned(), "mine".to_owned());
    let owner = |api_version: &str, kind: &str, name: &str| Owner {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..Owner::default()
    };
    world.secrets.get_mut(&at).unwrap().owners = vec![
        owner("bitnami.com/v1alpha1", "SealedSecret", "mine"),
        owner("external-secrets.io/v1", "ExternalSecret", "mine"),
        owner("infra.example/v0", "Cloud", "prod"),
    ];
    assert_eq!(
        account(&world.decide(&question(by_secret("mine"))).1),
        Ok("mine")
    );
}

#[test]
fn identity_with_claimed_secret_is_not_ready() {
    let owner = |kind: &str, name: &str| Owner {
        api_version: "infra.example/v0".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..Owner::default()
    };
    let refused = "IdentityNotReady";
    for (owners, expected) in [
        (vec![], Ok("hidden-name")),
        (vec![owner("CloudIdentity", "shared")], Ok("hidden-name")),
        (vec![owner("SealedSecret", "other")], Ok("hidden-name")),
        (vec![owner("CloudIdentity", "other")], Err(refused)),
        (vec![owner("Cloud", "prod")], Err(refused)),
        (
            vec![owner("CloudIdentity", "shared"), owner("Cloud", "shared")],
            Err(refused),
        ),
    ] {
        let mut world = world();
        let at = ("home".to_owned(), "hidden-name".to_owned());
        world.secrets.get_mut(&at).unwrap().owners = owners.clone();
        let (_, got) = world.decide(&question(by_identity()));
        assert_eq!(account(&got), expected, "{owners:?}");
    }
}
