//! The kinds that Kubernetes serves by default, as data, and every operation on an object
//! that needs no I/O: decode, encode, default, validate, patch, convert, print, describe.
//!
//! Objects are [`Value`]s on the way in and bytes everywhere else. Two tables drive the
//! crate: [`types`] describes what objects consist of, [`kinds`] how they are served.
//! Code for a single kind exists only where Kubernetes has a rule for that kind alone.
//!
//! The crate has no notion of HTTP, stores, tenants or callers.

pub mod cbor;
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
pub mod scan;
pub mod selector;
pub mod text;
pub mod time;
pub mod toleration;
mod types;
pub mod validate;

pub use field::FieldError;
pub use kind::{
    Column, CustomKind, Kind, KindId, Kinds, Propagation, Scope, Subresource, api_version,
    core_kind, kinds, version_order,
};
pub use serde_json::Value;
pub use types::{Field, Form, ListType, Omit, Shape, Type, TypeId, Types, types};

/// A JSON object: the fields of a typed value.
pub type Object = serde_json::Map<String, Value>;
