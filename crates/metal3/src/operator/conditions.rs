//! Conditions in the form of both contracts of Cluster API.

use insula_capi::v1beta1::{self, Severity};
use insula_operator::condition::Condition;

use crate::kinds::{Deprecated, DeprecatedStatus};
use crate::kubeconfig::reason::UNREACHABLE;

/// Names of conditions in `v1beta2` and in `v1beta1`.
pub(super) type ConditionNames<'a> = &'a [(&'a str, &'a str)];

/// Writes the conditions of these names in the form of `v1beta1` too, for clients of that
/// contract. A reason that begins with `Waiting` is only information.
pub(super) fn mirror(
    conditions: &[Condition],
    deprecated: &mut Option<Deprecated>,
    names: ConditionNames<'_>,
) {
    let older = names.iter().filter_map(|(newer, older)| {
        let condition = conditions.iter().find(|one| one.type_ == *newer)?;
        let severity = match condition.reason.as_str() {
            reason if reason.starts_with("Waiting") || reason == "Deleting" => Severity::Info,
            UNREACHABLE => Severity::Warning,
            _ => Severity::Error,
        };
        let mut older_form = v1beta1::Condition::from_v1beta2(condition, severity);
        (*older).clone_into(&mut older_form.kind);
        Some(older_form)
    });
    let older: Vec<_> = older.collect();
    let status = deprecated.get_or_insert_default();
    let status = status.v1beta1.get_or_insert_with(DeprecatedStatus::default);
    status.conditions = older;
}
