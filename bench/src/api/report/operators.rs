//! Tables of operators.

use super::{Cell, Results, print, row};
use crate::api::Sizes;
use crate::report::{Unit, grouped};

impl Results {
    pub(super) fn brokers(&self, sizes: &Sizes) {
        const CELLS: [Cell; 6] = [
            ("provisioned", Unit::Time),
            ("cpu", Unit::Time),
            ("many provisioned", Unit::Time),
            ("operator cpu", Unit::Time),
            ("operator resident", Unit::Bytes),
            ("operator most", Unit::Bytes),
        ];
        let (few, many) = (sizes.brokers.at_once, sizes.brokers.many);
        let rows = self.insula.get("brokers provisioned").into_iter();
        let rows = rows.map(|_| row(&[], &self.insula, "brokers", &CELLS));
        let title = format!(
            "Tenants of brokers: {} at once with the operator in the server, {} with one apart",
            grouped(few),
            grouped(many)
        );
        print(
            &title,
            &[
                &format!("{} provisioned", grouped(few)),
                "CPU of the server",
                &format!("{} provisioned", grouped(many)),
                "CPU of the operator",
                "memory of the operator",
                "most until then",
            ],
            rows.collect(),
        );
    }

    pub(super) fn vsphere(&self, sizes: &Sizes) {
        const CELLS: [Cell; 10] = [
            ("steady", Unit::Time),
            ("logins", Unit::Count),
            ("cpu", Unit::Time),
            ("resident", Unit::Bytes),
            ("most", Unit::Bytes),
            ("before p50", Unit::Time),
            ("before p99", Unit::Time),
            ("during p50", Unit::Time),
            ("during p99", Unit::Time),
            ("held open", Unit::Count),
        ];
        let rows = self.insula.get("vsphere steady").into_iter();
        let rows = rows.map(|_| row(&[], &self.insula, "vsphere", &CELLS));
        let title = format!(
            "Clusters on vCenters: {} with {} accounts on two; then one vCenter hangs, and those \
             of the other are changed",
            grouped(sizes.vsphere.clusters),
            grouped(sizes.vsphere.identities)
        );
        print(
            &title,
            &[
                "available after the operator's start",
                "logins",
                "CPU of the operator",
                "memory of the operator",
                "most until then",
                "a change, p50",
                "p99",
                "while the other hangs, p50",
                "p99",
                "connections that hang",
            ],
            rows.collect(),
        );
    }

    pub(super) fn metal3(&self, sizes: &Sizes) {
        const CELLS: [Cell; 5] = [
            ("associated", Unit::Time),
            ("watches", Unit::Count),
            ("cpu", Unit::Time),
            ("resident", Unit::Bytes),
            ("most", Unit::Bytes),
        ];
        let rows = self.insula.get("metal3 associated").into_iter();
        let rows = rows.map(|_| row(&[], &self.insula, "metal3", &CELLS));
        let title = format!(
            "Bare-metal machines: {} with as many hosts in {} pools of another server, each \
             reached with its own kubeconfig",
            grouped(sizes.metal3.machines),
            grouped(sizes.metal3.pools)
        );
        print(
            &title,
            &[
                "all have a host after the operator's start",
                "watches at the server of the hosts",
                "CPU of the operator",
                "memory of the operator",
                "most until then",
            ],
            rows.collect(),
        );
    }

    pub(super) fn azure(&self, sizes: &Sizes) {
        const CELLS: [Cell; 7] = [
            ("ready", Unit::Time),
            ("tokens", Unit::Count),
            ("calls", Unit::Count),
            ("later", Unit::Count),
            ("cpu", Unit::Time),
            ("resident", Unit::Bytes),
            ("most", Unit::Bytes),
        ];
        let rows = self.insula.get("azure ready").into_iter();
        let rows = rows.map(|_| row(&[], &self.insula, "azure", &CELLS));
        let title = format!(
            "Resources of Azure: {} in {} namespaces, each with a credential of its own",
            grouped(sizes.azure.resources),
            grouped(sizes.azure.namespaces)
        );
        print(
            &title,
            &[
                "all ready after the operator's start",
                "requests for tokens",
                "requests to Azure for each",
                "requests in the ten seconds after that",
                "CPU of the operator",
                "memory of the operator",
                "most until then",
            ],
            rows.collect(),
        );
    }
}
