//! Tables of requests, lists and pages.

use super::{Cell, Results, print, row};
use crate::api::{Sizes, formats, pages, writes};
use crate::report::{Unit, grouped};

impl Results {
    pub(super) fn start(&self) {
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

    /// Prints the pages of many objects, and the lists that watches continue.
    pub(super) fn pages(&self, sizes: &Sizes) {
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
    pub(super) fn noise(&self, sizes: &Sizes) {
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

    pub(super) fn memory(&self, sizes: &Sizes) {
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

    pub(super) fn formats(&self, sizes: &Sizes) {
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
}
