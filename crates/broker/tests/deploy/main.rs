//! What `deploy axon-cp` and `deploy broker` do, on a whole Insula in the test's process.

mod axon;
mod broker;
mod scene;
mod transient;
