//! Refusals: reason, message and hint.

use super::*;

type Change = fn(&mut World, &mut Question);

#[test]
fn cr1_refusal_has_reason_message_and_hint() {
    let held: Change = |world, _| {
        let secret = world
            .secrets
            .get_mut(&("team-a".to_owned(), "mine".to_owned()))
            .unwrap();
        secret.owners.push(Owner {
            api_version: "infra.example/v0".to_owned(),
            kind: "Cloud".to_owned(),
            name: "other".to_owned(),
            ..Owner::default()
        });
    };
    let cases: &[(CredentialReferences, Change, &str, &str, &str)] = &[
        (
            by_identity(),
            |world, _| world.identities.clear(),
            "IdentityNotFound",
            "there is no CloudIdentity shared",
            "reference an existing one, or ask an administrator to create it",
        ),
        (
            by_identity(),
            |world, _| world.identities.get_mut("shared").unwrap().allowed = None,
            "NamespaceNotAllowed",
            "CloudIdentity shared allows no namespace to use it",
            "ask its owner to set allowedNamespaces",
        ),
        (
            by_identity(),
            |world, _| {
                let allowed = json!({"selector": {"matchLabels": {"tier": "tin"}}});
                world
                    .identities
                    .insert("shared".to_owned(), identity(allowed));
            },
            "NamespaceNotAllowed",
            "CloudIdentity shared does not allow namespace team-a",
            "ask its owner to allow this namespace, or reference a Secret of your namespace",
        ),
        (
            by_identity(),
            |world, _| {
                let rules = json!([{"key": "tier", "operator": "Near", "values": ["gold"]}]);
                let allowed = json!({"selector": {"matchExpressions": rules}});
                world
                    .identities
                    .insert("shared".to_owned(), identity(allowed));
            },
            "NamespaceNotAllowed",
            "CloudIdentity shared allows no namespace to use it: \"Near\" is none of In, NotIn, Exists and DoesNotExist",
            "ask its owner to correct allowedNamespaces",
        ),
        (
            by_identity(),
            |world, _| {
                let allowed = json!({"selector": {"matchLabels": {"tier": "gold"}}});
                world
                    .identities
                    .insert("shared".to_owned(), identity(allowed));
                world.namespaces.clear();
            },
            "NamespaceNotAllowed",
            "CloudIdentity shared does not allow namespace team-a",
            "ask its owner to allow this namespace, or reference a Secret of your namespace",
        ),
        (
            by_identity(),
            |world, _| {
                let identity = world.identities.get_mut("shared").unwrap();
                (identity.ready, identity.trouble) = (false, Some("SecretNotAvailable".to_owned()));
            },
            "IdentityNotReady",
            "CloudIdentity shared is not ready: SecretNotAvailable",
            "no change is needed here; if the identity stays so, ask its owner",
        ),
        (
            by_identity(),
            |world, _| {
                let identity = world.identities.get_mut("shared").unwrap();
                // Not a reason, so it might reveal something.
                (identity.ready, identity.trouble) = (false, Some("hidden-name".to_owned()));
            },
            "IdentityNotReady",
            "CloudIdentity shared is not ready",
            "no change is needed here; if the identity stays so, ask its owner",
        ),
        (
            by_identity(),
            |world, _| world.secrets.clear(),
            "SecretNotAvailable",
            "the Secret of CloudIdentity shared is not available",
            "ask its owner",
        ),
        (
            by_identity(),
            |world, _| {
                let at = ("home".to_owned(), "hidden-name".to_owned());
                world.secrets.get_mut(&at).unwrap().data.remove("password");
            },
            "InvalidCredentials",
            "the Secret of CloudIdentity shared lacks password",
            "ask its owner",
        ),
        (
            by_identity(),
            |_, question| question.target = at("evil.example"),
            "EndpointNotAllowed",
            "CloudIdentity shared may not be sent to evil.example:443",
            "ask its owner to allow this server, or reference a Secret of your namespace",
        ),
        (
            by_identity(),
            |world, _| {
                world.identities.get_mut("shared").unwrap().bound = AllowedEndpoints::Nowhere;
                let at = ("home".to_owned(), "hidden-name".to_owned());
                let data = &mut world.secrets.get_mut(&at).unwrap().data;
                data.insert("server".to_owned(), Hidden::new("https://c0ntent"));
            },
            "InvalidCredentials",
            "the Secret of CloudIdentity shared has an invalid list of servers under server",
            "ask its owner",
        ),
        (
            by_secret("gone"),
            |_, _| {},
            "SecretNotAvailable",
            "the Secret gone does not exist in namespace team-a",
            "create it there, with username and password; Secrets of other namespaces are never used",
        ),
        (
            by_secret("mine"),
            |_, question| question.namespace = None,
            "SecretNotAvailable",
            "the Secret mine cannot be used by a cluster-scoped object",
            "reference an identity",
        ),
        (
            by_secret("mine"),
            held,
            "SecretInUse",
            "the Secret mine is in use by Cloud other",
            "a Secret serves one object; create another Secret, or share an identity",
        ),
        (
            by_secret("mine"),
            |world, _| {
                let at = ("team-a".to_owned(), "mine".to_owned());
                world.secrets.get_mut(&at).unwrap().data =
                    hidden(&[("username", ""), ("Password", "x")]);
            },
            "InvalidCredentials",
            "the Secret mine lacks username and password",
            "correct the Secret",
        ),
        (
            by_secret("mine"),
            |world, _| {
                let at = ("team-a".to_owned(), "mine".to_owned());
                let data = &mut world.secrets.get_mut(&at).unwrap().data;
                data.insert(
                    "server".to_owned(),
                    Hidden::new("other.example, third.example"),
                );
            },
            "EndpointNotAllowed",
            "the Secret mine may not be sent to cloud.example:443",
            "list this server in the Secret, or use one that it lists",
        ),
        (
            by_secret("mine"),
            |world, _| {
                let at = ("team-a".to_owned(), "mine".to_owned());
                let data = &mut world.secrets.get_mut(&at).unwrap().data;
                data.insert("server".to_owned(), Hidden::new("https://cloud.example"));
            },
            "InvalidCredentials",
            "the Secret mine has an invalid list of servers under server: \"https://cloud.example\" is no host, and no host with a port",
            "correct the Secret",
        ),
        (
            CredentialReferences {
                parent: Some(("Cloud prod".to_owned(), Reference::secret("mine"))),
                ..CredentialReferences::default()
            },
            |_, question| {
                question.target = at_with_parent("evil.example", Some("cloud.example"));
            },
            "EndpointNotAllowed",
            "the Secret mine referenced by Cloud prod may not be sent to evil.example:443",
            "list this server in the Secret, or use one that it lists",
        ),
        (
            CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            },
            |world, _| world.given = None,
            "NoCredentials",
            "no credential is referenced",
            "reference CloudIdentity or a Secret of this namespace",
        ),
        (
            CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            },
            |_, question| question.target = at("evil.example"),
            "EndpointNotAllowed",
            "the operator's own account may not be sent to evil.example:443",
            "reference an identity for this server, or a Secret of your namespace",
        ),
        (
            CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            },
            |world, _| world.given = Some(Static::default()),
            "InvalidCredentials",
            "the operator's own account lacks username and password",
            "ask the operator's administrator",
        ),
    ];
    for (references, change, reason, message, hint) in cases {
        let (mut world, mut question) = (world(), question(references.clone()));
        change(&mut world, &mut question);
        let (_, got) = world.decide(&question);
        let refusal = got.expect_err(message);
        assert_eq!(refusal.reason.as_str(), *reason, "{message}");
        assert_eq!(refusal.to_string(), *message);
        assert_eq!(refusal.hint.as_deref(), Some(*hint), "{message}");
    }
}
