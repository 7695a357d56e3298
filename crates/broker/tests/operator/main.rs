//! The tenant operator, against a whole Insula, with the rights that it is deployed with and
//! no others.

mod adversary;
mod drift;
mod faults;
mod isolation;
mod lease;
mod many;
mod network;
mod provision;
mod remove;
mod secrets;
mod space;
mod world;
