//! Rules in CEL.

use insula_kinds::FieldError;

use super::Change;
use crate::structural::Schema;

/// Asks the rules about an object.
pub(super) fn ask(
    _schema: &Schema,
    _change: &Change<'_>,
    _errors: &mut Vec<FieldError>,
    _warnings: &mut Vec<String>,
) {
}
