//! Protection of volumes and claims in use.

use insula_testkit::server::TestServer;
use serde_json::json;

use super::{create, until_gone};

#[tokio::test]
async fn claim_in_use_stays_until_the_pod_is_gone() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let core = "/api/v1/namespaces/default";
    for name in ["used", "unused"] {
        let claim = json!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}},
        });
        create(&client, &format!("{core}/persistentvolumeclaims"), claim).await?;
    }
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": "somewhere",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}],
        },
    });
    create(&client, &format!("{core}/pods"), pod).await?;
    for name in ["used", "unused"] {
        let path = format!("{core}/persistentvolumeclaims/{name}");
        assert_eq!(client.delete(&path).await?.status, 200);
    }
    until_gone(&client, &format!("{core}/persistentvolumeclaims/unused")).await?;
    let used = format!("{core}/persistentvolumeclaims/used");
    assert_eq!(client.get(&used).await?.status, 200);
    let pod = format!("{core}/pods/p?gracePeriodSeconds=0");
    assert_eq!(client.delete(&pod).await?.status, 200);
    until_gone(&client, &used).await
}

#[tokio::test]
async fn bound_volume_stays_until_it_is_released() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let volumes = "/api/v1/persistentvolumes";
    for name in ["bound", "unbound"] {
        let volume = json!({
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"}},
        });
        create(&client, volumes, volume).await?;
    }
    let bound = format!("{volumes}/bound");
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let status = format!("{bound}/status");
    assert_eq!(
        client
            .patch(&status, "merge", &phase("Bound"))
            .await?
            .status,
        200
    );
    assert_eq!(client.delete(&bound).await?.status, 200);
    assert_eq!(
        client.delete(&format!("{volumes}/unbound")).await?.status,
        200
    );
    until_gone(&client, &format!("{volumes}/unbound")).await?;
    assert_eq!(client.get(&bound).await?.status, 200);
    assert_eq!(
        client
            .patch(&status, "merge", &phase("Released"))
            .await?
            .status,
        200
    );
    until_gone(&client, &bound).await
}

#[tokio::test]
async fn attributes_class_in_use_stays_until_the_claim_is_gone() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let client = server.tenant("t1").await?;
    let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
    for name in ["used", "unused"] {
        let class = json!({
            "metadata": {"name": name}, "driverName": "x.io", "parameters": {"a": "b"},
        });
        create(&client, classes, class).await?;
    }
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": "used",
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    create(&client, claims, claim).await?;
    for name in ["used", "unused"] {
        let deleted = client.delete(&format!("{classes}/{name}")).await?;
        assert_eq!(deleted.status, 200, "{}", deleted.text());
    }
    until_gone(&client, &format!("{classes}/unused")).await?;
    let used = format!("{classes}/used");
    assert_eq!(client.get(&used).await?.status, 200);
    assert_eq!(client.delete(&format!("{claims}/c")).await?.status, 200);
    until_gone(&client, &used).await
}
