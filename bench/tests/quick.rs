//! Runs the benchmark end to end, and checks that its report is complete.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The beginning of each table's heading, and the number of rows of the embedded engine.
const TABLES: &[(&str, usize)] = &[
    ("The disk", 1),
    ("Durable writes", 4),
    ("Reading", 1),
    ("6,000 changes", 2),
    ("64 writers", 2),
    ("Full stores", 1),
];

#[test]
fn every_table_and_the_targets_are_printed_with_numbers() {
    let text = quick(&["store", "--quick", "--engine", "embedded"]).unwrap();
    for (title, count) in TABLES {
        let rows = table(&text, title).unwrap();
        assert_eq!(rows.len(), *count, "{title}");
        for row in rows {
            for cell in &row[1..] {
                assert!(cell == "-" || number(cell).is_some(), "{title}: {row:?}");
            }
            let numbers = row.iter().filter(|cell| number(cell).is_some()).count();
            assert!(numbers >= 3, "{title}: {row:?}");
        }
    }
    let targets = table(&text, "Targets").unwrap();
    assert_eq!(targets.len(), 5);
    for row in targets {
        assert!(number(&row[1]).is_some(), "{row:?}");
        let too_small = row[0].contains("a million keys") && row[2].contains("too few keys");
        assert!(
            ["met", "missed"].contains(&row[2].as_str()) || too_small,
            "{row:?}"
        );
    }
}

/// The tables of the API server, with the floor in its place.
const API_TABLES: &[(&str, usize)] = &[
    ("The disk", 1),
    ("From an empty folder", 2),
    ("Requests", 12),
    ("The noise", 6),
    ("Lists", 8),
    ("Memory after", 2),
    ("Changes by 8 writers", 4),
    ("Tenants, 64", 2),
    ("Inside one tenant", 10),
    ("A get inside a tenant", 4),
    ("Tenants that each define", 1),
    ("Objects of a kind", 3),
    ("The same object", 2),
    ("Discovery", 1),
    ("Targets", 65),
];

#[test]
fn api_benchmark_fills_all_tables() {
    let stand_in = env!("CARGO_BIN_EXE_insula-bench");
    let text = quick(&["api", "--quick", "--server", stand_in]).unwrap();
    for (title, count) in API_TABLES {
        let rows = table(&text, title).unwrap();
        assert_eq!(rows.len(), *count, "{title}");
        for row in rows.iter().filter(|row| !is_of_server_only(row)) {
            let numbers = row.iter().filter(|cell| number(cell).is_some()).count();
            assert!(numbers >= 1, "{title}: {row:?}");
        }
    }
    for row in table(&text, "Targets").unwrap() {
        if is_of_server_only(&row) {
            assert_eq!(row[3], "not measured");
            continue;
        }
        assert!(number(&row[2]).is_some(), "{row:?}");
        let results: &[&str] = match row[0].as_str() {
            "start to ready" | "memory, idle" => &["met", "missed"],
            _ => &["too few to tell"],
        };
        assert!(results.contains(&row[3].as_str()), "{row:?}");
    }
}

/// The floor has neither operators nor users of tenants nor many objects, and speaks JSON only, so
/// these rows have no figures.
fn is_of_server_only(row: &[String]) -> bool {
    let words = [
        "tenants of brokers",
        "such tenants",
        "clusters on vCenters",
        "on 2 vCenters",
        "such clusters",
        "another vCenter hangs",
        "bare-metal",
        "Azure",
        "of a million objects",
        "beside 1,000 writes",
        "that a watch continues",
        "as protobuf",
        "Secrets of 1 MiB",
        "the same as pretty JSON",
        "the same as Table",
        "fan-out",
        "with etcd",
        "start with",
        "a tenant is filled",
        "after a burst",
    ];
    words.iter().any(|words| row[0].contains(words))
}

#[test]
fn only_selected_parts_are_measured() {
    let stand_in = env!("CARGO_BIN_EXE_insula-bench");
    let only = ["--only", "start,lists"];
    let asked = [&["api", "--quick", "--server", stand_in][..], &only].concat();
    let text = quick(&asked).unwrap();
    assert_eq!(table(&text, "Lists").unwrap().len(), 4);
    assert!(!text.contains("## Requests") && !text.contains("## Tenants"));
    let targets = table(&text, "Targets").unwrap();
    assert_eq!(targets.len(), 9);
    for row in targets {
        assert_eq!(row[3] == "not measured", is_of_server_only(&row), "{row:?}");
    }
}

fn quick(asked: &[&str]) -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(env!("CARGO_BIN_EXE_insula-bench"))
        .args(asked)
        .args(["--date", "1970-01-01"])
        .current_dir(root)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the benchmark failed:\n{stderr}");
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.starts_with("# "), "no heading");
    ensure!(text.contains("- measured: 1970-01-01\n"), "no date");
    Ok(text)
}

/// Returns the rows of the table under the heading with this beginning.
fn table(text: &str, title: &str) -> Result<Vec<Vec<String>>> {
    let (_, rest) = text
        .split_once(&format!("\n## {title}"))
        .with_context(|| format!("no table {title}"))?;
    let lines = rest.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    Ok(rows.map(cells).collect())
}

/// Returns the number that a cell begins with.
fn number(cell: &str) -> Option<f64> {
    let number: f64 = cell.split(' ').next()?.parse().ok()?;
    number.is_finite().then_some(number)
}
