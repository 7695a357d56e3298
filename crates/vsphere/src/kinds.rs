//! What users write. Fields that are not used here are kept as they are.

mod cluster;
mod identity;
mod machine;
mod vm;
mod zone;

pub use cluster::*;
pub use identity::*;
pub use machine::*;
pub use vm::*;
pub use zone::*;
