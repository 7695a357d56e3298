//! The scale of an object: its replicas and where they are in the object.

use insula_custom::scale::{ScaleError, ScalePaths};
use insula_kinds::{FieldError, Object, Value, prepare};

use crate::registry::resource::Resource;
use crate::status::{Result, StatusError};

fn replicas(scale: &Object, name: &str) -> Result<i64> {
    let replicas = scale.get("spec").and_then(|spec| spec.get("replicas"));
    let replicas = replicas.and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", &replicas.into(), why);
        return Err(StatusError::invalid_named(
            "Scale",
            "autoscaling",
            name,
            &[error],
        ));
    }
    Ok(replicas)
}

/// Returns the scale paths of a custom resource.
pub fn paths(kind: &Resource) -> Option<&ScalePaths> {
    kind.custom()?.version().scale.as_ref()
}

/// Sets the replicas of an object to those of a scale.
pub fn set(kind: &Resource, object: &mut Object, scale: &Object, name: &str) -> Result<()> {
    match paths(kind) {
        // Validation of the object covers the replicas.
        Some(paths) => paths.put(object, scale).map_err(scale_error)?,
        None => {
            let replicas = replicas(scale, name)?;
            prepare::apply_scale(kind, object, replicas);
        }
    }
    Ok(())
}

/// Returns the scale of an object.
pub fn current(kind: &Resource, object: &Object) -> Result<Object> {
    match paths(kind) {
        Some(paths) => paths.current(object).map_err(scale_error),
        None => prepare::scale_of(kind, object).ok_or_else(StatusError::no_such_resource),
    }
}

pub fn scale_error(error: ScaleError) -> StatusError {
    match error {
        ScaleError::Missing { .. } => StatusError::internal(error),
        ScaleError::Mismatch(why) => StatusError::plain_error(why),
        ScaleError::Empty { .. } => StatusError::bad_request(error.to_string()),
    }
}
