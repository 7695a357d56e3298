//! The recorded responses of kube-apiserver: one file per case file, one line per step.

use std::path::PathBuf;

use crate::answer::Recorded;
use crate::case::{Category, folder};

/// All recordings, in the order of the cases.
pub fn read_all() -> Vec<Recorded> {
    let categories = Category::all().into_iter();
    categories
        .flat_map(|category| read(&category.name))
        .collect()
}

/// Writes the responses of a case file if `UPDATE_GOLDEN` is set.
pub fn write_if_updating(category: &str, answers: &[Recorded]) {
    if std::env::var_os("UPDATE_GOLDEN").is_none() {
        return;
    }
    let line = |one: &Recorded| serde_json::to_string(one).expect("it is data") + "\n";
    let text: String = answers.iter().map(line).collect();
    std::fs::write(path(category), text).expect("it can be written");
}

fn read(category: &str) -> Vec<Recorded> {
    let path = path(category);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; make record", path.display()));
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("lines are answers")
}

fn path(category: &str) -> PathBuf {
    folder().join("recorded").join(format!("{category}.jsonl"))
}
