//! The tables, from the figures of the server and of the floor.

use super::{
    Sizes, customs, definition, deletion, etcd, fanout, fill, formats, leases, lists, pages,
    published, server::Program, start, tenants, writes,
};
use crate::figures::Figures;
use crate::report::{Unit, grouped, table, text};

/// The figures of the server and of the floor.
#[derive(Default)]
pub struct Results {
    pub insula: Figures,
    pub floor: Figures,
}

/// A figure and its format.
type Cell<'a> = (&'a str, Unit);

const NOTES: &str = "
The server runs in a process of its own, with TLS, HTTP/2 and a client certificate, and the \
one who asks shares the machine with it. CPU time is that of the server's process, of all \
its threads, in user and system mode, until it is quiet again; memory is all that is \
resident. Each group of figures is measured on a server of its own, with an empty folder. \
The floor is a responder with the same TLS and HTTP/2 and answers of the same lengths made \
in advance: it stores nothing. The figures of kube-apiserver 1.36 with etcd 3.5.30 are from \
an earlier measurement on such a machine, not from this run.";

pub fn heading(program: &Program) {
    text(&format!("- store: {}", program.name()));
    text("- objects: ConfigMaps with a value of 1 KiB, about 1.4 KB when answered, as JSON");
    if program.name() == "etcd" {
        text("- CPU time and memory are those of the server and of etcd together");
    }
}

pub fn notes() {
    text(NOTES);
}

impl Results {
    pub fn print(&self, sizes: &Sizes) {
        self.start();
        start::print(&self.insula);
        fill::print(&self.insula, sizes.fill);
        let requests = format!(
            "Requests, {} of each, 64 at once on 8 connections, the middle one of {} rounds",
            grouped(sizes.operations),
            sizes.rounds
        );
        self.operations(&requests, &writes::OPERATIONS);
        self.noise(sizes);
        let lists = format!(
            "Lists of {} objects, by a label that a tenth has, and pages of {}; 4 at once",
            grouped(sizes.objects),
            grouped(sizes.objects / 10)
        );
        self.operations(&lists, &lists::OPERATIONS);
        self.memory(sizes);
        self.pages(sizes);
        self.formats(sizes);
        self.watches(sizes);
        self.fanout(sizes);
        let gets = etcd::STEPS.map(|(name, _)| name);
        let title = format!(
            "Gets with etcd as the store, {} of each on 8 connections; CPU with that of etcd",
            grouped(sizes.etcd.gets)
        );
        self.operations(&title, &gets);
        self.tenants();
        self.inside(sizes);
        self.access(sizes);
        self.customs();
        let objects = format!(
            "Objects of a kind that a tenant defines, 4 KB, {} of each, among {} tenants that \
             define the same",
            grouped(sizes.customs.operations),
            grouped(sizes.customs.tenants)
        );
        self.operations(&objects, &customs::OPERATIONS);
        self.checks(sizes);
        self.discovery(sizes);
        let leases = format!(
            "Leases of {} holders in one tenant, renewed {} times each, 64 at once, the middle one \
             of {} rounds",
            grouped(sizes.leases.holders),
            sizes.leases.renewals,
            sizes.leases.rounds
        );
        self.operations(&leases, &leases::OPERATIONS);
        self.deletion(sizes);
        self.brokers(sizes);
        self.vsphere(sizes);
        self.metal3(sizes);
        self.azure(sizes);
        published::print(&self.insula);
    }

    /// Returns the figures of Insula and of the floor, with their names.
    fn both(&self) -> [(&'static str, &Figures); 2] {
        [("insula", &self.insula), ("floor", &self.floor)]
    }

    fn start(&self) {
        const CELLS: [Cell; 4] = [
            ("start", Unit::Time),
            ("start again", Unit::Time),
            ("idle resident", Unit::Bytes),
            ("idle proportional", Unit::Bytes),
        ];
        let rows = self.both().into_iter().filter_map(|(who, figures)| {
            figures.get("start")?;
            Some(row(&[who], figures, "", &CELLS))
        });
        print(
            "From an empty folder to a ready server, and its memory while idle",
            &[
                "server",
                "first start",
                "next start",
                "memory",
                "memory (PSS)",
            ],
            rows.collect(),
        );
    }

    fn operations(&self, title: &str, operations: &[&str]) {
        const CELLS: [Cell; 6] = [
            ("rate", Unit::Count),
            ("cpu", Unit::Time),
            ("caller", Unit::Time),
            ("p50", Unit::Time),
            ("p99", Unit::Time),
            ("max", Unit::Time),
        ];
        let rows = operations.iter().flat_map(|operation| {
            self.both().into_iter().filter_map(move |(who, figures)| {
                figures.get(&format!("{operation} cpu"))?;
                Some(row(&[operation, who], figures, operation, &CELLS))
            })
        });
        print(
            title,
            &[
                "what",
                "server",
                "each second",
                "CPU of the server",
                "CPU of the caller",
                "p50",
                "p99",
                "max",
            ],
            rows.collect(),
        );
    }

    /// Prints the pages of many objects, and the lists that watches continue.
    fn pages(&self, sizes: &Sizes) {
        const CELLS: [Cell; 4] = [
            ("cpu", Unit::Time),
            ("p50", Unit::Time),
            ("p99", Unit::Time),
            ("max", Unit::Time),
        ];
        const WHAT: [&str; 5] = [
            "in one space",
            "over all spaces",
            "in one space, beside writes",
            "over all spaces, beside writes",
            "all, by a label that none has",
        ];
        let reads = pages::READS.into_iter().chain(["selected none"]);
        let reads: Vec<_> = reads.zip(WHAT).collect();
        let rows = pages::STEPS.into_iter().flat_map(|step| {
            let objects = self.insula.get(&format!("{step} objects"));
            reads.iter().filter_map(move |(read, what)| {
                let objects = Unit::Count.format(objects?);
                let figures = format!("{step} {read}");
                Some(row(&[&objects, what], &self.insula, &figures, &CELLS))
            })
        });
        let title = format!(
            "Pages of 500, one client; beside writes: {} of other clients in a second",
            grouped(sizes.pages.writes)
        );
        let columns = ["objects", "what", "CPU of the server", "p50", "p99", "max"];
        print(&title, &columns, rows.collect());
        let Some(converged) = self.insula.get("pages converged") else {
            return;
        };
        let cells: [Cell; 3] = [
            ("converging writes", Unit::Count),
            ("converging p50", Unit::Time),
            ("converging max", Unit::Time),
        ];
        let converged = Unit::Count.format(converged);
        let title = format!(
            "Lists of {} objects in pages of 500, continued by a watch, 3 tries",
            grouped(sizes.pages.converging)
        );
        let rows = vec![row(&[&converged], &self.insula, "pages", &cells)];
        let columns = ["converged", "writes each second", "p50", "max"];
        print(&title, &columns, rows);
    }

    /// Prints the spread of the rounds.
    fn noise(&self, sizes: &Sizes) {
        const CELLS: [Cell; 2] = [("cpu min", Unit::Time), ("cpu max", Unit::Time)];
        let rows = writes::OPERATIONS.iter().filter_map(|operation| {
            let most = self.insula.get(&format!("{operation} cpu max"))?;
            let least = self.insula.get(&format!("{operation} cpu min"))?;
            let mut cells = row(&[operation], &self.insula, operation, &CELLS);
            let apart = (least > 0.0).then(|| format!("{:.0} %", (most / least - 1.0) * 100.0));
            cells.push(apart.unwrap_or_else(|| "-".to_owned()));
            Some(cells)
        });
        let title = format!("The noise: CPU of the server in {} rounds", sizes.rounds);
        print(&title, &["what", "least", "most", "apart"], rows.collect());
    }

    fn memory(&self, sizes: &Sizes) {
        const CELLS: [Cell; 2] = [("after", Unit::Bytes), ("most", Unit::Bytes)];
        let rows = self.both().into_iter().filter_map(|(who, figures)| {
            figures.get("memory after")?;
            Some(row(&[who], figures, "memory", &CELLS))
        });
        let title = format!(
            "Memory after {} writes and {} lists of {}",
            grouped(sizes.operations),
            grouped(sizes.lists),
            grouped(sizes.objects)
        );
        print(
            &title,
            &["server", "then", "most until then"],
            rows.collect(),
        );
    }

    fn formats(&self, sizes: &Sizes) {
        let size = sizes.formats;
        let names: Vec<_> = formats::LISTS.map(formats::list_name).into();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let title = format!("Lists of {} objects in every format", grouped(size.objects));
        self.operations(&title, &names);
        let names: Vec<_> = formats::SECRETS.map(formats::secrets_name).into();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let title = format!("Lists of {} Secrets of 1 MiB", grouped(size.secrets));
        self.operations(&title, &names);
        let row = |what: String, figure: String, unit: Unit| {
            let value = self.insula.get(&figure)?;
            Some(vec![what, unit.format(value)])
        };
        let events = formats::EVENTS.into_iter().filter_map(|format| {
            let figure = format!("event as {}", format.name);
            row(format!("an event as {}", format.name), figure, Unit::Time)
        });
        let title = format!("CPU of an event for each of {} watchers", size.watchers);
        print(&title, &["what", "CPU of the server"], events.collect());
        let readers = formats::READERS.into_iter().filter_map(|format| {
            let figure = format!("readers of {} grown", format.name);
            row(format.name.to_owned(), figure, Unit::Bytes)
        });
        let title = format!(
            "Memory for {} slow readers of {} objects each",
            size.readers,
            grouped(size.read_objects)
        );
        print(&title, &["format", "memory grown"], readers.collect());
    }

    fn watches(&self, sizes: &Sizes) {
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

    fn fanout(&self, sizes: &Sizes) {
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

    fn tenants(&self) {
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
    fn access(&self, sizes: &Sizes) {
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
    fn customs(&self) {
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
    fn checks(&self, sizes: &Sizes) {
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

    fn discovery(&self, sizes: &Sizes) {
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

    fn deletion(&self, sizes: &Sizes) {
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
                "when they were gone",
                "after / before",
            ],
            rows.collect(),
        );
    }

    fn brokers(&self, sizes: &Sizes) {
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

    fn vsphere(&self, sizes: &Sizes) {
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

    fn metal3(&self, sizes: &Sizes) {
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

    fn azure(&self, sizes: &Sizes) {
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

    /// Prints the same operations in one tenant, with few others and with many.
    fn inside(&self, sizes: &Sizes) {
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

fn among(tenants: usize) -> String {
    format!("{} tenants", grouped(tenants))
}

/// Prints a table, unless it is empty.
fn print(title: &str, columns: &[&str], rows: Vec<Vec<String>>) {
    if !rows.is_empty() {
        table(title, columns, &rows);
    }
}

/// Returns a row: text, followed by figures with a common prefix.
fn row(first: &[&str], figures: &Figures, prefix: &str, cells: &[Cell]) -> Vec<String> {
    let mut row: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
    for (name, unit) in cells {
        let value = figures.get(format!("{prefix} {name}").trim_start());
        row.push(value.map_or_else(|| "-".to_owned(), |value| unit.format(value)));
    }
    row
}
