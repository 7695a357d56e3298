//! Data of machines that the operator reconciles, up to the provisioned host.

use insula_metal3::ipam::kinds::{IPAddress, IPClaim};
use insula_metal3::kinds::data::Metal3Data;
use insula_metal3::kinds::data_claim::Metal3DataClaim;
use insula_metal3::kinds::data_template::Metal3DataTemplate;
use insula_metal3::kinds::machine::Metal3Machine;
use insula_testkit::bare_metal::FakeBareMetalOperator;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::scene::{data_template, mac, network_data, pool, secrets, serve_hosts, spec};
use crate::world::{Management, Running, Space, World, eventually, log_to_test, settings};

/// Where the hosts of a machine are.
struct Hosts<'a> {
    space: &'a Space,
    bare_metal: &'a FakeBareMetalOperator,
    namespace: &'a str,
}

/// Lets a machine get a host with rendered data, and deletes it.
async fn live(management: &Management, hosts: &Hosts<'_>, spec_of: Value) -> anyhow::Result<()> {
    let pool_namespace = hosts.namespace;
    hosts.space.host(pool_namespace, "h0", json!({})).await?;
    management.cluster("team-a", "prod", spec_of).await?;
    data_template(management, "team-a", "nodes", spec()).await?;
    pool(management, "team-a", "net", 9, json!({})).await?;
    let template = json!({"dataTemplate": {"name": "nodes"}});
    management.template("team-a", "t", template).await?;
    management.machine("team-a", "prod", "m0", "t").await?;
    hosts
        .space
        .wait_for_host(pool_namespace, "h0", "provisioned")
        .await?;
    let mac = mac(hosts.space, pool_namespace, "h0").await?;
    let found = hosts.bare_metal.data(&format!("{pool_namespace}/h0"));
    let found = found.unwrap_or_default();
    let metadata = format!(
        "host: h0\nindex: \"0\"\nip: 10.0.0.1\nlocal-hostname: m0\nmac: \"{mac}\"\nmachine: m0\n\
         namespace: team-a\nproviderid: team-a/h0/m0\nrole: node\n"
    );
    assert_eq!(found.meta_data, Some(metadata));
    assert_eq!(found.network_data, Some(network_data("10.0.0.1", &mac)));
    let bootstrap = "#cloud-config\n# team-a/m0\n".to_owned();
    assert_eq!(found.user_data, Some(bootstrap));

    // The data is next to the machine, and the Secrets are next to the host.
    let machine: Metal3Machine = management.api("team-a").get("m0").await?;
    let status = machine.status.unwrap_or_default();
    let secret = |name: &str| json!({"name": name, "namespace": pool_namespace});
    assert_eq!(
        json!([status.rendered_data, status.meta_data, status.network_data]),
        json!([
            {"name": "nodes-0", "namespace": "team-a"},
            secret("m0-metadata"),
            secret("m0-networkdata"),
        ])
    );
    let user_data = status.user_data.unwrap_or_default();
    assert_eq!(user_data.namespace.as_deref(), Some(pool_namespace));
    let data: Metal3Data = management.api("team-a").get("nodes-0").await?;
    assert_eq!(
        json!([data.spec.meta_data, data.spec.network_data]),
        json!([secret("m0-metadata"), secret("m0-networkdata")])
    );
    for name in ["m0-metadata", "m0-networkdata"] {
        hosts.space.api::<Secret>(pool_namespace).get(name).await?;
    }

    management
        .delete::<insula_capi::Machine>("team-a", "m0")
        .await?;
    management
        .wait_until_gone::<Metal3Machine>("team-a", "m0")
        .await?;
    management
        .wait_until_gone::<Metal3Data>("team-a", "nodes-0")
        .await?;
    hosts
        .space
        .wait_for_host(pool_namespace, "h0", "available")
        .await?;
    let claims = management.api::<Metal3DataClaim>("team-a");
    let address_claims = management.api::<IPClaim>("team-a");
    let addresses = management.api::<IPAddress>("team-a");
    eventually(async || {
        let all = ListParams::default();
        let left = claims.list(&all).await?.items.len()
            + address_claims.list(&all).await?.items.len()
            + addresses.list(&all).await?.items.len();
        Ok((left == 0).then_some(()))
    })
    .await?;
    let is_free = |template: &Metal3DataTemplate| {
        let status = template.status.as_ref();
        status.is_some_and(|status| status.indexes.is_empty())
    };
    management.wait_until("team-a", "nodes", is_free).await?;
    eventually(async || {
        let left = secrets(hosts.space, pool_namespace).await?;
        let is_left = left.iter().any(|name| name != "m0-bootstrap");
        Ok((!is_left).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn s04_host_next_to_the_machine_is_provisioned_with_rendered_data() -> anyhow::Result<()> {
    log_to_test();
    let management = Management::start().await?;
    let bare_metal = serve_hosts(&management).await?;
    let _running = Running::new(management.operator.clone(), settings());
    let hosts = Hosts {
        space: &management,
        bare_metal: &bare_metal,
        namespace: "team-a",
    };
    live(&management, &hosts, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn s03_r21_r22_host_of_another_server_is_provisioned_with_rendered_data() -> anyhow::Result<()>
{
    let world = World::new().await?;
    let _running = world.start();
    world
        .identity("team-a", "hosts", ("user-a", "pool-a"))
        .await?;
    let hosts = Hosts {
        space: &world.hosts,
        bare_metal: &world.hosts.bare_metal,
        namespace: "pool-a",
    };
    let identity = json!({"identityRef": {"name": "hosts"}});
    live(&world.management, &hosts, identity).await?;
    // No other user has read or written Secrets and hosts.
    let user = world.hosts.user_name("user-a");
    assert_eq!(world.hosts.users_of("secrets")?, [user.clone()].into());
    assert_eq!(world.hosts.users_of("baremetalhosts")?, [user].into());
    Ok(())
}
