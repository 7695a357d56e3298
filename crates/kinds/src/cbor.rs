//! CBOR (RFC 8949) from JSON text, and JSON text from CBOR.
//!
//! Kubernetes defines its CBOR by the JSON of an object: the same members, with strings and
//! names as byte strings. Only bytes differ, which JSON has as base64 text and CBOR as a byte
//! string with tag 22. So one writer serves all types and custom objects, and needs the type
//! only where bytes may be.

mod decode;
mod encode;
mod head;
mod reader;

pub use decode::to_json;
pub use encode::{
    put_event_head, put_list_head, put_members, put_metadata_head, put_value, self_described,
};
pub use reader::{Size, first_length, measure};

/// The tag before every document, which tells it from other formats.
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// Why a document cannot be decoded, worded as in Go where Go rejects it too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The document is empty.
    #[error("EOF")]
    Empty,
    /// The document ends too early.
    #[error("unexpected EOF")]
    Truncated,
    /// Something follows the document.
    #[error("cbor: {0} bytes of extraneous data starting at index {1}")]
    Extraneous(usize, usize),
    /// A head has no meaning.
    #[error("cbor: invalid additional information {0} for type {1}")]
    Head(u8, &'static str),
    /// A simple value is written with too many bytes.
    #[error("cbor: invalid simple value {0} for type primitives")]
    Simple(u64),
    /// A string in pieces has a piece of another type.
    #[error("cbor: wrong element type {0} for indefinite-length {1}")]
    Piece(&'static str, &'static str),
    /// A string in pieces has a piece that is in pieces, too.
    #[error("cbor: indefinite-length {0} chunk is not definite-length")]
    IndefinitePiece(&'static str),
    /// A break ends nothing.
    #[error("cbor: unexpected \"break\" code")]
    Break,
    /// The document is nested deeper than any real object.
    #[error("cbor: exceeded max nested level {MAX_DEPTH}")]
    TooDeep,
    /// A value exists in CBOR only.
    #[error("cbor: data item of cbor type {0} is not accepted by protocol: {1}")]
    NotAccepted(&'static str, String),
    /// A string is not UTF-8.
    #[error("cbor: invalid UTF-8 string")]
    NotUtf8,
    /// A map has a key twice.
    #[error("cbor: found duplicate map key {0} at map element index {1}")]
    Duplicate(String, usize),
    /// A key of a map is no string.
    #[error("cbor: cannot unmarshal {0} into Go value of type string")]
    Key(&'static str),
    /// An integer needs more than 64 bits.
    #[error("cbor: cannot unmarshal {0} into Go value of type int64 ({1} overflows Go's int64)")]
    Integer(&'static str, i128),
    /// A tag has a value of another type.
    #[error("cbor: tag number {0} must be followed by {1}, got {2}")]
    TagContent(u64, &'static str, &'static str),
    /// A time is none.
    #[error("cbor: cannot set {0} for time.Time")]
    Time(String),
}

impl Error {
    /// Whether the document is not even well-formed, so that nothing of it can be read.
    pub const fn is_malformed(&self) -> bool {
        !matches!(
            self,
            Self::NotUtf8
                | Self::Duplicate(..)
                | Self::Key(_)
                | Self::Integer(..)
                | Self::TagContent(..)
                | Self::Time(_)
        )
    }
}

/// Maximum nesting of documents: that of JSON.
const MAX_DEPTH: usize = crate::decode::MAX_DEPTH;
