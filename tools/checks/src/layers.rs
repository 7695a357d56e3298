//! Modules depend on each other in one direction.
//!
//! The graph of each crate is computed from the paths in its code, tests excluded; a path that
//! leads through a `pub use` counts for the module that defines the item. Folders at the top of
//! a crate form no cycle at all; files beside each other may form cycles of at most three.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::repository::Repository;
use crate::source::Source;

/// The most modules beside each other that may form a cycle.
const MAX_CYCLE: usize = 3;

/// A module: the segments of its path within the crate. The root of the crate has none.
type Module = Vec<String>;

/// Which modules each module of a crate depends on.
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// Checks every crate of the repository.
pub fn check(repository: &Repository) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for manifest in repository.below("crates/", "/Cargo.toml") {
        let name = manifest.trim_end_matches("/Cargo.toml");
        let graph = graph(repository, &format!("{name}/src/"))?;
        let folders = folders(&graph);
        for folder in &folders {
            let is_folder = |name: &&String| folders.contains(&vec![(*name).clone()]);
            for cycle in cycles(&within(&graph, folder)) {
                let layers = match folder.is_empty() {
                    true => cycle.iter().filter(is_folder).count(),
                    false => 0,
                };
                if cycle.len() > MAX_CYCLE || layers > 1 {
                    let place = [vec![name.to_owned()], folder.clone()].concat().join("::");
                    let cycle = cycle.join(", ");
                    problems.push(format!("{place}: these depend on each other: {cycle}"));
                }
            }
        }
    }
    Ok(problems)
}

/// The graph of a crate's modules.
fn graph(repository: &Repository, sources: &str) -> Result<Graph> {
    let mut code: BTreeMap<Module, String> = BTreeMap::new();
    for path in repository.below(sources, ".rs") {
        let module = module_of(path.trim_start_matches(sources));
        let is_test = module
            .last()
            .is_some_and(|last| last == "tests" || last.ends_with("_tests"))
            || module.iter().any(|part| part == "tests");
        if !is_test {
            code.insert(
                module,
                Source::parse(&repository.read(path)?).product_code(),
            );
        }
    }
    let modules: BTreeSet<Module> = code.keys().cloned().collect();
    let exports = code
        .iter()
        .flat_map(|(module, code)| exports(module, code, &modules))
        .collect();
    let mut graph = Graph::new();
    for (module, code) in &code {
        let paths = used_paths(code);
        let edges = paths
            .iter()
            .filter_map(|path| resolve(module, path, &modules, &exports));
        let edges = edges.filter(|target| target != module).collect();
        graph.insert(module.clone(), edges);
    }
    Ok(graph)
}

fn module_of(file: &str) -> Module {
    let file = file.trim_end_matches(".rs");
    let parts = file
        .split('/')
        .filter(|part| !["lib", "main"].contains(part));
    parts.map(str::to_owned).collect()
}

/// Where an item leads that a module exports under a name of its own.
type Exports = BTreeMap<(Module, String), Vec<String>>;

fn exports(
    module: &Module,
    code: &str,
    modules: &BTreeSet<Module>,
) -> Vec<((Module, String), Vec<String>)> {
    let mut found = Vec::new();
    for (vis, path) in uses(code) {
        if vis
            && let Some(absolute) = absolute(module, &path, modules)
            && let Some(name) = absolute.last().cloned()
        {
            found.push(((module.clone(), name), absolute));
        }
    }
    found
}

/// The module that a path leads to, if it is one of the crate.
fn resolve(
    from: &Module,
    path: &[String],
    modules: &BTreeSet<Module>,
    exports: &Exports,
) -> Option<Module> {
    let mut path = absolute(from, path, modules)?;
    // Exports lead to exports, but not for ever.
    for _ in 0..8 {
        let module = longest_module(&path, modules);
        let Some(item) = path.get(module.len()) else {
            return Some(module);
        };
        match exports.get(&(module.clone(), item.clone())) {
            Some(target) if *target != path => {
                let rest = path[module.len() + 1..].to_vec();
                path = [target.clone(), rest].concat();
            }
            _ => return Some(module),
        }
    }
    None
}

fn longest_module(path: &[String], modules: &BTreeSet<Module>) -> Module {
    let prefixes = (0..=path.len()).rev().map(|length| &path[..length]);
    let found = prefixes
        .into_iter()
        .find(|prefix| modules.contains(*prefix));
    found.unwrap_or_default().to_vec()
}

/// The path from the crate's root; `None` if it leads to another crate.
fn absolute(from: &Module, path: &[String], modules: &BTreeSet<Module>) -> Option<Vec<String>> {
    let first = path.first()?;
    let mut base = from.clone();
    let mut rest = path;
    match first.as_str() {
        "crate" => return Some(path[1..].to_vec()),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        name => {
            // A child of the module, named without `self`.
            let child = [from.clone(), vec![name.to_owned()]].concat();
            if !modules.contains(&child) {
                return None;
            }
        }
    }
    Some([base, rest.to_vec()].concat())
}

/// Every path in the code: those of `use` declarations, and those in expressions and types.
fn used_paths(code: &str) -> Vec<Vec<String>> {
    let mut paths: Vec<Vec<String>> = uses(code).into_iter().map(|(_, path)| path).collect();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    for text in code.split(|letter: char| !is_part(letter)) {
        if text.contains("::") {
            let parts = text.split("::").filter(|part| !part.is_empty());
            paths.push(parts.map(str::to_owned).collect());
        }
    }
    paths
}

/// The leaves of all `use` declarations, and whether they are exported.
fn uses(code: &str) -> Vec<(bool, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find("use ") {
        let before = rest[..start].trim_end_matches(' ');
        let begins = before.is_empty() || before.ends_with(['\n', '{', ';', '}', ')']);
        let exported = before.ends_with("pub") || before.ends_with(')');
        let body = &rest[start + 4..];
        let end = body.find(';').unwrap_or(body.len());
        if begins || exported {
            let mut leaves = Vec::new();
            leaves_of(body[..end].trim(), &[], &mut leaves);
            found.extend(leaves.into_iter().map(|leaf| (exported, leaf)));
        }
        rest = &body[end.min(body.len())..];
    }
    found
}

/// Takes a tree of `use` apart.
fn leaves_of(tree: &str, prefix: &[String], leaves: &mut Vec<Vec<String>>) {
    let (head, group) = match tree.find('{') {
        Some(open) => (
            &tree[..open],
            Some(&tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]),
        ),
        None => (tree, None),
    };
    let head = head.split(" as ").next().unwrap_or_default();
    let parts = head.split("::").map(str::trim);
    let parts = parts.filter(|part| !part.is_empty() && *part != "*");
    let mut path = prefix.to_vec();
    path.extend(parts.map(str::to_owned));
    let Some(group) = group else {
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        leaves.push(path);
        return;
    };
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                leaves_of(group[start..at].trim(), &path, leaves);
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = group[start..].trim();
    if !last.is_empty() {
        leaves_of(last, &path, leaves);
    }
}

/// The modules that have modules inside them, and the crate's root.
fn folders(graph: &Graph) -> BTreeSet<Module> {
    let parents = graph.keys().filter(|module| !module.is_empty());
    parents
        .map(|module| module[..module.len() - 1].to_vec())
        .collect()
}

/// The graph between the modules that are directly inside a folder. The folder's own file is
/// left out: it is where the folder is put together.
fn within(graph: &Graph, folder: &Module) -> BTreeMap<String, BTreeSet<String>> {
    let inside = |module: &Module| {
        let below = module.strip_prefix(folder.as_slice())?;
        below.first().cloned()
    };
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (module, targets) in graph {
        let Some(from) = inside(module) else {
            continue;
        };
        let targets = targets.iter().filter_map(inside);
        let others = targets.filter(|to| *to != from);
        edges.entry(from.clone()).or_default().extend(others);
    }
    edges
}

/// The sets of nodes that reach each other, larger than one.
fn cycles(edges: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> = edges
        .keys()
        .map(|node| (node, reached(edges, node)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for node in edges.keys() {
        if seen.contains(node) {
            continue;
        }
        let cycle: Vec<String> = edges
            .keys()
            .filter(|other| reach[node].contains(other) && reach[other].contains(node))
            .cloned()
            .collect();
        seen.extend(cycle.iter().cloned());
        if cycle.len() > 1 {
            found.push(cycle);
        }
    }
    found
}

fn reached<'a>(
    edges: &'a BTreeMap<String, BTreeSet<String>>,
    from: &String,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&String> = edges[from].iter().collect();
    while let Some(node) = left.pop() {
        if reached.insert(node) {
            left.extend(edges.get(node).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn trees_of_use_are_taken_apart() {
        let code = "use crate::{a, b::{self, C as D}};\npub use self::e::F;\n";
        let leaves = uses(code);
        let expected = [
            (false, path("crate::a")),
            (false, path("crate::b")),
            (false, path("crate::b::C")),
            (true, path("self::e::F")),
        ];
        assert_eq!(leaves, expected);
    }

    #[test]
    fn exported_items_count_for_the_module_that_defines_them() {
        let modules = ["", "a", "a::b", "c"].map(path).into_iter().collect();
        let exports = [((path("a"), "B".to_owned()), path("a::b::B"))]
            .into_iter()
            .collect();
        let resolved = |from, to| resolve(&path(from), &path(to), &modules, &exports);
        assert_eq!(resolved("c", "crate::a::B"), Some(path("a::b")));
        assert_eq!(resolved("a::b", "super::X"), Some(path("a")));
        assert_eq!(resolved("c", "serde::Value"), None);
    }

    #[test]
    fn cycles_are_sets_that_reach_each_other() {
        let graph = [("a", vec!["b"]), ("b", vec!["a"]), ("c", vec!["a"])];
        let graph = graph.into_iter().map(|(from, to)| {
            let to = to.into_iter().map(str::to_owned).collect();
            (from.to_owned(), to)
        });
        assert_eq!(cycles(&graph.collect()), [["a", "b"]]);
    }
}
