//! Contents of Secrets, and the accounts that they are.

use super::*;
use crate::entra::account::{Account, Proof};
use crate::entra::cloud::DEFAULT_CLOUD;

fn shape() -> AccountShape {
    AccountShape {
        cloud: Cloud::named(DEFAULT_CLOUD).unwrap(),
        may_name_endpoints: false,
        managed_identities: ManagedIdentities::Any,
        shares_own_token: false,
        cleartext: Cleartext::Refused,
    }
}

const IDS: [(&str, &str); 3] = [
    (SUBSCRIPTION_ID, "s-1"),
    (TENANT_ID, "t-1"),
    (CLIENT_ID, "c-1"),
];
const STACK: [(&str, &str); 3] = [
    (RESOURCE_MANAGER, "https://arm.stack.example:8443/"),
    (AUDIENCE, "https://arm.stack.example/audience"),
    (AUTHORITY, "https://adfs.stack.example/adfs"),
];

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, Hidden> {
    let pairs = IDS.iter().chain(pairs);
    pairs
        .map(|(key, value)| ((*key).to_owned(), Hidden::new(*value)))
        .collect()
}

fn read(shape: &AccountShape, data: &BTreeMap<String, Hidden>) -> Result<Account, String> {
    let content = shape.read(data, None).map_err(|why| why.to_string())?;
    Account::of_content(&content.values, shape.cleartext).map_err(|error| error.to_string())
}

#[test]
fn first_key_decides_how_an_account_is_proved() {
    let secret = (CLIENT_SECRET, "s3cret\n");
    let certificate = (CERTIFICATE, "pem");
    let hidden = |text: &str| Hidden::new(text);
    for (pairs, expected) in [
        (&[secret, certificate][..], Proof::Secret(hidden("s3cret"))),
        (&[certificate], Proof::Certificate(hidden("pem"), None)),
        (
            &[
                certificate,
                (CERTIFICATE_PASSWORD, "p"),
                (AUTH_MODE, "podidentity"),
            ],
            Proof::Certificate(hidden("pem"), Some(hidden("p"))),
        ),
        (&[(AUTH_MODE, "PodIdentity")], Proof::ManagedIdentity),
        (&[(AUTH_MODE, "workloadidentity")], Proof::WorkloadIdentity),
        (&[(AUTH_MODE, "")], Proof::WorkloadIdentity),
        (&[], Proof::WorkloadIdentity),
    ] {
        let account = read(&shape(), &data(pairs)).unwrap();
        assert_eq!(account.proof, expected, "{pairs:?}");
        let ids = [&account.subscription, &account.tenant, &account.client_id];
        assert_eq!(ids, ["s-1", "t-1", "c-1"]);
        assert_eq!(account.cloud, shape().cloud);
    }
}

#[test]
fn unusable_contents_are_refused_with_the_reason() {
    let all =
        "AZURE_RESOURCE_MANAGER_ENDPOINT, AZURE_RESOURCE_MANAGER_AUDIENCE, AZURE_AUTHORITY_HOST";
    let some = |found: usize| format!("must specify ALL or NONE of {all} (found {found} of 3)");
    let table: [(&[(&str, &str)], String); 13] = [
        (
            &[(CLIENT_SECRET, "")],
            "has an empty AZURE_CLIENT_SECRET".to_owned(),
        ),
        (
            &[(CERTIFICATE, " \n")],
            "has an empty AZURE_CLIENT_CERTIFICATE".to_owned(),
        ),
        (
            &[(SUBSCRIPTION_ID, " ")],
            "lacks AZURE_SUBSCRIPTION_ID".to_owned(),
        ),
        (
            &[(TENANT_ID, ""), (CLIENT_ID, "")],
            "lacks AZURE_TENANT_ID and AZURE_CLIENT_ID".to_owned(),
        ),
        (
            &[(TENANT_ID, "../x")],
            "has an invalid AZURE_TENANT_ID".to_owned(),
        ),
        (
            &[(TENANT_ID, "..")],
            "has an invalid AZURE_TENANT_ID".to_owned(),
        ),
        (
            &[(SUBSCRIPTION_ID, "a/b")],
            "has an invalid AZURE_SUBSCRIPTION_ID".to_owned(),
        ),
        (
            &[(AUTH_MODE, "magic")],
            "has an AUTH_MODE that is neither podidentity nor workloadidentity".to_owned(),
        ),
        (
            &[(IDENTITY_FILE, "/etc/shadow")],
            "has AZURE_USER_ASSIGNED_IDENTITY_CREDENTIALS, which is not supported".to_owned(),
        ),
        (&STACK[..1], some(1)),
        (&STACK[1..], some(2)),
        (
            &STACK,
            format!("names endpoints ({all}), which is not allowed"),
        ),
        (
            &[(ADDITIONAL_TENANTS, "a,b,c,d")],
            "has AZURE_ADDITIONAL_TENANTS that are not up to 3 ids".to_owned(),
        ),
    ];
    for (pairs, expected) in table {
        assert_eq!(
            read(&shape(), &data(pairs)).map(drop),
            Err(expected),
            "{pairs:?}"
        );
    }
    let binary = BTreeMap::from([(CLIENT_ID.to_owned(), Hidden::new([0xff]))]);
    let why = shape().read(&binary, None).unwrap_err();
    assert_eq!(
        why.to_string(),
        "has a AZURE_CLIENT_ID that is not UTF-8 text"
    );
    let why = shape().read(&data(&[]), Some("x")).unwrap_err();
    assert_eq!(why.to_string(), "has no part \"x\"");
}

#[test]
fn managed_identity_of_a_secret_is_the_operators_own_or_none() {
    use ManagedIdentities::{Any, Own, Refused};
    let refused = |which: &str| {
        let mode = "has AUTH_MODE podidentity";
        Err(format!("{mode}, and {which} may not be used"))
    };
    let others = "other managed identities than the operator's own";
    for (managed_identities, expected) in [
        (Any, Ok(())),
        (Own("c-1".to_owned()), Ok(())),
        (Own("c-2".to_owned()), refused(others)),
        (Own(String::new()), refused(others)),
        (
            Refused,
            refused("managed identities of the operator's machine"),
        ),
    ] {
        let shape = AccountShape {
            managed_identities: managed_identities.clone(),
            ..shape()
        };
        let account = read(&shape, &data(&[(AUTH_MODE, "podidentity")]));
        assert_eq!(account.map(drop), expected, "{managed_identities:?}");
    }
}

#[test]
fn proofs_of_the_operator_are_not_for_endpoints_that_a_secret_names() {
    let shape = |shares_own_token| AccountShape {
        may_name_endpoints: true,
        shares_own_token,
        ..shape()
    };
    let own = ("AUTH_MODE", "podidentity");
    let secret = (CLIENT_SECRET, "s");
    for (proof, shares_own_token, is_accepted) in [
        (Some(secret), true, true),
        (Some((CERTIFICATE, "pem")), true, true),
        (None, false, true),
        (None, true, false),
        (Some(own), false, false),
    ] {
        let pairs: Vec<_> = STACK.iter().copied().chain(proof).collect();
        let account = read(&shape(shares_own_token), &data(&pairs));
        assert_eq!(account.is_ok(), is_accepted, "{proof:?} {shares_own_token}");
        if let Err(why) = account {
            assert!(why.contains("a token of the operator"), "{why}");
        }
        // Without endpoints, all of them may be used.
        let pairs: Vec<_> = proof.into_iter().collect();
        read(&shape(shares_own_token), &data(&pairs)).unwrap();
    }
}

#[test]
fn account_goes_to_the_endpoint_that_it_names_if_it_may() {
    let open = AccountShape {
        may_name_endpoints: true,
        ..shape()
    };
    let content = open.read(&data(&STACK), None).unwrap();
    let carried = content.carried.unwrap();
    assert_eq!(carried.endpoint.to_string(), "arm.stack.example:8443");
    assert_eq!(
        (carried.trust, carried.scope.as_deref()),
        (Trust::Verified, Some("s-1"))
    );
    let account = read(&open, &data(&STACK)).unwrap();
    assert_eq!(
        account.cloud.token_path("t-1"),
        "/adfs/t-1/oauth2/v2.0/token"
    );
    assert_eq!(
        account.cloud.scope(),
        "https://arm.stack.example/audience/.default"
    );
    let carried = shape().read(&data(&[]), None).unwrap().carried.unwrap();
    assert_eq!(carried.endpoint.to_string(), "management.azure.com:443");
    let cleartext = [(RESOURCE_MANAGER, "http://127.0.0.1:1"), STACK[1], STACK[2]];
    let refused = read(&open, &data(&cleartext)).unwrap_err();
    let expected = "has an invalid AZURE_RESOURCE_MANAGER_ENDPOINT: its scheme is not https";
    assert_eq!(refused, expected);
}

#[test]
fn normalized_contents_are_read_as_they_are() {
    let open = AccountShape {
        may_name_endpoints: true,
        ..shape()
    };
    let tenants = (ADDITIONAL_TENANTS, " a , ,b");
    let content = open
        .read(&data(&[tenants, STACK[0], STACK[1], STACK[2]]), None)
        .unwrap();
    assert_eq!(open.read(&content.values, None), Ok(content.clone()));
    let account = Account::of_content(&content.values, Cleartext::Refused).unwrap();
    assert_eq!(account.additional_tenants, ["a", "b"]);
    assert!(open.read(&open.sample(), None).is_ok());
    assert!(
        open.describe()
            .starts_with("AZURE_SUBSCRIPTION_ID, AZURE_TENANT_ID and")
    );
    assert!(Account::of_content(&data(&[]), Cleartext::Refused).is_err());
}

#[test]
fn managed_identity_needs_a_subscription_only() {
    let settings = |pairs: &[(&str, &str)]| {
        let hidden = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Hidden::new(*value)));
        shape()
            .read(&hidden.collect(), None)
            .map_err(|why| why.to_string())
    };
    let managed = (AUTH_MODE, "podidentity");
    let content = settings(&[IDS[0], managed]).unwrap();
    let account = Account::of_content(&content.values, Cleartext::Refused).unwrap();
    assert_eq!(
        (account.proof, account.client_id.as_str()),
        (Proof::ManagedIdentity, "")
    );
    let content = settings(&[IDS[0], IDS[2], managed]).unwrap();
    let account = Account::of_content(&content.values, Cleartext::Refused).unwrap();
    assert_eq!(account.client_id, "c-1");
    let content = settings(&[IDS[0], IDS[1], IDS[2], managed, (CLIENT_SECRET, "s")]).unwrap();
    assert_eq!(
        Ok(content),
        shape().read(&data(&[(CLIENT_SECRET, "s")]), None)
    );
    assert_eq!(
        settings(&[managed]),
        Err("lacks AZURE_SUBSCRIPTION_ID".to_owned())
    );
    let lacks = "lacks AZURE_TENANT_ID and AZURE_CLIENT_ID".to_owned();
    assert_eq!(settings(&[IDS[0], (TENANT_ID, "")]), Err(lacks));
}
