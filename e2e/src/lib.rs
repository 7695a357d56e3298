//! Insula's own programs, run and killed as they are in the field.
//!
//! First, a process that writes to the embedded store and is killed again and again:
//!
//! | module | is |
//! |---|---|
//! | [`protocol`] | what a writer says of itself, line by line |
//! | [`content`] | values that are told in a few letters and known to the last byte |
//! | [`writer`] | a writer's process, as its parent holds it |
//! | [`run`] | what one writer said until it was killed |
//! | [`inspection`] | what the parent finds in the folder afterwards |
//! | [`judge`] | whether all that holds together |
//!
//! There is no engine and no model here: a history is judged by the store's own checker.
//!
//! Second, the whole server, as people use it:
//!
//! | module | is |
//! |---|---|
//! | [`cluster_api`] | Cluster API's own programs |
//! | [`command`] | a program that was run, and what it said |
//! | [`insula`] | a server's process |
//! | [`kube_apiserver`] | a real kube-apiserver, to be compared with |
//! | [`kube_controller_manager`] | the loops of that one |
//! | [`kubectl`] | kubectl, as one user |
//! | [`scene`] | a server with two tenants, who do everything at the same time |

pub mod cluster_api;
pub mod command;
pub mod content;
pub mod inspection;
pub mod insula;
pub mod judge;
pub mod kube_apiserver;
pub mod kube_controller_manager;
pub mod kubectl;
pub mod protocol;
pub mod run;
pub mod scene;
pub mod writer;
