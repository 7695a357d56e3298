//! Tests of the tenant operator, against an in-process Insula server, with its deployed
//! permissions only.

mod adversary;
mod drift;
mod faults;
mod isolation;
mod lease;
mod many;
mod network;
mod provision;
mod quota;
mod remove;
mod secrets;
mod space;
mod world;
