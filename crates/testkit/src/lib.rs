//! What tests share. Nothing but tests depends on it.

pub mod etcd;
