//! The API server: from a socket to the store and back.
//!
//! Read [`handler`] first: it is the whole way of a request, top to bottom. The folders are
//! layers, and each imports only those below it (`tools/layers` proves that):
//!
//! ```text
//! server        listeners, TLS, connections, WebSocket
//! handler       the stages of a request, in their order
//! documents     discovery, OpenAPI, reviews, metrics, keys
//! subresources  scale, eviction, binding, token
//! write         create, update, patch, apply, delete; admission, quota
//! read          get, list, watch
//! pipeline      route, authenticate, impersonate, locate, authorize, audit
//! codec         objects from bytes and to bytes: input, view, body, answer
//! registry      which resources a space serves, and its objects
//! egress        every call that leaves the server
//! request       what a request carries: query, media types, body, context
//! flow_control  seats, fair queues, CPU-bound work, connections, unsent responses
//! status        errors, and the Status that clients get
//! ```
//!
//! Objects are written through a [`Store`](insula_store::Store) and read from a cache that
//! follows it. Kinds and their behaviour are data in `insula-kinds`; which spaces a principal
//! may enter is decided in `insula-access`.

mod codec;
mod documents;
pub mod egress;
pub mod flow_control;
pub mod handler;
mod log_interval;
pub mod pipeline;
pub mod read;
pub mod registry;
mod request;
pub mod server;
pub mod status;
mod subresources;
pub mod write;

pub use flow_control::Limits;
pub use insula_admission::pod_security;
pub use insula_kinds::openapi::Descriptions;
pub use registry::Registry;
pub use server::{Error, Options, Server};
