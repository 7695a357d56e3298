//! Real programs, as two tenants run them at the same time under the same names: what was
//! written for Kubernetes works in a space as it is.
//!
//! | module | runs |
//! |---|---|
//! | [`python`], [`javascript`] | scripts with the clients that everybody uses |
//! | [`kube_rs`] | kube-rs in this process: a controller, reflectors, everything an `Api` does |
//! | [`helm`] | Helm, with a chart that has one of each |
//! | [`greeter`] | the example in Go: one controller for both tenants |
//! | [`manager`] | a manager of controller-runtime, with webhooks and leader election |
//! | [`chart`] | that chart as Helm renders it, applied as Helm 3 and Helm 4 do |

mod cast;
mod chart;
mod greeter;
mod helm;
mod javascript;
mod kube_rs;
mod manager;
mod python;
