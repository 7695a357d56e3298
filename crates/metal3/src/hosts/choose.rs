//! Which of several hosts a machine gets.

use std::collections::BTreeMap;

use super::consumer::Consumer;
use super::selector::Selector;
use crate::kinds::host::{BareMetalHost, ProvisioningState};
use crate::names::{
    FAILURE_DOMAIN, HOST_PAUSED, HOST_UNHEALTHY, HOST_UNHEALTHY_FORMER, NODE_REUSE,
};

/// What a machine needs.
#[derive(Clone, Debug)]
pub struct Search {
    /// The machine.
    pub machine: Consumer,
    /// The labels that its host must have.
    pub selector: Selector,
    /// The group of machines whose former hosts it may get; none if that is not known.
    pub reuse: Option<ReuseGroup>,
    /// The failure domain that it should be in.
    pub failure_domain: Option<String>,
}

/// Machines that inherit their hosts from one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReuseGroup {
    /// The label of the hosts, such as `md-workers`. It names neither namespace nor cluster.
    pub label: String,
    /// The cluster, which keeps the hosts in the meantime.
    pub cluster: Consumer,
    /// Where the hosts are.
    pub hosts: HostPlace,
}

/// Where the hosts of a machine are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPlace {
    /// In the namespace of the machine.
    Beside,
    /// Where a kubeconfig leads to.
    Elsewhere,
}

impl ReuseGroup {
    /// Returns the group of the machines of a control plane.
    pub fn control_plane(name: &str, cluster: Consumer, hosts: HostPlace) -> Self {
        let label = format!("cp-{name}");
        Self {
            label,
            cluster,
            hosts,
        }
    }

    /// Returns the group of the machines of a MachineDeployment.
    pub fn deployment(name: &str, cluster: Consumer, hosts: HostPlace) -> Self {
        let label = format!("md-{name}");
        Self {
            label,
            cluster,
            hosts,
        }
    }

    /// Returns whether a host is kept for the group. The label alone does not suffice where hosts
    /// are shared: another team can have machines of the same name. It does next to the machines,
    /// where Metal3's own provider leaves hosts without a consumer up to its version 1.13.
    fn keeps(&self, host: &BareMetalHost) -> bool {
        let is_free = self.hosts == HostPlace::Beside && host.spec.consumer_ref.is_none();
        label(host, NODE_REUSE) == Some(&self.label) && (is_free || self.cluster.has(host))
    }
}

/// The host that a machine gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice<'a> {
    /// The machine had claimed it before.
    Claimed(&'a BareMetalHost),
    /// A former machine of the group had it.
    Reused(&'a BareMetalHost),
    /// It is free.
    Free(&'a BareMetalHost),
    /// A host is kept for the group, but is not available yet. No other one is taken.
    NotYet(&'a BareMetalHost),
    /// There is none.
    None,
}

/// Returns the host that a machine gets of all those in one namespace. The random source returns a
/// number below its argument.
///
/// A host that the machine has claimed is found whatever its labels are now: the machine would have
/// two hosts otherwise.
pub fn choose<'a>(
    hosts: impl IntoIterator<Item = &'a BareMetalHost>,
    search: &Search,
    random: &mut dyn FnMut(usize) -> usize,
) -> Choice<'a> {
    let hosts: Vec<_> = hosts.into_iter().collect();
    if let Some(own) = hosts.iter().find(|host| search.machine.has(host)) {
        return Choice::Claimed(own);
    }
    let selected = hosts
        .into_iter()
        .filter(|host| search.selector.selects(host.metadata.labels.as_ref()));
    let usable = selected.filter(|host| is_usable(host));
    let (labelled, others): (Vec<_>, Vec<_>) =
        usable.partition(|host| label(host, NODE_REUSE).is_some());
    let group = search.reuse.as_ref();
    let kept = labelled.into_iter();
    let kept: Vec<_> = kept
        .filter(|host| group.is_some_and(|group| group.keeps(host)))
        .collect();
    if let Some(first) = kept.first() {
        let available: Vec<_> = kept
            .iter()
            .copied()
            .filter(|host| is_available(host))
            .collect();
        return match pick(&available, search, random) {
            Some(host) => Choice::Reused(host),
            None => Choice::NotYet(first),
        };
    }
    let free = others.into_iter();
    let free: Vec<_> = free
        .filter(|host| host.spec.consumer_ref.is_none() && is_available(host))
        .collect();
    pick(&free, search, random).map_or(Choice::None, Choice::Free)
}

/// Returns whether a machine may get a host that no object uses.
pub fn is_free(host: &BareMetalHost) -> bool {
    host.spec.consumer_ref.is_none() && is_usable(host) && is_available(host)
}

/// Returns whether a host can be given to a machine at all.
fn is_usable(host: &BareMetalHost) -> bool {
    let none = BTreeMap::new();
    let annotations = host.metadata.annotations.as_ref().unwrap_or(&none);
    let marks = [HOST_PAUSED, HOST_UNHEALTHY, HOST_UNHEALTHY_FORMER];
    let status = host.status.as_ref();
    host.metadata.deletion_timestamp.is_none()
        && status.is_none_or(|status| status.error_message.is_empty())
        && !marks.iter().any(|mark| annotations.contains_key(*mark))
}

fn is_available(host: &BareMetalHost) -> bool {
    host.state() == ProvisioningState::Available
}

/// Returns a random host, one of the failure domain if there is any.
fn pick<'a>(
    hosts: &[&'a BareMetalHost],
    search: &Search,
    random: &mut dyn FnMut(usize) -> usize,
) -> Option<&'a BareMetalHost> {
    let wanted = search
        .failure_domain
        .as_ref()
        .filter(|name| !name.is_empty());
    let inside = hosts.iter().copied();
    let inside: Vec<_> = inside
        .filter(|host| wanted.is_some() && label(host, FAILURE_DOMAIN) == wanted)
        .collect();
    let hosts = if inside.is_empty() { hosts } else { &inside };
    match hosts.len() {
        0 => None,
        count => hosts.get(random(count) % count).copied(),
    }
}

fn label<'a>(host: &'a BareMetalHost, key: &str) -> Option<&'a String> {
    host.metadata.labels.as_ref()?.get(key)
}
