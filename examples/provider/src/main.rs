//! Runs the example: `example-provider manifests [--tenants]` prints what to install,
//! `example-provider run [--tenants]` runs the operator.

use std::io::Write;

use example_provider::install::manifests;
use example_provider::{operate, settings};
use kube::Client;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let tenants = arguments.iter().any(|argument| argument == "--tenants");
    match arguments.first().map(String::as_str) {
        Some("manifests") => {
            let objects = manifests(tenants);
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
            std::io::stdout().write_all(format!("{list:#}\n").as_bytes())?;
        }
        Some("run") => {
            let client = Client::try_default().await?;
            let stop = async { drop(tokio::signal::ctrl_c().await) };
            operate(client, Vec::new(), settings(tenants), stop).await;
        }
        _ => anyhow::bail!("expected `manifests` or `run`, and optionally `--tenants`"),
    }
    Ok(())
}
