use insula_operator::key::GroupKind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::names::{ACCEPTED_PROOF, OPERATOR_NAMESPACE, RECONCILE_POLICY};

const OPERATOR: &str = "azureoperator-system";
const SERVER: &str = "management.azure.com:443";
const ID: &str = "/subscriptions/s/resourceGroups/shop";

fn id() -> ResourceId {
    ID.parse().unwrap()
}

fn kind(kind: &'static str, group: &'static str) -> GroupKind {
    GroupKind {
        kind: kind.into(),
        group: group.into(),
    }
}

fn groups() -> GroupKind {
    kind("ResourceGroup", "resources.azure.com")
}

fn key(namespace: &str) -> Key {
    Key::namespaced(groups(), None, namespace, "shop")
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

/// An object that was created at this second, and recorded as the owner on a server.
fn recorded(owners: &Owners, namespace: &str, created: i64, server: &str) -> ObjectMeta {
    let mut metadata = metadata(created, &[SENT]);
    let record = owners.record(&key(namespace), &metadata, &azure_id(), server);
    let mut annotations = serde_json::Map::new();
    record.add_to(&mut annotations);
    for (name, value) in annotations {
        let value = value.as_str().unwrap().to_owned();
        metadata
            .annotations
            .get_or_insert_default()
            .insert(name, value);
    }
    metadata
}

const SENT: (&str, &str) = (LATEST_RECONCILED_GENERATION, "1");

/// Azure returns ids in another case.
fn azure_id() -> ResourceId {
    "/subscriptions/s/resourcegroups/SHOP".parse().unwrap()
}

fn unlisted() -> Owners {
    let key = RecordKey::new(&[7; 32]);
    Owners::new(OPERATOR.to_owned(), key, Arc::default())
}

/// Returns owners after all lists are complete.
fn owners() -> Owners {
    let owners = unlisted();
    owners.watches_started(&[], Instant::now());
    owners
}

impl Owners {
    fn admits(&self, namespace: &str, now: Instant) -> Admission {
        self.admit(&key(namespace), &id(), SERVER, now)
    }
}

fn refused(namespace: &str) -> Admission {
    Admission::Refused(Box::new(key(namespace)))
}

#[tokio::test(start_paused = true)]
async fn object_that_azure_accepted_owns_the_resource_before_older_ones() {
    let (owners, now) = (owners(), Instant::now());
    owners.observe(&key("b"), Some(&recorded(&owners, "b", 2, SERVER)));
    assert_eq!(owners.admits("a", now), refused("b"));
    owners.observe(&key("a"), Some(&metadata(1, &[SENT])));
    assert_eq!(owners.admits("a", now), refused("b"));
    assert_eq!(owners.admits("b", now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn older_one_of_two_accepted_objects_owns_the_resource() {
    let (owners, now) = (owners(), Instant::now());
    for (namespace, created) in [("a", 2), ("b", 1)] {
        let metadata = recorded(&owners, namespace, created, SERVER);
        owners.observe(&key(namespace), Some(&metadata));
    }
    assert_eq!(owners.admits("a", now), refused("b"));
    assert_eq!(owners.admits("b", now), Admission::Granted);
    // The one that was accepted from this process stays the owner.
    let accepted = metadata(1, &[SENT]);
    owners.answered(&key("b"), &accepted, &id(), SERVER, Answer::Accepted);
    owners.observe(&key("c"), Some(&recorded(&owners, "c", 0, SERVER)));
    assert_eq!(owners.admits("b", now), Admission::Granted);
    assert_eq!(owners.admits("c", now), refused("b"));
}

#[tokio::test(start_paused = true)]
async fn object_without_an_answer_of_azure_keeps_no_other_away_for_long() {
    let (owners, now) = (owners(), Instant::now());
    owners.observe(&key("a"), Some(&metadata(1, &[SENT])));
    let wait = Admission::Wait(RETRY_DELAY);
    assert_eq!(owners.admits("b", now), wait);
    assert_eq!(owners.admits("a", now), Admission::Granted);
    owners.answered(
        &key("a"),
        &metadata(1, &[SENT]),
        &id(),
        SERVER,
        Answer::Refused,
    );
    assert_eq!(owners.admits("b", now), Admission::Granted);
    owners.observe(&key("a"), None);
    owners.observe(&key("a"), Some(&metadata(1, &[SENT])));
    assert_eq!(owners.admits("b", now), wait);
    let later = now + GRACE;
    assert_eq!(owners.admits("b", later), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn object_that_is_only_read_owns_nothing() {
    let (owners, now) = (owners(), Instant::now());
    let mut skipped = recorded(&owners, "a", 1, SERVER);
    let annotations = skipped.annotations.get_or_insert_default();
    annotations.insert(RECONCILE_POLICY.to_owned(), "skip".to_owned());
    owners.observe(&key("a"), Some(&skipped));
    owners.observe(&key("b"), Some(&metadata(1, &[])));
    assert_eq!(owners.admits("c", now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_before_all_objects_of_the_kind_were_observed() {
    let (owners, now) = (unlisted(), Instant::now());
    let wait = || Admission::Wait(RETRY_DELAY);
    assert_eq!(owners.admits("a", now), wait());
    let vaults = kind("Vault", "keyvault.azure.com");
    // The process may have waited for the Lease for any time.
    let now = now + GRACE;
    owners.watches_started(&[groups(), vaults, groups()], now);
    owners.watch_listed(2);
    let late = now + GRACE;
    assert_eq!(owners.admits("a", late), wait());
    // One that may not be listed is not waited for, if that lasts.
    owners.watch_forbidden(0);
    assert_eq!(owners.admits("a", now), wait());
    let later = now + FORBIDDEN_TIMEOUT;
    assert_eq!(owners.admits("a", later), Admission::Granted);
    owners.watch_listed(0);
    assert_eq!(owners.admits("a", now), Admission::Granted);
    owners.watch_forbidden(0);
    assert_eq!(owners.admits("a", now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn term_of_leadership_begins_with_nothing_of_the_one_before() {
    let (owners, now) = (owners(), Instant::now());
    let accepted = metadata(1, &[SENT]);
    owners.answered(&key("a"), &accepted, &id(), SERVER, Answer::Accepted);
    assert_eq!(owners.admits("b", now), refused("a"));
    let old = owners.reserve(&key("a"), &id(), SERVER, now).unwrap();
    // Another leader has seen the deletion of the object.
    let now = now + GRACE * 2;
    owners.watches_started(&[groups()], now);
    assert_eq!(owners.admits("b", now), Admission::Wait(RETRY_DELAY));
    owners.watch_listed(0);
    let reserved = owners.reserve(&key("b"), &id(), SERVER, now).unwrap();
    drop(old);
    assert_eq!(owners.admits("c", now), Admission::Wait(RETRY_DELAY));
    drop(reserved);
    // The grace of objects whose answer was missed begins again.
    owners.observe(&key("a"), Some(&metadata(1, &[SENT])));
    assert_eq!(owners.admits("b", now), Admission::Wait(RETRY_DELAY));
}

#[tokio::test(start_paused = true)]
async fn record_counts_for_the_object_that_it_was_signed_for_alone() {
    let (owners, now) = (owners(), Instant::now());
    let later = now + GRACE;
    let copied = recorded(&owners, "b", 1, SERVER);
    let mut reborn = copied.clone();
    reborn.uid = Some("another".to_owned());
    let mut edited = copied.clone();
    let annotations = edited.annotations.get_or_insert_default();
    let proof = annotations.get_mut(ACCEPTED_PROOF).unwrap();
    *proof = proof.replace(SERVER, "evil.example.com:443");
    let other_key = Owners::new(
        OPERATOR.to_owned(),
        RecordKey::new(&[8; 32]),
        Arc::default(),
    );
    let unsigned = metadata(1, &[SENT, (ACCEPTED_ID, ID)]);
    for (namespace, forged) in [
        ("a", copied),
        ("b", reborn),
        ("b", edited),
        ("b", recorded(&other_key, "b", 1, SERVER)),
        ("b", unsigned),
    ] {
        let shown = format!("{namespace} {forged:?}");
        owners.observe(&key(namespace), Some(&forged));
        assert!(!owners.is_owner(&key(namespace)), "{shown}");
        assert_eq!(owners.admits("c", later), Admission::Granted, "{shown}");
        // Nor does it keep the owner from its resource, or take it.
        owners.observe(&key("c"), Some(&recorded(&owners, "c", 2, SERVER)));
        assert!(owners.is_owner(&key("c")));
        assert_eq!(owners.admits("c", now), Admission::Granted, "{shown}");
        assert_eq!(owners.admits(namespace, now), refused("c"), "{shown}");
        for namespace in [namespace, "c"] {
            owners.observe(&key(namespace), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn object_of_another_operator_or_type_owns_nothing() {
    let (owners, now) = (owners(), Instant::now());
    let mut other = recorded(&owners, "a", 1, SERVER);
    let annotations = other.annotations.get_or_insert_default();
    annotations.insert(OPERATOR_NAMESPACE.to_owned(), "another".to_owned());
    owners.observe(&key("a"), Some(&other));
    let vault = Key::namespaced(kind("Vault", "keyvault.azure.com"), None, "a", "shop");
    owners.observe(&vault, Some(&metadata(1, &[SENT])));
    assert_eq!(owners.admits("b", now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn resource_of_one_server_is_none_of_another() {
    let (owners, now) = (owners(), Instant::now());
    let evil = "evil.example.com:443";
    let reserved = owners.reserve(&key("a"), &id(), evil, now).unwrap();
    assert_eq!(owners.admits("b", now), Admission::Granted);
    let sent = metadata(1, &[SENT]);
    owners.answered(&key("a"), &sent, &id(), evil, Answer::Accepted);
    drop(reserved);
    assert_eq!(owners.admits("b", now), Admission::Granted);
    owners.observe(&key("a"), Some(&recorded(&owners, "a", 1, evil)));
    assert_eq!(owners.admits("b", now), Admission::Granted);
    let at_evil = owners.admit(&key("b"), &id(), evil, now);
    assert_eq!(at_evil, refused("a"));
}

#[tokio::test(start_paused = true)]
async fn values_are_exported_in_the_namespace_of_the_owner_only() {
    let (owners, now) = (unlisted(), Instant::now());
    let export = |namespace: &str, space: Option<&str>| {
        let key = Key::namespaced(groups(), space.map(Into::into), namespace, "reader");
        owners.admit_export(&key, &id(), SERVER, now)
    };
    assert_eq!(export("b", None), Admission::Wait(RETRY_DELAY));
    owners.watches_started(&[], now);
    assert_eq!(export("b", None), Admission::Granted);
    owners.observe(&key("a"), Some(&recorded(&owners, "a", 1, SERVER)));
    assert_eq!(export("a", None), Admission::Granted);
    assert_eq!(export("b", None), refused("a"));
    assert_eq!(export("a", Some("acme")), refused("a"));
}

#[tokio::test(start_paused = true)]
async fn resource_is_sent_for_one_object_at_a_time_and_then_belongs_to_it() {
    let (owners, now) = (owners(), Instant::now());
    let reserved = owners.reserve(&key("a"), &id(), SERVER, now).unwrap();
    let wait = Admission::Wait(RETRY_DELAY);
    assert_eq!(
        owners.reserve(&key("b"), &id(), SERVER, now).unwrap_err(),
        wait
    );
    drop(reserved);
    let reserved = owners.reserve(&key("b"), &id(), SERVER, now).unwrap();
    owners.answered(
        &key("b"),
        &metadata(2, &[]),
        &id(),
        SERVER,
        Answer::Accepted,
    );
    drop(reserved);
    assert_eq!(
        owners.reserve(&key("a"), &id(), SERVER, now).unwrap_err(),
        refused("b")
    );
    // An event from before the answer changes nothing.
    owners.observe(&key("b"), Some(&metadata(2, &[SENT])));
    assert_eq!(owners.admits("a", now), refused("b"));
}

#[tokio::test(start_paused = true)]
async fn refused_object_is_triggered_when_the_owner_is_gone() {
    use futures_util::{FutureExt, StreamExt};
    let (owners, now) = (owners(), Instant::now());
    let mut triggered = std::pin::pin!(Arc::clone(&owners.requeue).keys());
    owners.observe(&key("a"), Some(&recorded(&owners, "a", 1, SERVER)));
    assert_eq!(owners.admits("b", now), refused("a"));
    assert_eq!(triggered.next().now_or_never(), None);
    owners.observe(&key("a"), None);
    assert_eq!(triggered.next().now_or_never(), Some(Some(key("b").text())));
    assert_eq!(owners.admits("b", now), Admission::Granted);
}

#[tokio::test(start_paused = true)]
async fn refused_object_that_is_deleted_is_forgotten() {
    let (owners, now) = (owners(), Instant::now());
    owners.observe(&key("a"), Some(&recorded(&owners, "a", 1, SERVER)));
    for namespace in ["b", "c"] {
        assert_eq!(owners.admits(namespace, now), refused("a"));
        owners.withdraw(&key(namespace));
    }
    assert_eq!(owners.state().refused_ids.len(), 2);
    owners.observe(&key("b"), None);
    assert_eq!(owners.state().refused_ids.len(), 1);
    owners.observe(&key("c"), None);
    assert_eq!(owners.state().refused.len(), 0);
}
