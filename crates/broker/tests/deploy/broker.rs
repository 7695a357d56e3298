//! `deploy broker`.

mod classic;
pub(crate) mod fixture;
mod key;
mod networks;
mod retry;
mod target;
mod tenant;
