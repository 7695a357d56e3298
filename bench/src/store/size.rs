//! Memory, disk and opening time of full stores.

use std::time::Duration;

use anyhow::Result;

use super::keys;
use crate::report::{self, megabytes, micros, progress};
use crate::subject::Engine;

pub async fn measure(engines: &[Engine], most: usize) -> Result<()> {
    let mut rows = vec![];
    for engine in engines {
        for count in [100_000, 1_000_000] {
            if count > most {
                continue;
            }
            progress(&format!("{}: {count} keys", engine.name()));
            let subject = engine.start().await?;
            keys::fill(&subject.store, count).await?;
            let full = subject.memory()?;
            let disk = subject.disk_usage()?;
            let (subject, took) = subject.reopen().await?;
            rows.push(vec![
                engine.name().to_owned(),
                count.to_string(),
                megabytes(full),
                megabytes(disk),
                opening(took),
                megabytes(subject.memory()?),
            ]);
        }
    }
    report::table(
        "Full stores, 1 KiB a key",
        &[
            "engine",
            "keys",
            "memory after filling",
            "disk",
            "opening again",
            "memory then",
        ],
        &rows,
    );
    Ok(())
}

fn opening(took: Duration) -> String {
    if took > Duration::from_secs(1) {
        format!("{:.2} s", took.as_secs_f64())
    } else {
        micros(took)
    }
}
