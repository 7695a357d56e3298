//! Insula's own programs, run and killed as in production.
//!
//! The crash test of the embedded store, with a writer process that is killed repeatedly:
//!
//! | module | contains |
//! |---|---|
//! | [`protocol`] | the lines that a writer prints |
//! | [`content`] | values that are described in a few letters and verified to the last byte |
//! | [`writer`] | the writer process, as seen by its parent |
//! | [`run`] | the output of one writer until it was killed |
//! | [`inspection`] | the state of the store's directory afterwards |
//! | [`checker`] | the consistency checks over all of that |
//!
//! There is no engine and no model here: a history is checked by the store's own checker.
//!
//! The whole server, as users run it:
//!
//! | module | contains |
//! |---|---|
//! | [`cluster_api`] | Cluster API's own programs |
//! | [`command`] | running a program and capturing its output |
//! | [`insula`] | the server process |
//! | [`kube_apiserver`] | a real kube-apiserver for comparison |
//! | [`kube_controller_manager`] | the controllers of a real Kubernetes |
//! | [`kubectl`] | kubectl as one user |
//! | [`metal3`] | a real Kubernetes with the Metal3 operator, and what a site with hosts has |
//! | [`two_tenants`] | a server with two tenants that do everything concurrently |

pub mod checker;
pub mod cluster_api;
pub mod command;
pub mod content;
pub mod inspection;
pub mod insula;
pub mod kube_apiserver;
pub mod kube_controller_manager;
pub mod kubectl;
pub mod metal3;
pub mod protocol;
pub mod run;
pub mod two_tenants;
pub mod writer;
