//! Real programs, run by two tenants concurrently under the same names: programs written for
//! Kubernetes work unchanged in a space.
//!
//! | module | runs |
//! |---|---|
//! | [`python`], [`javascript`] | scripts with the official clients |
//! | [`kube_rs`] | kube-rs in this process: a controller, reflectors, all operations of an `Api` |
//! | [`helm`] | Helm with a chart that has one object of each kind |
//! | [`greeter`] | the Go example: one controller for both tenants |
//! | [`manager`] | a controller-runtime manager with webhooks and leader election |
//! | [`chart`] | the chart as rendered by Helm, applied as Helm 3 and Helm 4 do |

mod chart;
mod greeter;
mod helm;
mod javascript;
mod kube_rs;
mod manager;
mod python;
mod runner;
