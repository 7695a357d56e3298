//! The settings Secret, read and watched with the rights of a tenant's operator.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use insula_azure::manifests::Operators;
use insula_azure::settings::Settings;
use insula_azure::settings_secret::SettingsSecret;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::scene::Scene;

const SECRETS: &str = "/api/v1/namespaces/acme-system/secrets";

fn secret(name: &str, pairs: &[(&str, &str)]) -> Value {
    let data = pairs.iter().map(|(key, value)| {
        let value = BASE64_STANDARD.encode(value);
        ((*key).to_owned(), value)
    });
    let data: BTreeMap<_, _> = data.collect();
    json!({"metadata": {"name": name}, "data": data})
}

fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = [
        ("POD_NAMESPACE", "acme-system"),
        ("AZURE_OPERATOR_MODE", "watchers"),
        ("AZURE_TARGET_NAMESPACES", "a1"),
    ];
    let all = all.iter().chain(pairs);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Waits for settings.
async fn wait(
    settings: &mut watch::Receiver<Settings>,
    is_so: impl FnMut(&Settings) -> bool,
) -> Settings {
    let found = tokio::time::timeout(Duration::from_secs(30), settings.wait_for(is_so));
    found.await.unwrap().unwrap().clone()
}

#[tokio::test]
async fn r02_settings_follow_the_secret_and_invalid_ones_are_ignored() {
    let scene = Scene::new(Operators::PerTenant).await.unwrap();
    let client = scene.kube("acme-system").await.unwrap();
    let (source, parsed) = SettingsSecret::open(&client, environment(&[]))
        .await
        .unwrap();
    assert_eq!(parsed.settings.credential, None);
    let (sender, mut settings) = watch::channel(parsed.settings);
    let following = tokio::spawn(source.follow(sender));

    let old = secret(
        "aso-controller-settings",
        &[("AZURE_USER_AGENT_SUFFIX", "v2")],
    );
    scene.system.post(SECRETS, &old).await.unwrap();
    let suffix = |suffix: &'static str| {
        move |settings: &Settings| settings.user_agent_suffix.as_deref() == Some(suffix)
    };
    wait(&mut settings, suffix("v2")).await;

    // The Secret of the first name takes precedence over that of Azure Service Operator v2.
    let name = "azureoperatorsettings";
    let new = secret(
        name,
        &[
            ("AZURE_USER_AGENT_SUFFIX", "v1"),
            ("AZURE_TARGET_NAMESPACES", "a1,a2"),
        ],
    );
    scene.system.post(SECRETS, &new).await.unwrap();
    let found = wait(&mut settings, suffix("v1")).await;
    assert_eq!(found.target_namespaces.to_string(), "a1,a2");

    let path = format!("{SECRETS}/{name}");
    for text in ["never-ever", "bad"] {
        let invalid = secret(name, &[("AZURE_SYNC_PERIOD", text)]);
        scene.system.put(&path, &invalid).await.unwrap();
    }
    let valid = secret(name, &[("AZURE_USER_AGENT_SUFFIX", "v3")]);
    scene.system.put(&path, &valid).await.unwrap();
    let found = wait(&mut settings, |found| !suffix("v1")(found)).await;
    assert_eq!(found.user_agent_suffix.as_deref(), Some("v3"));
    assert_eq!(found.target_namespaces.to_string(), "a1");

    // Without a Secret the former settings stay: the defaults may be wider.
    for name in ["aso-controller-settings", name] {
        let path = format!("{SECRETS}/{name}");
        scene.system.delete(&path).await.unwrap();
    }
    let last = secret(name, &[("AZURE_USER_AGENT_SUFFIX", "v4")]);
    scene.system.post(SECRETS, &last).await.unwrap();
    let found = wait(&mut settings, |found| !suffix("v3")(found)).await;
    assert_eq!(found.user_agent_suffix.as_deref(), Some("v4"));
    following.abort();
}

#[tokio::test]
async fn variable_that_was_taken_from_the_secret_does_not_outlive_it() {
    let scene = Scene::new(Operators::PerTenant).await.unwrap();
    let client = scene.kube("acme-system").await.unwrap();
    let name = "azureoperatorsettings";
    let pairs = [
        ("AZURE_USER_AGENT_SUFFIX", "s"),
        ("AZURE_SYNC_PERIOD", "5m"),
    ];
    let created = scene
        .system
        .post(SECRETS, &secret(name, &pairs))
        .await
        .unwrap();
    assert_eq!(created.status, 201);
    // The pod was started with the values of the Secret.
    let (source, parsed) = SettingsSecret::open(&client, environment(&pairs))
        .await
        .unwrap();
    assert_eq!(parsed.settings.sync_period, Some(Duration::from_secs(300)));
    let (sender, mut settings) = watch::channel(parsed.settings);
    let following = tokio::spawn(source.follow(sender));
    let path = format!("{SECRETS}/{name}");
    scene.system.put(&path, &secret(name, &[])).await.unwrap();
    let found = wait(&mut settings, |found| found.user_agent_suffix.is_none()).await;
    assert_eq!(found.sync_period, Some(Duration::from_secs(3600)));
    following.abort();
}
