//! Field ownership (`managedFields`) of the objects that requests write.
//!
//! Owned fields are recorded in the version in which they were written. Comparing them may need
//! the object in other versions. Where only a webhook can convert it, the conversion is queued,
//! performed, and the computation repeated.

use std::sync::{Mutex, PoisonError};

use insula_kinds::{Object, Value, convert, encode, kinds, prepare, time};
use insula_ownership::managers::{self, ApplyError, Subject, Version, Writer};

use super::metadata;
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::resource::{Custom, Resource};
use crate::registry::versions;
use crate::status::{Result, StatusError};

/// The field manager of the server's own writes.
const SERVER: &str = "insula";

/// Field ownership of the object that a request writes.
pub struct Ownership<'a> {
    registry: &'a Registry,
    caller: Option<Caller<'a>>,
    kind: &'a Resource,
    subresource: Option<&'a str>,
    manager: String,
    now: String,
    conversions: Mutex<Conversions>,
}

/// Conversions of the object to other versions.
#[derive(Default)]
struct Conversions {
    known: Vec<Conversion>,
    pending: Vec<ConversionRequest>,
}

struct ConversionRequest {
    object: Object,
    version: String,
}

struct Conversion {
    request: ConversionRequest,
    /// `None` if the object cannot be converted.
    object: Option<Object>,
}

impl<'a> Ownership<'a> {
    /// Returns the field ownership for a write to an object or its subresource, in the version of
    /// the request. Without a caller the server itself writes.
    pub fn new(
        registry: &'a Registry,
        caller: Option<Caller<'a>>,
        kind: &'a Resource,
        subresource: Option<&'a str>,
    ) -> Self {
        let manager = caller.map(|caller| caller.context.field_manager());
        Self {
            registry,
            caller,
            kind,
            subresource,
            manager: manager.unwrap_or_else(|| SERVER.to_owned()),
            now: time::now(),
            conversions: Mutex::default(),
        }
    }

    /// Records the fields of a new object as the writer's.
    pub async fn record_new(&self, new: &mut Object) -> Result<()> {
        let zero = managers::zero(self.kind);
        self.record(&zero, new).await
    }

    /// Records the fields that a change sets as the writer's, where both objects lack their managed
    /// fields, and returns these as text. `None` if they have to be looked into.
    pub fn record_text(&self, live: &Object, known: &[u8], new: &mut Object) -> Option<String> {
        let known = std::str::from_utf8(known).ok()?;
        prepare::fold_string_data(self.kind, new);
        encode::complete(self.kind.type_id(), new);
        self.as_subject(|subject, writer| subject.update_text(known, live, new, writer))
    }

    /// Records the fields that a change sets as the writer's.
    pub async fn record(&self, live: &Object, new: &mut Object) -> Result<()> {
        if !self.kind.is_custom() {
            prepare::fold_string_data(self.kind, new);
            // An empty list asks for a reset of the managed fields, so it must survive.
            let sent = metadata::of(new).get("managedFields");
            let reset = sent.filter(|list| list.as_array().is_some_and(Vec::is_empty));
            let reset = reset.cloned();
            encode::complete(self.kind.type_id(), new);
            metadata::of(new).extend(reset.map(|list| ("managedFields".to_owned(), list)));
        }
        let sent = match self.kind.custom().is_some_and(Custom::converts_by_webhook) {
            true => metadata::of(new).get("managedFields").cloned(),
            false => None,
        };
        loop {
            self.as_subject(|subject, writer| subject.update(live, new, writer));
            if !self.convert_pending().await? {
                return Ok(());
            }
            match &sent {
                Some(sent) => metadata::of(new).insert("managedFields".to_owned(), sent.clone()),
                None => metadata::of(new).remove("managedFields"),
            };
        }
    }

    /// Applies a configuration to an object. The result is final only when
    /// [`convert_pending`](Self::convert_pending) has nothing left to convert.
    pub fn apply(&self, live: &Object, config: &Object, force: bool) -> Result<Object> {
        self.as_subject(|subject, writer| subject.apply(live, config, writer, force))
            .map_err(apply_error)
    }

    /// Applies a configuration to an object that does not exist.
    pub async fn apply_new(&self, config: &Object, force: bool) -> Result<Object> {
        let zero = managers::zero(self.kind);
        loop {
            let applied = self.apply(&zero, config, force);
            if !self.convert_pending().await? {
                return applied;
            }
        }
    }

    fn as_subject<T>(&self, run: impl FnOnce(Subject<'_>, Writer<'_>) -> T) -> T {
        let schema = self.kind.merges();
        let reset = managers::reset(self.kind, self.subresource.unwrap_or(""));
        let zero = managers::zero(self.kind);
        let convert = |object: &Object, version: &str| self.in_version(object, version);
        let subject = Subject {
            api_version: self.kind.api_version(),
            schema: &schema,
            reset: &reset,
            zero: &zero,
            convert: &convert,
        };
        let writer = Writer {
            manager: &self.manager,
            subresource: self.subresource.unwrap_or(""),
            now: &self.now,
        };
        run(subject, writer)
    }

    /// Returns the object in another version, if that needs no call of a webhook.
    fn in_version(&self, object: &Object, version: &str) -> Option<Version> {
        let other = self.version(version)?;
        let object = match (self.kind, &other) {
            (Resource::Custom(custom), Resource::Custom(_)) if custom.converts_by_webhook() => {
                self.converted(object, version)?
            }
            (Resource::Custom(_), _) => {
                let mut object = object.clone();
                object.insert("apiVersion".to_owned(), version.into());
                object
            }
            (Resource::BuiltIn(_), _) => {
                let mut object = object.clone();
                convert::convert(self.kind, &self.kind.storage(), &mut object);
                convert::convert(&self.kind.storage(), &other, &mut object);
                encode::complete(other.type_id(), &mut object);
                object
            }
        };
        Some(Version {
            object,
            schema: other.merges(),
            reset: managers::reset(&other, self.subresource.unwrap_or("")),
        })
    }

    /// Returns the resource in another version.
    fn version(&self, api_version: &str) -> Option<Resource> {
        match self.kind {
            Resource::Custom(custom) => {
                let version = api_version.strip_prefix(&self.kind.group)?;
                let named = custom.named(version.strip_prefix('/')?)?;
                Some(Resource::Custom(named))
            }
            Resource::BuiltIn(_) => {
                let storage = self.kind.storage();
                let mut all = kinds().iter();
                let found = all.find(|(_, kind)| {
                    kind.api_version() == api_version && storage.is(kind.storage())
                });
                found.map(|(id, _)| id.into())
            }
        }
    }

    fn converted(&self, object: &Object, version: &str) -> Option<Object> {
        let mut conversions = self.lock();
        let mut known = conversions.known.iter();
        if let Some(found) = known.find(|known| known.request.is(object, version)) {
            return found.object.clone();
        }
        let mut pending = conversions.pending.iter();
        if !pending.any(|pending| pending.is(object, version)) {
            conversions.pending.push(ConversionRequest {
                object: object.clone(),
                version: version.to_owned(),
            });
        }
        None
    }

    /// Performs the pending conversions. Returns whether there were any.
    pub async fn convert_pending(&self) -> Result<bool> {
        let pending = std::mem::take(&mut self.lock().pending);
        let any = !pending.is_empty();
        for request in pending {
            let object = match (self.kind, self.version(&request.version)) {
                (Resource::Custom(from), Some(Resource::Custom(to))) => {
                    let context = self.caller.map(|caller| caller.context);
                    let tree = request.object.clone();
                    let converted = versions::convert(self.registry, context, from, &to, tree);
                    Some(converted.await?)
                }
                _ => None,
            };
            self.lock().known.push(Conversion { request, object });
        }
        Ok(any)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Conversions> {
        self.conversions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConversionRequest {
    fn is(&self, object: &Object, version: &str) -> bool {
        self.version == version && self.object == *object
    }
}

impl std::fmt::Debug for Ownership<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {:?}", self.manager, self.kind)
    }
}

/// Restores the managed fields if a mutating webhook left them invalid. Returns the warning.
pub fn restore_if_invalid(before: Option<Value>, object: &mut Object) -> Option<String> {
    let metadata = metadata::of(object);
    let why = managers::validate(metadata.get("managedFields")?).err()?;
    match before {
        Some(before) => metadata.insert("managedFields".to_owned(), before),
        None => metadata.remove("managedFields"),
    };
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused \
         by an outdated mutating admission controller; please fix your requests: {why}"
    ))
}

/// Converts the error of an apply.
pub fn apply_error(error: ApplyError) -> StatusError {
    match error {
        ApplyError::Conflict { message, causes } => StatusError::apply_conflict(message, causes),
        ApplyError::Schema(why) => StatusError::plain_error(why),
        ApplyError::BadRequest(why) => StatusError::bad_request(why),
    }
}
