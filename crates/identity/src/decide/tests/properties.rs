//! Properties of all decisions.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn any_bound() -> impl Strategy<Value = AllowedEndpoints> {
    prop_oneof![
        Just(AllowedEndpoints::Nowhere),
        Just(AllowedEndpoints::Anywhere),
        Just(AllowedEndpoints::Only(vec![])),
        Just(only("cloud.example")),
        Just(only("other.example")),
    ]
}

fn any_reference() -> impl Strategy<Value = Reference> {
    prop_oneof![
        prop::sample::select(vec!["mine", "everybody", "theirs", "gone"])
            .prop_map(Reference::secret),
        prop::sample::select(vec!["shared", "gone"])
            .prop_map(|name| Reference::Identity(name.to_owned())),
    ]
}

fn any_references() -> impl Strategy<Value = CredentialReferences> {
    let parent = prop::option::of(any_reference().prop_map(|one| ("Cloud prod".to_owned(), one)));
    let namespace = prop::option::of(prop::sample::select(vec!["everybody", "gone"]));
    let namespace = namespace.prop_map(|name| name.map(str::to_owned));
    (
        prop::option::of(any_reference()),
        parent,
        namespace,
        any::<bool>(),
    )
        .prop_map(|(own, parent, namespace, operator)| CredentialReferences {
            own,
            parent,
            namespace,
            operator,
        })
}

fn any_level() -> impl Strategy<Value = Level> {
    prop::sample::select(vec![
        Level::Object,
        Level::Parent,
        Level::Namespace,
        Level::Operator,
    ])
}

fn any_question() -> impl Strategy<Value = Question> {
    let endpoint = prop::sample::select(vec!["cloud.example", "other.example", "evil.example"]);
    let parent = prop::option::of(Just("cloud.example"));
    (
        any_references(),
        endpoint,
        parent,
        any_bound(),
        any::<bool>(),
        any_level(),
        any::<bool>(),
    )
        .prop_map(
            |(references, endpoint, parent, default_bound, scoped, floor, of_tenant)| {
                let mut question = question(references);
                question.target = at_with_parent(endpoint, parent);
                question.default_bound = default_bound;
                question.floor = floor;
                question.tenant = of_tenant.then(|| "acme".to_owned());
                if !scoped {
                    question.namespace = None;
                }
                question
            },
        )
}

fn any_secret() -> impl Strategy<Value = Secret> {
    let servers = prop::option::of(prop::sample::select(vec!["cloud.example", "", "a b"]));
    (any::<bool>(), any::<bool>(), any::<bool>(), servers).prop_map(
        |(lacks, held, deleting, servers)| {
            let mut secret = secret_of("x");
            secret.deleting = deleting;
            if lacks {
                secret.data.remove("password");
            }
            if let Some(servers) = servers {
                secret
                    .data
                    .insert("server".to_owned(), Hidden::new(servers));
            }
            if held {
                secret.owners.push(Owner {
                    api_version: "infra.example/v1".to_owned(),
                    kind: "CloudIdentity".to_owned(),
                    name: "other".to_owned(),
                    ..Owner::default()
                });
            }
            secret
        },
    )
}

fn any_world() -> impl Strategy<Value = World> {
    let allowed = prop::sample::select(vec![
        json!(null),
        json!({}),
        json!({"selector": {"matchLabels": {"tier": "gold"}}}),
        json!({"selector": {"matchLabels": {"tier": "tin"}}}),
        json!({"selector": {"matchExpressions": [{"key": "tier", "operator": "?"}]}}),
    ]);
    let identity =
        (allowed, any::<bool>(), any_bound()).prop_map(|(allowed, ready, bound)| Identity {
            ready,
            bound,
            ..identity(allowed)
        });
    let at = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    let places = [
        at("team-a", "mine"),
        at("team-a", "everybody"),
        at("team-b", "theirs"),
        at("home", "hidden-name"),
    ];
    let secrets = prop::collection::vec(prop::option::of(any_secret()), places.len());
    let secrets = secrets.prop_map(move |secrets| {
        let pairs = places.iter().cloned().zip(secrets);
        pairs
            .filter_map(|(place, secret)| {
                let mut secret = secret?;
                secret
                    .data
                    .insert("username".to_owned(), Hidden::new(place.1.clone()));
                Some((place, secret))
            })
            .collect::<BTreeMap<_, _>>()
    });
    let given = prop::option::of(any_bound().prop_map(|bound| Static {
        data: secret_of("given").data,
        bound,
    }));
    (
        prop::option::of(identity),
        any::<bool>(),
        secrets,
        given,
        any_lent(),
    )
        .prop_map(|(identity, labelled, secrets, given, lent)| {
            let mut world = World {
                secrets,
                given,
                ..world()
            };
            world.lent = lent
                .into_iter()
                .map(|one| ("shared".to_owned(), one))
                .collect();
            world.identities = identity
                .into_iter()
                .map(|one| ("shared".to_owned(), one))
                .collect();
            if !labelled {
                world
                    .namespaces
                    .insert("team-a".to_owned(), BTreeMap::new());
            }
            world
        })
}

/// An identity of the system's space, which may be lent to the tenant.
fn any_lent() -> impl Strategy<Value = Option<Identity>> {
    let tenants = prop::sample::select(vec![
        json!(null),
        json!({}),
        json!({"selector": {}}),
        json!({"selector": {"matchLabels": {"plan": "gold"}}}),
        json!({"selector": {"matchLabels": {"plan": "tin"}}}),
        json!({"selector": {"matchExpressions": [{"key": "plan", "operator": "?"}]}}),
    ]);
    let lent = (tenants, any::<bool>()).prop_map(|(tenants, ready)| Identity {
        ready,
        allowed_tenants: serde_json::from_value(tenants).unwrap(),
        ..identity(json!(null))
    });
    prop::option::of(lent)
}

/// The possible sources of a credential, by the first reference.
fn expected(question: &Question) -> Vec<String> {
    let named = |reference: &Reference| match reference {
        Reference::Secret { name, .. } => vec![name.clone()],
        Reference::Identity(name) if name == "shared" => {
            vec!["hidden-name".to_owned(), "lent-name".to_owned()]
        }
        Reference::Identity(_) => vec![],
    };
    let references = &question.references;
    if let Some(own) = &references.own {
        return named(own);
    }
    if let Some((_, reference)) = &references.parent {
        return named(reference);
    }
    let namespace = references.namespace.iter().cloned();
    namespace
        .chain(references.operator.then(|| "given".to_owned()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn fr5_credential_comes_from_its_reference_and_goes_to_allowed_endpoints(
        world in any_world(),
        question in any_question(),
    ) {
        let (_, got) = world.decide(&question);
        let text = format!("{got:?}");
        prop_assert!(!text.contains("c0ntent"), "{}", text);
        if let Err(refusal) = &got {
            prop_assert!(!refusal.message.contains("hidden-name"));
            prop_assert!(!refusal.message.contains("home"));
            prop_assert!(!refusal.message.contains("team-b"));
            prop_assert!(refusal.hint.is_some());
        }
        let Ok(credential) = got else { return Ok(()) };
        prop_assert!(credential.level <= question.floor);
        let username = credential.text("username").unwrap();
        prop_assert!(expected(&question).iter().any(|one| one == username), "{}", username);
        prop_assert_ne!(username, "theirs");
        prop_assert!(!credential.content.contains_key("other"));
        match &credential.source {
            Source::Secret { namespace, name, .. } => {
                prop_assert_eq!(Some(namespace), question.namespace.as_ref());
                prop_assert_eq!(name, username);
                let secret = &world.secrets[&(namespace.clone(), name.clone())];
                prop_assert!(secret.owners.is_empty());
            }
            Source::Identity { lent: true, name, .. } => {
                prop_assert!(question.tenant.is_some() && !world.identities.contains_key(name));
                let allowed = world.lent[name].allowed_tenants.as_ref().unwrap();
                prop_assert!(allowed.selector.is_some());
                prop_assert_eq!(allowed.allows(&world.tenants["acme"]), Ok(true));
            }
            Source::Identity { name, .. } => {
                let identity = &world.identities[name];
                prop_assert!(identity.ready);
                prop_assert!(world.secrets[&("home".to_owned(), "hidden-name".to_owned())].owners.is_empty());
                prop_assert!(question.namespace.is_none() || identity.allowed.is_some());
                let nowhere = identity.bound == AllowedEndpoints::Nowhere && question.default_bound == AllowedEndpoints::Nowhere;
                let secret = &world.secrets[&("home".to_owned(), "hidden-name".to_owned())];
                prop_assert!(!nowhere || secret.data.contains_key("server"));
                if identity.bound != AllowedEndpoints::Nowhere {
                    prop_assert!(identity.bound.admits(&credential.endpoint).is_some());
                }
            }
            Source::Operator => {
                prop_assert!(question.references.own.is_none() && question.references.parent.is_none());
                prop_assert!(question.references.operator);
                prop_assert_eq!(question.floor, Level::Operator);
            }
        }
        // A shared account is never sent to an endpoint that only the tenant chose.
        if credential.endpoint == end("evil.example") && !matches!(credential.source, Source::Secret { .. }) {
            let everywhere = [&question.default_bound].into_iter()
                .chain(world.identities.values().map(|one| &one.bound))
                .chain(world.given.iter().map(|given| &given.bound))
                .any(|bound| *bound == AllowedEndpoints::Anywhere);
            prop_assert!(everywhere);
        }
    }

    #[test]
    fn o05_objects_that_were_not_read_do_not_change_the_decision(
        (before, after) in (any_world(), any_world()),
        question in any_question(),
    ) {
        let (read, got) = before.decide(&question);
        // A world that is equal in what was read and different in the rest.
        let mut other = after;
        for need in &read {
            match need {
                Need::Identity(name) => match before.identities.get(name) {
                    Some(one) => drop(other.identities.insert(name.clone(), one.clone())),
                    None => drop(other.identities.remove(name)),
                },
                Need::Namespace(name) => {
                    other.namespaces.insert(name.clone(), before.namespaces[name].clone());
                }
                Need::LentIdentity(name) => match before.lent.get(name) {
                    Some(one) => drop(other.lent.insert(name.clone(), one.clone())),
                    None => drop(other.lent.remove(name)),
                },
                Need::Tenant(name) => {
                    other.tenants.insert(name.clone(), before.tenants[name].clone());
                }
                Need::Secret { lent, namespace, name } => {
                    let at = (namespace.clone(), name.clone());
                    let (from, to) = match lent {
                        true => (&before.lent_secrets, &mut other.lent_secrets),
                        false => (&before.secrets, &mut other.secrets),
                    };
                    match from.get(&at) {
                        Some(one) => drop(to.insert(at, one.clone())),
                        None => drop(to.remove(&at)),
                    }
                }
                Need::Operator => other.given.clone_from(&before.given),
            }
        }
        prop_assert_eq!(other.decide(&question), (read, got));
    }

    #[test]
    fn fr5_further_reason_to_refuse_never_grants(
        world in any_world(),
        question in any_question(),
        reason in 0..7usize,
    ) {
        let (_, before) = world.decide(&question);
        let (mut world, mut question) = (world, question);
        match reason {
            0 => world.identities.values_mut().for_each(|one| one.ready = false),
            1 => world.identities.values_mut().for_each(|one| one.allowed = None),
            2 => world.lent.clear(),
            3 => world.secrets.values_mut().for_each(|one| drop(one.data.remove("username"))),
            4 => question.default_bound = AllowedEndpoints::Nowhere,
            5 => question.references.own = Some(Reference::Identity("gone".to_owned())),
            _ => question.references.operator = false,
        }
        let (_, after) = world.decide(&question);
        if before.is_err() {
            prop_assert!(after.is_err(), "{:?}", after);
        }
        if let Ok(credential) = after {
            prop_assert_eq!(Ok(credential), before);
        }
    }

    #[test]
    fn o05_added_reference_never_widens_access(world in any_world(), question in any_question(), reference in any_reference()) {
        // A reference gets its own credential or none, never the fallback.
        let mut explicit = question.clone();
        explicit.references.own = Some(reference.clone());
        let mut alone = question;
        alone.references = own(reference);
        let (explicit, alone) = (world.decide(&explicit).1, world.decide(&alone).1);
        prop_assert_eq!(explicit, alone);
    }

    #[test]
    fn o04_session_key_differs_whenever_the_place_or_the_account_does(
        one in any_act(),
        other in any_act(),
    ) {
        let credential = |act: &Act| {
            let mut question = question(CredentialReferences {
                own: Some(Reference::Secret { name: act.secret.to_owned(), part: Some(act.context.to_owned()) }),
                ..CredentialReferences::default()
            });
            (question.target, question.shape, question.hold) = (Target::Carried, &Contexts, Hold::None);
            let mut world = world();
            for name in ["mine", "everybody"] {
                let secret = Secret {
                    uid: name.to_owned(),
                    data: hidden(&[("kubeconfig", act.kubeconfig)]),
                    ..Secret::default()
                };
                world.secrets.insert(("team-a".to_owned(), name.to_owned()), secret);
            }
            world.decide(&question).1.unwrap()
        };
        let (got, others) = (credential(&one), credential(&other));
        let space = |act: &Act| act.space.map(Arc::from);
        let key = crate::session::Key::of(space(&one), &got);
        let others_key = crate::session::Key::of(space(&other), &others);
        prop_assert_eq!(key == others_key, one == other, "{:?} {:?}", key, others_key);
    }

    #[test]
    fn o05_raised_floor_never_changes_a_credential(world in any_world(), question in any_question(), floor in any_level()) {
        let (_, before) = world.decide(&question);
        let mut raised = question.clone();
        raised.floor = floor.min(question.floor);
        match world.decide(&raised).1 {
            Ok(credential) => prop_assert_eq!(Ok(credential), before),
            Err(refusal) => prop_assert!(before.is_err() || refusal.reason == Reason::SecretNotAvailable),
        }
    }
}

/// One use of a credential that names its server, namespace and certificates.
#[derive(Clone, Debug, PartialEq)]
struct Act {
    space: Option<&'static str>,
    secret: &'static str,
    context: &'static str,
    kubeconfig: &'static str,
}

fn any_act() -> impl Strategy<Value = Act> {
    let of = |all: &[&'static str]| prop::sample::select(all.to_vec());
    (
        prop::option::of(of(&["acme", "bmce"])),
        of(&["mine", "everybody"]),
        of(&["east", "west"]),
        of(&[
            "a.example hosts verified 1",
            "a.example hosts any 1",
            "a.example hosts authority-x 1",
            "a.example hosts authority-y 1",
            "a.example others verified 1",
            "b.example hosts verified 1",
            "a.example hosts verified 2",
        ]),
    )
        .prop_map(|(space, secret, context, kubeconfig)| Act {
            space,
            secret,
            context,
            kubeconfig,
        })
}

/// A kubeconfig in short: server, namespace, certificates and token, the same in all contexts.
#[derive(Debug)]
struct Contexts;

impl crate::shape::Shape for Contexts {
    fn describe(&self) -> String {
        "kubeconfig".to_owned()
    }

    fn read(
        &self,
        data: &BTreeMap<String, Hidden>,
        _: Option<&str>,
    ) -> Result<Content, crate::shape::InvalidContent> {
        let words: Vec<_> = data["kubeconfig"].text().unwrap().split(' ').collect();
        let carried = crate::shape::Carried {
            endpoint: end(words[0]),
            trust: match words[2] {
                "any" => Trust::AnyCertificate,
                "verified" => Trust::Verified,
                authority => Trust::AsCredential(authority.to_owned()),
            },
            scope: Some(words[1].to_owned()),
        };
        Ok(Content {
            // Only the account, so that the key has to tell the rest apart.
            values: hidden(&[("token", words[3])]),
            carried: Some(carried),
            is_proven_by_namespace: false,
        })
    }

    fn sample(&self) -> BTreeMap<String, Hidden> {
        hidden(&[("kubeconfig", "a.example hosts verified 1")])
    }
}
