use insula_core::{CredentialRef, NotATenantName};
use serde_json::json;

use super::*;
use crate::jwt::{self, KeySet, Malformed, Signer, TimeError};

const URL: &str = "https://issuer.test/realm";
const NOW: i64 = 1_000_000;

fn issuer(change: impl FnOnce(&mut Settings)) -> Issuer {
    let mut settings = Settings::new(URL, "insula");
    settings.groups_claim = Some("groups".to_owned());
    change(&mut settings);
    Issuer::try_from(settings).unwrap()
}

/// Valid claims with these changes; null removes one.
fn claims(change: Value) -> Claims {
    let mut said = json!({
        "iss": URL, "aud": "insula", "sub": "alice", "iat": NOW - 10, "exp": NOW + 10,
    });
    for (name, value) in change.as_object().unwrap() {
        match value {
            Value::Null => drop(said.as_object_mut().unwrap().remove(name)),
            value => said[name] = value.clone(),
        }
    }
    signed(&said)
}

fn signed(said: &Value) -> Claims {
    let key = rcgen::KeyPair::generate().unwrap();
    let signer = Signer::new(key.serialized_der()).unwrap();
    let keys: KeySet = [signer.public().clone()].into_iter().collect();
    let token = signer.sign(said).unwrap();
    let signed = Signed::parse(&token).unwrap();
    signed.verify(&keys).unwrap().clone()
}

fn space(name: &str) -> Space {
    Space::parse(name).unwrap()
}

#[test]
fn token_maps_to_a_credential() {
    let issuer = issuer(|settings| {
        settings.groups_prefix = "o:".to_owned();
        settings.username_prefix = Some("oidc:".to_owned());
    });
    let said = json!({"groups": ["dev", "tenant:t1", "system:masters"], "jti": "J1"});
    let holder = issuer.authenticate(&claims(said), NOW).unwrap();
    let expected = Credential {
        user: "oidc:alice".to_owned(),
        uid: None,
        groups: vec!["o:dev".to_owned(), "o:system:masters".to_owned()],
        extra: [(CREDENTIAL_ID.to_owned(), vec!["JTI=J1".to_owned()])].into(),
        tenant: Some(space("t1")),
        tenant_binding: TenantBinding::At(NOW - 10),
        proof: Proof::Oidc,
        reference: CredentialRef {
            id: "J1".into(),
            issued: Some(NOW - 10),
            expires: Some(NOW + 10),
            ..CredentialRef::default()
        },
    };
    assert_eq!(holder.credential, expected);
    assert_eq!(holder.expires, NOW + 10);
}

#[test]
fn user_name_is_the_claim_with_its_prefix() {
    let by_default = format!("{URL}#alice");
    for (claim, prefix, said, expected) in [
        ("sub", None, json!({}), Ok(by_default.as_str())),
        ("sub", Some("-"), json!({}), Ok("alice")),
        ("sub", Some(""), json!({}), Ok("alice")),
        ("sub", Some("o:"), json!({}), Ok("o:alice")),
        ("email", None, json!({"email": "a@b"}), Ok("a@b")),
        ("email", Some("o:"), json!({"email": "a@b"}), Ok("o:a@b")),
        (
            "email",
            None,
            json!({"email": "a@b", "email_verified": true}),
            Ok("a@b"),
        ),
        (
            "email",
            None,
            json!({"email": "a@b", "email_verified": false}),
            Err(Error::Email),
        ),
        (
            "email",
            None,
            json!({"email": "a@b", "email_verified": "true"}),
            Err(Error::Email),
        ),
        // `email_verified` only matters if `email` is the username claim.
        (
            "sub",
            Some("-"),
            json!({"email_verified": false}),
            Ok("alice"),
        ),
        (
            "email",
            None,
            json!({}),
            Err(Error::Username("email".to_owned())),
        ),
        (
            "name",
            None,
            json!({"name": ""}),
            Err(Error::Username("name".to_owned())),
        ),
        (
            "name",
            None,
            json!({"name": 7}),
            Err(Error::Username("name".to_owned())),
        ),
        (
            "name",
            None,
            json!({"name": ["a"]}),
            Err(Error::Username("name".to_owned())),
        ),
        (
            "sub",
            Some("-"),
            json!({"sub": "system:serviceaccount:kube-system:admin"}),
            Err(Error::Reserved),
        ),
        (
            "sub",
            Some("-"),
            json!({"sub": "system:admin"}),
            Err(Error::Reserved),
        ),
        (
            "sub",
            Some("sys"),
            json!({"sub": "tem:admin"}),
            Err(Error::Reserved),
        ),
        (
            "sub",
            Some("o:"),
            json!({"sub": "system:admin"}),
            Ok("o:system:admin"),
        ),
    ] {
        let issuer = issuer(|settings| {
            settings.username_claim = claim.to_owned();
            settings.username_prefix = prefix.map(str::to_owned);
        });
        let holder = issuer.authenticate(&claims(said.clone()), NOW);
        let user = holder.map(|holder| holder.credential.user);
        assert_eq!(
            user,
            expected.map(str::to_owned),
            "{claim} {prefix:?} {said}"
        );
    }
}

#[test]
fn group_names_the_tenant_if_no_claim_does() {
    let bad = || Error::Membership(TenantError::InvalidName(NotATenantName));
    let several = || Error::Membership(TenantError::Multiple);
    let no_groups = || Error::Groups("groups".to_owned());
    for (said, expected) in [
        (json!({}), Ok((None, ""))),
        (json!({"groups": []}), Ok((None, ""))),
        (json!({"groups": "dev"}), Ok((None, "dev"))),
        (json!({"groups": "tenant:t1"}), Ok((Some("t1"), ""))),
        (
            json!({"groups": ["dev", "tenant:t1"]}),
            Ok((Some("t1"), "dev")),
        ),
        (
            json!({"groups": ["tenant:system", "system:masters"]}),
            Ok((Some("system"), "system:masters")),
        ),
        (
            json!({"groups": ["tenant:t1", "tenant:t2"]}),
            Err(several()),
        ),
        (json!({"groups": ["tenant:"]}), Err(bad())),
        (json!({"groups": ["tenant:all"]}), Err(bad())),
        (json!({"groups": ["tenant:T1"]}), Err(bad())),
        (json!({"groups": 7}), Err(no_groups())),
        (json!({"groups": {"tenant:t1": true}}), Err(no_groups())),
        (json!({"groups": ["dev", 7]}), Err(no_groups())),
        (
            json!({"groups": ["tenant:t1", ["tenant:t2"]]}),
            Err(no_groups()),
        ),
    ] {
        assert_eq!(
            membership(&issuer(|_| {}), &said),
            owned(expected),
            "{said}"
        );
    }
}

/// The tenant and the joined groups of a token with these claims.
fn membership(issuer: &Issuer, said: &Value) -> Result<(Option<Space>, String), Error> {
    let holder = issuer.authenticate(&claims(said.clone()), NOW)?;
    Ok((holder.credential.tenant, holder.credential.groups.join("|")))
}

fn owned(expected: Result<(Option<&str>, &str), Error>) -> Result<(Option<Space>, String), Error> {
    expected.map(|(tenant, groups)| (tenant.map(space), groups.to_owned()))
}

/// Users of a provider may be able to create groups, so groups must not select a tenant beside the
/// claim that the administrator has chosen for it.
#[test]
fn claim_alone_names_the_tenant_if_it_is_configured() {
    let bad = || Error::Membership(TenantError::InvalidName(NotATenantName));
    let no_text = || Error::Tenant("tenant".to_owned());
    let no_groups = || Error::Groups("groups".to_owned());
    let issuer = issuer(|settings| settings.tenant_claim = Some("tenant".to_owned()));
    for (said, expected) in [
        (json!({}), Ok((None, ""))),
        (json!({"groups": ["dev"]}), Ok((None, "dev"))),
        (json!({"groups": "tenant:t1"}), Ok((None, ""))),
        (json!({"groups": ["dev", "tenant:t1"]}), Ok((None, "dev"))),
        (
            json!({"groups": ["tenant:system", "system:masters"]}),
            Ok((None, "system:masters")),
        ),
        (
            json!({"groups": ["tenant:t1", "tenant:t2", "tenant:", "tenant:T1"]}),
            Ok((None, "")),
        ),
        (json!({"tenant": "t1"}), Ok((Some("t1"), ""))),
        (json!({"tenant": "tenant:t1"}), Ok((Some("t1"), ""))),
        (json!({"tenant": "system"}), Ok((Some("system"), ""))),
        (
            json!({"tenant": "t1", "groups": ["tenant:t1", "dev"]}),
            Ok((Some("t1"), "dev")),
        ),
        (
            json!({"tenant": "t1", "groups": ["tenant:t2"]}),
            Ok((Some("t1"), "")),
        ),
        (
            json!({"tenant": "t1", "groups": ["tenant:system", "tenant:"]}),
            Ok((Some("t1"), "")),
        ),
        (
            json!({"tenant": "system", "groups": ["tenant:t1"]}),
            Ok((Some("system"), "")),
        ),
        (json!({"tenant": ""}), Err(bad())),
        (json!({"tenant": "all"}), Err(bad())),
        (json!({"tenant": "tenant:"}), Err(bad())),
        (json!({"tenant": "tenant:tenant:t1"}), Err(bad())),
        (json!({"tenant": " t1"}), Err(bad())),
        (json!({"tenant": "t1/ns"}), Err(bad())),
        (json!({"tenant": "", "groups": ["tenant:t1"]}), Err(bad())),
        (json!({"tenant": 7}), Err(no_text())),
        (json!({"tenant": ["t1"]}), Err(no_text())),
        (
            json!({"tenant": {}, "groups": ["tenant:t1"]}),
            Err(no_text()),
        ),
        (json!({"tenant": "t1", "groups": 7}), Err(no_groups())),
    ] {
        assert_eq!(membership(&issuer, &said), owned(expected), "{said}");
    }
}

#[test]
fn provider_for_tenants_only_refuses_tokens_of_no_tenant_and_of_the_system() {
    let by_claim = issuer(|settings| {
        settings.tenant_claim = Some("tenant".to_owned());
        settings.tenants_only = true;
    });
    let by_group = issuer(|settings| settings.tenants_only = true);
    let outside = || Err(Error::NotOfATenant(format!("{URL}#alice")));
    for (issuer, said, expected) in [
        (&by_claim, json!({"tenant": "t1"}), Ok((Some("t1"), ""))),
        (&by_claim, json!({}), outside()),
        (&by_claim, json!({"tenant": "system"}), outside()),
        (&by_claim, json!({"groups": ["tenant:t1"]}), outside()),
        (
            &by_group,
            json!({"groups": ["tenant:t1"]}),
            Ok((Some("t1"), "")),
        ),
        (&by_group, json!({"groups": ["tenant:system"]}), outside()),
        (&by_group, json!({"groups": ["system:masters"]}), outside()),
        (&by_group, json!({"tenant": "t1"}), outside()),
    ] {
        assert_eq!(membership(issuer, &said), owned(expected), "{said}");
    }
}

#[test]
fn null_claims_are_no_tenant_and_no_groups() {
    let no_text = || Error::Tenant("tenant".to_owned());
    // A null tenant is not a string either.
    let mut said = json!({"iss": URL, "aud": "insula", "sub": "alice", "iat": NOW, "exp": NOW});
    said["tenant"] = Value::Null;
    let strict = issuer(|settings| settings.tenant_claim = Some("tenant".to_owned()));
    assert_eq!(strict.authenticate(&signed(&said), NOW), Err(no_text()));
    // As in Kubernetes, null groups are no groups.
    said["groups"] = Value::Null;
    let lax = issuer(|_| {});
    assert_eq!(
        lax.authenticate(&signed(&said), NOW)
            .unwrap()
            .credential
            .groups,
        [""; 0]
    );
}

#[test]
fn claims_that_are_not_configured_are_ignored() {
    let issuer = issuer(|settings| settings.groups_claim = None);
    let said = json!({"groups": ["tenant:t1", "dev"], "tenant": "t2", "roles": ["x"]});
    let credential = issuer.authenticate(&claims(said), NOW).unwrap().credential;
    assert_eq!(credential.tenant, None);
    assert_eq!(credential.groups, [""; 0]);
    assert_eq!(credential.extra, Extra::new());
}

/// The tenant is extracted before the prefix is added.
#[test]
fn groups_prefix_cannot_name_a_tenant() {
    let issuer = issuer(|settings| settings.groups_prefix = TENANT_PREFIX.to_owned());
    let credential = issuer.authenticate(&claims(json!({"groups": ["t2"]})), NOW);
    let credential = credential.unwrap().credential;
    assert_eq!(credential.tenant, None);
    let home = space("t1");
    let principal = crate::resolve_principal(credential, Some(&home)).unwrap();
    assert_eq!(principal.groups, ["system:authenticated"]);
    assert_eq!(principal.home, home);
}

#[test]
fn token_must_match_audience_issuer_and_time() {
    let issuer = issuer(|settings| {
        settings.required_claims = vec![("hd".to_owned(), "x".to_owned())];
    });
    let audience = |found: &[&str]| Error::Audience {
        expected: "insula".to_owned(),
        found: found.iter().map(|&one| one.to_owned()).collect(),
    };
    for (said, expected) in [
        (json!({}), None),
        (json!({"aud": ["other", "insula"]}), None),
        (json!({"aud": "other"}), Some(audience(&["other"]))),
        (json!({"aud": "insula2"}), Some(audience(&["insula2"]))),
        (
            json!({"aud": ["other", "another"]}),
            Some(audience(&["other", "another"])),
        ),
        (json!({"aud": []}), Some(audience(&[]))),
        (json!({"aud": null}), Some(audience(&[]))),
        (
            json!({"aud": {"insula": true}}),
            Some(Error::Malformed(Malformed("aud"))),
        ),
        (json!({"iss": null}), Some(Error::Issuer)),
        (
            json!({"iss": "https://issuer.test/realm/"}),
            Some(Error::Issuer),
        ),
        (json!({"iss": "https://issuer.test"}), Some(Error::Issuer)),
        (json!({"iss": [URL]}), Some(Error::Issuer)),
        (json!({"exp": null}), Some(Error::Missing("exp"))),
        (json!({"iat": null}), Some(Error::Missing("iat"))),
        (
            json!({"exp": "soon"}),
            Some(Error::Malformed(Malformed("exp"))),
        ),
        (json!({"exp": NOW - 60}), None),
        (
            json!({"exp": NOW - 61}),
            Some(TimeError::Expired(NOW - 61).into()),
        ),
        (
            json!({"nbf": NOW + 61}),
            Some(TimeError::NotYetValid(NOW + 61).into()),
        ),
        (
            json!({"iat": NOW + 61}),
            Some(TimeError::IssuedInFuture(NOW + 61).into()),
        ),
        (json!({"hd": null}), Some(Error::Required("hd".to_owned()))),
        (json!({"hd": "y"}), Some(Error::Unequal("hd".to_owned()))),
        (json!({"hd": ["x"]}), Some(Error::Unequal("hd".to_owned()))),
    ] {
        let mut all = json!({"hd": "x"});
        for (name, value) in said.as_object().unwrap() {
            all[name] = value.clone();
        }
        let found = issuer.authenticate(&claims(all), NOW);
        assert_eq!(found.err(), expected, "{said}");
    }
}

#[test]
fn errors_use_kubernetes_wording() {
    for (error, text) in [
        (
            Error::Audience {
                expected: "kapp".to_owned(),
                found: vec!["zz".to_owned(), "y".to_owned()],
            },
            r#"oidc: verify token: oidc: expected audience in ["kapp"] got ["zz" "y"]"#,
        ),
        (
            TimeError::Expired(1).into(),
            "oidc: verify token: oidc: token is expired \
             (Token Expiry: 1970-01-01 00:00:01 +0000 UTC)",
        ),
        (
            TimeError::Expired(i64::MIN).into(),
            "oidc: verify token: oidc: token is expired (Token Expiry: -9223372036854775808)",
        ),
        (
            Error::Username("sub".to_owned()),
            "oidc: parse username claims \"sub\": claim not present",
        ),
        (Error::Email, "oidc: email not verified"),
        (
            Error::Token(jwt::Error::Signature),
            "oidc: verify token: the token's signature does not verify",
        ),
        (
            Error::Algorithm(Algorithm::Ps256),
            "oidc: verify token: oidc: unexpected signature algorithm \"PS256\"",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn foreign_tokens_are_rejected_before_any_key_lookup() {
    let key = rcgen::KeyPair::generate().unwrap();
    let signer = Signer::new(key.serialized_der()).unwrap();
    let rsa_only = issuer(|settings| settings.algorithms = vec![Algorithm::Rs256]);
    let both = issuer(|_| {});
    for (issuer, said, expected) in [
        (&both, json!({"iss": URL}), Ok(())),
        (
            &both,
            json!({"iss": "https://other.test"}),
            Err(Error::Issuer),
        ),
        (&both, json!({}), Err(Error::Issuer)),
        (
            &rsa_only,
            json!({"iss": URL}),
            Err(Error::Algorithm(Algorithm::Es256)),
        ),
    ] {
        let token = signer.sign(&said).unwrap();
        let signed = Signed::parse(&token).unwrap();
        assert_eq!(issuer.check_unverified(&signed), expected, "{said}");
    }
}

#[test]
fn unsafe_or_useless_settings_are_rejected() {
    let claim = || Some(String::new());
    let with = |change: fn(&mut Settings)| {
        let mut settings = Settings::new(URL, "insula");
        change(&mut settings);
        Issuer::try_from(settings).err()
    };
    assert_eq!(with(|_| {}), None);
    for (found, expected) in [
        (with(|it| it.client_id.clear()), SettingsError::ClientId),
        (with(|it| it.username_claim.clear()), SettingsError::Claim),
        (with(|it| it.algorithms.clear()), SettingsError::Algorithms),
        (
            with(|it| it.required_claims.push(<_>::default())),
            SettingsError::Claim,
        ),
        (
            Issuer::try_from(Settings {
                tenant_claim: claim(),
                ..Settings::new(URL, "insula")
            })
            .err(),
            SettingsError::Claim,
        ),
    ] {
        assert_eq!(found, Some(expected));
    }
    for (url, fine) in [
        ("https://issuer.test", true),
        ("https://issuer.test:8443/a/b/", true),
        ("https://[::1]:8443", true),
        ("http://issuer.test", false),
        ("HTTPS://issuer.test", false),
        ("issuer.test", false),
        ("https://", false),
        ("https:///path", false),
        ("https://:443", false),
        ("https://user@issuer.test", false),
        ("https://issuer.test?x=y", false),
        ("https://issuer.test#x", false),
        ("https://issuer.test/a b", false),
        ("https://issuer.test/\n", false),
        ("", false),
    ] {
        let made = Issuer::try_from(Settings::new(url, "insula"));
        assert_eq!(made.is_ok(), fine, "{url}");
    }
}
