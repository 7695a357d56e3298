//! What every operator of Insula shares.
//!
//! An operator is a client like any other: it talks to Insula or to a stock Kubernetes over
//! its API, with the rights that it was given there, and keeps nothing that it could not
//! read again.
//!
//! | module | is |
//! |---|---|
//! | [`part`] | whether an object is as it should be, and what to do if not |
//! | [`spaces`] | clients for one space of an Insula, over the connections of another |

pub mod part;
pub mod spaces;
