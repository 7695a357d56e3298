//! How values are merged.

use insula_kinds::{TypeId, Value};

/// How values of a type are merged.
#[derive(Clone, Debug)]
pub struct Schema {}

impl Schema {
    /// Of a type of the table.
    pub fn built_in(_of: TypeId) -> Self {
        todo!()
    }

    /// Of a kind that a user defined with this `openAPIV3Schema`, or with none.
    pub fn custom(_schema: Option<&Value>) -> Self {
        todo!()
    }
}
