//! What a definition says, compiled once for all who have the same.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use insula_custom::kind::CompileError as DefinitionError;
use insula_custom::{CompileError, Definition, Schema};
use insula_kinds::{Kind, Object, Value};
use ring::digest::{SHA256, digest};

/// What tells a definition from all others.
pub type Id = [u8; 32];

/// A definition, and its schemas once somebody needs them.
pub struct Defined {
    id: Id,
    definition: Definition,
    /// The place of the version that objects are stored in.
    storage: usize,
    schemas: Vec<OnceLock<Result<Arc<Schema>, CompileError>>>,
    /// How objects of each version are merged.
    merges: Vec<OnceLock<Arc<insula_ownership::Schema>>>,
}

/// All definitions that are in use, each once.
#[derive(Debug, Default)]
pub struct Definitions {
    known: Mutex<HashMap<Id, Weak<Defined>>>,
    /// Those that were asked for last, so that a space which falls asleep and wakes up does
    /// not have everything compiled again.
    recent: Mutex<VecDeque<Arc<Defined>>>,
}

/// How many definitions are kept though no space holds them.
const RECENT: usize = 16;

impl Definitions {
    /// What a definition says, as its object has it.
    pub fn get(&self, definition: &Object) -> Result<Arc<Defined>, DefinitionError> {
        let (spec, accepted) = parts(definition);
        let id = identify(spec, accepted);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&id).and_then(Weak::upgrade) {
            return Ok(found);
        }
        drop(known);
        let made = Arc::new(Defined::compile(id, spec, accepted)?);
        known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= 2 * known.values().filter(|one| one.strong_count() > 0).count() {
            known.retain(|_, one| one.strong_count() > 0);
        }
        if let Some(found) = known.get(&id).and_then(Weak::upgrade) {
            return Ok(found);
        }
        known.insert(id, Arc::downgrade(&made));
        drop(known);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(Arc::clone(&made));
        if recent.len() > RECENT {
            recent.pop_front();
        }
        Ok(made)
    }

    /// How many different ones are in use.
    pub fn count(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter(|one| one.strong_count() > 0).count()
    }
}

impl Defined {
    fn compile(id: Id, spec: &Value, accepted: &Value) -> Result<Self, DefinitionError> {
        let definition = Definition::compile(spec, accepted)?;
        let versions = definition.versions.len();
        let schemas = (0..versions).map(|_| OnceLock::new()).collect();
        let merges = (0..versions).map(|_| OnceLock::new()).collect();
        Ok(Self {
            id,
            storage: definition
                .versions
                .iter()
                .position(|version| version.storage)
                .unwrap_or(0),
            definition,
            schemas,
            merges,
        })
    }

    /// What tells it from all others.
    pub const fn id(&self) -> &Id {
        &self.id
    }

    /// What it says.
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The kind in the version in which it is stored.
    pub fn kind(&self) -> &Kind {
        &self.definition.versions[self.storage].kind
    }

    /// The place of the version that objects are stored in.
    pub const fn storage(&self) -> usize {
        self.storage
    }

    /// The place of a version.
    pub fn version(&self, name: &str) -> Option<usize> {
        let mut versions = self.definition.versions.iter();
        versions.position(|version| version.kind.version == name)
    }

    /// Whether the schema of a version is at hand.
    pub fn has_schema(&self, version: usize) -> bool {
        self.schemas[version].get().is_some()
    }

    /// The schema of a version.
    pub fn schema(&self, version: usize) -> Result<&Arc<Schema>, &CompileError> {
        let slot = &self.schemas[version];
        let schema = slot.get_or_init(|| {
            let json = &self.definition.versions[version].schema;
            Schema::compile(json).map(Arc::new)
        });
        schema.as_ref()
    }
}

impl Defined {
    /// How objects of a version are merged.
    pub fn merges(&self, version: usize) -> &insula_ownership::Schema {
        self.merges[version].get_or_init(|| {
            let json = &self.definition.versions[version].schema;
            insula_ownership::Schema::custom(json.is_object().then_some(json))
        })
    }
}

impl std::fmt::Debug for Defined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind().qualified_resource())
    }
}

/// What the compiled form follows from.
fn parts(definition: &Object) -> (&Value, &Value) {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let status = definition.get("status");
    let accepted = status.and_then(|status| status.get("acceptedNames"));
    (spec, accepted.unwrap_or(&Value::Null))
}

/// Nobody can make a definition that is taken for another's.
fn identify(spec: &Value, accepted: &Value) -> Id {
    let text = format!("{spec}\n{accepted}");
    let mut id = Id::default();
    id.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    id
}
