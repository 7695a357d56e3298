use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::endpoint::Trust;
use crate::explain::explain;

/// The existing objects, of a kind of the test's own: the crate knows no provider.
#[derive(Clone, Debug, Default)]
struct World {
    identities: BTreeMap<String, Identity>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    secrets: BTreeMap<(String, String), Secret>,
    given: Option<Static>,
}

impl CredentialReader for World {
    type Error = std::convert::Infallible;

    async fn read(&self, need: Need, known: &mut Known) -> Result<(), Self::Error> {
        match need {
            Need::Identity(name) => known.identity = Some(self.identities.get(&name).cloned()),
            Need::Namespace(name) => known.namespace = Some(self.namespaces.get(&name).cloned()),
            Need::Secret { namespace, name } => {
                known.secret = Some(self.secrets.get(&(namespace, name)).cloned());
            }
            Need::Operator => known.operator = Some(self.given.clone()),
        }
        Ok(())
    }
}

impl World {
    /// Decides, and records the reads.
    fn decide(&self, question: &Question) -> (Vec<Need>, Result<Credential, Refusal>) {
        let mut known = Known::default();
        let mut read = Vec::new();
        for _ in 0..8 {
            match decide(question, &known) {
                Step::Read(need) => {
                    assert!(!read.contains(&need), "{need:?} was asked for twice");
                    read.push(need.clone());
                    let learnt = self.read(need, &mut known);
                    let done = futures_util::FutureExt::now_or_never(learnt);
                    assert!(done.is_some());
                }
                Step::Grant(credential) => return (read, Ok(credential)),
                Step::Refuse(refusal) => return (read, Err(refusal)),
            }
        }
        panic!("it never decides");
    }
}

const KINDS: &[&str] = &["Cloud", "CloudIdentity"];

fn question(references: CredentialReferences) -> Question {
    Question {
        namespace: Some("team-a".to_owned()),
        references,
        endpoint: end("cloud.example"),
        chosen: None,
        required: &["username", "password"],
        optional: &["domain"],
        claimant: Claimant {
            api_version: "infra.example/v1".to_owned(),
            kind: "Cloud".to_owned(),
            name: "prod".to_owned(),
            uid: "1".to_owned(),
            kinds: KINDS,
            finalizer: "cloud/infra.example",
        },
        identity_kind: "CloudIdentity",
        endpoint_key: Some("server"),
        default_port: 443,
        default_bound: AllowedEndpoints::Nowhere,
        own_bound: AllowedEndpoints::Anywhere,
    }
}

fn end(text: &str) -> Endpoint {
    Endpoint::parse(text, 443).unwrap()
}

fn only(text: &str) -> AllowedEndpoints {
    AllowedEndpoints::parse(text, 443).unwrap()
}

fn hidden(pairs: &[(&str, &str)]) -> BTreeMap<String, Hidden> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), Hidden::new(*value)))
        .collect()
}

fn secret_of(whose: &str) -> Secret {
    Secret {
        uid: format!("uid of {whose}"),
        deleting: false,
        data: hidden(&[
            ("username", whose),
            ("password", "c0ntent"),
            ("other", "c0ntent"),
        ]),
        owners: vec![],
    }
}

fn identity(allowed: serde_json::Value) -> Identity {
    Identity {
        uid: "7".to_owned(),
        ready: true,
        trouble: None,
        allowed: serde_json::from_value(allowed).unwrap(),
        secret_namespace: "home".to_owned(),
        secret_name: "hidden-name".to_owned(),
        bound: only("cloud.example"),
    }
}

/// Returns a world in which everything exists and is allowed.
fn world() -> World {
    let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
    let at = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    World {
        identities: BTreeMap::from([("shared".to_owned(), identity(json!({})))]),
        namespaces: BTreeMap::from([("team-a".to_owned(), labels)]),
        secrets: BTreeMap::from([
            (at("team-a", "mine"), secret_of("mine")),
            (at("team-a", "everybody"), secret_of("everybody")),
            (at("team-b", "theirs"), secret_of("theirs")),
            (at("home", "hidden-name"), secret_of("hidden-name")),
        ]),
        given: Some(Static {
            data: secret_of("given").data,
            bound: only("cloud.example"),
        }),
    }
}

fn own(reference: Reference) -> CredentialReferences {
    CredentialReferences {
        own: Some(reference),
        ..CredentialReferences::default()
    }
}

fn by_identity() -> CredentialReferences {
    own(Reference::Identity("shared".to_owned()))
}

fn by_secret(name: &str) -> CredentialReferences {
    own(Reference::Secret(name.to_owned()))
}

fn account(got: &Result<Credential, Refusal>) -> Result<&str, &str> {
    match got {
        Ok(credential) => Ok(credential.content["username"].reveal()),
        Err(refusal) => Err(refusal.reason.as_str()),
    }
}

#[test]
fn o05_first_reference_decides_without_fallback() {
    let mine = || Some(Reference::Secret("mine".to_owned()));
    let parent = |name: &str| {
        let reference = Reference::Secret(name.to_owned());
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
                Some(Reference::Secret("gone".to_owned())),
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
            all(
                Some(Reference::Secret("theirs".to_owned())),
                None,
                None,
                true,
            ),
            Err("SecretNotAvailable"),
        ),
    ] {
        let (_, got) = world().decide(&question(references.clone()));
        assert_eq!(account(&got), account_or_reason, "{references:?}");
    }
}

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
            "name one that there is, or ask whoever manages them",
        ),
        (
            by_identity(),
            |world, _| world.identities.get_mut("shared").unwrap().allowed = None,
            "NamespaceNotAllowed",
            "CloudIdentity shared allows no namespace to use it",
            "ask whoever owns it to say in allowedNamespaces who may",
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
            "ask whoever owns it to allow this namespace, or name a Secret of your own",
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
            "ask whoever owns it to correct its allowedNamespaces",
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
            "ask whoever owns it to allow this namespace, or name a Secret of your own",
        ),
        (
            by_identity(),
            |world, _| {
                let identity = world.identities.get_mut("shared").unwrap();
                (identity.ready, identity.trouble) = (false, Some("SecretNotAvailable".to_owned()));
            },
            "IdentityNotReady",
            "CloudIdentity shared is not ready: SecretNotAvailable",
            "nothing has to be done here once it is; if it stays so, ask whoever owns it",
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
            "nothing has to be done here once it is; if it stays so, ask whoever owns it",
        ),
        (
            by_identity(),
            |world, _| world.secrets.clear(),
            "SecretNotAvailable",
            "the Secret of CloudIdentity shared is not available",
            "ask whoever owns it",
        ),
        (
            by_identity(),
            |world, _| {
                let at = ("home".to_owned(), "hidden-name".to_owned());
                world.secrets.get_mut(&at).unwrap().data.remove("password");
            },
            "InvalidCredentials",
            "the Secret of CloudIdentity shared has nothing under password",
            "ask whoever owns it",
        ),
        (
            by_identity(),
            |_, question| question.endpoint = end("evil.example"),
            "EndpointNotAllowed",
            "CloudIdentity shared may not be sent to evil.example:443",
            "ask whoever owns it to allow this server, or name a Secret of your own",
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
            "the Secret of CloudIdentity shared says under server where it may be sent, which is no list of hosts",
            "ask whoever owns it",
        ),
        (
            by_secret("gone"),
            |_, _| {},
            "SecretNotAvailable",
            "the Secret gone is not in namespace team-a",
            "create it there, with username and password: one of another namespace is never used",
        ),
        (
            by_secret("mine"),
            |_, question| question.namespace = None,
            "SecretNotAvailable",
            "the Secret mine is in no namespace",
            "what is in no namespace itself can only name an identity",
        ),
        (
            by_secret("mine"),
            held,
            "SecretInUse",
            "the Secret mine is held by Cloud other",
            "a Secret serves one; make another, or share an identity",
        ),
        (
            by_secret("mine"),
            |world, _| {
                let at = ("team-a".to_owned(), "mine".to_owned());
                world.secrets.get_mut(&at).unwrap().data =
                    hidden(&[("username", ""), ("Password", "x")]);
            },
            "InvalidCredentials",
            "the Secret mine has nothing under username and password",
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
            "name this server in the Secret, or use the one that it names",
        ),
        (
            by_secret("mine"),
            |world, _| {
                let at = ("team-a".to_owned(), "mine".to_owned());
                let data = &mut world.secrets.get_mut(&at).unwrap().data;
                data.insert("server".to_owned(), Hidden::new("https://cloud.example"));
            },
            "InvalidCredentials",
            "the Secret mine says under server where it may be sent, and \"https://cloud.example\" is no host, and no host with a port",
            "correct the Secret",
        ),
        (
            CredentialReferences {
                parent: Some((
                    "Cloud prod".to_owned(),
                    Reference::Secret("mine".to_owned()),
                )),
                ..CredentialReferences::default()
            },
            |_, question| {
                question.chosen = Some(end("cloud.example"));
                question.endpoint = end("evil.example");
            },
            "EndpointNotAllowed",
            "the Secret mine that Cloud prod names may not be sent to evil.example:443",
            "name this server in the Secret, or use the one that it names",
        ),
        (
            CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            },
            |world, _| world.given = None,
            "NoCredentials",
            "nothing says whose credentials to use",
            "name CloudIdentity or a Secret of this namespace",
        ),
        (
            CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            },
            |_, question| question.endpoint = end("evil.example"),
            "EndpointNotAllowed",
            "the operator's own account may not be sent to evil.example:443",
            "name an identity for this server, or a Secret of your own",
        ),
        (
            CredentialReferences {
                operator: true,
                ..CredentialReferences::default()
            },
            |world, _| world.given = Some(Static::default()),
            "InvalidCredentials",
            "the operator's own account has nothing under username and password",
            "ask whoever runs the operator",
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

#[test]
fn o03_credential_is_limited_to_its_owners_endpoints() {
    let pinned = Trust::Pinned("AB".to_owned());
    let trusting = AllowedEndpoints::Only(vec![(end("cloud.example"), Some(pinned.clone()))]);
    let none = || AllowedEndpoints::Nowhere;
    // The endpoints of the identity, of its Secret and of the operator, and which count.
    for (identity_says, secret_says, default, granted) in [
        (none(), None, none(), None),
        (none(), None, only("cloud.example"), Some(None)),
        (none(), None, AllowedEndpoints::Anywhere, Some(None)),
        (
            none(),
            Some("cloud.example"),
            only("other.example"),
            Some(None),
        ),
        (none(), Some("other.example"), only("cloud.example"), None),
        (none(), Some(" , "), only("cloud.example"), Some(None)),
        (
            only("cloud.example:443"),
            Some("other.example"),
            none(),
            Some(None),
        ),
        (
            only("cloud.example:8443"),
            Some("cloud.example"),
            AllowedEndpoints::Anywhere,
            None,
        ),
        (
            AllowedEndpoints::Only(vec![]),
            Some("cloud.example"),
            AllowedEndpoints::Anywhere,
            None,
        ),
        (trusting.clone(), None, none(), Some(Some(pinned.clone()))),
        (none(), None, trusting.clone(), Some(Some(pinned.clone()))),
    ] {
        let mut world = world();
        world.identities.get_mut("shared").unwrap().bound = identity_says.clone();
        if let Some(says) = secret_says {
            let at = ("home".to_owned(), "hidden-name".to_owned());
            let data = &mut world.secrets.get_mut(&at).unwrap().data;
            data.insert("server".to_owned(), Hidden::new(says));
        }
        let mut question = question(by_identity());
        question.default_bound = default.clone();
        let (_, got) = world.decide(&question);
        let trust = got.ok().map(|credential| credential.trust);
        assert_eq!(
            trust, granted,
            "{identity_says:?} {secret_says:?} {default:?}"
        );
    }
    // A Secret of the namespace goes to its owner's endpoint, and may list others.
    for (says, chosen, endpoint, granted) in [
        (None, None, "anywhere.example", true),
        (None, Some("cloud.example"), "cloud.example", true),
        (None, Some("cloud.example"), "evil.example", false),
        (Some("cloud.example"), None, "evil.example", false),
        (
            Some("cloud.example, second.example"),
            Some("cloud.example"),
            "second.example",
            true,
        ),
        (
            Some("second.example"),
            Some("cloud.example"),
            "cloud.example",
            false,
        ),
    ] {
        let mut world = world();
        if let Some(says) = says {
            let at = ("team-a".to_owned(), "mine".to_owned());
            let data = &mut world.secrets.get_mut(&at).unwrap().data;
            data.insert("server".to_owned(), Hidden::new(says));
        }
        let mut question = question(by_secret("mine"));
        question.chosen = chosen.map(end);
        question.endpoint = end(endpoint);
        let (_, got) = world.decide(&question);
        assert_eq!(got.is_ok(), granted, "{says:?} {chosen:?} {endpoint}");
    }
}

#[test]
fn fr5_only_needed_objects_are_read() {
    let secret = |namespace: &str, name: &str| Need::Secret {
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

#[test]
fn o03_namespace_secrets_are_limited_by_the_operator() {
    for (says, bound, granted) in [
        (None, AllowedEndpoints::Anywhere, true),
        (None, AllowedEndpoints::Nowhere, false),
        (None, only("cloud.example"), true),
        (None, only("other.example"), false),
        (Some("cloud.example"), only("other.example"), false),
        (Some("other.example"), only("cloud.example"), false),
    ] {
        let mut world = world();
        if let Some(says) = says {
            let at = ("team-a".to_owned(), "mine".to_owned());
            let data = &mut world.secrets.get_mut(&at).unwrap().data;
            data.insert("server".to_owned(), Hidden::new(says));
        }
        let mut question = question(by_secret("mine"));
        question.own_bound = bound.clone();
        let (_, got) = world.decide(&question);
        let expected = match granted {
            true => Ok(()),
            false => Err(Reason::EndpointNotAllowed),
        };
        let got = got.map(drop).map_err(|refusal| refusal.reason);
        assert_eq!(got, expected, "{says:?} {bound:?}");
    }
}

#[tokio::test]
async fn explanation_lists_steps_without_contents() {
    let mut world = world();
    let gold = json!({"selector": {"matchLabels": {"tier": "gold"}}});
    world.identities.insert("shared".to_owned(), identity(gold));
    let asked = question(by_identity());
    let told = explain(&asked, &world).await.unwrap();
    assert_eq!(
        told.to_string(),
        "- it names CloudIdentity shared, which decides alone\n\
         - CloudIdentity shared is there and ready\n\
         - namespace team-a has the labels tier=gold\n\
         - its Secret is there\n\
         credential: that of CloudIdentity shared, for cloud.example:443"
    );
    world
        .namespaces
        .insert("team-a".to_owned(), BTreeMap::new());
    let told = explain(&asked, &world).await.unwrap();
    assert_eq!(
        told.to_string(),
        "- it names CloudIdentity shared, which decides alone\n\
         - CloudIdentity shared is there and ready\n\
         - namespace team-a has the labels none\n\
         no credential: CloudIdentity shared does not allow namespace team-a (NamespaceNotAllowed)\n\
         hint: ask whoever owns it to allow this namespace, or name a Secret of your own"
    );
    let parent = Some((
        "Cloud team-a/prod".to_owned(),
        Reference::Secret("mine".to_owned()),
    ));
    let at = ("team-a".to_owned(), "mine".to_owned());
    world.secrets.get_mut(&at).unwrap().deleting = true;
    let told = explain(
        &question(CredentialReferences {
            parent,
            ..CredentialReferences::default()
        }),
        &world,
    )
    .await
    .unwrap();
    assert_eq!(
        told.to_string(),
        "- it names none; Cloud team-a/prod names Secret mine, which decides alone\n\
         - Secret mine is being deleted, and used until it is gone\n\
         credential: that of Secret mine, for cloud.example:443"
    );
    let trust = Some(Trust::AnyCertificate);
    world.given.as_mut().unwrap().bound =
        AllowedEndpoints::Only(vec![(end("cloud.example"), trust)]);
    let references = CredentialReferences {
        namespace: Some("gone".to_owned()),
        operator: true,
        ..CredentialReferences::default()
    };
    let told = explain(&question(references), &world).await.unwrap();
    assert_eq!(
        told.to_string(),
        "- nothing names a credential for it: it gets Secret gone of its namespace, else the operator's own\n\
         - Secret gone is not there\n\
         - the operator has one of its own\n\
         credential: the operator's own, for cloud.example:443, where any certificate is believed, as its owner says"
    );
    let told = explain(&question(CredentialReferences::default()), &world)
        .await
        .unwrap();
    assert_eq!(
        told.to_string(),
        "- nothing names a credential for it: it gets none\n\
         no credential: nothing says whose credentials to use (NoCredentials)\n\
         hint: name CloudIdentity or a Secret of this namespace"
    );
}

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
            .prop_map(|name| Reference::Secret(name.to_owned())),
        prop::sample::select(vec!["shared", "gone"])
            .prop_map(|name| Reference::Identity(name.to_owned())),
    ]
}

fn any_wishes() -> impl Strategy<Value = CredentialReferences> {
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

fn any_question() -> impl Strategy<Value = Question> {
    let endpoint = prop::sample::select(vec!["cloud.example", "other.example", "evil.example"]);
    let chosen = prop::option::of(Just(end("cloud.example")));
    (any_wishes(), endpoint, chosen, any_bound(), any::<bool>()).prop_map(
        |(references, endpoint, chosen, default_bound, scoped)| {
            let mut question = question(references);
            question.endpoint = end(endpoint);
            (question.chosen, question.default_bound) = (chosen, default_bound);
            if !scoped {
                question.namespace = None;
            }
            question
        },
    )
}

fn any_secret() -> impl Strategy<Value = Secret> {
    let says = prop::option::of(prop::sample::select(vec!["cloud.example", "", "a b"]));
    (any::<bool>(), any::<bool>(), any::<bool>(), says).prop_map(|(lacks, held, deleting, says)| {
        let mut secret = secret_of("x");
        secret.deleting = deleting;
        if lacks {
            secret.data.remove("password");
        }
        if let Some(says) = says {
            secret.data.insert("server".to_owned(), Hidden::new(says));
        }
        if held {
            secret.owners.push(Owner {
                api_version: "infra.example/v1".to_owned(),
                kind: "CloudIdentity".to_owned(),
                name: "someone".to_owned(),
                ..Owner::default()
            });
        }
        secret
    })
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
    (prop::option::of(identity), any::<bool>(), secrets, given).prop_map(
        |(identity, labelled, secrets, given)| {
            let mut world = World {
                secrets,
                given,
                ..world()
            };
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
        },
    )
}

/// The possible sources of a credential, by the first reference.
fn expected(question: &Question) -> Vec<String> {
    let named = |reference: &Reference| match reference {
        Reference::Secret(name) => vec![name.clone()],
        Reference::Identity(name) if name == "shared" => vec!["hidden-name".to_owned()],
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
    fn fr5_a_grant_is_from_exactly_what_was_said_and_goes_where_it_may(
        world in any_world(),
        question in any_question(),
    ) {
        let (_, got) = world.decide(&question);
        let told = format!("{got:?}");
        prop_assert!(!told.contains("c0ntent"), "{}", told);
        if let Err(refusal) = &got {
            prop_assert!(!refusal.message.contains("hidden-name"));
            prop_assert!(!refusal.message.contains("home"));
            prop_assert!(!refusal.message.contains("team-b"));
            prop_assert!(refusal.hint.is_some());
        }
        let Ok(credential) = got else { return Ok(()) };
        let whose = credential.content["username"].reveal();
        prop_assert!(expected(&question).iter().any(|one| one == whose), "{}", whose);
        prop_assert_ne!(whose, "theirs");
        prop_assert!(!credential.content.contains_key("other"));
        match &credential.source {
            Source::Secret { namespace, name, .. } => {
                prop_assert_eq!(Some(namespace), question.namespace.as_ref());
                prop_assert_eq!(name, whose);
                let secret = &world.secrets[&(namespace.clone(), name.clone())];
                prop_assert!(secret.owners.is_empty());
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
                    prop_assert!(identity.bound.admits(&question.endpoint).is_some());
                }
            }
            Source::Operator => {
                prop_assert!(question.references.own.is_none() && question.references.parent.is_none());
                prop_assert!(question.references.operator);
            }
        }
        // A shared account is never sent to an endpoint that only the tenant chose.
        if question.endpoint == end("evil.example") && !matches!(credential.source, Source::Secret { .. }) {
            let everywhere = [&question.default_bound].into_iter()
                .chain(world.identities.values().map(|one| &one.bound))
                .chain(world.given.iter().map(|given| &given.bound))
                .any(|bound| *bound == AllowedEndpoints::Anywhere);
            prop_assert!(everywhere);
        }
    }

    #[test]
    fn o05_whatever_else_there_is_what_was_not_read_changes_nothing(
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
                Need::Secret { namespace, name } => {
                    let at = (namespace.clone(), name.clone());
                    match before.secrets.get(&at) {
                        Some(one) => drop(other.secrets.insert(at, one.clone())),
                        None => drop(other.secrets.remove(&at)),
                    }
                }
                Need::Operator => other.given.clone_from(&before.given),
            }
        }
        prop_assert_eq!(other.decide(&question), (read, got));
    }

    #[test]
    fn fr5_one_ground_more_to_refuse_never_grants(
        world in any_world(),
        question in any_question(),
        reader in 0..7usize,
    ) {
        let (_, before) = world.decide(&question);
        let (mut world, mut question) = (world, question);
        match reader {
            0 => world.identities.values_mut().for_each(|one| one.ready = false),
            1 => world.identities.values_mut().for_each(|one| one.allowed = None),
            2 => world.identities.clear(),
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
    fn o05_added_reference_never_widens_access(world in any_world(), question in any_question(), said in any_reference()) {
        // A reference gets its own credential or none, never the fallback.
        let mut explicit = question.clone();
        explicit.references.own = Some(said.clone());
        let mut alone = question;
        alone.references = own(said);
        let (explicit, alone) = (world.decide(&explicit).1, world.decide(&alone).1);
        prop_assert_eq!(explicit, alone);
    }
}
