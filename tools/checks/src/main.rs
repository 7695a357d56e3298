//! Checks of the repository that no compiler makes. `make check` runs all of them.
//!
//! ```text
//! prose     comments and log messages are in the field's language
//! layers    modules depend on each other in one direction
//! paths     every path that a Markdown file names exists
//! examples  every example in a documentation comment is compiled and run
//! ```

mod examples;
mod layers;
mod paths;
mod prose;
mod repository;
mod source;

use std::process::ExitCode;

use anyhow::Result;

use crate::repository::Repository;

/// A check: finds what is wrong, one line each.
type Check = fn(&Repository) -> Result<Vec<String>>;

const CHECKS: [(&str, Check); 4] = [
    ("prose", prose::check),
    ("layers", layers::check),
    ("paths", paths::check),
    ("examples", examples::check),
];

#[expect(clippy::print_stderr, reason = "a check reports to the terminal")]
fn main() -> Result<ExitCode> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted
        .iter()
        .find(|name| !CHECKS.iter().any(|(known, _)| known == name))
    {
        eprintln!("error: there is no check `{unknown}`\nhint: prose, layers, paths or examples");
        return Ok(ExitCode::from(2));
    }
    let repository = Repository::open()?;
    let mut failed = false;
    for (name, check) in CHECKS {
        if !wanted.is_empty() && !wanted.iter().any(|one| one == name) {
            continue;
        }
        let problems = check(&repository)?;
        for problem in &problems {
            eprintln!("error: {name}: {problem}");
        }
        failed |= !problems.is_empty();
    }
    Ok(ExitCode::from(u8::from(failed)))
}
