//! Writes which credentials of a tenant are in use to its TenantAccess, and deletes revocations
//! of credentials that have expired.
//!
//! All servers of a store write to the same object, each merging what it noted: so the record
//! survives restarts, and is complete whichever server a client talks to. A tenant's object is
//! written only if something was noted, and at most once a minute, or every five seconds while
//! credentials are new.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use insula_access::jwt;
use insula_apiserver::Registry;
use insula_apiserver::registry::Address;
use insula_apiserver::registry::access_kinds::{access_record_address, revocations};
use insula_apiserver::registry::access_records::{
    CredentialKind, CredentialRecord, MAX_CREDENTIALS, SpaceAccess, Urgency,
};
use insula_apiserver::status::Result;
use insula_apiserver::write::{
    Modified, Modify, PendingDelete, Policy, create_object, modify, remove_atomically,
};
use insula_cache::Stored;
use insula_core::Space;
use insula_kinds::time::{Precision, parse};
use insula_kinds::{Object, Value};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, timeout};

/// The shortest time between two writes for one tenant.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);

/// The same if a credential is new, or was used for the first time.
const URGENT_INTERVAL: Duration = Duration::from_secs(5);

/// How long notes are collected before the first write.
const COLLECT_DELAY: Duration = Duration::from_secs(1);

/// The most tokens of one user that are kept: pods and OpenID Connect clients get new ones every
/// hour.
const MAX_TOKENS_PER_USER: usize = 10;

/// The most bytes of the credentials of a record: a store takes objects of 1.5 MB.
const MAX_RECORD_BYTES: usize = 512 << 10;

/// How long an expired credential is shown.
const RETENTION_SECONDS: i64 = 30 * 86_400;

/// How long a space is remembered that nothing is noted about.
const IDLE_TIME: Duration = Duration::from_secs(600);

/// How long a revocation is kept after its credential has expired: tokens are accepted a little
/// longer, and the clocks of servers differ.
const REVOCATION_MARGIN_SECONDS: i64 = jwt::LEEWAY + 300;

/// How often expired revocations are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(600);

/// Writes what is noted until it is dropped.
pub async fn record_access(registry: Arc<Registry>) {
    let records = registry.access_records();
    let mut written: HashMap<Space, Instant> = HashMap::new();
    loop {
        match records.is_empty() {
            true => records.wait().await,
            false => drop(timeout(IDLE_TIME, records.wait()).await),
        }
        tokio::time::sleep(COLLECT_DELAY).await;
        written.retain(|_, at| at.elapsed() < WRITE_INTERVAL);
        for (space, urgency) in records.dirty() {
            let interval = match urgency {
                Urgency::Soon => URGENT_INTERVAL,
                Urgency::Later => WRITE_INTERVAL,
            };
            if written
                .get(&space)
                .is_some_and(|at| at.elapsed() < interval)
            {
                continue;
            }
            let Some(access) = records.take(&space) else {
                continue;
            };
            written.insert(space.clone(), Instant::now());
            if let Err(refusal) = write(&registry, &space, &access).await {
                tracing::warn!(%space, %refusal, "credential use not recorded");
                records.retry(&space, access.dropped);
            }
        }
        let idle_since = Timestamp::now().as_second() - IDLE_TIME.as_secs() as i64;
        records.forget_idle(idle_since);
    }
}

async fn write(registry: &Registry, space: &Space, access: &SpaceAccess) -> Result<()> {
    let state = registry.cache().space_state(space);
    if state.is_none_or(|state| state.uid != access.uid) {
        registry.access_records().forget(space);
        return Ok(());
    }
    let address = access_record_address(space);
    let now = Timestamp::now().as_second();
    let update = |object: &Object| {
        // The record of the next tenant of the name may have taken the place of this one's.
        let state = registry.cache().space_state(space);
        let object = match state.is_some_and(|state| state.uid == access.uid) {
            true => merged(object, space, access, now),
            false => object.clone(),
        };
        Ok(Modified {
            object,
            warnings: Vec::new(),
        })
    };
    let request = Modify::by_server(&address, None);
    if modify(registry, request, update).await?.is_some() {
        return Ok(());
    }
    // The deletion of a tenant ends with its record: what is used after that is not recorded.
    let tenant = space
        .tenant()
        .and_then(|name| registry.tenant(name.as_str()));
    if tenant.is_some_and(|tenant| tenant.terminating) {
        registry.access_records().forget(space);
        return Ok(());
    }
    let object = merged(&Object::new(), space, access, now);
    let created = create_object(
        registry,
        &address.kind,
        &Space::System,
        None,
        object,
        None,
        false,
    );
    created.await.map(drop)
}

/// Returns the object with what was noted. That of a former tenant of the name is replaced.
fn merged(stored: &Object, space: &Space, access: &SpaceAccess, now: i64) -> Object {
    let same = stored.get("tenantUID").and_then(Value::as_str) == Some(&*access.uid);
    let stored_credentials = stored.get("credentials").and_then(Value::as_array);
    let stored_credentials = stored_credentials.into_iter().flatten();
    let mut credentials: Vec<CredentialRecord> = match same {
        true => stored_credentials.filter_map(read).collect(),
        false => Vec::new(),
    };
    for noted in &access.credentials {
        let known = credentials.iter_mut().find(|known| is_same(known, noted));
        match known {
            Some(known) => merge(known, noted),
            None => credentials.push(noted.clone()),
        }
    }
    let dropped = stored.get("dropped").and_then(Value::as_u64).unwrap_or(0);
    let dropped = if same { dropped } else { 0 } + access.dropped + bound(&mut credentials, now);
    let mut object = stored.clone();
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = space.to_string().into();
    if let Some(tenant) = space.tenant() {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Tenant", "name": tenant.as_str(), "uid": access.uid,
        }]);
    }
    object.insert("tenant".to_owned(), space.to_string().into());
    object.insert("tenantUID".to_owned(), access.uid.to_string().into());
    object.insert("dropped".to_owned(), dropped.into());
    let credentials: Vec<Value> = credentials.iter().map(to_value).collect();
    object.insert("credentials".to_owned(), credentials.into());
    object
}

/// Removes what is too old or too much, and returns how many credentials are dropped that are
/// still valid. The latest come first.
fn bound(credentials: &mut Vec<CredentialRecord>, now: i64) -> u64 {
    let expired_before = now - RETENTION_SECONDS;
    credentials.retain(|one| one.expires.is_none_or(|expires| expires >= expired_before));
    credentials.sort_by(|a, b| (last_seen(b), &a.id).cmp(&(last_seen(a), &b.id)));
    let counted = |credentials: &[CredentialRecord]| {
        let valid = |one: &CredentialRecord| one.expires.is_none_or(|expires| expires >= now);
        let counted = credentials.iter().filter(|one| one.counts && valid(one));
        counted.count() as u64
    };
    let before = counted(credentials);
    let mut tokens: HashMap<String, usize> = HashMap::new();
    credentials.retain(|one| {
        if !is_renewed(one.kind) {
            return true;
        }
        let count = tokens.entry(one.user.clone()).or_default();
        *count += 1;
        *count <= MAX_TOKENS_PER_USER
    });
    drop_excess(credentials);
    before - counted(credentials)
}

/// Whether clients get new credentials of the kind all the time.
const fn is_renewed(kind: CredentialKind) -> bool {
    match kind {
        CredentialKind::ServiceAccountToken | CredentialKind::OpenIdToken => true,
        CredentialKind::Certificate | CredentialKind::StaticToken => false,
    }
}

/// Drops the credentials that expire first until number and size are in bounds. A user with many
/// short-lived ones cannot drop those that matter longer.
fn drop_excess(credentials: &mut Vec<CredentialRecord>) {
    let expiry = |one: &CredentialRecord| one.expires.unwrap_or(i64::MAX);
    let mut order: Vec<usize> = (0..credentials.len()).collect();
    // Of those that expire at the same time, the latest stay.
    order.sort_by_key(|&index| Reverse((expiry(&credentials[index]), Reverse(index))));
    let mut bytes = 0;
    let fits = |&index: &usize| {
        bytes += to_value(&credentials[index]).to_string().len();
        bytes <= MAX_RECORD_BYTES
    };
    let kept: HashSet<usize> = order
        .into_iter()
        .take(MAX_CREDENTIALS)
        .take_while(fits)
        .collect();
    let mut index = 0;
    credentials.retain(|_| {
        index += 1;
        kept.contains(&(index - 1))
    });
}

fn is_same(a: &CredentialRecord, b: &CredentialRecord) -> bool {
    let certificate = CredentialKind::Certificate;
    a.id == b.id && (a.kind == certificate) == (b.kind == certificate)
}

fn merge(known: &mut CredentialRecord, noted: &CredentialRecord) {
    let first = [known.first_used, noted.first_used].into_iter().flatten();
    known.first_used = first.min();
    if noted.last_used > known.last_used {
        known.last_used = noted.last_used;
        known.last_address.clone_from(&noted.last_address);
    }
    known.user.clone_from(&noted.user);
    known.groups.clone_from(&noted.groups);
    known.issued = noted.issued.or(known.issued);
    known.expires = noted.expires.or(known.expires);
}

fn last_seen(record: &CredentialRecord) -> i64 {
    record.last_used.max(record.issued).unwrap_or(0)
}

fn read(value: &Value) -> Option<CredentialRecord> {
    let text = |member: &str| value.get(member).and_then(Value::as_str);
    let time = |member: &str| seconds(text(member)?);
    let groups = value.get("groups").and_then(Value::as_array);
    let groups = groups.into_iter().flatten().filter_map(Value::as_str);
    Some(CredentialRecord {
        id: text("id")?.into(),
        kind: CredentialKind::parse(text("kind")?)?,
        user: text("user").unwrap_or_default().to_owned(),
        groups: groups.map(str::to_owned).collect(),
        issued: time("issued"),
        expires: time("expires"),
        first_used: time("firstUsed"),
        last_used: time("lastUsed"),
        last_address: text("lastAddress").map(str::to_owned),
        counts: true,
    })
}

fn to_value(record: &CredentialRecord) -> Value {
    let mut value = json!({
        "id": *record.id,
        "kind": record.kind.as_str(),
        "user": record.user,
        "groups": record.groups,
    });
    for (member, time) in [
        ("issued", record.issued),
        ("expires", record.expires),
        ("firstUsed", record.first_used),
        ("lastUsed", record.last_used),
    ] {
        let time = time.and_then(|time| Timestamp::from_second(time).ok());
        if let Some(time) = time {
            value[member] = time.to_string().into();
        }
    }
    if let Some(address) = &record.last_address {
        value["lastAddress"] = address.as_str().into();
    }
    value
}

fn seconds(text: &str) -> Option<i64> {
    Some(parse(text, Precision::Seconds).ok()?.seconds)
}

/// Deletes revocations of credentials that have expired, until it is dropped.
pub async fn expire_revocations(registry: Arc<Registry>) {
    let log = registry.cache().log_of_all(revocations());
    loop {
        let changed = log.changed().notified();
        let any = delete_expired_revocations(&registry, Timestamp::now().as_second()).await;
        // An empty list is looked at again when there is a revocation.
        match any {
            true => tokio::time::sleep(SWEEP_INTERVAL).await,
            false => changed.await,
        }
    }
}

/// Deletes revocations of credentials that have expired for long at `now`, in seconds since 1970.
/// Returns whether there is any revocation.
async fn delete_expired_revocations(registry: &Registry, now: i64) -> bool {
    let mut any = false;
    for (space, collection) in registry.cache().everywhere(revocations()) {
        for object in collection.snapshot("", None).objects {
            any = true;
            if !is_over(&object.tree(), now) {
                continue;
            }
            let name = object.name().to_owned();
            if let Err(refusal) = delete(registry, &space, object).await {
                tracing::warn!(%space, name, %refusal, "expired revocation not deleted");
            }
        }
    }
    any
}

/// Whether the credential of a revocation has expired, and is not accepted by any server.
fn is_over(revocation: &Object, now: i64) -> bool {
    let expires = revocation.get("spec").and_then(|spec| spec.get("expires"));
    let expires = expires.and_then(Value::as_str).and_then(seconds);
    expires.is_some_and(|expires| expires.saturating_add(REVOCATION_MARGIN_SECONDS) < now)
}

/// Deletes a revocation unless it has changed: its expiry may be a later one.
async fn delete(registry: &Registry, space: &Space, object: Arc<Stored>) -> Result<()> {
    let address = Address {
        kind: revocations().into(),
        space: space.clone(),
        namespace: None,
        name: object.name().to_owned(),
    };
    let pending = PendingDelete {
        address,
        object,
        policy: Policy::Background,
    };
    remove_atomically(registry, &[pending]).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, user: &str, last_used: Option<i64>) -> CredentialRecord {
        CredentialRecord {
            id: id.into(),
            kind: CredentialKind::ServiceAccountToken,
            user: user.to_owned(),
            groups: vec!["g".to_owned()],
            issued: Some(60),
            expires: Some(1_000_000),
            first_used: last_used,
            last_used,
            last_address: last_used.map(|time| format!("10.0.0.{}", time / 60)),
            counts: true,
        }
    }

    fn access(uid: &str, credentials: Vec<CredentialRecord>) -> SpaceAccess {
        SpaceAccess {
            uid: uid.into(),
            credentials,
            dropped: 0,
        }
    }

    fn space() -> Space {
        Space::parse("t1").unwrap()
    }

    fn ids(object: &Object) -> Vec<&str> {
        let credentials = object["credentials"].as_array().unwrap();
        credentials
            .iter()
            .map(|one| one["id"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn notes_of_two_servers_are_merged() {
        let one = access(
            "u",
            vec![record("a", "x", Some(120)), record("b", "y", None)],
        );
        let two = access(
            "u",
            vec![record("a", "x", Some(240)), record("c", "z", Some(180))],
        );
        let merged_once = merged(&Object::new(), &space(), &one, 300);
        let both = merged(&merged_once, &space(), &two, 300);
        assert_eq!(ids(&both), ["a", "c", "b"], "the latest come first");
        assert_eq!(
            both["credentials"][0],
            json!({
                "id": "a", "kind": "ServiceAccountToken", "user": "x", "groups": ["g"],
                "issued": "1970-01-01T00:01:00Z", "expires": "1970-01-12T13:46:40Z",
                "firstUsed": "1970-01-01T00:02:00Z", "lastUsed": "1970-01-01T00:04:00Z",
                "lastAddress": "10.0.0.4",
            })
        );
        assert_eq!(
            both["credentials"][2].get("lastUsed"),
            None,
            "issued, not used"
        );
        assert_eq!(both["metadata"]["ownerReferences"][0]["uid"], "u");
        // What an earlier server notes late changes nothing.
        assert_eq!(merged(&both, &space(), &one, 300), both);
        // Another tenant of the name begins anew.
        let next = merged(&both, &space(), &access("v", Vec::new()), 300);
        assert_eq!((ids(&next), &next["tenantUID"]), (Vec::new(), &json!("v")));
    }

    #[test]
    fn record_is_bounded_by_account_in_total_and_in_time() {
        let tokens = (1..=15).map(|n| record(&format!("t{n:02}"), "x", Some(n * 60)));
        let kept = merged(
            &Object::new(),
            &space(),
            &access("u", tokens.collect()),
            300,
        );
        assert_eq!(ids(&kept).len(), 10);
        assert_eq!((ids(&kept)[0], ids(&kept)[9]), ("t15", "t06"));
        assert_eq!(kept["dropped"], 5, "they are still valid");
        let many = (1..=1005).map(|n| record(&format!("m{n}"), &format!("u{n}"), Some(n * 60)));
        let kept = merged(&Object::new(), &space(), &access("u", many.collect()), 300);
        assert_eq!((ids(&kept).len(), &kept["dropped"]), (1000, &json!(5)));
        assert_eq!(ids(&kept)[999], "m6");
        // Of a thousand that never expire, not one is dropped for others.
        let lasting = (1..=1000).map(|n| CredentialRecord {
            expires: None,
            ..record(&format!("l{n}"), &format!("l{n}"), Some(60))
        });
        let both = merged(&kept, &space(), &access("u", lasting.collect()), 300);
        assert_eq!((ids(&both).len(), &both["dropped"]), (1000, &json!(1005)));
        assert!(ids(&both).iter().all(|id| id.starts_with('l')));
        let long_after = 1_000_000 + RETENTION_SECONDS + 1;
        let later = merged(&kept, &space(), &access("u", Vec::new()), long_after);
        assert_eq!(ids(&later), [""; 0]);
    }

    #[test]
    fn tokens_of_one_user_take_the_place_of_each_other_and_of_no_other_credential() {
        let tokens = (1..=15).map(|n| CredentialRecord {
            kind: CredentialKind::OpenIdToken,
            ..record(&format!("t{n:02}"), "olga", Some(n * 60))
        });
        let certificates = (1..=15).map(|n| CredentialRecord {
            kind: CredentialKind::Certificate,
            ..record(&format!("c{n:02}"), "olga", Some(n * 60))
        });
        let noted = access("u", tokens.chain(certificates).collect());
        let kept = merged(&Object::new(), &space(), &noted, 300);
        assert_eq!((ids(&kept).len(), &kept["dropped"]), (25, &json!(5)));
        // What was noted before is not counted again when it is noted once more.
        let mut again = noted.clone();
        again
            .credentials
            .iter_mut()
            .for_each(|one| one.counts = false);
        assert_eq!(merged(&kept, &space(), &again, 300), kept);
        // Expired ones are dropped without being counted.
        let kept = merged(&Object::new(), &space(), &noted, 1_000_001);
        assert_eq!((ids(&kept).len(), &kept["dropped"]), (25, &json!(0)));
    }

    #[test]
    fn record_stays_below_the_limit_of_a_store() {
        let long = "u".repeat(1020);
        let many = (0..1000).map(|n| record(&format!("m{n}"), &format!("{long}{n}"), Some(60)));
        let kept = merged(&Object::new(), &space(), &access("u", many.collect()), 300);
        let bytes = serde_json::to_vec(&kept).unwrap().len();
        assert!((400 << 10..600 << 10).contains(&bytes), "{bytes}");
        let dropped = kept["dropped"].as_u64().unwrap() as usize;
        assert_eq!(ids(&kept).len() + dropped, 1000);
    }

    #[test]
    fn revocation_outlasts_the_leeway_of_its_token() {
        let at = |spec: Value, now| is_over(json!({"spec": spec}).as_object().unwrap(), now);
        let spec = json!({"token": "t", "expires": "1970-01-01T00:16:40Z"});
        assert!(!at(spec.clone(), 1000 + jwt::LEEWAY));
        assert!(!at(spec.clone(), 1000 + jwt::LEEWAY + 300));
        assert!(at(spec, 1000 + jwt::LEEWAY + 301));
        assert!(!at(json!({"user": "dora"}), i64::MAX));
    }
}
