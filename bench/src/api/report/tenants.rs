//! Tables of what tenants cost.

use super::{Cell, Results, among, print, row};
use crate::api::{Sizes, definition, deletion, tenants};
use crate::report::{Unit, grouped};

impl Results {
    pub(super) fn tenants(&self) {
        const CELLS: [Cell; 7] = [
            ("tenants", Unit::Count),
            ("tenant rate", Unit::Count),
            ("quiet", Unit::Time),
            ("tenant cpu", Unit::Time),
            ("tenant p99", Unit::Time),
            ("grown", Unit::Kibibytes),
            ("tenant resident", Unit::Bytes),
        ];
        let rows = ["some", "all"].into_iter().filter_map(|step| {
            self.insula.get(&format!("{step} tenants"))?;
            Some(row(&[], &self.insula, step, &CELLS))
        });
        print(
            "Tenants, 64 created at once, until there are so many",
            &[
                "tenants",
                "created each second",
                "quiet after",
                "CPU for each",
                "p99",
                "memory for each more",
                "memory",
            ],
            rows.collect(),
        );
    }

    /// Prints the same read by a user of `system:masters` and by a user with roles.
    pub(super) fn access(&self, sizes: &Sizes) {
        const LINES: [(&str, &str); 4] = [
            ("get without roles (system:masters)", "free get cpu"),
            ("get by roles", "decided get cpu"),
            ("what roles add", "decision cpu"),
            ("get by roles, p99", "decided get p99"),
        ];
        let rows = LINES.iter().filter_map(|(what, figure)| {
            let few = self.insula.get(&format!("access few {figure}"))?;
            let all = self.insula.get(&format!("access all {figure}"))?;
            let cell = |value| Unit::Time.format(value);
            Some(vec![(*what).to_owned(), cell(few), cell(all)])
        });
        let size = sizes.access;
        let title = format!(
            "A get inside a tenant with {} roles and {} bindings, CPU of the server, the middle one \
             of {} rounds",
            grouped(size.roles),
            grouped(size.bindings),
            size.rounds
        );
        let columns = ["what", &among(tenants::FEW), &among(size.tenants)];
        print(&title, &columns, rows.collect());
    }

    /// Prints the table of many tenants with the same definition.
    pub(super) fn customs(&self) {
        const CELLS: [Cell; 9] = [
            ("tenants", Unit::Count),
            ("definition rate", Unit::Count),
            ("served after", Unit::Time),
            ("definition cpu", Unit::Time),
            ("definition p99", Unit::Time),
            ("grown", Unit::Kibibytes),
            ("definition grown", Unit::Kibibytes),
            ("resident", Unit::Bytes),
            ("most", Unit::Bytes),
        ];
        let rows = self.insula.get("customs tenants").into_iter();
        let rows = rows.map(|_| row(&[], &self.insula, "customs", &CELLS));
        let length = definition::applied(definition::PLURAL, definition::GROUP).len();
        let title = format!(
            "Tenants that each define the same kind: a schema of {} lines, {} KB as kubectl apply \
             sends it",
            grouped(definition::lines(&definition::schema())),
            length / 1000
        );
        print(
            &title,
            &[
                "tenants",
                "served each second",
                "all served after",
                "CPU for each",
                "p99 of a creation",
                "memory for each more",
                "of it for the definition",
                "memory",
                "most until then",
            ],
            rows.collect(),
        );
    }

    /// Prints the cost without network and store.
    pub(super) fn checks(&self, sizes: &Sizes) {
        const LINES: [(&str, &str); 2] = [
            ("validate", "check cpu"),
            ("copy, prune and fill in defaults", "fill cpu"),
        ];
        let rows = LINES.iter().filter_map(|(what, figure)| {
            let value = self.insula.get(figure)?;
            Some(vec![(*what).to_owned(), Unit::Time.format(value)])
        });
        let title = format!(
            "The same object and its schema, as calls of a library, {} of each",
            grouped(sizes.customs.checks)
        );
        print(&title, &["what", "CPU"], rows.collect());
    }

    pub(super) fn discovery(&self, sizes: &Sizes) {
        const CELLS: [Cell; 6] = [
            ("discovery length", Unit::Kibibytes),
            ("discovery cpu", Unit::Time),
            ("discovery p50", Unit::Time),
            ("discovery p99", Unit::Time),
            ("discovery max", Unit::Time),
            ("definition rate", Unit::Count),
        ];
        let rows = self.insula.get("many kinds discovery cpu").into_iter();
        let rows = rows.map(|_| row(&[], &self.insula, "many kinds", &CELLS));
        let title = format!(
            "Discovery in a tenant with {} definitions of its own, one at a time",
            sizes.discovery.definitions
        );
        print(
            &title,
            &[
                "answer",
                "CPU of the server",
                "p50",
                "p99",
                "max",
                "definitions created each second",
            ],
            rows.collect(),
        );
    }

    pub(super) fn deletion(&self, sizes: &Sizes) {
        const CELLS: [Cell; 6] = [
            ("gone", Unit::Time),
            ("cpu", Unit::Time),
            ("before", Unit::Bytes),
            ("there", Unit::Bytes),
            ("after", Unit::Bytes),
            ("kept", Unit::Ratio),
        ];
        let rows = deletion::DELETED.iter().filter_map(|what| {
            self.insula.get(&format!("{what} gone"))?;
            Some(row(&[what], &self.insula, what, &CELLS))
        });
        let title = format!(
            "Deleted until nothing is left: a namespace and a tenant with {} objects, and {} \
             tenants with {} each, the second time",
            grouped(sizes.deletion.objects),
            grouped(sizes.deletion.tenants),
            deletion::SMALL
        );
        print(
            &title,
            &[
                "what",
                "gone after",
                "CPU of the server",
                "memory before they came",
                "while they were there",
                "10 s after they were gone",
                "after / before",
            ],
            rows.collect(),
        );
    }

    /// Prints the same operations in one tenant, with few others and with many.
    pub(super) fn inside(&self, sizes: &Sizes) {
        const LINES: [(&str, &str, Unit); 10] = [
            ("create, CPU", "create cpu", Unit::Time),
            ("create, p50", "create p50", Unit::Time),
            ("create, p99", "create p99", Unit::Time),
            ("get, CPU", "get cpu", Unit::Time),
            ("get, p50", "get p50", Unit::Time),
            ("get, p99", "get p99", Unit::Time),
            ("event delivered, CPU", "delivered cpu", Unit::Time),
            (
                "event delivered, CPU without the writes",
                "delivered net",
                Unit::Time,
            ),
            ("event delivered, p50", "delivered p50", Unit::Time),
            ("event delivered, p99", "delivered p99", Unit::Time),
        ];
        let [few, _, all] = sizes.tenants.steps();
        let rows = LINES.iter().filter_map(|(what, figure, unit)| {
            let alone = self.insula.get(&format!("few {figure}"))?;
            let among = self.insula.get(&format!("all {figure}"))?;
            let ratio = (alone > 0.0).then(|| Unit::Ratio.format(among / alone));
            Some(vec![
                (*what).to_owned(),
                unit.format(alone),
                unit.format(among),
                ratio.unwrap_or_else(|| "-".to_owned()),
            ])
        });
        let title = format!(
            "Inside one tenant, among {} and among {}; {} watchers",
            grouped(few),
            grouped(all),
            grouped(sizes.tenants.watchers)
        );
        let columns = ["what", &among(few), &among(all), "ratio"];
        print(&title, &columns, rows.collect());
    }
}
