//! Differential tests: the same requests to a real kube-apiserver and to Insula.
//!
//! The responses of the real one are recorded in `recorded/`, and Insula must give the same, as the
//! system and as a tenant; this needs no kube-apiserver. Where one is installed (`make peers`),
//! both are called, and the recording must match its responses. `make record` updates it.
//! `differences.yaml` lists the intentional differences.

mod answer;
mod case;
mod compare;
mod recording;
mod runner;

use insula_e2e::kube_apiserver::KubeApiserver;
use insula_testkit::server::TestServer;

use crate::answer::Recorded;
use crate::case::Category;
use crate::compare::{Intended, classify, differences};

#[tokio::test]
async fn system_space_matches_the_recording() {
    let ours = run_all(
        &TestServer::start_with_controllers()
            .await
            .expect("it starts"),
        "system",
    )
    .await;
    assert_same("system", &recording::read_all(), &ours);
}

#[tokio::test]
async fn tenant_space_matches_the_recording() {
    let ours = run_all(
        &TestServer::start_with_controllers()
            .await
            .expect("it starts"),
        "tenant",
    )
    .await;
    assert_same("tenant", &recording::read_all(), &ours);
}

#[tokio::test]
async fn kube_apiserver_and_insula_match_the_recording() {
    let Some(server) = KubeApiserver::start().await else {
        return;
    };
    let client = server.client().await.expect("it is ready");
    let mut real = Vec::new();
    for category in Category::all() {
        let answers = runner::category(&client, &category).await;
        recording::write_if_updating(&category.name, &answers);
        real.extend(answers);
    }
    let changed = differences(&recording::read_all(), &real);
    assert!(changed.is_empty(), "{}", format_list(&changed));
    let server = TestServer::start_with_controllers()
        .await
        .expect("it starts");
    for space in ["system", "tenant"] {
        assert_same(space, &real, &run_all(&server, space).await);
    }
}

/// Insula's responses in a space.
async fn run_all(server: &TestServer, space: &str) -> Vec<Recorded> {
    let client = match space {
        "system" => server.system().await,
        _ => server.tenant("t1").await,
    };
    let client = client.expect("it connects");
    let mut answers = Vec::new();
    for category in Category::all() {
        answers.extend(runner::category(&client, &category).await);
    }
    answers
}

#[track_caller]
fn assert_same(space: &str, real: &[Recorded], ours: &[Recorded]) {
    let (unmeant, stale) = classify(differences(real, ours), &Intended::all(space));
    assert!(
        unmeant.is_empty(),
        "{} unintended differences in the space of the {space}:\n{}",
        unmeant.len(),
        format_list(&unmeant)
    );
    assert!(stale.is_empty(), "no longer different: {stale:#?}");
}

fn format_list(differences: &[compare::Difference]) -> String {
    let lines = differences.iter().map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}
