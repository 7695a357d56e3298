//! Test infrastructure of Insula, never part of the product.
//!
//! [`azure`] is a fake Azure: Resource Manager, the token endpoint of Entra ID, and the instance
//! metadata service, with a journal and with faults on request.
//! [`bare_metal`] is a fake Bare Metal Operator.
//! [`capi`] has the kinds of Cluster API.
//! [`disk`] is a disk in memory under real, unmodified code: it records all operations, fails on
//! request, and computes what a power cut could leave.
//! [`etcd`] starts a real etcd where one is installed, and [`peer`] finds installed programs.
//! [`kms`] is a KMS v2 plugin with faults on request.
//! [`oidc`] is an OpenID Connect provider that can misbehave.
//! [`permissions`] reads and checks those of a folder and everything below it.
//! [`requirements`] reads which tests prove which requirement.
//! [`server`] is a complete API server in the test's own process. It and [`bare_metal`] need the
//! feature `server`.
//! [`vcenter`] is a fake vCenter with accounts, virtual machines and a journal, and with faults on
//! request.
//! [`vcsim`] starts the real vCenter simulator where it is installed.
//! [`webhook`] is a webhook with scripted answers.

pub mod azure;
#[cfg(feature = "server")]
pub mod bare_metal;
pub mod capi;
pub mod disk;
pub mod etcd;
pub mod kms;
pub mod oidc;
pub mod peer;
pub mod permissions;
pub mod requirements;
#[cfg(feature = "server")]
pub mod server;
pub mod vcenter;
pub mod vcsim;
pub mod webhook;
