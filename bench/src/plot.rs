//! Plots of cost against a number, as SVG.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::report::grouped;

/// A plot of times against a number with a logarithmic axis.
pub struct Plot {
    /// The name of its file, without the ending.
    pub name: &'static str,
    pub title: &'static str,
    /// The label of the number.
    pub number: &'static str,
    pub lines: Vec<Line>,
}

/// A named line of a plot.
pub struct Line {
    pub name: String,
    /// Numbers, and seconds.
    pub points: Vec<(f64, f64)>,
}

/// The size of a plot in pixels.
const SIZE: (u32, u32) = (720, 400);
/// Colours that people with colour blindness can tell apart.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

impl Line {
    pub fn new(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points: points.collect(),
        }
    }
}

impl Plot {
    /// Returns whether any line has more than a point.
    pub fn has_lines(&self) -> bool {
        self.lines.iter().any(|line| line.points.len() > 1)
    }

    /// Writes the plot into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let file = folder.join(self.name).with_extension("svg");
        fs::write(file, self.draw()?)?;
        Ok(())
    }

    /// Returns the plot as SVG.
    fn draw(&self) -> Result<String> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        self.draw_on(&area).map_err(|error| anyhow!("{error}"))?;
        drop(area);
        Ok(svg)
    }

    fn draw_on<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let (scale, unit) = self.scale();
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 16))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(self.numbers().log_scale(), 0.0..self.most() * scale * 1.1)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.number)
            .y_desc(unit)
            .x_label_formatter(&|number| grouped(number.round() as usize))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let points = line.points.iter();
            let points: Vec<_> = points
                .map(|(number, time)| (*number, time * scale))
                .collect();
            let style = colour.stroke_width(2);
            let dots = points.iter().map(|at| Circle::new(*at, 3, colour.filled()));
            chart.draw_series(dots)?;
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(&*line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(TRANSPARENT)
            .draw()?;
        area.present()
    }

    /// Returns the range of numbers, at least a tenfold one.
    fn numbers(&self) -> Range<f64> {
        let numbers = || self.points().map(|(number, _)| number);
        let least = numbers().fold(f64::INFINITY, f64::min).max(1.0);
        let most = numbers().fold(least * 10.0, f64::max);
        least..most
    }

    /// Returns the longest time.
    fn most(&self) -> f64 {
        self.points().map(|(_, time)| time).fold(1e-9, f64::max)
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines
            .iter()
            .flat_map(|line| line.points.iter().copied())
    }

    /// Returns how many of a unit a second has, and the unit.
    fn scale(&self) -> (f64, &'static str) {
        match self.most() {
            most if most >= 1.0 => (1.0, "s"),
            most if most >= 1e-3 => (1e3, "ms"),
            _ => (1e6, "us"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: &[(f64, f64)]) -> Plot {
        Plot {
            name: "cost",
            title: "Cost of a write",
            number: "watches",
            lines: vec![Line::new("a write", points.iter().copied())],
        }
    }

    #[test]
    fn plot_has_title_axes_and_lines_with_their_names() {
        let svg = plot(&[(1.0, 1e-4), (1_000.0, 2e-4), (10_000.0, 3e-4)]).draw();
        let svg = svg.unwrap();
        for text in [
            "Cost of a write",
            "watches",
            "us",
            "a write",
            "1,000",
            "10,000",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn unit_fits_the_longest_time() {
        let unit = |time| plot(&[(1.0, time)]).scale().1;
        assert_eq!([2e-5, 2e-3, 2.0].map(unit), ["us", "ms", "s"]);
    }

    #[test]
    fn single_points_are_no_line() {
        assert!(!plot(&[(1.0, 1.0)]).has_lines());
        assert!(plot(&[(1.0, 1.0), (10.0, 1.0)]).has_lines());
    }
}
