//! Secrets and ConfigMaps with the values of several exports.

use std::collections::BTreeMap;

use insula_identity::credential::Hidden;
use serde_json::Value;

use super::limits::{MAX_TARGET_BYTES, MAX_TOTAL_BYTES};
use super::{Evaluated, ExportError, Exported, Target, failed};

/// The objects to write, by kind and name, with their sizes.
#[derive(Default)]
pub(super) struct Collector {
    objects: BTreeMap<(Target, String), (Exported, usize)>,
    total: usize,
}

/// Evaluates an expression.
pub(super) type Run<'a> = &'a dyn Fn(&str) -> Result<Evaluated, ExportError>;

impl Collector {
    /// Returns the objects.
    pub fn objects(self) -> Vec<Exported> {
        let objects = self.objects.into_values();
        objects.map(|(object, _)| object).collect()
    }

    /// Adds a value with the destination of a field of `operatorSpec`.
    pub fn add_field(
        &mut self,
        target: Target,
        member: &str,
        field: &str,
        destination: &Value,
        value: &Hidden,
    ) -> Result<(), ExportError> {
        let incomplete = || ExportError::Destination {
            field: format!("{member}.{field}"),
        };
        let name = name(destination, "name").ok_or_else(incomplete)?;
        let key = name_of_key(destination).ok_or_else(incomplete)?;
        let annotations = texts(&destination["annotations"]).collect();
        let labels = texts(&destination["labels"]).collect();
        let values = BTreeMap::from([(key.to_owned(), value.clone())]);
        self.add(target, name, values, [annotations, labels])
    }

    /// Adds the values of an expression.
    pub fn add_expression(
        &mut self,
        target: Target,
        list: &str,
        entry: &Value,
        run: Run<'_>,
    ) -> Result<(), ExportError> {
        let incomplete = || ExportError::Destination {
            field: list.to_owned(),
        };
        let name = name(entry, "name").ok_or_else(incomplete)?;
        let expression = entry["value"].as_str().unwrap_or_default();
        let values = match run(expression)? {
            Evaluated::Texts(values) => values,
            Evaluated::Text(text) => {
                let key = name_of_key(entry).ok_or_else(incomplete)?;
                BTreeMap::from([(key.to_owned(), text)])
            }
        };
        let annotations = evaluated(&entry["annotations"], run)?;
        let labels = evaluated(&entry["labels"], run)?;
        self.add(target, name, values, [annotations, labels])
    }

    /// Adds values, annotations and labels of an object, within the limits of sizes.
    fn add(
        &mut self,
        target: Target,
        name: &str,
        values: BTreeMap<String, Hidden>,
        [annotations, labels]: [BTreeMap<String, String>; 2],
    ) -> Result<(), ExportError> {
        let data = values.iter().map(|(key, it)| key.len() + it.reveal().len());
        let metadata = annotations.iter().chain(&labels);
        let metadata = metadata.map(|(key, text)| key.len() + text.len());
        let added = data.chain(metadata).sum::<usize>();
        self.total += added;
        if self.total > MAX_TOTAL_BYTES {
            return Err(ExportError::LargeTotal);
        }
        let name = name.to_owned();
        let entry = self.objects.entry((target, name.clone()));
        let (object, size) = entry.or_insert_with(|| (Exported::new(target, name.clone()), 0));
        *size += added;
        if *size > MAX_TARGET_BYTES {
            return Err(ExportError::LargeTarget { target, name });
        }
        object.annotations.extend(annotations);
        object.labels.extend(labels);
        let mut values = values.into_iter();
        values.try_for_each(|(key, value)| object.add(key, value))
    }
}

impl Exported {
    const fn new(target: Target, name: String) -> Self {
        Self {
            target,
            name,
            data: BTreeMap::new(),
            annotations: BTreeMap::new(),
            labels: BTreeMap::new(),
        }
    }

    fn add(&mut self, key: String, value: Hidden) -> Result<(), ExportError> {
        if self.data.contains_key(&key) {
            return Err(ExportError::Collision {
                target: self.target,
                name: self.name.clone(),
                key,
            });
        }
        self.data.insert(key, value);
        Ok(())
    }
}

fn name<'a>(destination: &'a Value, member: &str) -> Option<&'a str> {
    let text = destination[member].as_str();
    text.filter(|text| !text.is_empty())
}

fn name_of_key(destination: &Value) -> Option<&str> {
    name(destination, "key")
}

fn texts(value: &Value) -> impl Iterator<Item = (String, String)> + '_ {
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
}

/// Returns the values of expressions by key, each of which is a text.
fn evaluated(expressions: &Value, run: Run<'_>) -> Result<BTreeMap<String, String>, ExportError> {
    let mut values = BTreeMap::new();
    for (key, expression) in texts(expressions) {
        let text = match run(&expression)? {
            Evaluated::Text(text) => text.text().map(str::to_owned),
            Evaluated::Texts(_) => None,
        };
        let text = text.ok_or_else(|| failed(&expression, "expected a text".to_owned()))?;
        values.insert(key, text);
    }
    Ok(values)
}
