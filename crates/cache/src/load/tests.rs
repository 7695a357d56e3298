//! A load with several readers, compared with a model that reads one entry after the other.

use std::collections::{BTreeMap, BTreeSet};

use insula_core::{Place, TenantName};
use insula_kinds::{KindId, core_kind, kinds};
use insula_store::embedded::{Embedded, Options};
use insula_store::memory::Memory;
use insula_store::{Outcome, Transaction};
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::*;
use crate::collection::Event;
use crate::collection_key::CollectionKey;
use crate::derived::Derived;
use crate::expiry;
use crate::feed::has_owners;
use crate::owner_graph::{Hold, Node};
use crate::space_state::SpaceState;
use crate::usage::Usage;

#[derive(Debug)]
struct NoHooks;

impl Hooks for NoHooks {
    fn invalidates(&self, _: KindId, _: &[Arc<Event>]) -> Option<Derived> {
        None
    }

    fn shadowed(&self, _: KindId, _: &Space, _: &Stored, _: &SpaceState) -> Option<Arc<Stored>> {
        None
    }
}

/// Resources with all sorts of keys and texts, and whether they are namespaced.
const RESOURCES: [(&str, &str, bool); 8] = [
    ("", "configmaps", true),
    ("", "events", true),
    ("", "namespaces", false),
    ("", "serviceaccounts", true),
    ("", "tenants", false),
    ("apiextensions.k8s.io", "customresourcedefinitions", false),
    ("example.com", "things", true),
    ("example.com", "worlds", false),
];

/// Spaces; the last one has no tenant.
const SPACES: [&str; 5] = ["system", "a", "a-b", "ab", "gone"];

/// A write to the store.
#[derive(Clone, Debug)]
struct Write {
    resource: usize,
    space: usize,
    namespace: usize,
    name: usize,
    owner: Option<usize>,
    is_terminating: bool,
    is_deletion: bool,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    let numbers = (0..RESOURCES.len(), 0..SPACES.len(), 0..3_usize, 0..60_usize);
    let owner = prop::option::weighted(0.2, 0..4_usize);
    let flags = (prop::bool::weighted(0.05), prop::bool::weighted(0.1));
    let write = (numbers, owner, flags).prop_map(|(numbers, owner, flags)| Write {
        resource: numbers.0,
        space: numbers.1,
        namespace: numbers.2,
        name: numbers.3,
        owner,
        is_terminating: flags.0,
        is_deletion: flags.1,
    });
    prop::collection::vec(write, 0..900)
}

impl Write {
    fn key(&self, layout: &Layout) -> String {
        let (group, resource, namespaced) = RESOURCES[self.resource];
        let space = match resource {
            "tenants" => Space::System,
            _ => Space::parse(SPACES[self.space]).unwrap(),
        };
        let namespaces = ["default", "kube-system", "x"];
        let names = [
            self.object_name(),
            "default".to_owned(),
            "kube-root-ca.crt".to_owned(),
        ];
        let name = match (resource, self.name % 20) {
            ("tenants", _) => SPACES[self.space].to_owned(),
            ("namespaces", 0) => namespaces[self.namespace].to_owned(),
            (_, 0) => names[1].clone(),
            (_, 1) => names[2].clone(),
            _ => names[0].clone(),
        };
        let place = Place {
            space,
            namespace: namespaced.then_some(namespaces[self.namespace]),
            name: &name,
        };
        layout.key(ResourceName { group, resource }, &place)
    }

    fn object_name(&self) -> String {
        format!("object-{:02}", self.name)
    }

    fn value(&self, number: usize) -> String {
        let mut metadata = format!(
            r#""name":"{}","namespace":"x","uid":"u-{number}","creationTimestamp":"2026-01-01T00:00:00Z""#,
            self.object_name(),
        );
        if self.is_terminating {
            metadata += r#","deletionTimestamp":"2026-01-01T00:00:00Z""#;
        }
        if let Some(owner) = self.owner {
            metadata += &format!(
                r#","ownerReferences":[{{"kind":"K","uid":"owner-{owner}","blockOwnerDeletion":true}}]"#
            );
        }
        if self.is_terminating {
            metadata += r#","finalizers":["foregroundDeletion"]"#;
        }
        let (_, resource, _) = RESOURCES[self.resource];
        let text = match resource {
            "customresourcedefinitions" => "y".repeat(9_000),
            _ => "x".repeat(self.name),
        };
        format!(r#"{{"kind":"K","metadata":{{{metadata}}},"spec":"{text}"}}"#)
    }
}

/// Writes to a store, each in a transaction with its fence.
async fn fill(store: &dyn Store, layout: &Layout, writes: &[Write]) {
    for space in &SPACES[1..4] {
        let key = layout.key(
            ResourceName {
                group: "",
                resource: "tenants",
            },
            &Place {
                space: Space::System,
                namespace: None,
                name: space,
            },
        );
        let value =
            format!(r#"{{"kind":"Tenant","metadata":{{"name":"{space}","uid":"{space}"}}}}"#);
        store
            .commit(Transaction::new().put(key, value))
            .await
            .unwrap();
    }
    for (number, write) in writes.iter().enumerate() {
        let key = write.key(layout);
        let mut transaction = match write.is_deletion {
            true => Transaction::new().delete(key),
            false => {
                let value = write.value(number).into();
                let is_event = RESOURCES[write.resource].1 == "events";
                let value = match is_event {
                    true => expiry::stored(core_kind("events"), value),
                    false => value,
                };
                Transaction::new().put(key, value)
            }
        };
        if number % 50 == 0 {
            let tenant = TenantName::parse(SPACES[1 + number % 3]).unwrap();
            transaction = transaction.put(layout.fence(&tenant), "");
        }
        let outcome = store.commit(transaction).await.unwrap();
        assert!(!matches!(outcome, Outcome::Conflict(_)));
    }
}

/// Key, revision, text, and time of the last write.
type Object = (String, u64, String, u32);

/// What can be seen of a loaded cache.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Revision of the last change, and objects.
    collections: BTreeMap<(String, Space), (u64, Vec<Object>)>,
    usages: BTreeMap<Space, Usage>,
    births: BTreeMap<Space, (u64, String, i64)>,
    fences: BTreeMap<String, u64>,
    /// Dependents by space and owner, in the order of the graph.
    dependents: BTreeMap<(Space, String), Vec<(String, String)>>,
    holds: BTreeMap<(Space, String), String>,
    /// What the collector is given.
    queued: BTreeSet<(Space, String, String)>,
    applied: u64,
}

fn node(node: &Node) -> (String, String) {
    use crate::Keyed;
    (format!("{:?}", node.collection_key()), node.key.to_string())
}

fn spaces() -> impl Iterator<Item = Space> {
    SPACES.iter().map(|space| Space::parse(space).unwrap())
}

fn owners() -> impl Iterator<Item = (Space, String)> {
    spaces().flat_map(|space| (0..4).map(move |owner| (space.clone(), format!("owner-{owner}"))))
}

impl Seen {
    fn of(cache: &Cache) -> Self {
        let mut seen = Self {
            applied: cache.applied().get(),
            ..Self::default()
        };
        for (group, resource, _) in RESOURCES {
            let key = match kinds().find_storage(group, resource) {
                Some(kind) => CollectionKey::BuiltIn(kind),
                None => CollectionKey::Custom { group, resource },
            };
            for (space, collection) in cache.everywhere(key) {
                let snapshot = collection.snapshot("", None);
                let objects = snapshot.objects.iter().map(|object| {
                    let text = String::from_utf8(object.body().to_vec()).unwrap();
                    (
                        object.key.to_string(),
                        object.revision.get(),
                        text,
                        object.written,
                    )
                });
                let found = (collection.last().get(), objects.collect());
                seen.collections.insert((resource.to_owned(), space), found);
            }
        }
        seen.usages = cache.usages().into_iter().collect();
        for space in spaces() {
            if let Some(state) = cache.space_state(&space) {
                let of = (state.birth.get(), state.uid.to_string(), state.created);
                seen.births.insert(space.clone(), of);
            }
            let fence = space.tenant().and_then(|tenant| cache.fence(tenant));
            seen.fences
                .extend(fence.map(|fence| (space.to_string(), fence.get())));
        }
        let graph = cache.owner_graph();
        for (space, owner) in owners() {
            let found = graph.dependents(&space, &owner, None, usize::MAX);
            if !found.is_empty() {
                let hold = graph.hold(&space, &owner, None, &Default::default());
                let place = (space, owner);
                seen.holds.insert(place.clone(), format!("{hold:?}"));
                seen.dependents
                    .insert(place, found.iter().map(node).collect());
            }
        }
        graph.follow();
        while let Some((space, nodes)) = graph.take(usize::MAX) {
            for one in &nodes {
                let (resource, key) = node(one);
                seen.queued.insert((space.clone(), resource, key));
            }
        }
        seen
    }

    /// Reads the store entry by entry, and inserts one object after the other.
    async fn model(store: &dyn Store, cache: &Cache) -> Self {
        let page = store
            .range(&KeyRange::all(), At::Latest, None)
            .await
            .unwrap();
        let mut seen = Self {
            applied: page.revision.get(),
            ..Self::default()
        };
        let start = page.revision.get();
        let mut holds: BTreeMap<(Space, String), [usize; 2]> = BTreeMap::new();
        for entry in &page.entries {
            let text = std::str::from_utf8(&entry.key).unwrap();
            if let Some(tenant) = Layout::default().fenced(text) {
                seen.fences.insert(tenant.to_string(), entry.modified.get());
            }
            let Some(found) = cache.parse(&entry.key) else {
                continue;
            };
            let name = text
                .split('/')
                .find(|part| RESOURCES.iter().any(|of| of.1 == *part));
            let name = name.unwrap().to_owned();
            let (value, written) = match name.as_str() {
                "events" => expiry::undated(&entry.value),
                _ => ((&*entry.value).into(), 0),
            };
            let object = Stored::new(found.key.into(), entry.modified, &value);
            if name == "tenants"
                && let Ok(space @ Space::Tenant(_)) = Space::parse(object.name())
            {
                let uid = object.uid().unwrap().to_owned();
                let created = object.created().unwrap_or(i64::MAX);
                let birth = (entry.created.get(), uid, created);
                seen.births.insert(space.clone(), birth);
                seen.usages.entry(space).or_default();
            }
            if name == "tenants" && object.name() == "system" {
                let birth = (
                    entry.created.get(),
                    object.uid().unwrap().to_owned(),
                    object.created().unwrap_or(i64::MAX),
                );
                seen.births.insert(Space::System, birth);
            }
            let place = (name, found.space.clone());
            let (last, objects) = seen.collections.entry(place).or_default();
            *last = (*last).max(entry.modified.get()).max(start);
            let text = String::from_utf8(object.body().to_vec()).unwrap();
            objects.push((found.key.to_owned(), entry.modified.get(), text, written));
            objects.sort();
            if !found.space.is_system() && cache.space_state(&found.space).is_some() {
                let usage = seen.usages.entry(found.space.clone()).or_default();
                *usage = *usage + Usage::one(found.collection, value.len());
            }
            let refs = object.owner_refs().filter(|_| has_owners(found.collection));
            let Some(refs) = refs else { continue };
            let (resource, key) = node(&Node::new(found.collection, &object));
            for owner in &refs.owners {
                let place = (found.space.clone(), owner.uid.to_string());
                let all = seen.dependents.entry(place.clone()).or_default();
                all.push((resource.clone(), key.clone()));
                let count = holds.entry(place).or_default();
                count[usize::from(refs.awaits_dependents())] += 1;
            }
            seen.queued.insert((found.space.clone(), resource, key));
        }
        for (place, [plain, waiting]) in holds {
            let hold = match (plain, waiting) {
                (0, 0) => Hold::None,
                (0, _) => Hold::Waiting,
                (_, 0) => Hold::Plain,
                _ => Hold::Waiting,
            };
            seen.holds.insert(place, format!("{hold:?}"));
        }
        for all in seen.dependents.values_mut() {
            all.sort();
        }
        seen
    }
}

async fn check(store: Arc<dyn Store>, writes: &[Write]) -> Result<(), TestCaseError> {
    let layout = Layout::default();
    fill(&*store, &layout, writes).await;
    for readers in [1, 2, 5] {
        let hooks = Box::new(NoHooks);
        let loaded = load_with(&store, layout.clone(), hooks, readers).await;
        let (cache, _feed) = loaded.unwrap();
        let mut expected = Seen::model(&*store, &cache).await;
        let mut found = Seen::of(&cache);
        for seen in [&mut expected, &mut found] {
            // The order of kinds is that of the table, which the model does not know.
            seen.dependents.values_mut().for_each(|all| all.sort());
        }
        prop_assert_eq!(&found, &expected, "{} readers", readers);
    }
    Ok(())
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn memory_store_is_loaded_as_by_one_reader(writes in writes()) {
        runtime().block_on(check(Arc::new(Memory::new()), &writes))?;
    }

    #[test]
    fn embedded_store_is_loaded_as_by_one_reader(writes in writes()) {
        let folder = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            let store = Embedded::open(folder.path(), Options::default()).await.unwrap();
            check(Arc::new(store), &writes).await
        })?;
    }
}

/// A store that counts the entries that are read from it.
struct Counting {
    inner: Memory,
    entries: std::sync::atomic::AtomicUsize,
    largest: std::sync::atomic::AtomicUsize,
}

#[async_trait::async_trait]
impl Store for Counting {
    async fn revision(&self) -> Result<Revision> {
        self.inner.revision().await
    }

    async fn range(
        &self,
        range: &KeyRange,
        at: At,
        limit: Option<NonZeroUsize>,
    ) -> Result<insula_store::Page> {
        use std::sync::atomic::Ordering::Relaxed;
        let page = self.inner.range(range, at, limit).await?;
        self.entries.fetch_add(page.entries.len(), Relaxed);
        let bytes = page.entries.iter().map(|entry| entry.value.len()).sum();
        self.largest.fetch_max(bytes, Relaxed);
        Ok(page)
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome> {
        self.inner.commit(transaction).await
    }

    async fn watch(
        &self,
        range: KeyRange,
        after: Revision,
    ) -> Result<Box<dyn insula_store::Watch>> {
        self.inner.watch(range, after).await
    }

    async fn compact(&self, floor: Revision) -> Result<()> {
        self.inner.compact(floor).await
    }
}

#[test]
fn one_reader_reads_every_entry_once_and_pages_are_small() {
    const OBJECTS: usize = 20_000;
    let store = Counting {
        inner: Memory::new(),
        entries: Default::default(),
        largest: Default::default(),
    };
    runtime().block_on(async {
        for start in (0..OBJECTS).step_by(100) {
            let mut transaction = Transaction::new();
            for n in start..start + 100 {
                // The last ones are large.
                let text = "x".repeat(if n < OBJECTS - 300 { 10 } else { 10_000 });
                let value =
                    format!(r#"{{"metadata":{{"name":"{n:06}","uid":"u-{n}"}},"x":"{text}"}}"#);
                transaction = transaction.put(format!("/registry/configmaps/x/{n:06}"), value);
            }
            store.commit(transaction).await.unwrap();
        }
        let store = Arc::new(store);
        let shared: Arc<dyn Store> = Arc::<Counting>::clone(&store);
        let hooks = Box::new(NoHooks);
        let (cache, _feed) = load_with(&shared, Layout::default(), hooks, 1)
            .await
            .unwrap();
        let loaded = cache.find(core_kind("configmaps"), &Space::System).unwrap();
        assert_eq!(loaded.count("", usize::MAX), OBJECTS);
        let read = store.entries.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(read, OBJECTS);
        let largest = store.largest.load(std::sync::atomic::Ordering::Relaxed);
        assert!(largest < 4 * PAGE_BYTES, "{largest}");
    });
}
