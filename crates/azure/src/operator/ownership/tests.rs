use insula_operator::key::GroupKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::names::RECONCILE_POLICY;

const ID: &str = "/subscriptions/s/resourceGroups/shop";

fn id() -> ResourceId {
    ID.parse().unwrap()
}

fn key(namespace: &str) -> Key {
    let kind = GroupKind {
        kind: "ResourceGroup".into(),
        group: "resources.azure.com".into(),
    };
    Key::namespaced(kind, None, namespace, "shop")
}

/// An object that was created at this second, with these annotations besides its id.
fn metadata(created: i64, annotations: &[(&str, &str)]) -> ObjectMeta {
    let all = annotations.iter().chain([&(RESOURCE_ID, ID)]);
    let all = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    ObjectMeta {
        uid: Some(created.to_string()),
        creation_timestamp: Timestamp::from_second(created).ok().map(Time),
        finalizers: Some(vec![FINALIZER.to_owned()]),
        annotations: Some(all.collect()),
        ..ObjectMeta::default()
    }
}

const SENT: (&str, &str) = (LATEST_RECONCILED_GENERATION, "1");
/// Azure returns ids in another case.
const ACCEPTED: (&str, &str) = (ACCEPTED_ID, "/subscriptions/s/resourcegroups/SHOP");

/// Returns owners after all lists are complete.
fn owners() -> Owners {
    let owners = Owners::new(Arc::default());
    owners.watches_started(0);
    owners
}

fn refused(namespace: &str) -> Admission {
    Admission::Refused(Box::new(key(namespace)))
}

#[tokio::test(start_paused = true)]
async fn object_that_azure_accepted_owns_the_resource_before_older_ones() {
    let (owners, now) = (owners(), Instant::now());
    owners.observe(&key("b"), Some(&metadata(2, &[SENT, ACCEPTED])));
    assert_eq!(owners.admit(&key("a"), &id(), now), refused("b"));
    owners.observe(&key("a"), Some(&metadata(1, &[SENT])));
    assert_eq!(owners.admit(&key("a"), &id(), now), refused("b"));
    assert_eq!(owners.admit(&key("b"), &id(), now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn older_one_of_two_accepted_objects_owns_the_resource() {
    let (owners, now) = (owners(), Instant::now());
    for (namespace, created) in [("a", 2), ("b", 1)] {
        let metadata = metadata(created, &[SENT, ACCEPTED]);
        owners.observe(&key(namespace), Some(&metadata));
    }
    assert_eq!(owners.admit(&key("a"), &id(), now), refused("b"));
    assert_eq!(owners.admit(&key("b"), &id(), now), Admission::Granted);
    // The one that was accepted from this process stays the owner.
    let accepted = metadata(1, &[SENT]);
    owners.answered(&key("b"), &accepted, &id(), Answer::Accepted);
    owners.observe(&key("c"), Some(&metadata(0, &[SENT, ACCEPTED])));
    assert_eq!(owners.admit(&key("b"), &id(), now), Admission::Granted);
    assert_eq!(owners.admit(&key("c"), &id(), now), refused("b"));
}

#[tokio::test(start_paused = true)]
async fn object_without_an_answer_of_azure_keeps_no_other_away_for_long() {
    let (owners, now) = (owners(), Instant::now());
    owners.observe(&key("a"), Some(&metadata(1, &[SENT])));
    let wait = Admission::Wait(RETRY_DELAY);
    assert_eq!(owners.admit(&key("b"), &id(), now), wait);
    assert_eq!(owners.admit(&key("a"), &id(), now), Admission::Granted);
    owners.answered(&key("a"), &metadata(1, &[SENT]), &id(), Answer::Refused);
    assert_eq!(owners.admit(&key("b"), &id(), now), Admission::Granted);
    owners.observe(&key("a"), None);
    owners.observe(&key("a"), Some(&metadata(1, &[SENT])));
    assert_eq!(owners.admit(&key("b"), &id(), now), wait);
    let later = now + GRACE;
    assert_eq!(owners.admit(&key("b"), &id(), later), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn object_that_is_only_read_owns_nothing() {
    let (owners, now) = (owners(), Instant::now());
    let skip = (RECONCILE_POLICY, "skip");
    owners.observe(&key("a"), Some(&metadata(1, &[SENT, ACCEPTED, skip])));
    owners.observe(&key("b"), Some(&metadata(1, &[])));
    assert_eq!(owners.admit(&key("c"), &id(), now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_all_objects_were_observed() {
    let (owners, now) = (Owners::new(Arc::default()), Instant::now());
    let wait = || Admission::Wait(RETRY_DELAY);
    assert_eq!(owners.admit(&key("a"), &id(), now), wait());
    owners.watches_started(2);
    owners.watch_listed(1);
    assert_eq!(owners.admit(&key("a"), &id(), now), wait());
    let late = now + LIST_TIMEOUT;
    assert_eq!(owners.admit(&key("a"), &id(), late), Admission::Granted);
    owners.watch_listed(0);
    assert_eq!(owners.admit(&key("a"), &id(), now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn resource_is_sent_for_one_object_at_a_time_and_then_belongs_to_it() {
    let (owners, now) = (owners(), Instant::now());
    let reserved = owners.reserve(&key("a"), &id(), now).unwrap();
    let wait = Admission::Wait(RETRY_DELAY);
    assert_eq!(owners.reserve(&key("b"), &id(), now).unwrap_err(), wait);
    drop(reserved);
    let reserved = owners.reserve(&key("b"), &id(), now).unwrap();
    owners.answered(&key("b"), &metadata(2, &[]), &id(), Answer::Accepted);
    drop(reserved);
    assert_eq!(
        owners.reserve(&key("a"), &id(), now).unwrap_err(),
        refused("b")
    );
    // An event from before the answer changes nothing.
    owners.observe(&key("b"), Some(&metadata(2, &[SENT])));
    assert_eq!(owners.admit(&key("a"), &id(), now), refused("b"));
}

#[tokio::test(start_paused = true)]
async fn refused_object_is_triggered_when_the_owner_is_gone() {
    use futures_util::{FutureExt, StreamExt};
    let (owners, now) = (owners(), Instant::now());
    let mut triggered = std::pin::pin!(Arc::clone(&owners.requeue).keys());
    owners.observe(&key("a"), Some(&metadata(1, &[SENT, ACCEPTED])));
    assert_eq!(owners.admit(&key("b"), &id(), now), refused("a"));
    assert_eq!(triggered.next().now_or_never(), None);
    owners.observe(&key("a"), None);
    assert_eq!(triggered.next().now_or_never(), Some(Some(key("b").text())));
    assert_eq!(owners.admit(&key("b"), &id(), now), Admission::Granted);
}
