//! Server-side apply.

use bytes::Bytes;
use insula_kinds::{FieldError, Object, Value};
use insula_kinds::{cbor, decode, patch};

use super::create::CreateRequest;
use super::modify::ManagedFields;
use super::ownership::Ownership;
use super::patch::{PatchFormat, check_name, check_resource_version};
use super::update::{check_may_create, missing_name};
use super::{Done, Modified, Modify, metadata, modify};
use crate::codec::input;
use crate::pipeline::authorize::Caller;
use crate::registry::publish::{Act, absent};
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use crate::request::query::{FieldValidation, Query, WriteOptions};
use crate::status::{Result, StatusError};

/// Whether any of the values is null, at any depth.
fn has_null<'a>(mut values: impl Iterator<Item = &'a Value>) -> bool {
    values.any(|value| match value {
        Value::Null => true,
        Value::Array(items) => has_null(&mut items.iter() as &mut dyn Iterator<Item = &Value>),
        Value::Object(members) => {
            has_null(&mut members.values() as &mut dyn Iterator<Item = &Value>)
        }
        _ => false,
    })
}

/// An apply configuration with its options.
#[derive(Debug)]
pub struct Config {
    /// The fields that the caller's field manager wants to own.
    pub object: Object,
    /// Whether to take fields over from other managers.
    pub force: bool,
    /// Whether to run everything but the commit.
    pub dry_run: bool,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

/// Applies a configuration to the object that the path names, or to its subresource. Creates the
/// object if it does not exist.
pub async fn apply(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    format: PatchFormat,
    body: &Bytes,
) -> Result<Done> {
    let config = Config::read(query, format, body)?;
    let path = caller.path();
    let kind = &path.kind;
    let address = caller.address()?;
    let subresource = path.subresource.as_deref();
    let ownership = Ownership::new(registry, Some(caller), kind, subresource);
    let request = Modify {
        kind,
        address: &address,
        subresource,
        full_update: false,
        dry_run: config.dry_run,
        caller: Some(caller),
        managed_fields: ManagedFields::Apply(&ownership),
        leaves_managed_fields: false,
    };
    let change = |live: &Object| {
        let applied = ownership.apply(live, &config.object, config.force)?;
        let modified = config.read_applied(kind, applied)?;
        check_name(&modified.object, &address)?;
        check_resource_version(kind, &address, live, &modified.object)?;
        Ok(modified)
    };
    loop {
        if let Some(done) = modify(registry, request, change).await? {
            return Ok(done);
        }
        if subresource.is_some() {
            return Err(absent(registry, kind, &address, Act::Change));
        }
        match config.create(registry, caller, &address, &ownership).await {
            // Another request created the object meanwhile: apply to that one.
            Err(error) if error.is_taken() && !config.dry_run => {}
            done => return done,
        }
    }
}

impl Config {
    /// Reads the query and the body of a request.
    pub fn read(query: &Query, format: PatchFormat, body: &[u8]) -> Result<Self> {
        let options = WriteOptions::read(query, "PatchOptions")?;
        if query.get("fieldManager").is_none() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(StatusError::invalid_options("PatchOptions", &[error]));
        }
        let unreadable = |why: &dyn ToString| {
            StatusError::bad_request(format!("error decoding YAML: {}", why.to_string()))
        };
        let read = match format {
            PatchFormat::ApplyCbor => {
                decode::any_yaml(&cbor::to_json(body).map_err(|error| unreadable(&error))?)
            }
            _ => decode::any_yaml(body),
        };
        let (value, twice) =
            read.map_err(|error| unreadable(&format!("error converting YAML to JSON: {error}")))?;
        let object = match value {
            Value::Object(object) => object,
            Value::Null => Object::new(),
            other => {
                let what = patch::json_type(&other);
                return Err(unreadable(&format!(
                    "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {what} \
                     into Go value of type map[string]interface {{}}"
                )));
            }
        };
        let warnings = match options.validation {
            FieldValidation::Ignore => Vec::new(),
            FieldValidation::Warn => twice,
            FieldValidation::Strict if twice.is_empty() => twice,
            FieldValidation::Strict => {
                let twice = twice.join("\n  ");
                let why = format!(
                    "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal \
                     errors:\n  {twice}"
                );
                return Err(StatusError::bad_request(why));
            }
        };
        Ok(Self {
            object,
            force: query.flag("force"),
            dry_run: options.dry_run,
            warnings,
        })
    }

    /// Decodes the object that an applied configuration results in.
    fn read_applied(&self, kind: &Resource, applied: Object) -> Result<Modified> {
        let applied = Value::Object(applied);
        let object = match kind.custom() {
            None => {
                let decoded = decode::value(kind.type_id(), applied);
                decoded
                    .map_err(|why| StatusError::plain_error(why.to_string()))?
                    .object
            }
            Some(custom) => {
                let decoded = decode::custom_value(applied);
                let mut decoded =
                    decoded.map_err(|why| StatusError::plain_error(why.to_string()))?;
                input::prune_custom(custom, &mut decoded)?;
                if !has_null(self.object.values()) {
                    // An object becomes null when its last field is removed.
                    custom.schema()?.drop_nulls(&mut decoded.object);
                }
                decoded.object
            }
        };
        Ok(Modified {
            object,
            warnings: self.warnings.clone(),
        })
    }

    /// Creates the missing object from the configuration.
    async fn create(
        &self,
        registry: &Registry,
        caller: Caller<'_>,
        address: &Address,
        ownership: &Ownership<'_>,
    ) -> Result<Done> {
        check_may_create(registry, caller, address).await?;
        let kind = &caller.path().kind;
        if let Some(uid) = metadata::text(&self.object, "uid") {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object \
                 was found"
            );
            return Err(StatusError::conflict(kind, &address.name, &why));
        }
        let applied = ownership.apply_new(&self.object, self.force).await?;
        let Modified {
            mut object,
            warnings,
        } = self.read_applied(kind, applied)?;
        if metadata::text(&object, "name").is_none() {
            return Err(missing_name(&address.name));
        }
        check_name(&object, address)?;
        metadata::of(&mut object).remove("resourceVersion");
        let request = CreateRequest {
            kind,
            space: &address.space,
            namespace: address.namespace.as_deref(),
            object,
            caller: Some(caller),
            managed_fields: ManagedFields::Preset,
            dry_run: self.dry_run,
        };
        match request.create(registry).await {
            Ok(mut done) => {
                done.warnings.splice(0..0, warnings);
                Ok(done)
            }
            Err(error) => Err(error.warned(warnings)),
        }
    }
}
