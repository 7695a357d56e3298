//! What Insula's tests stand on, and the product never does.
//!
//! [`capi`] has Cluster API's own kinds.
//! [`disk`] is a disk in memory under real, unmodified code: it records what the code
//! asks of it, fails on request, and says what could be left after a power cut.
//! [`etcd`] starts a real etcd where one is installed, and [`peer`] says where that is.
//! [`oidc`] is an OpenID Connect provider that can misbehave.
//! [`server`] is a whole API server in the test's own process.
//! [`vcenter`] is a vCenter with accounts, machines and a log, which fails as it is told.
//! [`vcsim`] starts a real simulator of a vCenter where one is installed.
//! [`webhook`] is a webhook that answers as it is told.

pub mod capi;
pub mod disk;
pub mod etcd;
pub mod oidc;
pub mod peer;
pub mod server;
pub mod vcenter;
pub mod vcsim;
pub mod webhook;
