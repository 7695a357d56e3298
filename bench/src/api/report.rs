//! The tables, from the figures of the server and of the floor.

mod operators;
mod requests;
mod tenants;
mod watches;

use super::{Sizes, customs, etcd, fill, leases, lists, published, server::Program, start, writes};
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
