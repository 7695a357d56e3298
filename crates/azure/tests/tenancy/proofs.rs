//! Accounts of every sort, and what each of them proves itself with.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_dialer::AddressRules;
use insula_testkit::azure::{FakeAzure, Proof, TokenCall};
use serde_json::{Value, json};

use crate::identities::{service_account_token, trust_server};
use crate::scene::{group, id, secret};
use crate::world::{
    Running, TENANT, World, certificates, credential, ready, secret_of, subscription,
};

/// A certificate with its key, in PEM and in PKCS#12 with the password `insula`.
const PEM: &str = include_str!("../../src/entra/certificate/data/plain.pem");
const PKCS12: &[u8] = include_bytes!("../../src/entra/certificate/data/aes256.p12");

const OPERATOR: &str = "azureoperator-system";

/// Creates a namespace with a Secret that names an account of the same name, and a subscription of
/// its own at this Azure.
async fn namespace_with(
    (world, azure): (&World, &FakeAzure),
    name: &str,
    proof: &[(&str, &[u8])],
) -> anyhow::Result<()> {
    world.namespace(name).await?;
    azure.add_subscription(&subscription(name), TENANT, &[name]);
    let mut object = secret(name, "aso-credential");
    let [ids @ .., _] = credential(name);
    let ids = ids.iter().map(|(key, value)| (*key, value.as_bytes()));
    for (key, value) in ids.chain(proof.iter().copied()) {
        object["data"][key] = BASE64_STANDARD.encode(value).into();
    }
    world.create(&object).await.map(drop)
}

/// Creates a resource group in each namespace, and waits for them.
async fn create_groups(world: &World, namespaces: &[&str]) -> anyhow::Result<()> {
    for namespace in namespaces {
        world.create(&group(namespace, "shop")).await?;
    }
    for namespace in namespaces {
        let shop = group(namespace, "shop");
        world.await_ready(&shop, "True", "Succeeded").await?;
    }
    Ok(())
}

/// Asserts the proof behind every token of an account, and behind the resource that it has.
fn assert_proof(azure: &FakeAzure, client: &str, proof: &Proof) {
    let tokens = azure.token_requests();
    let tokens: Vec<&TokenCall> = tokens.iter().filter(|call| call.client == client).collect();
    assert!(!tokens.is_empty(), "{client}");
    for call in tokens {
        assert_eq!((&call.proof, call.error), (proof, None), "{client}");
    }
    let creator = azure.creator(&id(client, "shop")).unwrap();
    assert_eq!((creator.client.as_str(), &creator.proof), (client, proof));
}

#[tokio::test]
async fn r23_accounts_of_every_sort_prove_themselves_with_their_own_proof() -> anyhow::Result<()> {
    let world = World::start().await?;
    let elsewhere = FakeAzure::start().await?;
    trust_server(&world);
    world.namespace(OPERATOR).await?;
    let (token, issuer, subject) = service_account_token(&world, OPERATOR, "operator").await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("token");
    std::fs::write(&file, token)?;
    // The operator's own account and one of a namespace trust the operator's service account.
    for client in ["own", "relaxed"] {
        world
            .azure
            .add_federated_credential(TENANT, client, &issuer, &subject);
    }
    world
        .azure
        .add_subscription(&subscription("own"), TENANT, &["own"]);
    world.namespace("own").await?;
    let here = (&world, &world.azure);
    for client in ["pem", "pkcs12"] {
        world.azure.add_certificate(TENANT, client, PEM)?;
    }
    let certificate = "AZURE_CLIENT_CERTIFICATE";
    namespace_with(here, "pem", &[(certificate, PEM.as_bytes())]).await?;
    let password = ("AZURE_CLIENT_CERTIFICATE_PASSWORD", &b"insula"[..]);
    namespace_with(here, "pkcs12", &[(certificate, PKCS12), password]).await?;
    namespace_with(here, "relaxed", &[]).await?;
    // Another cloud, which a Secret names together with its client secret.
    elsewhere.add_secret(TENANT, "elsewhere", &secret_of("elsewhere"));
    let endpoints = elsewhere.settings();
    let mut named: Vec<_> = endpoints.iter().map(|(k, v)| (*k, v.as_bytes())).collect();
    // A token of the operator is not sent to endpoints that a Secret names.
    namespace_with((&world, &elsewhere), "greedy", &named).await?;
    let client_secret = secret_of("elsewhere");
    named.push(("AZURE_CLIENT_SECRET", client_secret.as_bytes()));
    namespace_with((&world, &elsewhere), "elsewhere", &named).await?;
    let own = subscription("own");
    let settings = [
        ("USE_WORKLOAD_IDENTITY_AUTH", "true"),
        ("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap()),
        ("AZURE_WORKLOAD_IDENTITY_AUTH_MODE", "relaxed"),
        ("ALLOW_MULTI_ENV_MANAGEMENT", "true"),
        ("AZURE_SUBSCRIPTION_ID", own.as_str()),
        ("AZURE_TENANT_ID", TENANT),
        ("AZURE_CLIENT_ID", "own"),
    ];
    let mut operator = world.operator(OPERATOR, &settings)?;
    operator
        .authorities
        .extend(certificates(elsewhere.ca_pem())?);
    operator.addresses = AddressRules {
        allow: vec!["127.0.0.0/8".parse()?],
        ..AddressRules::default()
    };
    let _running = Running::new(world.client.clone(), operator);
    create_groups(&world, &["own", "relaxed", "pem", "pkcs12", "elsewhere"]).await?;
    let of_operator = Proof::Federated { issuer, subject };
    assert_proof(&world.azure, "own", &of_operator);
    assert_proof(&world.azure, "relaxed", &of_operator);
    assert_proof(&world.azure, "pem", &Proof::Certificate);
    assert_proof(&world.azure, "pkcs12", &Proof::Certificate);
    assert_proof(&elsewhere, "elsewhere", &Proof::Secret);
    assert_eq!(elsewhere.resource_ids(), [id("elsewhere", "shop")]);
    let greedy = group("greedy", "shop");
    world.create(&greedy).await?;
    let found = world
        .await_ready(&greedy, "False", "InvalidCredentials")
        .await?;
    let message = ready(&found).unwrap()[3];
    assert!(message.contains("a token of the operator"), "{message}");
    let clients = elsewhere.token_requests().into_iter();
    let clients: Vec<_> = clients.map(|call| call.client).collect();
    assert!(
        clients.iter().all(|client| client == "elsewhere"),
        "{clients:?}"
    );
    assert_eq!(json!(world.azure.resource_ids()), expected());
    Ok(())
}

fn expected() -> Value {
    let names = ["own", "pem", "pkcs12", "relaxed"];
    names.map(|name| id(name, "shop")).to_vec().into()
}
