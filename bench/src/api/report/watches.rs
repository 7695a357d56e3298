//! Tables of watches.

use super::{Cell, Results, print, row};
use crate::api::{Sizes, fanout};
use crate::report::{Unit, grouped};

impl Results {
    pub(super) fn watches(&self, sizes: &Sizes) {
        const CELLS: [Cell; 10] = [
            ("delivered rate", Unit::Count),
            ("delivered cpu", Unit::Time),
            ("delivered net", Unit::Time),
            ("write cpu", Unit::Time),
            ("delivered caller", Unit::Time),
            ("delivered p50", Unit::Time),
            ("delivered p99", Unit::Time),
            ("delivered max", Unit::Time),
            ("idle resident", Unit::Bytes),
            ("resident", Unit::Bytes),
        ];
        let rows = sizes.watches.iter().flat_map(|watch| {
            self.both().into_iter().filter_map(|(who, figures)| {
                figures.get(&format!("{} delivered cpu", watch.name))?;
                let (watchers, events) = (grouped(watch.watchers), grouped(watch.events));
                let first = [watchers.as_str(), &events, who];
                Some(row(&first, figures, watch.name, &CELLS))
            })
        });
        print(
            "Changes by 8 writers, each delivered to all watchers of the namespace",
            &[
                "watchers",
                "changes",
                "server",
                "delivered each second",
                "CPU for each delivered",
                "without the writes",
                "CPU of a write, without watchers",
                "CPU of the caller",
                "p50 from call to delivery",
                "p99",
                "max",
                "memory, watching",
                "memory, delivered",
            ],
            rows.collect(),
        );
    }

    pub(super) fn fanout(&self, sizes: &Sizes) {
        const OTHERS: [Cell; 6] = [
            ("write cpu", Unit::Time),
            ("get p50", Unit::Time),
            ("get p99", Unit::Time),
            ("held", Unit::Kibibytes),
            ("kept", Unit::Kibibytes),
            ("resident", Unit::Bytes),
        ];
        const DELIVERED: [Cell; 5] = [
            ("delivered rate", Unit::Count),
            ("delivered cpu", Unit::Time),
            ("delivered net", Unit::Time),
            ("delivered p50", Unit::Time),
            ("delivered p99", Unit::Time),
        ];
        let rows = sizes.fanout.others.iter().filter_map(|watches| {
            let prefix = fanout::prefix(*watches);
            self.insula.get(&format!("{prefix} write cpu"))?;
            let watches = grouped(*watches);
            Some(row(&[&watches], &self.insula, &prefix, &OTHERS))
        });
        print(
            "Writes of a tenant to one object, with watches of that tenant on other names, and gets \
             of a neighbour meanwhile",
            &[
                "watches",
                "CPU of a write",
                "get of the neighbour, p50",
                "p99",
                "memory of a watch",
                "of it kept after it is closed",
                "memory",
            ],
            rows.collect(),
        );
        let rows = ["1", "8"].into_iter().filter_map(|writers| {
            let prefix = format!("fanout {writers} writers");
            self.insula.get(&format!("{prefix} delivered cpu"))?;
            Some(row(&[writers], &self.insula, &prefix, &DELIVERED))
        });
        let title = format!(
            "Changes inside a tenant, each delivered to {} watchers",
            grouped(sizes.fanout.watchers)
        );
        print(
            &title,
            &[
                "writers",
                "delivered each second",
                "CPU for each delivered",
                "without the writes",
                "p50 from call to delivery",
                "p99",
            ],
            rows.collect(),
        );
    }
}
