//! Tenant isolation: another tenant's objects are answered as if they did not exist. The checklist,
//! and the test that proves each line, is `docs/requirements/isolation.md`.

#[path = "../support/fixtures.rs"]
#[expect(dead_code, reason = "other programs use the rest")]
mod fixtures;
#[path = "../support/golden.rs"]
mod golden;
#[path = "../support/principals.rs"]
mod principals;
#[path = "../support/routes.rs"]
mod routes;
#[path = "../support/samples.rs"]
mod samples;

mod addresses;
mod custom_resources;
mod expensive_kinds;
mod history;
mod identity;
mod in_process;
mod interference;
mod neighbours;
mod nodes;
mod order;
mod own_paths;
mod replaced_trust;
mod revocation;
mod revoked_credentials;
mod revoked_in_flight;
mod roles;
mod side_channels;
mod subresources;
mod sweep;
mod tenant_deletion;
mod webhooks;
mod writes;

use std::fs;
use std::path::{Path, PathBuf};

use fixtures::{named, names};
use insula_kinds::{Kind, kinds};
use insula_testkit::server::{Answer, Client};
use samples::{api, sample};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The body without the names that the caller itself sent.
fn body_without(answer: &Answer, names: &[&str]) -> String {
    let mut text = answer.text();
    for name in names {
        text = text.replace(&format!("\\\"{name}\\\""), "@");
        text = text.replace(&format!("\"name\":\"{name}\""), "@");
    }
    text
}

/// Polls `path` until the response satisfies `wanted`.
async fn until(
    client: &Client,
    path: &str,
    wanted: impl Fn(&Answer) -> bool,
) -> anyhow::Result<Answer> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let answer = client.get(path).await?;
        if wanted(&answer) {
            return Ok(answer);
        }
        anyhow::ensure!(
            tokio::time::Instant::now() < deadline,
            "{path}: {}",
            answer.text()
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Creates an object of every kind in the client's space and returns their paths.
async fn create_all_kinds(
    client: &Client,
    is_system: bool,
) -> anyhow::Result<Vec<(&'static Kind, String)>> {
    let mut created = Vec::new();
    for (_, kind) in kinds().iter() {
        if !kind.supports("create") || !kind.supports("get") || (kind.system_only && !is_system) {
            continue;
        }
        let mut object = sample(kind)?;
        if kind.storage()
            != kinds()
                .find(&kind.group, &kind.version, &kind.resource)
                .expect("itself")
        {
            let name = object["metadata"]["name"].as_str().unwrap_or("");
            object["metadata"]["name"] = format!("{name}-too").into();
        }
        let collection = match kind.namespaced() {
            true => format!("{}/namespaces/default/{}", api(kind), kind.resource),
            false => format!("{}/{}", api(kind), kind.resource),
        };
        let answer = client.post(&collection, &object).await?;
        anyhow::ensure!(answer.status == 201, "{}: {}", kind.kind, answer.text());
        let name = object["metadata"]["name"].as_str().unwrap_or("");
        created.push((kind, format!("{collection}/{name}")));
    }
    Ok(created)
}

/// The checklist stays true: every test that it cites exists.
#[test]
fn every_test_in_the_checklist_exists() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checklist = fs::read_to_string(root.join("docs/requirements/isolation.md"))?;
    let lines = checklist.lines().filter(|line| line.starts_with("| I-"));
    let mut numbers = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        numbers.push(cells[1]);
        let mut file = PathBuf::new();
        for cited in cells[3].split('`').skip(1).step_by(2) {
            let (path, test) = match cited.rsplit_once("::") {
                Some((path, test)) => (Some(path), test),
                None if cited.contains(['/', '.']) => (Some(cited), ""),
                None => (None, cited),
            };
            if let Some(path) = path {
                let folder = match path.starts_with("crates/") {
                    true => root.clone(),
                    false => root.join("crates/apiserver/tests/isolation"),
                };
                let suffix = if path.contains('.') { "" } else { ".rs" };
                file = folder.join(format!("{path}{suffix}"));
                anyhow::ensure!(file.exists(), "{}: {cited}", cells[1]);
            }
            if cells[3].contains("column") && test == "anonymous" || test.is_empty() {
                continue;
            }
            let name = test
                .strip_suffix('…')
                .unwrap_or(&format!("{test}("))
                .to_owned();
            let found = fs::read_to_string(&file)?.contains(&format!("fn {name}"));
            anyhow::ensure!(found, "{}: {cited}", cells[1]);
        }
    }
    let expected: Vec<String> = (1..=47).map(|number| format!("I-{number:02}")).collect();
    assert_eq!(numbers, expected);
    Ok(())
}
