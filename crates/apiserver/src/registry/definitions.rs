//! Compiled custom resource definitions, shared by all spaces with an equal definition.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use insula_custom::kind::CompileError as DefinitionError;
use insula_custom::{CompileError, Definition, Schema};
use insula_kinds::{Kind, Object, Value};
use ring::digest::{SHA256, digest};

/// The digest that identifies a definition.
pub type Id = [u8; 32];

/// A compiled definition. Its schemas are compiled on first use.
pub struct Defined {
    id: Id,
    definition: Definition,
    /// The index of the storage version.
    storage: usize,
    schemas: Vec<OnceLock<Result<Arc<Schema>, CompileError>>>,
    /// The merge schema of each version.
    merges: Vec<OnceLock<Arc<insula_ownership::Schema>>>,
}

/// The definitions in use, each compiled once.
#[derive(Debug, Default)]
pub struct Definitions {
    known: Mutex<HashMap<Id, Weak<Defined>>>,
    /// The definitions that were compiled last, so that a space whose derived values were
    /// dropped does not compile all of them again.
    recent: Mutex<VecDeque<Arc<Defined>>>,
}

/// The number of definitions that are kept without a space that uses them.
const RECENT: usize = 16;

impl Definitions {
    /// Returns the compiled form of a definition object.
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

    /// Returns the number of distinct definitions in use.
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

    /// Returns the digest that identifies it.
    pub const fn id(&self) -> &Id {
        &self.id
    }

    /// Returns the definition.
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns the kind in its storage version.
    pub fn kind(&self) -> &Kind {
        &self.definition.versions[self.storage].kind
    }

    /// Returns the index of the storage version.
    pub const fn storage(&self) -> usize {
        self.storage
    }

    /// Returns the index of a version.
    pub fn version(&self, name: &str) -> Option<usize> {
        let mut versions = self.definition.versions.iter();
        versions.position(|version| version.kind.version == name)
    }

    /// Whether the schema of a version is compiled.
    pub fn has_schema(&self, version: usize) -> bool {
        self.schemas[version].get().is_some()
    }

    /// Returns the schema of a version, and compiles it on first use.
    pub fn schema(&self, version: usize) -> Result<&Arc<Schema>, &CompileError> {
        let slot = &self.schemas[version];
        let schema = slot.get_or_init(|| {
            let json = self.definition.versions[version].schema.parse();
            Schema::compile(&json).map(Arc::new)
        });
        schema.as_ref()
    }
}

impl Defined {
    /// Returns the merge schema of a version.
    pub fn merges(&self, version: usize) -> &insula_ownership::Schema {
        self.merges[version].get_or_init(|| {
            let json = self.definition.versions[version].schema.parse();
            insula_ownership::Schema::custom(json.is_object().then_some(&json))
        })
    }
}

impl std::fmt::Debug for Defined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind().qualified_resource())
    }
}

/// Returns the parts of the object that determine the compiled form.
fn parts(definition: &Object) -> (&Value, &Value) {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let status = definition.get("status");
    let accepted = status.and_then(|status| status.get("acceptedNames"));
    (spec, accepted.unwrap_or(&Value::Null))
}

/// Returns the SHA-256 of the definition. It is collision resistant, because tenants share
/// compiled definitions.
fn identify(spec: &Value, accepted: &Value) -> Id {
    let text = format!("{spec}\n{accepted}");
    let mut id = Id::default();
    id.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    id
}
