//! Tests of `deploy axon-cp` and `deploy broker`, on an in-process Insula server.

mod axon;
mod broker;
mod scene;
mod transient;
