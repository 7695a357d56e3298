//! The definition of hosts that the tests use.

use insula_testkit::server::TestServer;
use serde_json::{Value, json};

use crate::scene::{MERGE, refused, success};

const HOSTS: &str = "/apis/metal3.io/v1alpha1/namespaces/default/baremetalhosts";

#[tokio::test]
async fn hosts_have_the_fields_that_the_bare_metal_operator_requires() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.system().await?;
    let definition = include_str!("../data/baremetalhosts.yaml");
    let definition: Value = serde_saphyr::from_str(definition)?;
    client.install(&[definition]).await?;
    let host = |spec: Value| {
        json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "node-0"}, "spec": spec,
        })
    };
    for (spec, problem) in [
        (json!({}), "spec.online: Required value"),
        (
            json!({"online": false, "bmc": {"address": "ipmi://h"}}),
            "spec.bmc.credentialsName: Required value",
        ),
    ] {
        let message = refused(client.post(HOSTS, &host(spec)).await?);
        assert!(message.contains(problem), "{message}");
    }
    let consumer = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "Metal3Machine", "name": "m", "namespace": "team-a"});
    let secret = json!({"name": "s", "namespace": "default"});
    let spec = json!({
        "online": true,
        "bmc": {"address": "ipmi://h", "credentialsName": "c"},
        "bootMACAddress": "00:00:5e:00:53:01",
        "consumerRef": consumer,
        "image": {"url": "http://h/i", "checksum": "c", "checksumType": "auto", "format": "raw"},
        "userData": secret, "metaData": secret, "networkData": secret,
    });
    let made = success(client.post(HOSTS, &host(spec.clone())).await?);
    let mut expected = spec;
    expected["automatedCleaningMode"] = "metadata".into();
    assert_eq!(made["spec"], expected);
    let path = format!("{HOSTS}/node-0/status");
    let status = json!({"status": {"provisioning": {"state": "available"}}});
    let message = refused(client.patch(&path, MERGE, &status).await?);
    for field in [
        "errorMessage",
        "operationalStatus",
        "poweredOn",
        "provisioning.ID",
    ] {
        let problem = format!("status.{field}: Required value");
        assert!(message.contains(&problem), "{message}");
    }
    let status = json!({
        "errorMessage": "", "operationalStatus": "OK", "poweredOn": true,
        "provisioning": {"state": "available", "ID": "i"},
        "hardware": {"hostname": "node-0", "nics": [
            {"name": "eth0", "mac": "00:00:5e:00:53:01", "ip": "192.0.2.7"},
        ]},
    });
    let found = client
        .patch(&path, MERGE, &json!({"status": status}))
        .await?;
    let mut expected = status;
    expected["errorCount"] = 0.into();
    expected["provisioningFailCount"] = 0.into();
    assert_eq!(success(found)["status"], expected);
    Ok(())
}
