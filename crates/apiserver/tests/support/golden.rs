//! Comparison with reviewed files.

use std::fs;

/// Compares with a file in `tests/golden`; `UPDATE_GOLDEN=1` rewrites it.
pub fn assert_golden(name: &str, found: &str) -> anyhow::Result<()> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found)?;
    }
    let reviewed = fs::read_to_string(&path)?;
    let differ = reviewed.lines().zip(found.lines());
    for (number, (reviewed, found)) in (1..).zip(differ) {
        assert_eq!(found, reviewed, "{name}, line {number}");
    }
    assert_eq!(found.lines().count(), reviewed.lines().count(), "{name}");
    Ok(())
}
