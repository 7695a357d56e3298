//! The time from an empty folder to a ready server, and its memory while idle.

use anyhow::Result;

use super::server::Program;
use crate::figures::Figures;
use crate::report::progress;

const ROUNDS: usize = 3;

/// Measures the median of several first starts, then a restart with existing data.
pub async fn measure(program: &Program) -> Result<Figures> {
    let mut times = vec![];
    for round in 1..ROUNDS {
        progress(&format!("start, round {round} of {ROUNDS}"));
        let server = program.start()?;
        times.push(server.ready_after.as_secs_f64());
        server.stop()?;
    }
    let server = program.start()?;
    times.push(server.ready_after.as_secs_f64());
    times.sort_by(f64::total_cmp);
    server.subject.wait_until_idle().await?;
    let figures = Figures::default()
        .with("start", times[times.len() / 2])
        .with("idle resident", server.subject.resident()?)
        .maybe("idle proportional", server.subject.proportional());
    let server = server.restart(program)?;
    let again = server.ready_after.as_secs_f64();
    server.stop()?;
    Ok(figures.with("start again", again))
}
