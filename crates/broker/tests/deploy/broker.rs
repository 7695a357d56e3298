//! `deploy broker`.

mod classic;
pub(crate) mod fixture;
mod key;
mod networks;
mod place;
mod retry;
mod tenant;
