//! The bodies that are sent for custom resources, compared with recorded and with golden ones.

mod golden;
mod recorded;
mod requests;
