//! Ownership of replicas through the scale subresource.
//!
//! A Scale has no managed fields of its own: the owners of the parent's replicas own the replicas
//! of the Scale, and vice versa.

use insula_kinds::Object;

use super::forget;
use super::record::{Entry, Operation, Record, Unreadable, list};
use crate::{Element, Path, Set};

/// The version of scales.
const SCALE: &str = "autoscaling/v1";

/// An object with a scale.
#[derive(Clone, Copy, Debug)]
pub struct Parent<'a> {
    /// The version of the request.
    pub api_version: &'a str,
    /// The versions of the parent, and the path of the replicas in each: `None` if it has no scale
    /// in that version.
    pub replicas: &'a [(&'a str, Option<Path>)],
}

impl Parent<'_> {
    /// Writes the owners of the replicas into a scale.
    pub fn to_scale(&self, parent: &Object, scale: &mut Object) -> Result<(), Unreadable> {
        let mut record = read(parent)?;
        record.entries.retain_mut(|entry| {
            let path = self.path(&entry.api_version);
            let owns = path
                .flatten()
                .is_some_and(|path| entry.fields().has(&path.0));
            if owns {
                entry.set_fields(replicas());
                entry.api_version = SCALE.into();
            }
            owns
        });
        forget(scale);
        record.write_to(scale);
        Ok(())
    }

    /// Updates the managed fields of the parent after a write of the scale.
    pub fn to_parent(&self, scale: &Object, parent: &mut Object) -> Result<(), Unreadable> {
        let mut scaled = read(scale)?;
        let list = list(parent).cloned().unwrap_or_default();
        let mut record = Record::read(&list)?;
        record
            .entries
            .retain_mut(|entry| match self.path(&entry.api_version) {
                None => false,
                Some(Some(path)) if entry.fields().has(&path.0) => {
                    // An update of the scale has another version, and so another owner. Kubernetes
                    // does not correct that, hence the distinction below.
                    if scaled.take(entry.owner()).is_none() {
                        let rest = entry.fields().difference(&Set::of([&path.0[..]]));
                        entry.set_fields(rest);
                    }
                    !entry.fields().is_empty()
                }
                Some(_) => true,
            });
        for entry in scaled.entries {
            if entry.fields().has(&replicas_path()) {
                self.add(entry, &mut record);
            }
        }
        forget(parent);
        record.write_to(parent);
        Ok(())
    }

    /// Adds an entry of the scale to the parent.
    fn add<'a>(&'a self, entry: Entry<'a>, record: &mut Record<'a>) {
        let before = match entry.operation {
            Operation::Apply => record.take(entry.owner()),
            Operation::Update => None,
        };
        let path = self.path(self.api_version).flatten();
        let mut added = Entry::new(
            entry.manager,
            entry.operation,
            self.api_version.into(),
            entry.subresource,
            Set::of(path.map(|path| &path.0[..])),
        );
        added.set_time(before.and_then(|entry| entry.time().cloned()));
        record.entries.push(added);
    }

    fn path(&self, version: &str) -> Option<Option<&Path>> {
        let of = self.replicas.iter().find(|(name, _)| *name == version);
        of.map(|(_, path)| path.as_ref())
    }
}

fn read(object: &Object) -> Result<Record<'_>, Unreadable> {
    Record::read(list(object).map_or(&[], Vec::as_slice))
}

fn replicas() -> Set {
    Set::of([&replicas_path()[..]])
}

fn replicas_path() -> [Element; 2] {
    ["spec", "replicas"].map(|name| Element::Field(name.into()))
}
