//! Which credentials of a space are in use, and which were issued.
//!
//! A request costs two lookups, and a store once a minute for each credential. What was noted is
//! kept here until a controller writes it to the TenantAccess of the space, merged with what
//! other servers noted. Nothing here can replace a credential: IDs, users and times only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use insula_core::{CredentialRef, Principal, Proof, Space};
use tokio::sync::Notify;

/// The credentials of all spaces that were used or issued since they were last written.
#[derive(Debug, Default)]
pub struct AccessRecords {
    spaces: RwLock<HashMap<Space, Arc<SpaceRecord>>>,
    /// The spaces with something to be written, and how soon.
    dirty: Mutex<HashMap<Space, Urgency>>,
    noted: Notify,
}

/// The credentials of one space.
#[derive(Debug)]
struct SpaceRecord {
    /// The UID of the tenant, because names are reused.
    uid: Box<str>,
    credentials: RwLock<HashMap<CredentialKey, Arc<Noted>>>,
    /// Credentials that were forgotten for newer ones.
    dropped: AtomicU64,
    /// When something was last noted, in seconds since 1970.
    touched: AtomicI64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CredentialKey {
    is_certificate: bool,
    id: Arc<str>,
}

#[derive(Debug)]
struct Noted {
    kind: CredentialKind,
    user: String,
    groups: Vec<String>,
    issued: Option<i64>,
    expires: Option<i64>,
    /// The minute of the first use, in seconds since 1970; 0 if it was not used.
    first_used: AtomicI64,
    /// The minute of the last use.
    last_used: AtomicI64,
    address: Mutex<Option<IpAddr>>,
    /// Whether it was taken to be written.
    is_taken: AtomicBool,
}

/// How soon something is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// A credential was used again.
    Later,
    /// A credential was issued, or used for the first time.
    Soon,
}

/// The kinds of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A client certificate.
    Certificate,
    /// A token of a service account.
    ServiceAccountToken,
    /// A line of the token file.
    StaticToken,
    /// A token of the OpenID Connect provider.
    OpenIdToken,
}

/// One credential, as it was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialRecord {
    /// The fingerprint or the ID of the token.
    pub id: Arc<str>,
    /// The kind.
    pub kind: CredentialKind,
    /// The user.
    pub user: String,
    /// The first groups.
    pub groups: Vec<String>,
    /// When it was issued, in seconds since 1970.
    pub issued: Option<i64>,
    /// When it expires.
    pub expires: Option<i64>,
    /// The minute of its first use.
    pub first_used: Option<i64>,
    /// The minute of its last use.
    pub last_used: Option<i64>,
    /// The address of the client that used it last.
    pub last_address: Option<String>,
    /// Whether to count it if it is dropped. What was taken before is not counted again.
    pub counts: bool,
}

/// What was noted about a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceAccess {
    /// The UID of the tenant.
    pub uid: Box<str>,
    /// The credentials, in no order.
    pub credentials: Vec<CredentialRecord>,
    /// Credentials that were forgotten for newer ones since the last time.
    pub dropped: u64,
}

/// The most credentials of a space that are kept.
pub const MAX_CREDENTIALS: usize = 1000;

/// The most groups of a credential that are kept.
const MAX_GROUPS: usize = 8;

/// The most characters of a group that are kept.
const MAX_GROUP_CHARACTERS: usize = 64;

const MINUTE_SECONDS: i64 = 60;

impl CredentialKind {
    /// Returns the kind of a principal's credential, if it has one.
    pub const fn of(proof: Proof) -> Option<Self> {
        match proof {
            Proof::Certificate => Some(Self::Certificate),
            Proof::ServiceAccount => Some(Self::ServiceAccountToken),
            Proof::StaticToken => Some(Self::StaticToken),
            Proof::Oidc => Some(Self::OpenIdToken),
            Proof::Impersonation => None,
        }
    }

    /// Returns the name in objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Certificate => "Certificate",
            Self::ServiceAccountToken => "ServiceAccountToken",
            Self::StaticToken => "StaticToken",
            Self::OpenIdToken => "OpenIDToken",
        }
    }

    /// Parses the name in objects.
    pub fn parse(name: &str) -> Option<Self> {
        [
            Self::Certificate,
            Self::ServiceAccountToken,
            Self::StaticToken,
            Self::OpenIdToken,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == name)
    }
}

impl AccessRecords {
    /// Notes that a credential was used in the space of the tenant with this UID.
    pub fn note_use(&self, uid: &str, holder: &Principal, address: Option<IpAddr>, now: i64) {
        let Some(kind) = CredentialKind::of(holder.proof) else {
            return;
        };
        if holder.credential.id.is_empty() {
            return;
        }
        let minute = now - now.rem_euclid(MINUTE_SECONDS);
        let key = CredentialKey::new(kind, &holder.credential);
        let record = self.record(&holder.home, uid);
        let noted = record.find_or_add(key, || Noted::new(kind, holder));
        if noted.last_used.load(Ordering::Relaxed) == minute {
            return;
        }
        record.touched.store(minute, Ordering::Relaxed);
        noted.last_used.store(minute, Ordering::Relaxed);
        let never = noted.first_used.load(Ordering::Relaxed) == 0;
        if never {
            noted.first_used.store(minute, Ordering::Relaxed);
        }
        *lock(&noted.address) = address;
        let urgency = if never { Urgency::Soon } else { Urgency::Later };
        self.mark(&holder.home, urgency);
    }

    /// Notes that a credential was issued to a user of a space.
    pub fn note_issued(&self, uid: &str, holder: &Principal) {
        let Some(kind) = CredentialKind::of(holder.proof) else {
            return;
        };
        let key = CredentialKey::new(kind, &holder.credential);
        let record = self.record(&holder.home, uid);
        record.find_or_add(key, || Noted::new(kind, holder));
        let issued = holder.credential.issued.unwrap_or(0);
        record.touched.fetch_max(issued, Ordering::Relaxed);
        self.mark(&holder.home, Urgency::Soon);
    }

    /// Waits until there is something to be written.
    pub async fn wait(&self) {
        loop {
            let noted = self.noted.notified();
            if !lock(&self.dirty).is_empty() {
                return;
            }
            noted.await;
        }
    }

    /// Returns the spaces with something to be written, and how soon.
    pub fn dirty(&self) -> Vec<(Space, Urgency)> {
        let dirty = lock(&self.dirty);
        dirty
            .iter()
            .map(|(space, of)| (space.clone(), *of))
            .collect()
    }

    /// Takes what was noted about a space. Credentials stay known, so that their next use within
    /// the same minute is not noted again.
    pub fn take(&self, space: &Space) -> Option<SpaceAccess> {
        lock(&self.dirty).remove(space);
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let record = Arc::clone(spaces.get(space)?);
        drop(spaces);
        let credentials = record
            .credentials
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Some(SpaceAccess {
            uid: record.uid.clone(),
            credentials: credentials
                .iter()
                .map(|(key, noted)| noted.take(key))
                .collect(),
            dropped: record.dropped.swap(0, Ordering::Relaxed),
        })
    }

    /// Notes that what was taken could not be written.
    pub fn retry(&self, space: &Space, dropped: u64) {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(record) = spaces.get(space) {
            record.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
        drop(spaces);
        self.mark(space, Urgency::Later);
    }

    /// Forgets a space.
    pub fn forget(&self, space: &Space) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        spaces.remove(space);
    }

    /// Forgets the spaces that nothing was noted about since a time, so that an idle tenant takes
    /// no memory: what was noted is written.
    pub fn forget_idle(&self, since: i64) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        let dirty = lock(&self.dirty);
        spaces.retain(|space, record| {
            dirty.contains_key(space) || record.touched.load(Ordering::Relaxed) >= since
        });
    }

    /// Whether nothing is noted about any space.
    pub fn is_empty(&self) -> bool {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        spaces.is_empty()
    }

    fn record(&self, space: &Space, uid: &str) -> Arc<SpaceRecord> {
        let spaces = self.spaces.read().unwrap_or_else(PoisonError::into_inner);
        let found = spaces.get(space).filter(|record| *record.uid == *uid);
        if let Some(found) = found {
            return Arc::clone(found);
        }
        drop(spaces);
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        let record = spaces
            .entry(space.clone())
            .or_insert_with(|| SpaceRecord::new(uid));
        if *record.uid != *uid {
            *record = SpaceRecord::new(uid);
        }
        Arc::clone(record)
    }

    fn mark(&self, space: &Space, urgency: Urgency) {
        let mut dirty = lock(&self.dirty);
        let known = dirty.entry(space.clone()).or_insert(urgency);
        *known = urgency.max(*known);
        drop(dirty);
        self.noted.notify_one();
    }
}

impl SpaceRecord {
    fn new(uid: &str) -> Arc<Self> {
        Arc::new(Self {
            uid: uid.into(),
            credentials: RwLock::default(),
            dropped: AtomicU64::new(0),
            touched: AtomicI64::new(0),
        })
    }

    fn find_or_add(&self, key: CredentialKey, add: impl FnOnce() -> Noted) -> Arc<Noted> {
        let credentials = self
            .credentials
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = credentials.get(&key) {
            return Arc::clone(found);
        }
        drop(credentials);
        let mut credentials = self
            .credentials
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if credentials.len() >= MAX_CREDENTIALS && !credentials.contains_key(&key) {
            // Expired ones go first, then those that matter for the shortest time.
            let order = |noted: &Noted| (noted.expires.unwrap_or(i64::MAX), noted.last_seen());
            let first = credentials.iter().min_by_key(|(_, noted)| order(noted));
            if let Some(first) = first.map(|(key, _)| key.clone()) {
                credentials.remove(&first);
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        Arc::clone(credentials.entry(key).or_insert_with(|| Arc::new(add())))
    }
}

impl CredentialKey {
    fn new(kind: CredentialKind, credential: &CredentialRef) -> Self {
        Self {
            is_certificate: kind == CredentialKind::Certificate,
            id: Arc::clone(&credential.id),
        }
    }
}

impl Noted {
    fn new(kind: CredentialKind, holder: &Principal) -> Self {
        let credential = &holder.credential;
        Self {
            kind,
            user: holder.user.clone(),
            groups: first_groups(&holder.groups),
            issued: credential.issued,
            expires: credential.expires,
            first_used: AtomicI64::new(0),
            last_used: AtomicI64::new(0),
            address: Mutex::default(),
            is_taken: AtomicBool::new(false),
        }
    }

    /// When it was last used or, if never, issued.
    fn last_seen(&self) -> i64 {
        let issued = self.issued.unwrap_or(0);
        self.last_used.load(Ordering::Relaxed).max(issued)
    }

    fn take(&self, key: &CredentialKey) -> CredentialRecord {
        // A credential may have been issued later in the minute that it was used in.
        let issued = |minute| {
            self.issued
                .filter(|issued| issued - minute < MINUTE_SECONDS)
        };
        let time = |time: &AtomicI64| {
            let minute = Some(time.load(Ordering::Relaxed)).filter(|minute| *minute != 0)?;
            Some(issued(minute).map_or(minute, |issued| minute.max(issued)))
        };
        CredentialRecord {
            id: Arc::clone(&key.id),
            kind: self.kind,
            user: self.user.clone(),
            groups: self.groups.clone(),
            issued: self.issued,
            expires: self.expires,
            first_used: time(&self.first_used),
            last_used: time(&self.last_used),
            last_address: lock(&self.address).map(|address| address.to_string()),
            counts: !self.is_taken.swap(true, Ordering::Relaxed),
        }
    }
}

fn first_groups(groups: &[String]) -> Vec<String> {
    let short = |group: &String| group.chars().take(MAX_GROUP_CHARACTERS).collect();
    groups.iter().take(MAX_GROUPS).map(short).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use insula_core::{Extra, TenantBinding};

    use super::*;

    fn holder(tenant: &str, id: &str) -> Principal {
        Principal {
            user: "dora".to_owned(),
            uid: None,
            groups: (0..20).map(|number| format!("g{number}")).collect(),
            extra: Extra::new(),
            home: Space::parse(tenant).unwrap(),
            tenant_binding: TenantBinding::Name,
            proof: Proof::Oidc,
            credential: CredentialRef {
                id: id.into(),
                issued: Some(30),
                ..CredentialRef::default()
            },
            impersonator: None,
        }
    }

    /// Notes a use from this address.
    fn note(records: &AccessRecords, uid: &str, holder: &Principal, last: u8, now: i64) {
        let address = Some(IpAddr::from([10, 0, 0, last]));
        records.note_use(uid, holder, address, now);
    }

    #[test]
    fn use_is_noted_by_the_minute_with_the_last_address() {
        let records = AccessRecords::default();
        let dora = holder("t1", "a");
        note(&records, "u", &dora, 1, 125);
        assert_eq!(records.dirty(), [(dora.home.clone(), Urgency::Soon)]);
        note(&records, "u", &dora, 2, 179);
        let taken = records.take(&dora.home).unwrap();
        let [one] = &taken.credentials[..] else {
            panic!("{taken:?}");
        };
        assert_eq!((one.first_used, one.last_used), (Some(120), Some(120)));
        assert_eq!(one.last_address.as_deref(), Some("10.0.0.1"));
        assert_eq!(
            (one.groups.len(), one.kind),
            (8, CredentialKind::OpenIdToken)
        );
        note(&records, "u", &dora, 3, 179);
        assert_eq!(records.dirty(), [], "the same minute is not noted again");
        note(&records, "u", &dora, 4, 180);
        assert_eq!(records.dirty(), [(dora.home.clone(), Urgency::Later)]);
        let one = &records.take(&dora.home).unwrap().credentials[0];
        assert_eq!((one.first_used, one.last_used), (Some(120), Some(180)));
        assert_eq!(one.last_address.as_deref(), Some("10.0.0.4"));
    }

    #[test]
    fn credential_is_not_used_before_it_is_issued() {
        let records = AccessRecords::default();
        let mut dora = holder("t1", "a");
        for (issued, used) in [(150, 150), (179, 179), (180, 120), (90, 120)] {
            dora.credential.id = format!("issued{issued}").into();
            dora.credential.issued = Some(issued);
            note(&records, "u", &dora, 1, 179);
            let taken = records.take(&dora.home).unwrap().credentials;
            let one = taken.iter().find(|one| one.issued == Some(issued)).unwrap();
            assert_eq!((one.first_used, one.last_used), (Some(used), Some(used)));
        }
    }

    #[test]
    fn least_recently_used_credentials_are_dropped_and_counted() {
        let records = AccessRecords::default();
        for number in 0..=MAX_CREDENTIALS {
            let now = 60 * (number as i64 + 1);
            note(&records, "u", &holder("t1", &format!("c{number}")), 1, now);
        }
        let taken = records.take(&holder("t1", "").home).unwrap();
        assert_eq!(
            (taken.credentials.len(), taken.dropped),
            (MAX_CREDENTIALS, 1)
        );
        assert!(taken.credentials.iter().all(|one| &*one.id != "c0"));
    }

    #[test]
    fn credential_that_expires_first_is_dropped_for_another() {
        let records = AccessRecords::default();
        for number in 0..=MAX_CREDENTIALS {
            let mut dora = holder("t1", &format!("c{number}"));
            dora.groups = vec!["g".repeat(100)];
            dora.credential.expires = Some(if number == 500 { 600 } else { 6000 });
            note(&records, "u", &dora, 1, 60);
        }
        let taken = records.take(&holder("t1", "").home).unwrap();
        assert_eq!(taken.dropped, 1);
        assert!(taken.credentials.iter().all(|one| &*one.id != "c500"));
        assert_eq!(taken.credentials[0].groups, ["g".repeat(64)]);
    }

    #[test]
    fn another_tenant_of_the_name_and_an_idle_one_begin_anew() {
        let records = AccessRecords::default();
        let dora = holder("t1", "a");
        note(&records, "u", &dora, 1, 60);
        note(&records, "v", &holder("t1", "b"), 1, 60);
        let taken = records.take(&dora.home).unwrap();
        let ids: Vec<&str> = taken.credentials.iter().map(|one| &*one.id).collect();
        assert_eq!((&*taken.uid, ids), ("v", vec!["b"]));
        records.forget_idle(60);
        assert!(!records.is_empty());
        records.forget_idle(61);
        assert!(records.is_empty());
    }
}
