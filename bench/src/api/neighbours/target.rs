//! The targets of each flood, and whether they were met.

use crate::report::{Row, table};

/// The most that p99 of the quiet tenant may grow.
const MAX_RATIO: f64 = 2.0;
/// The most memory that one tenant may add.
const MAX_GROWTH: f64 = 256e6;

/// Prints a row of verdicts for each flood.
pub fn print(rows: &[Row], quick: bool) {
    let verdicts: Vec<_> = rows.iter().map(|row| verdicts(row, quick)).collect();
    table(
        "Targets",
        &[
            "flood",
            "p99 during / before, at most 2",
            "errors of the quiet tenant, none",
            "memory above idle, at most 256 MB",
        ],
        &verdicts,
    );
}

fn verdicts(row: &Row, quick: bool) -> Vec<String> {
    let get = |name| row.figures.get(name).unwrap_or(f64::NAN);
    let (before, during) = (get("before p99"), get("during p99"));
    let ratio = during / before;
    let growth = get("peak") - get("idle");
    let judge = |text: String, met: bool| match (quick, met) {
        (true, _) => format!("{text}: too short to tell"),
        (false, true) => format!("{text}: met"),
        (false, false) => format!("{text}: **missed**"),
    };
    let errors = get("errors");
    vec![
        row.of.clone(),
        judge(
            format!("{ratio:.1} ({:.1} ms)", during * 1e3),
            ratio <= MAX_RATIO,
        ),
        judge(format!("{errors:.0}"), errors == 0.0),
        judge(format!("{:.0} MB", growth / 1e6), growth <= MAX_GROWTH),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    fn row(before: f64, during: f64, errors: f64, peak: f64) -> Row {
        Row {
            of: "a flood".to_owned(),
            figures: Figures::default()
                .with("before p99", before)
                .with("during p99", during)
                .with("errors", errors)
                .with("idle", 20e6)
                .with("peak", peak),
        }
    }

    #[test]
    fn verdict_is_met_within_every_target_only() {
        let met = verdicts(&row(0.010, 0.020, 0.0, 276e6), false);
        assert_eq!(met[1..], ["2.0 (20.0 ms): met", "0: met", "256 MB: met"]);
        let missed = verdicts(&row(0.010, 0.021, 1.0, 277e6), false);
        assert!(
            missed[1..].iter().all(|text| text.ends_with("**missed**")),
            "{missed:?}"
        );
    }

    #[test]
    fn quick_run_has_no_verdict() {
        let quick = verdicts(&row(0.010, 0.020, 0.0, 276e6), true);
        assert_eq!(quick[2], "0: too short to tell");
    }
}
