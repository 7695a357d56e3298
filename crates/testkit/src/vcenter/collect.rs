//! The property collector: properties of objects, and of the objects they refer to.

use std::collections::{BTreeMap, BTreeSet};

use super::element::Element;
use super::fault::Fault;
use super::inventory::is_a;
use super::value::{Reference, Value, escape};

/// What the collector needs from an inventory.
pub(super) trait Objects {
    /// The object with this ID.
    fn object(&self, id: &str) -> Option<Reference>;
    /// A property by its first path segment: `None` if the kind does not have it, `Some(Ok(None))`
    /// if it is not set, or the fault that hides it.
    fn property(&self, object: &Reference, name: &str) -> Option<Result<Option<Value>, Fault>>;
}

/// The objects that the filters of a request select, each as an `ObjectContent`.
pub(super) fn collect(objects: &dyn Objects, request: &Element) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for filter in request.all("specSet") {
        for object in select(objects, filter)? {
            let wanted = filter.all("propSet");
            let wanted = wanted.filter(|set| is_a(object.kind, set.text_of("type").unwrap_or("")));
            let wanted: Vec<_> = wanted.collect();
            if !wanted.is_empty() {
                found.push(content(objects, &object, &wanted)?);
            }
        }
    }
    Ok(found)
}

fn select(objects: &dyn Objects, filter: &Element) -> Result<Vec<Reference>, Fault> {
    let mut selected = Vec::new();
    let mut seen = BTreeSet::new();
    let lenient = filter.is_true("reportMissingObjectsInResults");
    for start in filter.all("objectSet") {
        let mut named = BTreeMap::new();
        name_all(start, &mut named);
        let wanted = start
            .child("obj")
            .ok_or_else(|| Fault::invalid_request("no obj"))?;
        let Some(object) = objects.object(&wanted.text) else {
            if lenient {
                continue;
            }
            return Err(Fault::not_found(&wanted.reference()));
        };
        let mut walk = Walk {
            objects,
            named,
            seen: BTreeSet::new(),
            reached: Vec::new(),
        };
        if !start.is_true("skip") {
            walk.reached.push(object.clone());
        }
        walk.follow(object, start)?;
        selected.extend(
            walk.reached
                .into_iter()
                .filter(|object| seen.insert(object.clone())),
        );
    }
    Ok(selected)
}

fn name_all<'a>(at: &'a Element, named: &mut BTreeMap<&'a str, &'a Element>) {
    for selection in at.all("selectSet") {
        if let Some(name) = selection
            .text_of("name")
            .filter(|_| selection.child("path").is_some())
        {
            named.insert(name, selection);
        }
        name_all(selection, named);
    }
}

struct Walk<'a> {
    objects: &'a dyn Objects,
    named: BTreeMap<&'a str, &'a Element>,
    /// Objects, and the selection with which they were visited.
    seen: BTreeSet<(Reference, *const Element)>,
    reached: Vec<Reference>,
}

impl<'a> Walk<'a> {
    fn follow(&mut self, object: Reference, at: &'a Element) -> Result<(), Fault> {
        let mut next = vec![(object, at)];
        while let Some((object, at)) = next.pop() {
            if !self.seen.insert((object.clone(), std::ptr::from_ref(at))) {
                continue;
            }
            for selection in at.all("selectSet") {
                let selection = self.resolve_selection(selection);
                let of = selection.text_of("type").unwrap_or_default();
                if !is_a(object.kind, of) {
                    continue;
                }
                let path = selection.text_of("path").unwrap_or_default();
                let value = read(self.objects, &object, path)?;
                for reached in value.map(|value| value.objects()).unwrap_or_default() {
                    if !selection.is_true("skip") {
                        self.reached.push(reached.clone());
                    }
                    next.push((reached, selection));
                }
            }
        }
        Ok(())
    }

    /// A selection may refer to another by name.
    fn resolve_selection(&self, selection: &'a Element) -> &'a Element {
        if selection.child("path").is_some() {
            return selection;
        }
        let name = selection.text_of("name").unwrap_or_default();
        self.named.get(name).copied().unwrap_or(selection)
    }
}

fn content(
    objects: &dyn Objects,
    object: &Reference,
    wanted: &[&Element],
) -> Result<String, Fault> {
    let (mut set, mut missing) = (String::new(), String::new());
    let paths = wanted.iter().flat_map(|wanted| wanted.all("pathSet"));
    let paths: BTreeSet<_> = paths.map(|path| path.text.as_str()).collect();
    for path in paths {
        match read(objects, object, path) {
            Ok(Some(value)) => {
                let value = value.element("val");
                set += &format!("<propSet><name>{}</name>{value}</propSet>", escape(path));
            }
            Ok(None) => {}
            Err(fault) if fault.of == "NotAuthenticated" || fault.of == "NoPermission" => {
                let (path, fault) = (escape(path), fault.localized());
                missing +=
                    &format!("<missingSet><path>{path}</path><fault>{fault}</fault></missingSet>");
            }
            Err(fault) => return Err(fault),
        }
    }
    let Reference { kind, id } = object;
    Ok(format!(
        "<objects><obj type=\"{kind}\">{}</obj>{set}{missing}</objects>",
        escape(id)
    ))
}

/// The value at a path of an object. Paths that its kind does not have are refused.
fn read(objects: &dyn Objects, object: &Reference, path: &str) -> Result<Option<Value>, Fault> {
    let parts = parts(path);
    let (first, rest) = parts
        .split_first()
        .ok_or_else(|| Fault::invalid_property(path))?;
    let known = objects.property(object, first);
    let value = known.ok_or_else(|| Fault::invalid_property(path))??;
    Ok(value.and_then(|value| value.at(rest).cloned()))
}

/// Splits a path at its dots, except inside brackets.
fn parts(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut inside = false;
    for letter in path.chars() {
        inside = match letter {
            '[' => true,
            ']' => false,
            _ => inside,
        };
        match parts.last_mut() {
            Some(last) if letter != '.' || inside => last.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts
}
