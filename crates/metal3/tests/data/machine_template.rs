//! The cleaning mode of machines that were created from a template.

use insula_metal3::kinds::machine::{Metal3Machine, Metal3MachineTemplate};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::world::{Management, Running, log_to_test, settings};

const OURS: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

async fn machine(management: &Management, name: &str, annotations: Value) -> anyhow::Result<()> {
    let image = json!({"url": "http://images.test/i", "checksum": "c", "checksumType": "md5"});
    let mut metadata = json!({"name": name, "namespace": "team-a", "annotations": annotations});
    metadata["annotations"]["cluster.x-k8s.io/paused"] = json!("");
    management
        .put(&json!({
            "apiVersion": OURS, "kind": "Metal3Machine", "metadata": metadata,
            "spec": {"image": image, "automatedCleaningMode": "metadata"},
        }))
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_cleaning_mode_reaches_the_machines_of_the_template() -> anyhow::Result<()> {
    log_to_test();
    let management = Management::start().await?;
    let _running = Running::new(management.operator.clone(), settings());
    let mode = json!({"automatedCleaningMode": "metadata"});
    management.template("team-a", "t", mode).await?;
    let cloned = |name: &str, kind: &str| {
        json!({
            "cluster.x-k8s.io/cloned-from-name": name,
            "cluster.x-k8s.io/cloned-from-groupkind":
                format!("{kind}.infrastructure.cluster.x-k8s.io"),
        })
    };
    for (name, annotations) in [
        ("own", cloned("t", "Metal3MachineTemplate")),
        ("other", cloned("u", "Metal3MachineTemplate")),
        ("kind", cloned("t", "OtherTemplate")),
        ("alone", json!({})),
    ] {
        machine(&management, name, annotations).await?;
    }
    let mode = json!({"automatedCleaningMode": "disabled"});
    let change = json!({"spec": {"template": {"spec": mode}}});
    management
        .patch::<Metal3MachineTemplate>("team-a", "t", change)
        .await?;
    let is_disabled = |machine: &Metal3Machine| {
        machine.spec.automated_cleaning_mode.as_deref() == Some("disabled")
    };
    management.wait_until("team-a", "own", is_disabled).await?;
    let machines = management.api::<Metal3Machine>("team-a");
    for name in ["other", "kind", "alone"] {
        let machine = machines.get(name).await?;
        assert!(!is_disabled(&machine), "{name}");
        assert_eq!(
            machine.metadata.generation,
            Some(1),
            "{}",
            machine.name_any()
        );
    }
    Ok(())
}
