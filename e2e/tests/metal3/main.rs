//! Clusters on bare metal with Cluster API's own controllers and Metal3's own Bare Metal Operator:
//! from a Cluster and a MachineDeployment to provider IDs, and back to hosts that are available.
//!
//! On Insula or, with `INSULA_METAL3_CLUSTER=kubernetes`, on a real Kubernetes.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod machines;
mod objects;
mod site;
mod switching;
