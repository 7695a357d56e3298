//! Objects from bytes and to bytes.

pub mod answer;
pub mod body;
pub mod gzip;
pub mod indent;
pub mod input;
pub mod list;
pub mod view;
mod yaml;
