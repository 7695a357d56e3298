//! Tests of the load generator, with the floor in this process.

use std::time::Duration;

use http::StatusCode;
use tokio::task::JoinHandle;

use super::floor::Floor;
use super::kubeconfig::Kubeconfig;
use super::load::Shape;
use super::subject::Subject;
use super::{lists, objects, watches, writes};
use crate::figures::Figures;

async fn floor() -> (Subject, JoinHandle<anyhow::Result<()>>) {
    let floor = Floor::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let kubeconfig = Kubeconfig::parse(&floor.kubeconfig).unwrap();
    let subject = Subject {
        kubeconfig,
        pids: vec![std::process::id()],
    };
    (subject, tokio::spawn(floor.run()))
}

fn has_times(figures: &Figures, what: &str) {
    let time = |name: &str| figures.get(&format!("{what} {name}")).unwrap();
    assert!(time("p50") > 0.0, "{what}");
    assert!(time("p50") <= time("p99") && time("p99") <= time("max"));
    assert!(time("rate") > 0.0 && time("cpu") >= 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_sent_once_and_timed() {
    let (subject, floor) = floor().await;
    let client = subject.connect(Shape::REQUESTS.connections).await.unwrap();
    let collection = objects::collection("here");
    let mut some = writes::Objects {
        subject: &subject,
        client: &client,
        collection: &collection,
        versions: vec![],
    };
    assert_eq!(some.create(70).await.unwrap().count, 70);
    assert_eq!(some.versions, vec![1000; 70]);
    assert_eq!(some.get(10).await.unwrap().count, 10);
    // The floor counts creations and deletions.
    let whole = client.get(&collection).await.unwrap();
    whole.expect_list(70).unwrap();
    assert_eq!(some.delete().await.unwrap().count, 70);
    let none = client.get(&collection).await.unwrap();
    assert_eq!((none.status, none.next_page()), (StatusCode::OK, None));
    assert!(none.length < 200);
    let figures = writes::measure(&subject, 40, 2).await.unwrap();
    for operation in writes::OPERATIONS {
        has_times(&figures, operation);
    }
    floor.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_read_whole_by_label_and_page_by_page() {
    let (subject, floor) = floor().await;
    let size = lists::Size {
        objects: 40,
        writes: 60,
        lists: 8,
    };
    let figures = lists::measure(&subject, size).await.unwrap();
    for operation in lists::OPERATIONS {
        has_times(&figures, operation);
    }
    assert!(figures.get("memory after").unwrap() > 1e6);
    floor.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_receives_every_event() {
    let (subject, floor) = floor().await;
    let collection = objects::collection("watched");
    let figures = watches::measure(&subject, &collection, 30, 20).await;
    let figures = figures.unwrap();
    has_times(&figures, "delivered");
    assert!(figures.get("delivered p99").unwrap() < Duration::from_secs(30).as_secs_f64());
    assert!(figures.get("delivered net").unwrap() <= figures.get("delivered cpu").unwrap());
    floor.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_was_not_expected_ends_the_measurement() {
    let (subject, floor) = floor().await;
    let client = subject.connect(1).await.unwrap();
    let answer = client.get(&objects::collection("empty")).await.unwrap();
    let refused = answer.expect(StatusCode::CREATED).unwrap_err();
    assert!(refused.to_string().contains("answered 200"), "{refused}");
    let refused = answer.expect_list(10).unwrap_err();
    assert!(refused.to_string().contains("no list of 10"), "{refused}");
    floor.abort();
}
