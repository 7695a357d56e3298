//! Plots of how cost grows: with watches, objects and tenants.

use std::path::Path;

use anyhow::Result;

use super::{Sizes, fanout, pages, tenants};
use crate::figures::Figures;
use crate::plot::{Line, Plot};
use crate::report::text;

/// Writes the plots of what was measured into a folder, and prints links to them for a report
/// beside that folder.
pub fn write(folder: &Path, figures: &Figures, sizes: &Sizes) -> Result<()> {
    let plots = [
        watches(figures, sizes),
        objects(figures),
        tenants(figures, sizes),
    ];
    text("\n## How cost grows\n");
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    for plot in plots.iter().filter(|plot| plot.has_lines()) {
        plot.write(folder)?;
        text(&format!("![{}]({name}/{}.svg)\n", plot.title, plot.name));
    }
    Ok(())
}

fn watches(figures: &Figures, sizes: &Sizes) -> Plot {
    let line = |name: &str, figure: &str| {
        let points = sizes.fanout.others.iter().filter_map(|watches| {
            let time = figures.get(&format!("{} {figure}", fanout::prefix(*watches)))?;
            Some((*watches as f64, time))
        });
        Line::new(name, points)
    };
    Plot {
        name: "watches",
        title: "A write beside watches on other names, and a get of a neighbour",
        number: "watches on other names",
        lines: vec![
            line("CPU of the write", "write cpu"),
            line("the neighbour's get, p50", "get p50"),
            line("the neighbour's get, p99", "get p99"),
        ],
    }
}

fn objects(figures: &Figures) -> Plot {
    let line = |name: &str, figure: &str| {
        let points = pages::STEPS.into_iter().filter_map(|step| {
            let objects = figures.get(&format!("{step} objects"))?;
            Some((objects, figures.get(&format!("{step} {figure}"))?))
        });
        Line::new(name, points)
    };
    Plot {
        name: "objects",
        title: "A page of 500, p50",
        number: "objects",
        lines: vec![
            line("of one space", "one p50"),
            line("over all spaces", "all p50"),
            line("of one space, beside writes", "busy one p50"),
            line("over all spaces, beside writes", "busy all p50"),
        ],
    }
}

fn tenants(figures: &Figures, sizes: &Sizes) -> Plot {
    let line = |name: &str, figure: &str| {
        let steps = tenants::STEPS.into_iter().zip(sizes.tenants.steps());
        let points = steps.filter_map(|(step, tenants)| {
            Some((tenants as f64, figures.get(&format!("{step} {figure}"))?))
        });
        Line::new(name, points)
    };
    Plot {
        name: "tenants",
        title: "Inside one of many tenants: CPU of the server",
        number: "tenants",
        lines: vec![
            line("create", "create cpu"),
            line("get", "get cpu"),
            line("event delivered, with the write", "delivered cpu"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_figures_are_drawn_and_others_left_out() {
        let sizes = Sizes::FULL;
        let [one, .., many] = sizes.fanout.others;
        let of = |watches, cpu| {
            let of = Figures::default().with("write cpu", cpu);
            of.under(&fanout::prefix(watches))
        };
        let figures = of(one, 1e-4).and(of(many, 2e-4));
        let plot = watches(&figures, &sizes);
        let expected = [(one as f64, 1e-4), (many as f64, 2e-4)];
        assert_eq!(plot.lines[0].points, expected);
        assert!(plot.lines[1].points.is_empty());
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &figures, &sizes).unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names, ["watches.svg"]);
    }
}
