//! `deploy broker`.

mod classic;
mod fixture;
mod key;
mod networks;
mod place;
mod retry;
mod tenant;
