//! Pages that list which tests prove which requirement. The number of a requirement is the prefix
//! of its tests' names.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Numbered requirements, and the sources with their tests.
#[derive(Clone, Copy, Debug)]
pub struct Requirements {
    /// Files and folders, relative to the root of the repository.
    pub sources: &'static [&'static str],
    /// The prefixes of numbers, such as `x` of `x9`.
    pub prefixes: &'static [&'static str],
}

impl Requirements {
    /// Returns the names of all tests that begin with a requirement.
    ///
    /// # Errors
    ///
    /// If a source cannot be read.
    pub fn tests(&self) -> io::Result<BTreeSet<String>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = self.sources.iter();
        let mut paths: Vec<PathBuf> = sources.map(|source| root.join(source)).collect();
        let mut names = BTreeSet::new();
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                let entries = std::fs::read_dir(path)?.flatten();
                paths.extend(entries.map(|entry| entry.path()));
            } else if path.extension().is_some_and(|found| found == "rs") {
                names.extend(self.names_in(&std::fs::read_to_string(path)?));
            }
        }
        Ok(names)
    }

    /// Returns the tests that a page names.
    pub fn named_in(&self, page: &str) -> BTreeSet<String> {
        let words = page.split('`').skip(1).step_by(2);
        let tests = words.filter(|word| self.of(word).next().is_some());
        tests.map(str::to_owned).collect()
    }

    /// Returns the requirements that a test's name begins with.
    pub fn of<'a>(&self, test: &'a str) -> impl Iterator<Item = &'a str> {
        let prefixes = self.prefixes;
        let is_requirement = move |part: &&str| {
            let letters = part.trim_end_matches(|letter: char| letter.is_ascii_digit());
            letters.len() < part.len() && prefixes.contains(&letters)
        };
        test.split('_').take_while(is_requirement)
    }

    fn names_in(&self, source: &str) -> Vec<String> {
        let functions = source.split("fn ").skip(1);
        let names = functions.filter_map(|rest| Some(rest.split_once('(')?.0));
        let tests = names.filter(|name| self.of(name).next().is_some());
        tests.map(str::to_owned).collect()
    }
}
