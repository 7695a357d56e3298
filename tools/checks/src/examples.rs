//! Every example in a documentation comment is compiled and run.
//!
//! rustdoc reads a whole crate to find its examples, one crate after the other. Crates without
//! examples set `doctest = false`; an example in one of them would never run.

use anyhow::Result;

use crate::repository::Repository;

/// The words after an opening fence with which rustdoc still takes a block for Rust.
const RUST: [&str; 5] = ["rust", "ignore", "no_run", "should_panic", "compile_fail"];

/// Checks the sources of every crate with `doctest = false`.
pub fn check(repository: &Repository) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for manifest in repository.below("", "/Cargo.toml") {
        let text = repository.read(manifest)?;
        if !text.lines().any(|line| line.trim() == "doctest = false") {
            continue;
        }
        let sources = manifest.replace("Cargo.toml", "src/");
        for path in repository.below(&sources, ".rs") {
            for line in examples(&repository.read(path)?) {
                problems.push(format!(
                    "{path}:{line}: this example never runs; remove `doctest = false` from {manifest}"
                ));
            }
        }
    }
    Ok(problems)
}

/// The lines at which examples begin.
fn examples(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let Some(fence) = comment.and_then(|comment| comment.trim_start().strip_prefix("```"))
        else {
            continue;
        };
        fenced = !fenced;
        let mut words = fence.trim().split(',').filter(|word| !word.is_empty());
        if fenced && words.all(|word| RUST.contains(&word.trim())) {
            found.push(number);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_fenced_rust_in_documentation_comments() {
        let text = "//! ```text\n//! a\n//! ```\n// ```\n/// ```\n/// a();\n/// ```\n\
                    fn a() {}\n    /// ```no_run\n    /// ```\n/// ```json\n/// ```\n";
        assert_eq!(examples(text), [5, 9]);
    }
}
