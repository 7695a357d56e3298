//! The API server: the life of a request, from a socket to the store and back.
//!
//! Read [`request`](crate::request) first: it is the whole way, top to bottom. Objects are
//! written through a [`Store`](insula_store::Store) and read from a cache that follows it;
//! what kinds there are and how they behave is data in `insula-kinds`; who may enter which
//! space is decided in `insula-access`. No engine, no provider and no kind is named here
//! except where Kubernetes has a rule for that kind only.

pub mod admit;
mod allocate;
pub mod answer;
pub mod apis;
pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod body;
pub mod built_in;
pub mod cache;
mod connection;
mod conversion;
pub mod documents;
pub mod egress;
pub mod errand;
pub mod expiry;
pub mod form;
pub mod impersonate;
pub mod intake;
pub mod limit;
pub mod locate;
pub mod metrics;
mod names;
pub mod negotiate;
pub mod oidc;
pub mod policy;
mod publish;
pub mod query;
pub mod quota;
pub mod read;
mod receive;
pub mod registry;
pub mod request;
mod review;
pub mod route;
pub mod served;
pub mod server;
pub mod service_account;
pub mod status;
mod subresource;
pub mod tenants;
pub mod tls;
pub mod toil;
pub mod token;
pub mod view;
pub mod write;

pub use limit::Limits;
pub use registry::Registry;
pub use server::{Error, Options, Server};
