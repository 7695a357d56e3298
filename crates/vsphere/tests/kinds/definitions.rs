//! What the definitions admit, keep and refuse, in the system's space and in a tenant's.

mod immutability;
mod samples;
mod storage;
mod table;
mod validation;

use insula_testkit::server::Client;
use serde_json::{Value, json};

pub use self::samples::whole;
use self::samples::with;
use crate::scene::{Scene, object, path};

const MERGE: &str = "merge";
