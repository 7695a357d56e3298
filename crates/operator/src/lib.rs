//! The parts that all operators of Insula share.
//!
//! An operator is an ordinary client: it uses the API of Insula or of a stock Kubernetes with
//! the rights that it was granted there, and stores no state that it could not read again.
//!
//! | module | is |
//! |---|---|
//! | [`run`] | the life cycle of an operator; read it first |
//! | [`lease`] | leader election |
//! | [`watch`] | watches of objects as triggers |
//! | [`queue`] | the work queue |
//! | [`retry`] | outcomes and backoff |
//! | [`key`] | the keys of objects |
//! | [`read`] | reads of referenced objects |
//! | [`commit`] | writes of objects, and deletions |
//! | [`crds`], [`roles`], [`policy`], [`manifests`] | definitions, RBAC rules, admission policies and the objects to install |
//! | [`managed`] | creation and repair of managed objects |
//! | [`provider`] | the shell of a provider, which acts for tenants at other servers |
//! | [`outbound`] | requests to those servers: certificates, addresses, limits, slow logins |
//! | [`condition`] | status conditions |
//! | [`dependencies`] | the dependencies of reconciled objects |
//! | [`event`] | rate-limited events |
//! | [`health`] | health endpoints and metrics |
//! | [`deadline`] | clients with a response timeout |
//! | [`user_agent`] | the `User-Agent` of requests |
//! | [`report`] | progress reports |
//! | [`spaces`] | clients for a tenant's space |
//! | [`account`] | clients that act as a service account of a namespace |
//! | [`stop`] | the stop signal |
//! | [`cpu_bound`] | work that takes long, off the threads of the runtime |
//! | [`webhook`] | the server of admission and conversion webhooks |

pub mod account;
pub mod commit;
pub mod condition;
pub mod cpu_bound;
pub mod crds;
pub mod deadline;
pub mod dependencies;
pub mod event;
pub mod health;
pub mod key;
pub mod lease;
pub mod managed;
pub mod manifests;
pub mod outbound;
pub mod policy;
pub mod provider;
pub mod queue;
pub mod read;
pub mod report;
pub mod retry;
pub mod roles;
pub mod run;
pub mod spaces;
pub mod stop;
pub mod user_agent;
pub mod watch;
pub mod webhook;
