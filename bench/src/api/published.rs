//! Hundreds of large definitions, such as all of an Azure Service Operator release, which the
//! system publishes to all tenants: the memory of the server, and one tenant that reads all
//! documents and uses a kind.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::azure::start_with_webhooks;
use super::client::Client;
use super::kubeconfig::Kubeconfig;
use super::server::{Program, Server};
use super::{kinds, tenants};
use crate::figures::Figures;
use crate::report::{Unit, grouped, progress, table};

/// The annotation that publishes a definition.
const PUBLISHED: &str = "multi-tenancy.k8s.io/published";
/// The kind that the tenant uses.
const GROUPS: &str = "resources.azure.com/v1api20200601";
/// Tenants that share the definitions.
const TENANTS: usize = 1_000;
/// How long freed memory takes to return to the system.
const SETTLING: Duration = Duration::from_secs(10);

/// Measures with the definitions in the files of a folder, as `tools/asogen/generate --released`
/// writes them.
pub async fn measure(program: &Program, folder: &Path) -> Result<Figures> {
    let definitions = read(folder)?;
    let length: usize = definitions.iter().map(|it| it.to_string().len()).sum();
    let settings = tempfile::tempdir()?;
    let (program, server) = start_with_webhooks(program, settings.path())?;
    let mut figures = Figures::default()
        .with("kinds", definitions.len() as f64)
        .with("length", length as f64)
        .with("empty", server.subject.resident()?);
    progress(&format!("{} definitions", definitions.len()));
    let client = server.subject.connect(8).await?;
    let begun = Instant::now();
    kinds::install(&client, &definitions).await?;
    figures = figures.with("served", begun.elapsed().as_secs_f64());
    drop(definitions);
    figures = figures.and(memory(&server, "installed").await?);
    tenants::create(&server.subject, &client, 0, tenants::FEW).await?;
    let grown = tenants::create(&server.subject, &client, tenants::FEW, TENANTS).await?;
    figures = figures
        .with("tenant grown", grown.get("grown").context("a figure")?)
        .and(use_as_tenant(&server).await?)
        .and(memory(&server, "used").await?);
    let used = figures.get("used resident").context("a figure")?;
    figures = figures.with("ratio", used / length as f64);
    let server = server.restart(&program)?;
    figures = figures
        .with("restart", server.ready_after.as_secs_f64())
        .and(memory(&server, "restarted").await?);
    server.stop()?;
    Ok(figures.under("published"))
}

/// Returns the definitions of a folder, annotated to be published.
fn read(folder: &Path) -> Result<Vec<Value>> {
    let files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let definitions = files.map(|file| {
        let mut definition: Value = serde_json::from_slice(&fs::read(file?.path())?)?;
        definition["metadata"]["annotations"][PUBLISHED] = "true".into();
        Ok(definition)
    });
    let definitions: Result<Vec<_>> = definitions.collect();
    let definitions = definitions?;
    ensure!(
        !definitions.is_empty(),
        "no definitions in {}",
        folder.display()
    );
    Ok(definitions)
}

/// Returns the memory once the server is idle, and the most until then.
async fn memory(server: &Server, when: &str) -> Result<Figures> {
    server.subject.wait_until_idle().await?;
    tokio::time::sleep(SETTLING).await;
    Ok(Figures::default()
        .with(&format!("{when} resident"), server.subject.resident()?)
        .with(&format!("{when} most"), server.subject.most_resident()?))
}

/// Reads discovery and all OpenAPI documents as a user of a tenant, and creates an object.
async fn use_as_tenant(server: &Server) -> Result<Figures> {
    progress("one tenant reads all documents");
    let kubeconfig = server.kubeconfig_text_of(&tenants::name(0), "admin", &[])?;
    let user = Client::connect(&Kubeconfig::parse(&kubeconfig)?, 1).await?;
    let begun = Instant::now();
    let discovery = user.body("/apis").await?.len();
    let discovered = begun.elapsed();
    let index: Value = serde_json::from_slice(&user.body("/openapi/v3").await?)?;
    let paths = index["paths"].as_object().context("an index")?;
    let begun = Instant::now();
    let mut documents = 0;
    for path in paths.values() {
        let url = path["serverRelativeURL"].as_str().context("an address")?;
        documents += user.body(url).await?.len();
    }
    let read = begun.elapsed();
    let begun = Instant::now();
    let whole = user.body("/openapi/v2").await?.len();
    let read_whole = begun.elapsed();
    create(&user).await?;
    Ok(Figures::default()
        .with("discovery length", discovery as f64)
        .with("discovery", discovered.as_secs_f64())
        .with("documents length", documents as f64)
        .with("documents", read.as_secs_f64())
        .with("whole length", whole as f64)
        .with("whole", read_whole.as_secs_f64()))
}

async fn create(user: &Client) -> Result<()> {
    let object = json!({
        "apiVersion": GROUPS, "kind": "ResourceGroup", "metadata": {"name": "shop"},
        "spec": {"location": "westeurope"},
    });
    let path = format!("/apis/{GROUPS}/namespaces/default/resourcegroups");
    let body = Some(object.to_string().into());
    let created = user.call(Method::POST, &path, body).await?;
    created.expect(StatusCode::CREATED)
}

/// Prints the figures, unless they were not measured.
pub fn print(figures: &Figures) {
    const LINES: [(&str, &str, Unit); 17] = [
        ("length of the definitions", "length", Unit::Bytes),
        ("served after", "served", Unit::Time),
        ("memory before", "empty", Unit::Bytes),
        (
            "memory with the definitions",
            "installed resident",
            Unit::Bytes,
        ),
        ("most until then", "installed most", Unit::Bytes),
        ("memory of each tenant", "tenant grown", Unit::Kibibytes),
        ("discovery by a tenant", "discovery", Unit::Time),
        ("its length", "discovery length", Unit::Bytes),
        ("OpenAPI v3, all documents", "documents", Unit::Time),
        ("their length", "documents length", Unit::Bytes),
        ("OpenAPI v2", "whole", Unit::Time),
        ("its length", "whole length", Unit::Bytes),
        ("memory after that", "used resident", Unit::Bytes),
        ("beside the definitions' length", "ratio", Unit::Ratio),
        ("most until then", "used most", Unit::Bytes),
        ("ready after a restart", "restart", Unit::Time),
        ("memory after it", "restarted resident", Unit::Bytes),
    ];
    let Some(kinds) = figures.get("published kinds") else {
        return;
    };
    let rows = LINES.iter().filter_map(|(what, figure, unit)| {
        let value = figures.get(&format!("published {figure}"))?;
        Some(vec![(*what).to_owned(), unit.format(value)])
    });
    let title = format!(
        "{} definitions, published to {} tenants",
        kinds,
        grouped(TENANTS)
    );
    table(&title, &["what", "measured"], &rows.collect::<Vec<_>>());
}
