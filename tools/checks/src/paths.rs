//! Every path that a Markdown file names exists.

use anyhow::Result;

use crate::repository::Repository;

/// Endings of names that are files of this repository when they stand in code or in a link.
const ENDINGS: [&str; 4] = [".rs", ".md", ".toml", ".txt"];

/// Top-level folders: what begins with one of them is a path.
const FOLDERS: [&str; 7] = [
    "crates/",
    "docs/",
    "tools/",
    "e2e/",
    "bench/",
    "examples/",
    ".ci/",
];

/// Checks every Markdown file of the repository.
pub fn check(repository: &Repository) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in repository.below("", ".md") {
        let text = repository.read(file)?;
        for (line, name) in names(&text) {
            for path in expand(name) {
                if !exists(repository, file, &path) {
                    problems.push(format!("{file}:{line}: `{path}` does not exist"));
                }
            }
        }
    }
    Ok(problems)
}

/// The paths that a text names in code or links, and in which line.
fn names(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (line, content) in (1..).zip(text.lines()) {
        if content.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let code = content.split('`').skip(1).step_by(2);
        let links = content
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        found.extend(code.chain(links).filter(is_path).map(|name| (line, name)));
    }
    found
}

fn is_path(name: &&str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-{},*#:".contains(letter);
    let name = name.split(['#', ':']).next().unwrap_or_default();
    !name.starts_with("http")
        && name.chars().all(plain)
        && (FOLDERS.iter().any(|folder| name.starts_with(folder))
            || ENDINGS
                .iter()
                .any(|ending| name.ends_with(ending) && name.len() > ending.len()))
}

/// The paths of `a/{b,c}.rs`.
fn expand(name: &str) -> Vec<String> {
    let name = name.split(['#', ':']).next().unwrap_or_default();
    let Some((before, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (choices, after) = rest.split_once('}').unwrap_or((rest, ""));
    choices
        .split(',')
        .map(|choice| format!("{before}{choice}{after}"))
        .collect()
}

/// Whether a path is a file or folder: from the root, from the file that names it, or as the
/// end of a longer path.
fn exists(repository: &Repository, file: &str, path: &str) -> bool {
    let path = path.trim_end_matches('/');
    if path.is_empty() || path.contains('*') {
        return true;
    }
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let near = normalize(&format!("{folder}/{path}"));
    let path = normalize(path);
    repository.files().iter().any(|known| {
        [path.as_str(), near.as_str()].iter().any(|wanted| {
            let rest = known.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }) || known
            .strip_suffix(path.as_str())
            .is_some_and(|rest| rest.ends_with('/'))
    })
}

fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_code_and_links_but_not_fenced_text() {
        let text = "see `crates/core` and [that](docs/store.md#size)\n```\n`crates/no`\n```\n`kubectl get`";
        assert_eq!(names(text), [(1, "crates/core"), (1, "docs/store.md#size")]);
        assert_eq!(expand("a/{b,c}.rs"), ["a/b.rs", "a/c.rs"]);
    }
}
