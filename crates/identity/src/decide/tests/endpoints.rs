//! The endpoints that a credential may be sent to.

use super::*;

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
        let trust = got.ok();
        let trust = trust.map(|got| got.has_owners_trust.then_some(got.trust));
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
        question.target = at_with_parent(endpoint, chosen);
        let (_, got) = world.decide(&question);
        assert_eq!(got.is_ok(), granted, "{says:?} {chosen:?} {endpoint}");
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

#[test]
fn o03_only_the_owner_of_a_credential_chooses_the_trust() {
    let pinned = |pair: &str| Trust::pinned(&pair.repeat(20)).unwrap();
    let operator = CredentialReferences {
        operator: true,
        ..CredentialReferences::default()
    };
    // The certificate that the owner of the credential names, and the one that counts if the
    // object names AA.
    for (references, named, expected) in [
        (by_secret("mine"), None, pinned("AA")),
        (by_identity(), None, Trust::Verified),
        (
            by_identity(),
            Some(Trust::AnyCertificate),
            Trust::AnyCertificate,
        ),
        (by_identity(), Some(pinned("BB")), pinned("BB")),
        (operator.clone(), None, Trust::Verified),
        (operator, Some(pinned("BB")), pinned("BB")),
    ] {
        let mut world = world();
        let bound = AllowedEndpoints::Only(vec![(end("cloud.example"), named)]);
        world.identities.get_mut("shared").unwrap().bound = bound.clone();
        world.given.as_mut().unwrap().bound = bound;
        let mut question = question(references.clone());
        question.target = Target::Chosen(ChosenEndpoint {
            endpoint: end("cloud.example"),
            of_parent: None,
            trust: pinned("AA"),
        });
        let got = world.decide(&question).1.unwrap();
        assert_eq!(got.trust, expected, "{references:?}");
    }
}
