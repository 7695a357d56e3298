//! The targets of the server, its results, and those of kube-apiserver.

use super::{Part, Sizes};
use crate::figures::Figures;
use crate::report::{self, Unit};

/// A figure, its bound, and what kube-apiserver needs.
struct Target {
    what: &'static str,
    figure: &'static str,
    /// The part that measures it.
    part: Part,
    bound: Bound,
    unit: Unit,
    /// The figure of kube-apiserver and etcd, measured on a similar machine.
    other: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

const MICRO: f64 = 1e-6;
const MILLI: f64 = 1e-3;
const MEGA: f64 = 1e6;

const TARGETS: &[Target] = &[
    Target::time("start to ready", "start", 0.2, 4.1).of(Part::Start),
    Target::memory("memory, idle", "idle resident", 25.0, 314.0).of(Part::Start),
    Target::call(
        "start with a million objects, the slower of two",
        "start objects slower",
        2.5,
    )
    .of(Part::FullStart),
    Target::call(
        "start with 100,000 tenants, the slower of two",
        "start tenants slower",
        3.5,
    )
    .of(Part::FullStart),
    Target::call(
        "longest wait of a write while a tenant is filled with a million objects",
        "fill longest",
        0.25,
    )
    .of(Part::Fill),
    Target {
        other: None,
        ..Target::memory(
            "memory kept 10 s after a burst of writes and lists",
            "burst kept",
            40.0,
            0.0,
        )
        .of(Part::Fill)
    },
    Target::time("get", "get cpu", 27.0 * MICRO, 860.0 * MICRO),
    Target::time("create", "create cpu", 85.0 * MICRO, 1900.0 * MICRO),
    Target::time("update", "update cpu", 105.0 * MICRO, 1900.0 * MICRO),
    Target::time(
        "merge patch",
        "merge patch cpu",
        105.0 * MICRO,
        2180.0 * MICRO,
    ),
    Target::time("apply", "apply cpu", 105.0 * MICRO, 2430.0 * MICRO),
    Target::time("delete", "delete cpu", 60.0 * MICRO, 1480.0 * MICRO),
    Target::time("list of 5,000", "list cpu", 9.0 * MILLI, 228.0 * MILLI).of(Part::Lists),
    Target {
        what: "list of 5,000, 32 at once",
        figure: "list, 32 at once cpu",
        part: Part::Lists,
        bound: Bound::AtMost(9.0 * MILLI),
        unit: Unit::Time,
        other: None,
    },
    Target::time(
        "list by label, 500 of 5,000",
        "list by label cpu",
        2.0 * MILLI,
        28.0 * MILLI,
    )
    .of(Part::Lists),
    Target::time("page of 500", "page cpu", MILLI, 18.0 * MILLI).of(Part::Lists),
    Target::page(
        "page of 500 of a million objects in one space, p50",
        "pages many one p50",
    ),
    Target::page(
        "page of 500 of a million objects over all spaces, p50",
        "pages many all p50",
    ),
    Target::page(
        "the same in one space beside 1,000 writes a second, p50",
        "pages many busy one p50",
    ),
    Target::page(
        "the same over all spaces beside 1,000 writes a second, p50",
        "pages many busy all p50",
    ),
    Target {
        what: "lists of 55,000 objects in pages that a watch continues, of 3",
        figure: "pages converged",
        part: Part::Pages,
        bound: Bound::AtLeast(3.0),
        unit: Unit::Count,
        other: Some(3.0),
    },
    Target::memory(
        "memory after 20,000 writes and 160 lists of 5,000",
        "memory after",
        120.0,
        667.0,
    )
    .of(Part::Lists),
    Target::time(
        "list of 5,000 as protobuf",
        "list as protobuf cpu",
        12.0 * MILLI,
        40.0 * MILLI,
    )
    .of(Part::Formats),
    Target::time(
        "Table of 40 Secrets of 1 MiB",
        "Secrets as Table cpu",
        2.0 * MILLI,
        1.4 * MILLI,
    )
    .of(Part::Formats),
    Target {
        what: "an event as protobuf, beside one as JSON",
        figure: "event ratio",
        part: Part::Formats,
        bound: Bound::AtMost(1.2),
        unit: Unit::Ratio,
        other: None,
    },
    Target::readers(
        "memory for 20 slow readers of 50,000 objects as protobuf",
        "readers of protobuf grown",
    ),
    Target::readers("the same as pretty JSON", "readers of pretty JSON grown"),
    Target::readers("the same as Table", "readers of Table grown"),
    Target::time(
        "event delivered, 100 watchers",
        "some watchers delivered cpu",
        7.0 * MICRO,
        71.0 * MICRO,
    )
    .of(Part::Watches),
    Target::time(
        "event delivered, 1,000 watchers",
        "many watchers delivered cpu",
        5.0 * MICRO,
        35.0 * MICRO,
    )
    .of(Part::Watches),
    Target::memory(
        "memory with 1,000 watchers",
        "many watchers resident",
        80.0,
        1026.0,
    )
    .of(Part::Watches),
    Target::ratio(
        "fan-out: a write with 10,000 watches on other names, beside one with a single watch",
        "fanout write ratio",
        1.3,
    ),
    Target::ratio(
        "fan-out: p99 of a neighbour's get meanwhile, beside a single watch",
        "fanout neighbour ratio",
        2.0,
    ),
    Target::call(
        "fan-out: event delivered, 1,000 watchers, one writer",
        "fanout 1 writers delivered cpu",
        7.0 * MICRO,
    )
    .of(Part::Fanout),
    Target::call(
        "fan-out: event delivered, 1,000 watchers, eight writers",
        "fanout 8 writers delivered cpu",
        4.0 * MICRO,
    )
    .of(Part::Fanout),
    Target::kibibytes("fan-out: memory of a watch", "fanout held", 8.0),
    Target::kibibytes(
        "fan-out: of it, kept after the watch is closed",
        "fanout kept",
        1.0,
    ),
    Target::call(
        "get with etcd as the store, 32 at once, CPU with etcd's",
        "etcd get, 32 at once cpu",
        60.0 * MICRO,
    )
    .of(Part::Etcd),
    Target::own(
        "what roles add to a get: 200 roles, 1,000 bindings, 10 tenants",
        "access few decision cpu",
    ),
    Target::own("the same among 10,000 tenants", "access all decision cpu"),
    Target {
        what: "tenants created in a second",
        figure: "all tenant rate",
        part: Part::Tenants,
        bound: Bound::AtLeast(500.0),
        unit: Unit::Count,
        other: None,
    },
    Target {
        what: "memory of an idle tenant",
        figure: "all grown",
        part: Part::Tenants,
        bound: Bound::AtMost(32.0 * 1024.0),
        unit: Unit::Kibibytes,
        other: None,
    },
    Target {
        what: "tenants that are served a kind they define, in a second",
        figure: "customs definition rate",
        part: Part::Customs,
        bound: Bound::AtLeast(100.0),
        unit: Unit::Count,
        other: None,
    },
    Target {
        what: "memory of a tenant with such a definition",
        figure: "customs grown",
        part: Part::Customs,
        bound: Bound::AtMost(48.0 * 1024.0),
        unit: Unit::Kibibytes,
        other: None,
    },
    Target::call(
        "validation of an object of 4 KB",
        "check cpu",
        150.0 * MICRO,
    ),
    Target::call(
        "discovery with 50 definitions, p50",
        "many kinds discovery p50",
        MILLI,
    )
    .of(Part::Discovery),
    Target::call("lease update", "lease update cpu", 150.0 * MICRO).of(Part::Leases),
    Target::call(
        "a namespace with 10,000 objects, deleted",
        "full namespace gone",
        20.0,
    )
    .of(Part::Deletion),
    Target::call(
        "a tenant with 10,000 objects, deleted",
        "full tenant gone",
        30.0,
    )
    .of(Part::Deletion),
    Target::call("1,000 small tenants, deleted", "small tenants gone", 30.0).of(Part::Deletion),
    Target {
        what: "memory after that, beside memory before they came",
        figure: "small tenants kept",
        part: Part::Deletion,
        bound: Bound::AtMost(1.1),
        unit: Unit::Ratio,
        other: None,
    },
    Target::call(
        "100 tenants of brokers at once, provisioned",
        "brokers provisioned",
        10.0,
    )
    .of(Part::Brokers),
    Target {
        what: "memory of the operator of 1,000 such tenants",
        figure: "brokers operator resident",
        part: Part::Brokers,
        bound: Bound::AtMost(60.0 * MEGA),
        unit: Unit::Bytes,
        other: None,
    },
    Target::call(
        "1,000 clusters on vCenters, available after the operator starts",
        "vsphere steady",
        15.0,
    )
    .of(Part::Vsphere),
    Target {
        what: "logins for that, with 10 accounts on 2 vCenters",
        figure: "vsphere logins",
        part: Part::Vsphere,
        bound: Bound::AtMost(20.0),
        unit: Unit::Count,
        other: None,
    },
    Target {
        what: "memory of the operator of 1,000 such clusters",
        figure: "vsphere resident",
        part: Part::Vsphere,
        bound: Bound::AtMost(80.0 * MEGA),
        unit: Unit::Bytes,
        other: None,
    },
    Target {
        what: "a change of a cluster, p99, while another vCenter hangs, beside before",
        figure: "vsphere ratio",
        part: Part::Vsphere,
        bound: Bound::AtMost(1.2),
        unit: Unit::Ratio,
        other: None,
    },
    Target::call(
        "500 bare-metal machines, each with a host of its own after the operator starts",
        "metal3 associated",
        20.0,
    )
    .of(Part::Metal3),
    Target {
        what: "watches for that, with 10 pools of bare-metal hosts",
        figure: "metal3 watches",
        part: Part::Metal3,
        bound: Bound::AtMost(10.0),
        unit: Unit::Count,
        other: None,
    },
    Target {
        what: "memory of the operator of 500 bare-metal machines",
        figure: "metal3 resident",
        part: Part::Metal3,
        bound: Bound::AtMost(100.0 * MEGA),
        unit: Unit::Bytes,
        other: None,
    },
    Target {
        what: "requests for tokens of 2,000 Azure resources with 50 credentials",
        figure: "azure tokens",
        part: Part::Azure,
        bound: Bound::AtMost(50.0),
        unit: Unit::Count,
        other: None,
    },
    Target {
        what: "requests to Azure in the ten seconds after all Azure resources are ready",
        figure: "azure later",
        part: Part::Azure,
        bound: Bound::AtMost(0.0),
        unit: Unit::Count,
        other: None,
    },
    Target {
        what: "memory of the operator of 2,000 Azure resources",
        figure: "azure resident",
        part: Part::Azure,
        bound: Bound::AtMost(120.0 * MEGA),
        unit: Unit::Bytes,
        other: None,
    },
    Target {
        what: "definitions of an Azure Service Operator release, published to all tenants",
        figure: "published kinds",
        part: Part::Published,
        bound: Bound::AtLeast(277.0),
        unit: Unit::Count,
        other: None,
    },
    // The bound of a tenant with one definition of its own: published ones are stored once.
    Target {
        what: "memory of a tenant with all of these definitions of Azure",
        figure: "published tenant grown",
        part: Part::Published,
        bound: Bound::AtMost(48.0 * 1024.0),
        unit: Unit::Kibibytes,
        other: None,
    },
];

/// Prints the targets of these parts.
pub fn print(insula: &Figures, floor: &Figures, sizes: &Sizes, wants: impl Fn(Part) -> bool) {
    let row = |target: &Target| target.row(insula, floor, sizes.is_full(target.part));
    let rows = TARGETS.iter().filter(|it| wants(it.part)).map(row);
    let columns = [
        "what",
        "target",
        "measured",
        "result",
        "kube-apiserver 1.36 + etcd 3.5.30",
        "floor",
        "measured / floor",
    ];
    let title = "Targets of the API server: CPU time of the server for each, memory, rates";
    report::table(title, &columns, &rows.collect::<Vec<_>>());
}

impl Target {
    /// A target in seconds, with its bound and the figure of kube-apiserver.
    const fn time(what: &'static str, figure: &'static str, bound: f64, other: f64) -> Self {
        Self {
            what,
            figure,
            part: Part::Writes,
            bound: Bound::AtMost(bound),
            unit: Unit::Time,
            other: Some(other),
        }
    }

    /// A target for what authorization adds to a request.
    const fn own(what: &'static str, figure: &'static str) -> Self {
        Self {
            part: Part::Access,
            other: None,
            ..Self::time(what, figure, 20.0 * MICRO, 0.0)
        }
    }

    /// A target of custom kinds.
    const fn call(what: &'static str, figure: &'static str, bound: f64) -> Self {
        Self {
            part: Part::Customs,
            other: None,
            ..Self::time(what, figure, bound, 0.0)
        }
    }

    /// A target of pages of large collections.
    const fn page(what: &'static str, figure: &'static str) -> Self {
        Self {
            part: Part::Pages,
            other: None,
            ..Self::time(what, figure, 2.0 * MILLI, 0.0)
        }
    }

    /// A target of the fan-out, as a ratio.
    const fn ratio(what: &'static str, figure: &'static str, bound: f64) -> Self {
        Self {
            unit: Unit::Ratio,
            ..Self::call(what, figure, bound).of(Part::Fanout)
        }
    }

    /// A target of the fan-out, in KiB.
    const fn kibibytes(what: &'static str, figure: &'static str, bound: f64) -> Self {
        Self {
            unit: Unit::Kibibytes,
            ..Self::call(what, figure, bound * 1024.0).of(Part::Fanout)
        }
    }

    /// A target in megabytes.
    const fn memory(what: &'static str, figure: &'static str, bound: f64, other: f64) -> Self {
        Self {
            unit: Unit::Bytes,
            ..Self::time(what, figure, bound * MEGA, other * MEGA)
        }
    }

    /// A target of the memory for slow readers of a large list.
    const fn readers(what: &'static str, figure: &'static str) -> Self {
        Self {
            other: None,
            part: Part::Formats,
            ..Self::memory(what, figure, 100.0, 0.0)
        }
    }

    const fn of(self, part: Part) -> Self {
        Self { part, ..self }
    }

    fn row(&self, insula: &Figures, floor: &Figures, is_full: bool) -> Vec<String> {
        let write = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |value| self.unit.format(value))
        };
        let (measured, floor) = (insula.get(self.figure), floor.get(self.figure));
        let ratio = measured.zip(floor).filter(|(_, floor)| *floor > 0.0);
        let ratio = ratio.map(|(measured, floor)| format!("{:.1}", measured / floor));
        vec![
            self.what.to_owned(),
            self.bound(),
            write(measured),
            self.result(measured, is_full).to_owned(),
            write(self.other),
            write(floor),
            ratio.unwrap_or_else(|| "-".to_owned()),
        ]
    }

    fn bound(&self) -> String {
        match self.bound {
            Bound::AtLeast(bound) => format!("at least {}", self.unit.format(bound)),
            Bound::AtMost(bound) => format!("at most {}", self.unit.format(bound)),
        }
    }

    fn result(&self, measured: Option<f64>, is_full: bool) -> &'static str {
        let Some(value) = measured else {
            return "not measured";
        };
        let is_met = match self.bound {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        };
        match (is_full, is_met) {
            (false, _) => "too few to tell",
            (true, true) => "met",
            (true, false) => "missed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(figure: &str, value: f64, is_full: bool) -> Vec<String> {
        let insula = Figures::default().with(figure, value);
        let floor = Figures::default().with(figure, value / 2.0);
        let target = TARGETS.iter().find(|target| target.figure == figure);
        target.unwrap().row(&insula, &floor, is_full)
    }

    #[test]
    fn a_target_is_met_up_to_its_bound_and_missed_beyond() {
        for (figure, value, result) in [
            ("get cpu", 27e-6, "met"),
            ("get cpu", 27.1e-6, "missed"),
            ("all tenant rate", 500.0, "met"),
            ("all tenant rate", 499.0, "missed"),
        ] {
            assert_eq!(row(figure, value, true)[3], result, "{figure} {value}");
        }
        assert_eq!(row("get cpu", 1e-6, false)[3], "too few to tell");
    }

    #[test]
    fn a_row_names_the_bound_the_others_and_the_ratio() {
        let row = row("get cpu", 20e-6, true);
        let expected = [
            "get",
            "at most 27.0 us",
            "20.0 us",
            "met",
            "860 us",
            "10.0 us",
            "2.0",
        ];
        assert_eq!(row, expected);
    }

    #[test]
    fn published_definitions_have_the_memory_target_of_custom_kinds() {
        let bound = |figure: &str| row(figure, 1.0, true)[1].clone();
        assert_eq!(bound("published tenant grown"), bound("customs grown"));
        for (figure, value, result) in [
            ("published kinds", 276.0, "missed"),
            ("published kinds", 277.0, "met"),
            ("published tenant grown", 49.0 * 1024.0, "missed"),
            ("azure tokens", 50.0, "met"),
            ("azure tokens", 51.0, "missed"),
            ("azure later", 1.0, "missed"),
            ("azure resident", 120.1 * MEGA, "missed"),
        ] {
            assert_eq!(row(figure, value, true)[3], result, "{figure} {value}");
        }
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        let none = Figures::default();
        for target in TARGETS {
            let row = target.row(&none, &none, true);
            assert_eq!([&row[2], &row[3], &row[6]], ["-", "not measured", "-"]);
        }
    }
}
