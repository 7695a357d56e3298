//! Requests to servers on the loopback interface.

mod kubernetes;
mod requests;
mod server;
