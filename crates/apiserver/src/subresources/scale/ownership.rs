//! Field ownership of the replicas, mapped between an object and its scale.

use insula_kinds::{Object, encode, time};
use insula_ownership::managers::scale::Parent;
use insula_ownership::managers::{Subject, Writer, zero};
use insula_ownership::{Element, Path, Schema, Set};

use super::scale_type;
use crate::pipeline::authorize::Caller;
use crate::registry::resource::Resource;
use crate::status::Result;
use crate::write;

/// Field ownership of the replicas of objects of a resource.
pub struct ScaleOwnership {
    api_version: String,
    /// The path of the replicas in each version.
    replicas: Vec<(String, Option<Path>)>,
    manager: String,
    now: String,
}

impl ScaleOwnership {
    /// Returns the field ownership for a write to the scale of an object.
    pub fn new(caller: Caller<'_>, kind: &Resource) -> Self {
        Self {
            api_version: kind.api_version().to_owned(),
            replicas: replicas(kind),
            manager: caller.context.field_manager(),
            now: time::now(),
        }
    }

    /// Copies the managed fields of an object to its scale.
    pub fn copy_to_scale(&self, object: &Object, scale: &mut Object) {
        encode::complete(scale_type(), scale);
        scale.insert("apiVersion".to_owned(), "autoscaling/v1".into());
        scale.insert("kind".to_owned(), "Scale".into());
        // Managed fields that cannot be read count as none.
        self.parent(|parent| parent.to_scale(object, scale)).ok();
    }

    /// Copies the managed fields of a scale to its object.
    pub fn copy_to_object(&self, scale: &Object, object: &mut Object) {
        self.parent(|parent| parent.to_parent(scale, object)).ok();
    }

    /// Records the fields that a change of the scale sets as the writer's.
    pub fn record(&self, live: &Object, new: &mut Object) {
        encode::complete(scale_type(), new);
        self.subject(|subject, writer| subject.update(live, new, writer));
    }

    /// Applies a configuration to a scale.
    pub fn apply(&self, live: &Object, config: &Object, force: bool) -> Result<Object> {
        self.subject(|subject, writer| subject.apply(live, config, writer, force))
            .map_err(write::apply_error)
    }

    fn parent<T>(&self, run: impl FnOnce(Parent<'_>) -> T) -> T {
        let replicas: Vec<_> = self
            .replicas
            .iter()
            .map(|(version, path)| (version.as_str(), path.clone()))
            .collect();
        run(Parent {
            api_version: &self.api_version,
            replicas: &replicas,
        })
    }

    fn subject<T>(&self, run: impl FnOnce(Subject<'_>, Writer<'_>) -> T) -> T {
        let zero = zero::of_type("autoscaling/v1", "Scale", scale_type());
        let subject = Subject {
            api_version: "autoscaling/v1",
            schema: &Schema::built_in(scale_type()),
            reset: &Set::default(),
            zero: &zero,
            convert: &|_, _| None,
        };
        let writer = Writer {
            manager: &self.manager,
            subresource: "scale",
            now: &self.now,
        };
        run(subject, writer)
    }
}

fn replicas(kind: &Resource) -> Vec<(String, Option<Path>)> {
    let path = |names: &mut dyn Iterator<Item = &str>| {
        let elements = names.map(|name| Element::Field(name.into()));
        Path(elements.collect())
    };
    match kind.custom() {
        None => {
            let path = path(&mut ["spec", "replicas"].into_iter());
            vec![(kind.api_version().to_owned(), Some(path))]
        }
        Some(custom) => {
            let versions = &custom.defined().definition().versions;
            let of_version = versions.iter().map(|version| {
                let names = version.scale.as_ref().map(|scale| scale.spec.names());
                let names = names.map(|names| path(&mut names.iter().map(String::as_str)));
                (version.kind.api_version().to_owned(), names)
            });
            of_version.collect()
        }
    }
}
