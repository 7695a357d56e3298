//! Managed identities, and workload identities that service accounts prove.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use insula_testkit::azure::{EXCHANGE_AUDIENCE, Proof};
use serde_json::{Value, json};

use crate::scene::{OPERATOR, group, id, rotate, senders};
use crate::world::{Running, Space, TENANT, World, ready, subscription};

/// The issuer that test servers name, without the part of a tenant.
const ISSUERS: &str = "https://insula.test";

#[tokio::test]
async fn r15_managed_identity_gets_its_tokens_from_the_metadata_service() -> anyhow::Result<()> {
    let world = World::start().await?;
    world.azure.assign_identity(TENANT, "machine");
    world.azure.assign_identity(TENANT, "unused");
    world
        .azure
        .add_subscription("sub-machine", TENANT, &["machine"]);
    world.namespace("team").await?;
    let host = world.azure.imds_endpoint();
    let settings = [
        ("AZURE_USE_MI", "1"),
        ("AZURE_SUBSCRIPTION_ID", "sub-machine"),
        ("AZURE_TENANT_ID", TENANT),
        ("AZURE_CLIENT_ID", "machine"),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", host.as_str()),
    ];
    let _operator = world.run("red-system", &settings).await?;
    let shop = group("team", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    let creator = world.azure.creator(&id("machine", "shop")).unwrap();
    assert_eq!(
        (creator.client.as_str(), &creator.proof),
        ("machine", &Proof::ManagedIdentity)
    );
    for call in world.azure.token_requests() {
        assert_eq!((call.client.as_str(), call.error), ("machine", None));
        assert_eq!(call.scope, world.azure.audience());
    }
    Ok(())
}

/// Creates a service account, and returns a token with its issuer and subject.
pub async fn service_account_token(
    space: &Space,
    namespace: &str,
    name: &str,
) -> anyhow::Result<(String, String, String)> {
    use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
    use k8s_openapi::api::core::v1::ServiceAccount;
    let object = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    });
    space.create(&object).await?;
    let accounts: kube::Api<ServiceAccount> =
        kube::Api::namespaced(space.client.clone(), namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            audiences: Some(vec![EXCHANGE_AUDIENCE.to_owned()]),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request(name, &kube::api::PostParams::default(), &request)
        .await?;
    let token = token
        .status
        .and_then(|status| status.token)
        .unwrap_or_default();
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap_or_default())?;
    let claims: Value = serde_json::from_slice(&payload)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok((token, text(&claims["iss"]), text(&claims["sub"])))
}

/// Creates the service account of a namespace, and returns the issuer and the subject of its
/// tokens.
async fn account(space: &Space, namespace: &str) -> anyhow::Result<(String, String)> {
    let (_, issuer, subject) = service_account_token(space, namespace, "aso-workload").await?;
    Ok((issuer, subject))
}

/// Returns the contents of a Secret that names a workload identity of a team.
fn workload(client: &str, team: &str) -> [(&'static str, String); 3] {
    [
        ("AZURE_SUBSCRIPTION_ID", subscription(team)),
        ("AZURE_TENANT_ID", TENANT.to_owned()),
        ("AZURE_CLIENT_ID", client.to_owned()),
    ]
}

async fn create_workload(
    space: &Space,
    namespace: &str,
    client: &str,
    team: &str,
) -> anyhow::Result<()> {
    let values = workload(client, team);
    let texts: Vec<_> = values.iter().map(|(k, v)| (*k, v.as_str())).collect();
    space.secret(namespace, "aso-credential", &texts).await
}

/// Lets Azure read the keys of the server.
pub fn trust_server(world: &World) {
    let authority = world.server.authority();
    world.azure.trust_issuers(authority.certificate_pem());
    world.azure.reach_issuers(ISSUERS, &world.server.url());
}

#[tokio::test]
async fn r23_workload_identity_is_proven_by_the_service_account_of_the_namespace()
-> anyhow::Result<()> {
    let world = World::start().await?;
    trust_server(&world);
    for namespace in ["red", "blue"] {
        world.namespace(namespace).await?;
        world
            .azure
            .add_subscription(&subscription(namespace), TENANT, &[namespace]);
    }
    let (issuer, subject) = account(&world, "red").await?;
    assert_eq!(subject, "system:serviceaccount:red:aso-workload");
    world
        .azure
        .add_federated_credential(TENANT, "red", &issuer, &subject);
    create_workload(&world, "red", "red", "red").await?;
    let _operator = world.run("azureoperator-system", &[]).await?;
    let shop = group("red", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    let creator = world.azure.creator(&id("red", "shop")).unwrap();
    let proof = Proof::Federated {
        issuer: issuer.clone(),
        subject: subject.clone(),
    };
    assert_eq!((creator.client.as_str(), creator.proof), ("red", proof));
    // Another namespace names the same client id, which is no secret.
    create_workload(&world, "blue", "red", "red").await?;
    let stolen = group("blue", "stolen");
    world.create(&stolen).await?;
    let found = world
        .await_ready(&stolen, "False", "IdentityNotFound")
        .await?;
    let message = ready(&found).unwrap()[3];
    for part in [
        "service account aso-workload does not exist in namespace blue",
        "create it",
    ] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    let (issuer, subject) = account(&world, "blue").await?;
    let found = world
        .await_ready(&stolen, "False", "InvalidCredentials")
        .await?;
    let message = ready(&found).unwrap()[3].to_owned();
    for part in [
        "AADSTS700213",
        issuer.as_str(),
        subject.as_str(),
        "federated credential",
    ] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    assert_eq!(world.azure.resource(&id("red", "stolen")), None);
    // With an identity of its own it works.
    world
        .azure
        .add_federated_credential(TENANT, "blue", &issuer, &subject);
    rotate(&world, "blue", "aso-credential", &workload("blue", "blue")).await?;
    world.await_ready(&stolen, "True", "Succeeded").await?;
    assert_eq!(
        senders(&world.azure, "PUT", &id("blue", "stolen")),
        ["blue"]
    );
    Ok(())
}

/// Runs an operator for all tenants.
async fn run_for_tenants(world: &World) -> anyhow::Result<Running> {
    world.namespace("azureoperator-system").await?;
    let mut operator = world.operator("azureoperator-system", &[])?;
    operator.shell.tenants = true;
    Ok(Running::new(world.client.clone(), operator))
}

#[tokio::test]
async fn r24_tenant_cannot_use_the_workload_identity_of_another_tenant() -> anyhow::Result<()> {
    let world = World::start_for_tenants().await?;
    trust_server(&world);
    world.azure.add_subscription("sub-t1", TENANT, &["t1"]);
    let (first, second) = (world.tenant("t1").await?, world.tenant("t2").await?);
    let mut issuers = Vec::new();
    for space in [&first, &second] {
        space.namespace("team").await?;
        let (issuer, subject) = account(space, "team").await?;
        assert_eq!(subject, "system:serviceaccount:team:aso-workload");
        issuers.push(issuer);
        create_workload(space, "team", "t1", "t1").await?;
    }
    assert_ne!(issuers[0], issuers[1]);
    let subject = "system:serviceaccount:team:aso-workload";
    world
        .azure
        .add_federated_credential(TENANT, "t1", &issuers[0], subject);
    let _operator = run_for_tenants(&world).await?;
    let (shop, stolen) = (group("team", "shop"), group("team", "stolen"));
    first.create(&shop).await?;
    second.create(&stolen).await?;
    let made = first.await_ready(&shop, "True", "Succeeded").await?;
    let operator = &made["metadata"]["annotations"][OPERATOR];
    assert_eq!(operator, "system/azureoperator-system");
    let found = second
        .await_ready(&stolen, "False", "InvalidCredentials")
        .await?;
    let message = ready(&found).unwrap()[3];
    for part in ["AADSTS700211", issuers[1].as_str(), subject] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    assert_eq!(world.azure.resource_ids(), [id("t1", "shop")]);
    // What t2 has cannot be used for t1, and the other way round.
    world.azure.add_subscription("sub-t2", TENANT, &["t2"]);
    world
        .azure
        .add_federated_credential(TENANT, "t2", &issuers[1], subject);
    let secret = crate::scene::secret("team", "aso-credential");
    let values: serde_json::Map<_, _> = workload("t2", "t2")
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect();
    second.patch(&secret, json!({"stringData": values})).await?;
    second.await_ready(&stolen, "True", "Succeeded").await?;
    assert_eq!(senders(&world.azure, "PUT", &id("t2", "stolen")), ["t2"]);
    let creator = world.azure.creator(&id("t2", "stolen")).unwrap();
    let issuer = issuers[1].clone();
    assert_eq!(
        creator.proof,
        Proof::Federated {
            issuer,
            subject: subject.to_owned()
        }
    );
    for (space, object) in [(&first, &shop), (&second, &stolen)] {
        space.delete(object).await?;
        space.await_gone(object).await?;
    }
    assert_eq!(world.azure.resource_ids(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn r24_global_credential_is_not_for_the_spaces_of_tenants() -> anyhow::Result<()> {
    let world = World::start_for_tenants().await?;
    world.team("red");
    world.namespace("azureoperator-system").await?;
    let own = crate::world::credential("red");
    let own: Vec<_> = own.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let mut operator = world.operator("azureoperator-system", &own)?;
    operator.shell.tenants = true;
    let _running = Running::new(world.client.clone(), operator);
    let tenant = world.tenant("t1").await?;
    tenant.namespace("team").await?;
    world.namespace("team").await?;
    let shop = group("team", "shop");
    tenant.create(&shop).await?;
    tenant.await_ready(&shop, "False", "NoCredentials").await?;
    let own = group("team", "own");
    world.create(&own).await?;
    world.await_ready(&own, "True", "Succeeded").await?;
    assert_eq!(world.azure.resource_ids(), [id("red", "own")]);
    Ok(())
}

#[tokio::test]
async fn r23_workload_identity_of_a_deleted_namespace_deletes_its_resources() -> anyhow::Result<()>
{
    let world = World::start().await?;
    trust_server(&world);
    world.namespace("red").await?;
    world
        .azure
        .add_subscription(&subscription("red"), TENANT, &["red"]);
    let (issuer, subject) = account(&world, "red").await?;
    world
        .azure
        .add_federated_credential(TENANT, "red", &issuer, &subject);
    create_workload(&world, "red", "red", "red").await?;
    let _operator = world.run("azureoperator-system", &[]).await?;
    let shop = group("red", "shop");
    world.create(&shop).await?;
    world.await_ready(&shop, "True", "Succeeded").await?;
    let namespace = crate::scene::namespace("red");
    world.delete(&namespace).await?;
    world.await_gone(&namespace).await?;
    assert_eq!(world.azure.resource_ids(), Vec::<String>::new());
    assert_eq!(senders(&world.azure, "DELETE", &id("red", "shop")), ["red"]);
    Ok(())
}
