//! The kinds that Kubernetes serves by default, as data, and what can be done to an
//! object without I/O: read and write it in every format, default it, validate it, patch
//! it, convert it, print it, describe it.
//!
//! Objects are [`Value`]s on the way in and bytes everywhere else. Two tables drive
//! everything: [`types`] says what objects are made of, [`kinds`] how they are served.
//! Code for one kind exists only where Kubernetes itself has a rule for that kind only.
//!
//! Nothing here knows HTTP, a store, a tenant or a caller.

pub mod convert;
pub mod decode;
pub mod defaults;
pub mod discovery;
pub mod encode;
pub mod field;
pub mod finalizer;
pub mod go;
mod kind;
pub mod limit_range;
pub mod openapi;
pub mod patch;
pub mod prepare;
pub mod print;
pub mod protobuf;
pub mod quantity;
pub mod quota;
pub mod selector;
pub mod time;
mod types;
pub mod validate;

pub use field::FieldError;
pub use kind::{
    Column, CustomKind, Kind, KindId, Kinds, Propagation, Scope, Subresource, api_version,
    core_kind, kinds, version_order,
};
pub use serde_json::Value;
pub use types::{Field, Form, ListType, Omit, Shape, Type, TypeId, Types, types};

/// A JSON object: the fields of something that has a type.
pub type Object = serde_json::Map<String, Value>;
