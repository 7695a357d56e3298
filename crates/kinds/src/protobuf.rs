//! Decoding and encoding of objects in protobuf, by the field numbers of their types.
//!
//! Kubernetes' messages follow Go structs, not the JSON mapping of protobuf: whether a
//! zero value is written depends on whether Go holds a pointer, and inline structs are
//! messages of their own. The table of types has both, so one reader and one writer serve
//! all types and produce the same bytes as Go.

mod decode;
mod encode;
mod envelope;
mod layout;
mod plan;
mod transcode;
mod wire;

use crate::quantity::QuantityError;

pub use decode::decode;
pub use encode::encode;
pub use envelope::{Envelope, ListFrame, open, put_item, seal, watch_frame};
pub use transcode::{encode_metadata_text, encode_text};

/// Why a message cannot be decoded, worded as in Go where Go rejects it too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The body is empty.
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
    /// A field has an unexpected wire type.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The wire type that was found.
        wire: u8,
        /// The field.
        field: String,
    },
    /// A group ends that has not begun.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndOfGroup(&'static str),
    /// A field has number 0.
    #[error("proto: {0}: illegal tag 0 (wire type {1})")]
    IllegalTag(&'static str, u8),
    /// A string is not a valid quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// JSON text in the message does not parse.
    #[error("raw JSON in field {0} is not valid")]
    NotJson(String),
    /// A value cannot be represented in JSON: a time after year 9999, NaN, ...
    #[error("the value of field {0} is out of range")]
    OutOfRange(String),
    /// The message is nested deeper than any real object.
    #[error("the message is nested too deeply")]
    TooDeep,
    /// The message holds more messages than any real object.
    #[error("the message holds too many messages")]
    TooMany,
}
