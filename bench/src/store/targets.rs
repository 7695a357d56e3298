//! The targets of the embedded engine, and its results.

use super::Results;
use super::topic::Topic;
use crate::figures::Figures;
use crate::part::name;
use crate::report::{self, Unit, grouped};
use crate::subject::Engine;

const KEYS: usize = 1_000_000;

/// A figure and its bound.
struct Target {
    text: &'static str,
    bound: Bound,
    unit: Unit,
    measured: Option<f64>,
    /// A remark on the figure.
    note: String,
    /// Whether it was measured at the size of the target.
    counts: bool,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub fn print(results: &Results) {
    let rows: Vec<_> = targets(results).iter().map(Target::row).collect();
    let columns = ["target", "measured", "result"];
    report::table("Targets of the embedded engine", &columns, &rows);
}

fn targets(results: &Results) -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    let one = figures(results, Topic::Writes, 1);
    let many = figures(results, Topic::Writes, 64);
    let rate = Target::new(
        "at least 20,000 durable writes/s by 64 writers",
        AtLeast(2e4),
    )
    .measured(Unit::Count, many.get("rate"));
    let cpu = Target::new(
        "at most 25 us of CPU per write, by 64 writers",
        AtMost(25e-6),
    )
    .measured(Unit::Time, many.get("write cpu"));
    let sync = Target::new("p50 of one writer at most 1.3 times a sync's", AtMost(1.3))
        .measured(Unit::Ratio, one.get("syncs' latency"));
    vec![rate, cpu, sync, reopening(results), stall(results)]
}

/// The slower of both ways to open the largest store.
fn reopening(results: &Results) -> Target {
    let full = largest(results, Topic::Size);
    let times = [full.get("open killed"), full.get("open closed")];
    let slower = times.into_iter().flatten().reduce(f64::max);
    let keys = full.get("size").unwrap_or_default() as usize;
    let mut target = Target::new(
        "reopening a million keys in at most 5 s",
        Bound::AtMost(5.0),
    )
    .measured(Unit::Time, slower);
    target.counts = keys >= KEYS;
    target.note = format!("{} keys", grouped(keys));
    target
}

fn stall(results: &Results) -> Target {
    let calm = figures(results, Topic::Compaction, 0).get("write max");
    let with_compaction = figures(results, Topic::Compaction, 1).get("write max");
    let text = "compaction stalls writers for at most 50 ms";
    let mut target = Target::new(text, Bound::AtMost(0.05)).measured(Unit::Time, with_compaction);
    if let Some(calm) = calm {
        target.note = format!("without compaction {}", Unit::Time.format(calm));
    }
    target
}

impl Target {
    const fn new(text: &'static str, bound: Bound) -> Self {
        Self {
            text,
            bound,
            unit: Unit::Count,
            measured: None,
            note: String::new(),
            counts: true,
        }
    }

    fn measured(mut self, unit: Unit, value: Option<f64>) -> Self {
        (self.unit, self.measured) = (unit, value);
        self
    }

    fn row(&self) -> Vec<String> {
        let Some(value) = self.measured else {
            return [self.text, "-", "not measured"].map(str::to_owned).to_vec();
        };
        let mut measured = self.unit.format(value);
        if !self.note.is_empty() {
            measured = format!("{measured} ({})", self.note);
        }
        vec![
            self.text.to_owned(),
            measured,
            self.result(value).to_owned(),
        ]
    }

    const fn result(&self, value: f64) -> &'static str {
        let is_met = match self.bound {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        };
        match (is_met, self.counts) {
            (_, false) => "not measured: too few keys",
            (true, true) => "met",
            (false, true) => "missed",
        }
    }
}

/// Of the embedded engine; none if that was not measured.
fn figures(results: &Results, topic: Topic, size: usize) -> Figures {
    let mut of_topic = embedded(results, topic);
    let found = of_topic.find(|figures| figures.get("size") == Some(size as f64));
    found.cloned().unwrap_or_default()
}

fn largest(results: &Results, topic: Topic) -> Figures {
    embedded(results, topic).last().cloned().unwrap_or_default()
}

fn embedded(results: &Results, topic: Topic) -> impl Iterator<Item = &Figures> {
    let of_topic = results
        .iter()
        .filter(move |(measured, _)| *measured == topic);
    let rows = of_topic.flat_map(|(_, rows)| rows);
    let embedded = rows.filter(|row| row.of == name(Engine::Embedded));
    embedded.map(|row| &row.figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Row;

    fn results(topic: Topic, figures: Figures) -> Results {
        let of = name(Engine::Embedded);
        vec![(topic, vec![Row { of, figures }])]
    }

    fn result(results: &Results, index: usize) -> Vec<String> {
        targets(results)[index].row().split_off(1)
    }

    #[test]
    fn a_target_is_met_up_to_its_bound_and_missed_beyond() {
        for (rate, cpu, expected) in [
            (20_000.0, 25e-6, ["met", "met"]),
            (19_999.0, 25.1e-6, ["missed", "missed"]),
        ] {
            let figures = Figures::default().with("size", 64.0);
            let figures = figures.with("rate", rate).with("write cpu", cpu);
            let results = results(Topic::Writes, figures);
            let told = [0, 1].map(|index| result(&results, index)[1].clone());
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn reopening_counts_the_slower_way_and_only_with_a_million_keys() {
        let figures = Figures::default()
            .with("open killed", 6.0)
            .with("open closed", 1.0);
        let full = results(Topic::Size, figures.clone().with("size", 1e6));
        assert_eq!(result(&full, 3), ["6.00 s (1,000,000 keys)", "missed"]);
        let small = results(Topic::Size, figures.with("size", 1e4));
        assert_eq!(result(&small, 3)[1], "not measured: too few keys");
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        assert_eq!(result(&vec![], 4), ["-", "not measured"]);
    }
}
