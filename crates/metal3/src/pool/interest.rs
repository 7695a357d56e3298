//! The objects to reconcile when a host changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kube::ResourceExt;

use crate::kinds::host::BareMetalHost;

/// Returns whether a machine could use a host.
type CouldUse = Box<dyn Fn(&BareMetalHost) -> bool + Send>;

/// How many waiting machines one free host triggers: one gets it, and the others are there for the
/// case that the first cannot use it after all. All of them look again from time to time.
const TRIGGERED_PER_HOST: usize = 3;

/// Which objects are interested in what.
#[derive(Default)]
pub(super) struct Interest {
    /// The machines of hosts.
    machines: HashMap<String, BTreeSet<Arc<str>>>,
    /// The hosts of machines.
    hosts: HashMap<Arc<str>, String>,
    /// The objects that follow a host until it changes.
    once: HashMap<String, BTreeSet<Arc<str>>>,
    /// The machines that wait for a host.
    waiting: BTreeMap<Arc<str>, CouldUse>,
    /// The clusters that verify the access.
    access: BTreeSet<Arc<str>>,
}

impl Interest {
    /// Lets a machine follow one host, and wait for no other.
    pub(super) fn follow(&mut self, machine: Arc<str>, host: &str) {
        if self.hosts.get(&machine).is_some_and(|known| known == host) {
            return;
        }
        self.forget(&machine);
        let machines = self.machines.entry(host.to_owned()).or_default();
        machines.insert(Arc::clone(&machine));
        self.hosts.insert(machine, host.to_owned());
    }

    /// Lets an object be triggered once, when a host changes.
    pub(super) fn follow_once(&mut self, key: Arc<str>, host: &str) {
        let keys = self.once.entry(host.to_owned()).or_default();
        keys.insert(key);
    }

    /// Returns the objects that follow a host until it changes, and ends their interest.
    pub(super) fn take_once(&mut self, host: &str) -> Vec<Arc<str>> {
        let keys = self.once.remove(host).unwrap_or_default();
        keys.into_iter().collect()
    }

    /// Lets a machine wait for a host.
    pub(super) fn wait(&mut self, machine: Arc<str>, could_use: CouldUse) {
        self.forget(&machine);
        self.waiting.insert(machine, could_use);
    }

    /// Lets an object follow the access to the hosts.
    pub(super) fn follow_access(&mut self, key: Arc<str>) {
        self.access.insert(key);
    }

    /// Ends all interest of an object.
    pub(super) fn forget(&mut self, key: &str) {
        self.waiting.remove(key);
        self.access.remove(key);
        let Some(host) = self.hosts.remove(key) else {
            return;
        };
        if let Some(machines) = self.machines.get_mut(&host) {
            machines.remove(key);
            if machines.is_empty() {
                self.machines.remove(&host);
            }
        }
    }

    /// Returns the machines of a host.
    pub(super) fn of_host(&self, host: &str) -> Vec<Arc<str>> {
        let machines = self.machines.get(host).into_iter().flatten();
        machines.cloned().collect()
    }

    /// Returns the objects to trigger after a host has changed: its machines, and if it is free
    /// some that wait for one.
    pub(super) fn of_changed(&self, host: &BareMetalHost) -> Vec<Arc<str>> {
        let mut keys = self.of_host(&host.name_any());
        let waiting = self.waiting.iter();
        let could_use = waiting.filter(|(_, could_use)| could_use(host));
        keys.extend(
            could_use
                .map(|(key, _)| Arc::clone(key))
                .take(TRIGGERED_PER_HOST),
        );
        keys
    }

    /// Returns the objects that follow the access to the hosts.
    pub(super) fn of_access(&self) -> Vec<Arc<str>> {
        self.access.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, zone: &str) -> BareMetalHost {
        let mut host = BareMetalHost::new(name, crate::kinds::host::BareMetalHostSpec::default());
        host.labels_mut().insert("zone".to_owned(), zone.to_owned());
        host
    }

    fn in_zone(zone: &'static str) -> CouldUse {
        Box::new(move |host| host.labels().get("zone").is_some_and(|found| found == zone))
    }

    #[test]
    fn host_triggers_its_machine_and_some_that_could_use_it() {
        let mut interest = Interest::default();
        for machine in ["a", "b", "c", "d", "e"] {
            interest.wait(machine.into(), in_zone("z1"));
        }
        interest.wait("f".into(), in_zone("z2"));
        let triggered = |interest: &Interest, host: &BareMetalHost| -> Vec<String> {
            let keys = interest.of_changed(host);
            keys.iter().map(ToString::to_string).collect()
        };
        assert_eq!(triggered(&interest, &host("h", "z1")), ["a", "b", "c"]);
        assert_eq!(triggered(&interest, &host("h", "z2")), ["f"]);
        assert_eq!(triggered(&interest, &host("h", "z3")), [""; 0]);
        // A machine that has a host waits for no other.
        interest.follow("a".into(), "h");
        assert_eq!(triggered(&interest, &host("h", "z1")), ["a", "b", "c", "d"]);
        assert_eq!(triggered(&interest, &host("i", "z1")), ["b", "c", "d"]);
        interest.follow("a".into(), "i");
        assert_eq!(interest.of_host("h"), Vec::<Arc<str>>::new());
        interest.forget("a");
        assert_eq!(triggered(&interest, &host("i", "z3")), [""; 0]);
        interest.follow_access("cluster".into());
        assert_eq!(interest.of_access(), ["cluster".into()]);
        interest.forget("cluster");
        assert_eq!(interest.of_access(), Vec::<Arc<str>>::new());
    }
}
