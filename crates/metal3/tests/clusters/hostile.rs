//! Kubeconfigs that would make the operator run a program, read a file, or ask another server.

use serde_json::{Value, json};

use crate::basics::{identity, problem};
use crate::world::{Gate, World};

const RUNS: &str = "it would run a program in the operator";
const READS: &str = "it names a file of the operator; put the content into the kubeconfig";
const REDIRECTS: &str = "it would send requests to another server";

#[tokio::test]
async fn x09_kubeconfig_runs_no_program_and_reads_no_file() -> anyhow::Result<()> {
    let world = World::new().await?;
    let _running = world.start();
    let management = &world.management;
    let folder = std::env::temp_dir().join(format!("insula-x09-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (marker, file) = (folder.join("marker"), folder.join("file"));
    std::fs::write(&file, world.hosts.token("user-a")?)?;
    let listener = Gate::closed(world.hosts.server.address()).await?;
    let mut base = world.hosts.kubeconfig("user-a", "pool-a")?;
    base["clusters"][0]["cluster"]["server"] = listener.url().into();
    let program = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "touch", "args": [marker],
    });
    let user = |change: Value| {
        let mut file = base.clone();
        file["users"][0]["user"] = change;
        file
    };
    let cluster = |field: &str, value: &Value| {
        let mut file = base.clone();
        file["clusters"][0]["cluster"][field] = value.clone();
        file
    };
    let path = json!(file);
    let mut unused = base.clone();
    let other = json!({"name": "other", "user": {"exec": program}});
    unused["users"].as_array_mut().unwrap().push(other);
    let provider = json!({"name": "gcp", "config": {"cmd-path": "touch"}});
    let cases = [
        ("one", user(json!({"exec": program})), "exec", RUNS),
        (
            "two",
            user(json!({"auth-provider": provider})),
            "auth-provider",
            RUNS,
        ),
        (
            "three",
            user(json!({"tokenFile": path})),
            "tokenFile",
            READS,
        ),
        (
            "four",
            user(json!({"token": "t", "tokenFile": path})),
            "tokenFile",
            READS,
        ),
        (
            "five",
            user(json!({"client-certificate": path, "client-key-data": "a2V5"})),
            "client-certificate",
            READS,
        ),
        (
            "six",
            user(json!({"client-certificate-data": "a2V5", "client-key": path})),
            "client-key",
            READS,
        ),
        (
            "seven",
            cluster("certificate-authority", &path),
            "certificate-authority",
            READS,
        ),
        (
            "eight",
            cluster("proxy-url", &json!(listener.url())),
            "proxy-url",
            REDIRECTS,
        ),
        ("nine", unused, "exec", RUNS),
    ];
    for (name, kubeconfig, ..) in &cases {
        management.identity("team-a", name, kubeconfig).await?;
        management.cluster("team-a", name, identity(name)).await?;
    }
    for (name, _, field, why) in &cases {
        let message = problem(management, "team-a", name, "IdentityKubeconfigInvalid").await?;
        let place = match *name {
            "nine" => "a user that no context names",
            "seven" | "eight" => "the cluster of context \"hosts\"",
            _ => "the user of context \"hosts\"",
        };
        let expected = format!(
            "the Secret {name} uses {field} in {place}, which is not allowed: {why}: correct the \
             Secret"
        );
        assert_eq!(message, expected);
    }
    assert!(!marker.exists());
    assert_eq!(listener.connections(), 0);
    // The listener would have noticed: a kubeconfig without tricks reaches it.
    management.identity("team-a", "plain", &base).await?;
    management
        .cluster("team-a", "plain", identity("plain"))
        .await?;
    listener.wait_for_connection().await?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
