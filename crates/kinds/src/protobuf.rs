//! Objects from and to protobuf, by the numbers of their types.
//!
//! Kubernetes' messages follow Go structs, not the rules that protobuf has for JSON: what
//! is written when it is zero depends on whether Go holds a pointer, and inline structs
//! are messages of their own. The table of types knows both, so one reader and one writer
//! serve all types, and bytes come out as Go would write them.

mod decode;
mod encode;
mod envelope;
mod plan;
mod wire;

use crate::quantity::QuantityError;

pub use decode::decode;
pub use encode::encode;
pub use envelope::{Envelope, list, open, seal, seal_into, watch_frame};

/// Why bytes are no message, worded as Go's reader words it where it would refuse too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is nothing at all.
    #[error("empty data")]
    NoData,
    /// The body does not begin with `k8s\0`.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    /// Nothing follows `k8s\0`.
    #[error("empty body")]
    NoBody,
    /// The message ends too early.
    #[error("unexpected EOF")]
    Truncated,
    /// A number has more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// There is no such wire type.
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    /// A field is encoded as something that it is not.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The wire type that was found.
        wire: u8,
        /// The field.
        field: String,
    },
    /// A group ends that never began.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndOfGroup(&'static str),
    /// Fields are numbered from one.
    #[error("proto: {0}: illegal tag 0 (wire type {1})")]
    IllegalTag(&'static str, u8),
    /// Text that should be a quantity is none.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// JSON text in the message does not parse.
    #[error("raw JSON in field {0} is not valid")]
    NotJson(String),
    /// A value cannot be written in JSON: a time beyond year 9999, not a number, ...
    #[error("the value of field {0} is out of range")]
    OutOfRange(String),
    /// It nests deeper than any object of use does.
    #[error("the message is nested too deeply")]
    TooDeep,
    /// It holds more messages than any object of use does.
    #[error("the message holds too many messages")]
    TooMany,
}
