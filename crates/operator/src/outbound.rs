//! Requests of a provider to its servers, which are outside of the cluster and often chosen by
//! tenants.
//!
//! | module | is |
//! |---|---|
//! | `client` | an HTTPS client for one server; read it first |
//! | `connection` | connections of a client, and those that are idle |
//! | `response` | responses of bounded size |
//! | `kubernetes` | clients of API servers |
//! | `cookies` | cookies of a session |
//! | `error` | failed requests, and what they mean for a login |
//! | `trust` | verification of server certificates |
//! | `logins` | logins that outlive their callers |
//!
//! A client for a JSON API needs no more than this:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use http::Request;
//! use http::header::{AUTHORIZATION, USER_AGENT};
//! use insula_identity::endpoint::{Endpoint, Trust};
//! use insula_operator::outbound::{HttpClient, HttpClients, RequestError, RequestOptions};
//!
//! # fn connect() -> Result<HttpClient, Box<dyn std::error::Error>> {
//! // Once, with the rules for addresses from the operator's flags.
//! let clients = HttpClients::new(Vec::new());
//! // For each session.
//! let server = Endpoint::parse("dns.example", 443)?;
//! let client = clients.client(&server, &Trust::Verified)?;
//! # Ok(client)
//! # }
//!
//! async fn list_zones(client: &HttpClient, token: &str) -> Result<Vec<String>, RequestError> {
//!     let request = Request::get("/v1/zones")
//!         .header(USER_AGENT, "example-dns/1.0")
//!         .header(AUTHORIZATION, format!("Bearer {token}"))
//!         .body(Vec::new())?;
//!     let options = RequestOptions::new(Duration::from_secs(10));
//!     client.send(request, options).await?.success()?.json()
//! }
//! ```

mod client;
mod connection;
mod cookies;
mod error;
mod kubernetes;
mod logins;
mod response;
#[cfg(test)]
mod tests;
mod trust;

pub use client::{HttpClient, HttpClients, RequestOptions};
pub use cookies::Cookies;
pub use error::{RequestError, authority, unreachable};
pub use kubernetes::kubernetes_login_error;
pub use logins::{Attempt, Logins};
pub use response::HttpResponse;
pub use trust::UntrustedCertificate;
