//! `deploy broker`.

mod classic;
pub(crate) mod fixture;
mod key;
mod networks;
mod target;
mod retry;
mod tenant;
