//! Text as Go's standard library reads and writes it.
//!
//! Kubernetes is written in Go, and much of what its clients send and see is defined by what
//! Go's packages accept and print. Each module implements the part of one package that
//! Insula needs:
//!
//! | module | Go |
//! |---|---|
//! | [`duration`] | `time.ParseDuration` |
//! | [`netip`] | `netip.ParseAddr`, `netip.ParsePrefix`, `netip.Addr.String` |
//! | [`quote`](mod@quote) | `strconv.Quote`, `%q` of `fmt` |
//! | [`regexp`] | the syntax and the errors of `regexp` |
//! | [`url`] | `url.Parse`, `url.ParseRequestURI` |
//!
//! The crate does no I/O and knows nothing of Kubernetes. JSON as Go's encoder writes it and
//! values as `%v` prints them are in `insula-kinds`, which has the values.

pub mod duration;
pub mod netip;
pub mod quote;
pub mod regexp;
pub mod url;

pub use quote::quote;
