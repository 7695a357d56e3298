//! Label and field selectors.

mod field;
mod label;

pub use field::{FieldOperator, FieldRequirement, FieldSelector, field_value};
pub use label::{LabelOperator, LabelRequirement, LabelSelector};
