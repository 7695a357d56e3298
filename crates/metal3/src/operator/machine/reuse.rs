//! The machines that inherit their hosts from one another.

use insula_capi::names::{CONTROL_PLANE, GROUP};
use insula_capi::{Cluster, Machine, MachineSet, owner};
use insula_operator::read::get_named;
use kube::ResourceExt;

use super::{MachineReconciler, Step};
use crate::hosts::choose::{HostPlace, ReuseGroup};
use crate::hosts::consumer::Consumer;
use crate::pool::HostPool;

impl MachineReconciler<'_> {
    /// Returns the machines that a machine inherits hosts from: those of its control plane, or of
    /// its MachineDeployment.
    pub(super) async fn reuse_group(
        &self,
        pool: &HostPool,
        machine: &Machine,
        cluster: &Cluster,
    ) -> Step<Option<ReuseGroup>> {
        let namespace = self.of.key.namespace_or_empty();
        let cluster = Consumer::cluster(namespace, &cluster.name_any());
        let space = self.of.key.space.as_deref();
        let cluster = cluster.in_space(space.filter(|_| !pool.is_in_cluster()));
        let hosts = match pool.is_in_cluster() {
            true => HostPlace::Beside,
            false => HostPlace::Elsewhere,
        };
        if let Some(name) = control_plane(machine) {
            return Ok(Some(ReuseGroup::control_plane(name, cluster, hosts)));
        }
        let Some(set) = owner::of_kind(machine, GROUP, "MachineSet") else {
            return Ok(None);
        };
        let set = get_named(&self.of.api::<MachineSet>(), set).await?;
        let deployment = set
            .as_ref()
            .and_then(|set| owner::of_kind(set, GROUP, "MachineDeployment"));
        Ok(deployment.map(|name| ReuseGroup::deployment(name, cluster, hosts)))
    }
}

/// Returns the name of the control plane that owns a machine. Its kind depends on the provider.
fn control_plane(machine: &Machine) -> Option<&str> {
    let owners = machine.metadata.owner_references.as_ref()?;
    let owner = owners
        .iter()
        .find(|owner| owner.api_version.split('/').next() == Some(CONTROL_PLANE));
    owner.map(|owner| owner.name.as_str())
}
