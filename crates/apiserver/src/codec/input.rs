//! The object in a request body, decoded as the kind that the path names.

use bytes::Bytes;
use insula_kinds::decode::{self, DecodeError, Decoded, TypeMeta};
use insula_kinds::{FieldError, Kind, Object, TypeId, Value, cbor, kinds, protobuf};

use crate::registry::resource::{Custom, Resource};
use crate::request::negotiate::Media;
use crate::request::query::FieldValidation;
use crate::status::{Result, StatusError};

/// A request body, and its format.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The format.
    pub media: Media,
    /// The bytes.
    pub body: Bytes,
}

/// A decoded object, and warnings about it.
#[derive(Debug)]
pub struct Written {
    /// The object, without fields that its type does not have.
    pub object: Object,
    /// Warnings about the fields that were dropped.
    pub warnings: Vec<String>,
}

/// The kind that a body must have.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The group, empty for the core.
    pub group: &'a str,
    /// `v1` or `group/version`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Its type.
    pub of: TypeId,
}

impl<'a> From<&'a Kind> for Expected<'a> {
    fn from(kind: &'a Kind) -> Self {
        Self {
            group: &kind.group,
            api_version: kind.api_version(),
            kind: &kind.kind,
            of: kind.type_id(),
        }
    }
}

/// Decodes the object in a body.
pub fn read(sent: &Sent, expected: Expected<'_>, validation: FieldValidation) -> Result<Written> {
    let decoded = match sent.media {
        Media::Json => decode::json(expected.of, &sent.body),
        Media::Yaml => decode::yaml(expected.of, &sent.body),
        Media::Protobuf => return from_protobuf(sent, expected),
        Media::Cbor => return read(&from_cbor(sent, expected)?, expected, validation),
    };
    let decoded = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return Err(refuse(sent, expected, &error)),
    };
    let named = |member: &str| decoded.object.get(member).and_then(Value::as_str);
    check_identity(named("apiVersion"), named("kind"), expected)?;
    let warnings = validate_fields(decoded.problems, validation).map_err(|problems| {
        let version = version_of(expected.api_version);
        let kind = expected.kind;
        StatusError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding \
             error: {problems}"
        ))
    })?;
    Ok(Written {
        object: decoded.object,
        warnings,
    })
}

/// Decodes an object of a resource that a space serves.
pub fn read_kind(sent: &Sent, kind: &Resource, validation: FieldValidation) -> Result<Written> {
    match kind.custom() {
        None => read(sent, Expected::from(&**kind), validation),
        Some(custom) => read_custom(sent, custom, validation),
    }
}

/// Decodes a custom object. Fields that its schema does not have are pruned.
fn read_custom(sent: &Sent, custom: &Custom, validation: FieldValidation) -> Result<Written> {
    let kind = &custom.version().kind;
    let expected = Expected::from(kind);
    let decoded = match sent.media {
        Media::Json => decode::custom_json(&sent.body),
        Media::Yaml => decode::custom_yaml(&sent.body),
        Media::Protobuf => return Err(StatusError::unsupported_custom_body()),
        Media::Cbor => return read_custom(&from_cbor(sent, expected)?, custom, validation),
    };
    let mut decoded = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return Err(refuse(sent, expected, &error)),
    };
    check_type_meta(&decoded.object, sent, expected)?;
    prune_named(custom, &mut decoded)?;
    let warnings = validate_fields(decoded.problems, validation).map_err(|problems| {
        let error = DecodeError::Type(format!("strict decoding error: {problems}"));
        unhandled(expected, &error)
    })?;
    match check_custom(&decoded.object, expected) {
        Ok(()) => Ok(Written {
            object: decoded.object,
            warnings,
        }),
        Err(refusal) => Err(refusal.warned(warnings)),
    }
}

/// Prunes an object by the schema of the version that it names.
fn prune_named(custom: &Custom, decoded: &mut Decoded) -> Result<()> {
    let kind = &custom.version().kind;
    let text = |member: &str| decoded.object.get(member).and_then(Value::as_str);
    let (version, said) = (text("apiVersion").unwrap_or(""), text("kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    if group != kind.group || said != Some(&kind.kind) {
        // The version is not known; the check of the kind reports it.
        return Ok(());
    }
    if let Some(named) = custom.named(version) {
        return prune_custom(&named, decoded);
    }
    let known = |member: &String| ["apiVersion", "kind", "metadata"].contains(&member.as_str());
    let unknown = decoded.object.keys().filter(|member| !known(member));
    let unknown = unknown.map(|member| format!("unknown field \"{member}\""));
    decoded.problems.extend(unknown);
    Ok(())
}

/// Prunes a custom object by its schema, and notes the dropped fields as problems.
pub fn prune_custom(custom: &Custom, decoded: &mut Decoded) -> Result<()> {
    let schema = custom.schema()?;
    let mut unknown = Vec::new();
    schema.prune(&mut decoded.object, &mut unknown);
    let coerced = schema.coerce_embedded(&mut decoded.object, &mut unknown);
    coerced.map_err(|why| {
        let error = DecodeError::Type(why.to_string());
        unhandled(Expected::from(&custom.version().kind), &error)
    })?;
    unknown.sort();
    let unknown = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""));
    decoded.problems.extend(unknown);
    Ok(())
}

/// Checks that a custom object names its kind and version: none is assumed.
fn check_type_meta(object: &Object, sent: &Sent, expected: Expected<'_>) -> Result<()> {
    let Some(called) = missing_type_meta(object) else {
        return Ok(());
    };
    let body = String::from_utf8_lossy(&sent.body);
    Err(StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): Object '{called}' is missing \
         in '{body}' ({})",
        expected.kind,
        decode::excerpt(&sent.body),
    )))
}

/// Returns which of `kind` and `apiVersion` an object lacks.
pub fn missing_type_meta(object: &Object) -> Option<&'static str> {
    let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or("");
    let members = [("kind", "Kind"), ("apiVersion", "apiVersion")];
    let missing = members.iter().find(|(member, _)| text(member).is_empty());
    missing.map(|(_, called)| *called)
}

/// Checks that a custom object is of the version and kind that the path names.
fn check_custom(object: &Object, expected: Expected<'_>) -> Result<()> {
    let version = object.get("apiVersion").and_then(Value::as_str);
    let (given, wanted) = (version.unwrap_or(""), expected.api_version);
    if given != wanted {
        return Err(StatusError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version \
             ({wanted})"
        )));
    }
    check_custom_kind(object, expected)
}

/// Checks that a custom object is of the kind that the path names.
pub fn check_custom_kind(object: &Object, expected: Expected<'_>) -> Result<()> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or("");
    if kind == expected.kind {
        return Ok(());
    }
    let why = format!("must be {}", expected.kind);
    let error = FieldError::invalid_text("kind", kind, &why);
    let name = object.get("metadata").and_then(|of| of.get("name"));
    let name = name.and_then(Value::as_str).unwrap_or("");
    Err(StatusError::invalid_named(
        kind,
        expected.group,
        name,
        &[error],
    ))
}

/// Applies `fieldValidation` to unknown and duplicate fields: returns them as warnings, or as one
/// error.
pub fn validate_fields(
    problems: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(problems
            .iter()
            .flat_map(|one| split_problems(one))
            .collect()),
        FieldValidation::Strict if problems.is_empty() => Ok(problems),
        FieldValidation::Strict => Err(problems.join(", ")),
    }
}

/// Splits a problem: YAML reports several in one text.
fn split_problems(problem: &str) -> Vec<String> {
    match problem.strip_prefix("yaml: unmarshal errors:\n") {
        None => vec![problem.to_owned()],
        Some(lines) => lines.lines().map(|line| line.trim().to_owned()).collect(),
    }
}

fn from_protobuf(sent: &Sent, expected: Expected<'_>) -> Result<Written> {
    let unreadable = |error: protobuf::Error| {
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error}",
            expected.kind
        ))
    };
    let envelope = protobuf::open(&sent.body).map_err(|error| {
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {error} ({})",
            expected.kind,
            decode::excerpt(&sent.body),
        ))
    })?;
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (version, kind) = (given(envelope.api_version), given(envelope.kind));
    check_identity(version.as_deref(), kind.as_deref(), expected)?;
    let object = protobuf::decode(expected.of, envelope.raw).map_err(unreadable)?;
    Ok(Written {
        object,
        warnings: Vec::new(),
    })
}

/// Converts a CBOR body to JSON.
fn from_cbor(sent: &Sent, expected: Expected<'_>) -> Result<Sent> {
    let body = cbor::to_json(&sent.body).map_err(|error| match error.is_malformed() {
        true => StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): unable to determine \
             group/version/kind: {error} ({})",
            expected.kind,
            decode::excerpt(&sent.body),
        )),
        false => unhandled(expected, &DecodeError::Type(error.to_string())),
    })?;
    Ok(Sent {
        media: Media::Json,
        body: body.into(),
    })
}

fn refuse(sent: &Sent, expected: Expected<'_>, error: &DecodeError) -> StatusError {
    let identity = match (sent.media, error) {
        // The body was decoded up to the error; decoding it again would end there too.
        (Media::Yaml, DecodeError::Syntax(_)) => Err(error.clone()),
        (Media::Yaml, DecodeError::Type(_)) => decode::type_meta_yaml(&sent.body),
        _ => decode::type_meta_json(&sent.body),
    };
    match identity {
        Err(syntax) => StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {syntax} ({})",
            expected.kind,
            decode::excerpt(&sent.body),
        )),
        Ok(TypeMeta { api_version, kind }) => {
            let wrong = check_identity(api_version.as_deref(), kind.as_deref(), expected);
            wrong.err().unwrap_or_else(|| unhandled(expected, error))
        }
    }
}

fn unhandled(expected: Expected<'_>, error: &DecodeError) -> StatusError {
    let (kind, version) = (expected.kind, version_of(expected.api_version));
    let message = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}");
    StatusError::bad_request(message)
}

/// Checks that a body is of the kind that the path names.
fn check_identity(
    api_version: Option<&str>,
    kind: Option<&str>,
    expected: Expected<'_>,
) -> Result<()> {
    let kind = kind.filter(|text| !text.is_empty());
    let kind = kind.unwrap_or(expected.kind);
    let given = api_version.filter(|text| !text.is_empty());
    let given = given.unwrap_or(expected.api_version);
    let message = match mismatch(given, kind, expected) {
        None if given == expected.api_version => return Ok(()),
        None => format!(
            "the API version in the data ({given}) does not match the expected API version ({})",
            expected.api_version
        ),
        Some(why) => format!(
            "{kind} in version \"{}\" cannot be handled as a {}: {why}",
            version_of(given),
            expected.kind
        ),
    };
    Err(StatusError::bad_request(message))
}

/// Checks that a patched object is still of its kind.
pub fn check_kept(object: &Object, expected: Expected<'_>) -> Result<(), String> {
    let text = |member: &str| object.get(member).and_then(Value::as_str).unwrap_or("");
    match (text("apiVersion"), text("kind")) {
        ("", _) | (_, "") => Ok(()),
        (given, kind) => mismatch(given, kind, expected).map_or(Ok(()), Err),
    }
}

/// Returns why an object of this version and kind is not the expected one.
fn mismatch(given: &str, kind: &str, expected: Expected<'_>) -> Option<String> {
    let (group, version) = given.split_once('/').unwrap_or(("", given));
    let known = kinds().find_by_kind(group, version, kind).is_some();
    if kind == expected.kind
        && (given == expected.api_version || known || is_removed_version(group, version))
    {
        return None;
    }
    if known {
        let package = match expected.group {
            "" => "core",
            group => first_label(group),
        };
        let wanted = expected.kind;
        return Some(format!(
            "converting ({version}.{kind}) to ({package}.{wanted}): unknown conversion"
        ));
    }
    Some(format!(
        "no kind \"{kind}\" is registered for version \"{given}\" in scheme \
         \"pkg/api/legacyscheme/scheme.go:30\""
    ))
}

/// Versions that Kubernetes no longer serves, but still decodes.
const REMOVED_VERSIONS: [(&str, &[&str]); 16] = [
    ("admissionregistration.k8s.io", &["v1alpha1", "v1beta1"]),
    ("apps", &["v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1beta1"]),
    ("batch", &["v1beta1"]),
    ("certificates.k8s.io", &["v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1beta1"]),
    ("events.k8s.io", &["v1beta1"]),
    ("extensions", &["v1beta1"]),
    (
        "flowcontrol.apiserver.k8s.io",
        &["v1beta1", "v1beta2", "v1beta3"],
    ),
    ("networking.k8s.io", &["v1beta1"]),
    ("node.k8s.io", &["v1alpha1", "v1beta1"]),
    ("policy", &["v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1alpha1", "v1beta1"]),
    ("storage.k8s.io", &["v1alpha1", "v1beta1"]),
];

fn is_removed_version(group: &str, version: &str) -> bool {
    let of = REMOVED_VERSIONS.iter().find(|(of, _)| *of == group);
    of.is_some_and(|(_, versions)| versions.contains(&version))
}

fn first_label(group: &str) -> &str {
    group.split('.').next().unwrap_or(group)
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or(api_version)
}
