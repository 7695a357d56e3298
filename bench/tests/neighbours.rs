//! A short run of the benchmark of neighbours against a real server.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

#[test]
fn quick_run_reports_every_selected_flood() -> Result<()> {
    let bench = Path::new(env!("CARGO_BIN_EXE_insula-bench"));
    if !bench.with_file_name("insula").is_file() {
        writeln!(
            std::io::stderr(),
            "SKIPPED: neighbours: there is no `insula` beside `insula-bench`"
        )?;
        return Ok(());
    }
    let output = Command::new(bench)
        .args(["neighbours", "--quick", "--store", "memory"])
        .args(["--only", "requests,quota,handshakes"])
        .args(["--date", "1970-01-01"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the benchmark failed:\n{stderr}");
    let text = String::from_utf8(output.stdout)?;
    assert!(text.contains("- measured: 1970-01-01\n"), "{text}");
    let rows = |flood: &str| -> Vec<Vec<String>> {
        let rows = text.lines().filter(|line| line.contains(flood));
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect();
        rows.map(cells).collect()
    };
    for flood in [
        "gets at once",
        "creates at once over a full quota",
        "TLS handshakes at once",
    ] {
        let [figures, targets] = &rows(flood)[..] else {
            panic!("not two rows of {flood}:\n{text}");
        };
        let [errors, answered, refused] = [8, 11, 12].map(|column| figures[column].as_str());
        assert_eq!(errors, "0", "{flood}: {figures:?}\n{stderr}");
        let is_quota = flood.contains("quota");
        let (count, at_least) = if is_quota {
            (refused, 1)
        } else {
            (answered, 1)
        };
        ensure!(count.parse::<u64>()? >= at_least, "{flood}: {figures:?}");
        let verdicts = targets[2..5].iter();
        assert!(
            verdicts
                .clone()
                .all(|cell| cell.ends_with("too short to tell"))
        );
    }
    Ok(())
}
