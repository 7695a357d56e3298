//! The fake Azure as a process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use http::Method;
use http::header::AUTHORIZATION;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::{CLIENT, GROUP, SUBSCRIPTION, TENANT, send};

/// Starts the process, and reads the lines that it prints.
fn start(log: &std::path::Path) -> (Child, BTreeMap<String, String>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fake-azure"))
        .args([
            "--subscription",
            &format!("{TENANT}/{SUBSCRIPTION}={CLIENT}"),
        ])
        .args(["--secret", &format!("{TENANT}/{CLIENT}=sesame")])
        .arg("--log")
        .arg(log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(6);
    let lines = lines.map(|line| {
        let line = line.unwrap();
        let (name, value) = line.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    });
    let lines = lines.collect();
    (child, lines)
}

#[tokio::test]
async fn process_serves_until_its_input_closes() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let (mut child, lines) = start(&log);
    let ca = std::fs::read_to_string(&lines["FAKE_AZURE_CA_FILE"]).unwrap();
    let authority = &lines["AZURE_AUTHORITY_HOST"];
    let audience = &lines["AZURE_RESOURCE_MANAGER_AUDIENCE"];
    let form = format!(
        "client_id={CLIENT}&grant_type=client_credentials&client_secret=sesame&scope={audience}/.default"
    );
    let url = format!("{authority}{TENANT}/oauth2/v2.0/token");
    let answer = send(&ca, Method::POST, &url, &[], form).await.unwrap();
    let token = answer.json()["access_token"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    let url = format!(
        "{}{GROUP}?api-version=2020-06-01",
        lines["AZURE_RESOURCE_MANAGER_ENDPOINT"]
    );
    let headers = [(AUTHORIZATION.as_str(), bearer.as_str())];
    let body = json!({"location": "westus2"}).to_string();
    let created = send(&ca, Method::PUT, &url, &headers, body).await.unwrap();
    assert_eq!(created.status, 201);
    let control = &lines["FAKE_AZURE_CONTROL"];
    let url = format!("{control}/resources");
    let resources = send("", Method::GET, &url, &[], String::new());
    let resources = resources.await.unwrap().json();
    assert_eq!(resources[0]["id"], GROUP);
    assert_eq!(resources[0]["createdBy"]["client"], CLIENT);
    let url = format!("{control}/applications");
    let added = json!({"tenant": TENANT, "client": "late", "secret": "sesame"}).to_string();
    let added = send("", Method::POST, &url, &[], added).await.unwrap();
    assert_eq!(added.status, 204);
    let incomplete = send("", Method::POST, &url, &[], "{}".to_owned())
        .await
        .unwrap();
    assert_eq!(
        (incomplete.status, &incomplete.json()["error"]),
        (400, &json!("tenant is missing"))
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(
        !logged.contains("sesame") && !logged.contains(&token),
        "{logged}"
    );
    let logged: Vec<Value> = logged
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&logged[0]["service"], &logged[0]["proof"]),
        (&json!("token"), &json!("secret"))
    );
    assert_eq!(
        (&logged[1]["caller"]["client"], &logged[1]["status"]),
        (&json!(CLIENT), &json!(201))
    );
}

#[test]
fn process_ends_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, lines) = start(&folder.path().join("log"));
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGTERM,
    )
    .unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!std::path::Path::new(&lines["FAKE_AZURE_CA_FILE"]).exists());
}
