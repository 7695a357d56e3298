//! What every operator of Insula shares.
//!
//! An operator is a client like any other: it talks to Insula or to a stock Kubernetes over
//! its API, with the rights that it was given there, and keeps nothing that it could not
//! read again.
//!
//! | module | is |
//! |---|---|
//! | [`run`] | the life of an operator; read it first |
//! | [`lease`] | who works, where there are several who could |
//! | [`watch`] | what happens, as triggers |
//! | [`queue`] | what is to be worked on, and when |
//! | [`retry`] | whether and when something is tried again |
//! | [`part`] | whether an object is as it should be, and what to do if not |
//! | [`condition`] | what is so, since when, and why |
//! | [`depends`] | who depends on what |
//! | [`event`] | what is told beside, and not too much of it |
//! | [`health`] | how an operator says how it is |
//! | [`deadline`] | clients whose requests are answered in time or not at all |
//! | [`agent`] | who asks |
//! | [`report`] | how whoever asked for something is told how it goes |
//! | [`spaces`] | clients for one space of an Insula, over the connections of another |
//! | [`stop`] | the word that work is to end |

pub mod agent;
pub mod condition;
pub mod deadline;
pub mod depends;
pub mod event;
pub mod health;
pub mod lease;
pub mod part;
pub mod queue;
pub mod report;
pub mod retry;
pub mod run;
pub mod spaces;
pub mod stop;
pub mod watch;
