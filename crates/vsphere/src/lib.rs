//! Clusters on vSphere, for many tenants, each with the credentials that are theirs.
//!
//! | module | is |
//! |---|---|
//! | [`kinds`] | what users write: identities, clusters, machines, zones |
//! | [`capi`] | the little that has to be known of Cluster API's own kinds |
//! | [`vcenter`] | a vCenter, over SOAP: sessions, inventory, virtual machines, tasks |
//! | [`operator`] | what brings the one to be in the other |
//! | [`names`] | names that others rely on |

pub mod capi;
pub mod kinds;
pub mod names;
pub mod operator;
pub mod vcenter;
