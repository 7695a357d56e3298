//! Requests to servers on the loopback interface.

mod requests;
mod server;
