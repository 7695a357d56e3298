//! The questions the bench answers, one file each.

pub mod reopen;
pub mod stall;
pub mod torn;
pub mod writes;
