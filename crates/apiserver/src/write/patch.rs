//! Patches: JSON Patch, merge patch and strategic merge patch.

use bytes::Bytes;
use insula_kinds::decode::{self, Decoded};
use insula_kinds::go;
use insula_kinds::patch::{self as patches, PatchError};
use insula_kinds::{FieldError, Kind, Object, TypeId, Value};
use memchr::{memchr, memmem};

use super::apply::apply as apply_config;
use super::{Done, ManagedFields, Modified, Modify, metadata, modify};
use crate::codec::input::{self, Expected};
use crate::pipeline::authorize::Caller;
use crate::registry::publish::{Act, absent};
use crate::registry::resource::{Custom, Resource};
use crate::registry::{Address, Registry};
use crate::request::query::{FieldValidation, Query, WriteOptions};
use crate::status::{Result, StatusError};

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchFormat {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' strategic merge patch, which merges lists by keys.
    Strategic,
    /// Server-side apply, of a configuration in YAML.
    Apply,
    /// Server-side apply, of a configuration in CBOR.
    ApplyCbor,
}

impl PatchFormat {
    /// Parses a `Content-Type` without parameters.
    pub fn parse(content_type: &str) -> Result<Self> {
        match content_type {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            "application/apply-patch+cbor" => Ok(Self::ApplyCbor),
            _ => Err(StatusError::unsupported_patch()),
        }
    }

    /// Whether it is server-side apply.
    pub const fn is_apply(self) -> bool {
        matches!(self, Self::Apply | Self::ApplyCbor)
    }
}

/// Patches the object that the path names, or its subresource.
pub async fn patch(
    registry: &Registry,
    caller: Caller<'_>,
    query: &Query,
    format: PatchFormat,
    body: &Bytes,
) -> Result<Done> {
    if format.is_apply() {
        return apply_config(registry, caller, query, format, body).await;
    }
    let options = patch_options(query)?;
    let path = caller.path();
    let kind = &path.kind;
    if kind.is_custom() && format == PatchFormat::Strategic {
        return Err(StatusError::unsupported_custom_patch());
    }
    let address = caller.address()?;
    let request = Modify {
        kind,
        address: &address,
        subresource: path.subresource.as_deref(),
        full_update: false,
        dry_run: options.dry_run,
        caller: Some(caller),
        managed_fields: ManagedFields::Update,
        leaves_managed_fields: leaves_managed_fields(format, body),
    };
    let change = |current: &Object| {
        let modified = patch_resource(kind, current, format, body, options.validation)?;
        check_name(&modified.object, &address)?;
        check_resource_version(kind, &address, current, &modified.object)?;
        Ok(modified)
    };
    let done = modify(registry, request, change).await?;
    done.ok_or_else(|| absent(registry, kind, &address, Act::Change))
}

/// Whether a patch cannot concern managed fields. Its members may be written with escapes, and the
/// paths of a JSON Patch in other ways, too.
fn leaves_managed_fields(format: PatchFormat, body: &[u8]) -> bool {
    matches!(format, PatchFormat::Merge | PatchFormat::Strategic)
        && memmem::find(body, b"managedFields").is_none()
        && memchr(b'\\', body).is_none()
}

/// Reads the options of a patch that is no apply.
pub fn patch_options(query: &Query) -> Result<WriteOptions> {
    if query.choice("force").is_some() {
        let why = "may not be specified for non-apply patch";
        let error = FieldError::forbidden("force", why);
        return Err(StatusError::invalid_options("PatchOptions", &[error]));
    }
    WriteOptions::read(query, "PatchOptions")
}

/// Applies a patch to an object of a resource.
fn patch_resource(
    kind: &Resource,
    current: &Object,
    format: PatchFormat,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Modified> {
    let of = kind.type_id();
    let (tree, problems) = patch_tree(of, current, format, body)?;
    let quoted = || quoted(of, current, format, body);
    let Some(custom) = kind.custom() else {
        let read = |tree| {
            input::check_kept(&tree, Expected::from(&**kind))?;
            let decoded = decode::value(of, Value::Object(tree));
            Ok((Ok(()), decoded.map_err(|error| error.to_string())?))
        };
        return decode_patched(tree, problems, validation, read, quoted);
    };
    let read = |tree| {
        let mut decoded =
            decode::custom_value(Value::Object(tree)).map_err(|error| error.to_string())?;
        check_version_kept(custom, &decoded.object)?;
        let checked = input::prune_custom(custom, &mut decoded);
        let checked = checked.and_then(|()| {
            let expected = Expected::from(&**kind);
            input::check_custom_kind(&decoded.object, expected)
        });
        Ok((checked, decoded))
    };
    decode_patched(tree, problems, validation, read, quoted)
}

/// Checks that the patch left `kind` in place and `apiVersion` unchanged.
fn check_version_kept(custom: &Custom, object: &Object) -> Result<(), String> {
    if let Some(called) = input::missing_type_meta(object) {
        let object = Value::Object(object.clone());
        return Err(format!("Object '{called}' is missing in '{object}'"));
    }
    let version = object.get("apiVersion").and_then(Value::as_str);
    let version = version.unwrap_or("");
    if version == custom.version().kind.api_version() {
        return Ok(());
    }
    Err(format!(
        "request to convert CR from an invalid group/version: {version}"
    ))
}

/// Applies a patch to an object of a type.
pub fn apply_patch(
    of: TypeId,
    current: &Object,
    format: PatchFormat,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Modified> {
    let (tree, problems) = patch_tree(of, current, format, body)?;
    let quoted = || quoted(of, current, format, body);
    let read = |tree| {
        let decoded = decode::value(of, Value::Object(tree)).map_err(|error| error.to_string())?;
        Ok((Ok(()), decoded))
    };
    decode_patched(tree, problems, validation, read, quoted)
}

/// Returns what an error quotes: of a strategic merge patch the patch itself, as Go prints it, and
/// else the patched tree. That is computed again, because errors are rare.
fn quoted(of: TypeId, current: &Object, format: PatchFormat, body: &[u8]) -> String {
    if format == PatchFormat::Strategic {
        let patch = serde_json::from_slice(body).unwrap_or(Value::Null);
        return go::Printed(&patch).to_string();
    }
    let tree = patch_tree(of, current, format, body).map(|(tree, _)| tree);
    Value::Object(tree.unwrap_or_default()).to_string()
}

/// Returns the patched tree, and the problems of the patch.
fn patch_tree(
    of: TypeId,
    current: &Object,
    format: PatchFormat,
    body: &[u8],
) -> Result<(Object, Vec<String>)> {
    let mut tree = current.clone();
    let problems = match format {
        PatchFormat::Strategic => patches::strategic(of, &mut tree, body).map_err(patch_error)?,
        _ => {
            let mut document = Value::Object(std::mem::take(&mut tree));
            let problems = match format {
                PatchFormat::Json => patches::json(&mut document, body),
                _ => patches::merge(&mut document, body),
            };
            let problems = problems.map_err(patch_error)?;
            tree = match document {
                Value::Object(object) => object,
                _ => return Err(StatusError::unprocessable()),
            };
            problems
        }
    };
    Ok((tree, problems))
}

/// Decodes the patched tree.
fn decode_patched(
    tree: Object,
    problems: Vec<String>,
    validation: FieldValidation,
    read: impl FnOnce(Object) -> Result<(Result<()>, Decoded), String>,
    quoted: impl Fn() -> String,
) -> Result<Modified> {
    let wrong = |why: &str, text: String| {
        let error = FieldError::invalid_text("patch", &text, why);
        StatusError::invalid_patch(&[error])
    };
    let (checked, decoded) = read(tree).map_err(|error| wrong(&error, quoted()))?;
    checked?;
    let mut all = problems;
    all.extend(decoded.problems);
    let warnings = input::validate_fields(all, validation)
        .map_err(|problems| wrong(&format!("strict decoding error: {problems}"), quoted()))?;
    Ok(Modified {
        object: decoded.object,
        warnings,
    })
}

fn patch_error(error: PatchError) -> StatusError {
    match error {
        PatchError::BadRequest(why) => StatusError::bad_request(why),
        PatchError::Unprocessable => StatusError::unprocessable(),
        PatchError::TooLarge(why) => {
            StatusError::too_large(why.trim_start_matches("Request entity too large: "))
        }
        PatchError::Internal(why) => StatusError::plain_error(why),
    }
}

pub(super) fn check_name(object: &Object, address: &Address) -> Result<()> {
    let name = &address.name;
    match metadata::text(object, "name") {
        Some(given) if given == name => Ok(()),
        given => Err(StatusError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            given.unwrap_or("")
        ))),
    }
}

/// Checks that a resource version in the patch is the current one.
pub(super) fn check_resource_version(
    kind: &Kind,
    address: &Address,
    current: &Object,
    new: &Object,
) -> Result<()> {
    let (was, is) = (
        metadata::text(current, "resourceVersion"),
        metadata::text(new, "resourceVersion"),
    );
    if is.is_some() && was != is {
        return Err(StatusError::modified(kind, &address.name));
    }
    Ok(())
}
