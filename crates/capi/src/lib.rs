//! Cluster API, as infrastructure providers see it.
//!
//! | module | is |
//! |---|---|
//! | [`kinds`] | the fields of Cluster and Machine that providers use |
//! | [`owner`] | the Cluster or Machine that owns an object |
//! | [`owning_cluster`] | the Cluster that an object belongs to, and its infrastructure |
//! | [`paused`] | whether an object is paused |
//! | [`relocation`] | the rules of providers for moves of clusters |
//! | [`names`] | labels, annotations and other well-known names |

pub mod kinds;
pub mod names;
pub mod owner;
pub mod owning_cluster;
pub mod paused;
pub mod relocation;

pub use kinds::{Cluster, Machine};
