//! Objects of kinds that users define, in the form that a version gives them.
//!
//! An object is stored once, in the version that was the storage version then, by the schema
//! of then. Whoever reads it sees it by the schema of now, in the version that they ask for:
//! defaults filled in, what the schema does not know left out, converted if need be. What
//! comes of that is kept beside the object as long as it lives; nearly always it is the
//! object as it is, and that is all that is remembered.

use std::sync::Arc;

use insula_custom::kind::Conversion;
use insula_kinds::Object;

use crate::flow_control::cpu_bound;
use crate::registry::Registry;
use crate::registry::conversion;
use crate::registry::encoding;
use crate::registry::resource::{Custom, Resource};
use crate::request::context::RequestContext;
use crate::status::Result;
use insula_cache::{Shown, Stored};

/// How many bytes of objects are made ready on the way: it takes about 20 ms for each megabyte.
const CPU_BOUND_BYTES: usize = 128 << 10;

impl Custom {
    /// The object as this version shows it. A conversion that only a webhook can do must have
    /// been [prepared](prepare); what was not is shown as it is stored.
    pub fn show<'a>(&self, object: &'a Stored) -> Shown<'a> {
        self.try_show(object).unwrap_or(Shown::AsStored(object))
    }

    /// The same; `None` if a webhook has to be asked first.
    fn try_show<'a>(&self, object: &'a Stored) -> Option<Shown<'a>> {
        if let Some(found) = object.versions().find(self.form(), object) {
            return Some(found);
        }
        let mut tree = object.tree();
        if !self.is_in(&tree) {
            if self.converts_by_webhook() {
                return None;
            }
            self.normalize_stored(&mut tree);
            self.rename(&mut tree);
        }
        Some(self.keep(object, tree))
    }

    /// Takes note that an object, which is stored in this version, was settled by its schema
    /// when it was written: it is shown as it is.
    pub fn note_written(&self, object: &Stored) {
        object.versions().note_as_stored(self.form());
    }

    /// Fills in what the version of the stored object says by now.
    fn normalize_stored(&self, tree: &mut Object) {
        let version = version_of(tree).and_then(|version| self.named(version));
        if let Some(schema) = version.as_ref().and_then(|stored| stored.schema().ok()) {
            schema.fill(tree);
        }
    }

    /// Whether an object is in this version.
    fn is_in(&self, tree: &Object) -> bool {
        version_of(tree) == Some(self.version().kind.version.as_str())
    }

    /// Whether only a webhook knows what its objects are in another version.
    pub fn converts_by_webhook(&self) -> bool {
        let conversion = &self.defined().definition().conversion;
        matches!(conversion, Conversion::Webhook { .. })
    }

    /// Makes it an object of this version, where versions differ in nothing but their names.
    fn rename(&self, tree: &mut Object) {
        let version = self.version().kind.api_version();
        tree.insert("apiVersion".to_owned(), version.into());
    }

    /// Makes of an object in this version what it shows: defaults filled in, what is unknown
    /// left out.
    pub fn settle(&self, tree: &mut Object) {
        if let Ok(schema) = self.schema() {
            schema.fill(tree);
            schema.prune(tree, &mut Vec::new());
            schema.repair_embedded(tree);
        }
    }

    fn keep<'a>(&self, object: &'a Stored, mut tree: Object) -> Shown<'a> {
        self.settle(&mut tree);
        let body = encoding::custom(&tree);
        if body == **object.body() {
            self.note_written(object);
            return Shown::AsStored(object);
        }
        let made = Stored::shown_as(object, body.into());
        let made = Arc::new(made);
        object.versions().keep(self.form(), Arc::clone(&made));
        Shown::Converted(made)
    }
}

/// Makes the objects ready to be shown, if that takes longer than it takes to show them: much
/// of it is done aside, and a webhook is asked for those that only it can convert, all at once.
pub async fn prepare<'a>(
    registry: &Registry,
    context: Option<&RequestContext>,
    kind: &Resource,
    objects: impl Iterator<Item = &'a Arc<Stored>>,
) -> Result<()> {
    let Some(custom) = kind.custom() else {
        return Ok(());
    };
    let form = custom.form();
    let mut unknown: Vec<&Arc<Stored>> = objects
        .filter(|object| object.versions().find(form, object).is_none())
        .collect();
    if unknown.iter().map(|object| object.weight()).sum::<usize>() > CPU_BOUND_BYTES {
        let show = || unknown.retain(|object| custom.try_show(object).is_none());
        match context {
            Some(context) => context.cpu_bound(show).await?,
            None => cpu_bound::run_blocking(show),
        }
    } else if custom.converts_by_webhook() {
        unknown.retain(|object| custom.try_show(object).is_none());
    }
    if unknown.is_empty() || !custom.converts_by_webhook() {
        return Ok(());
    }
    let trees = unknown.iter().map(|object| {
        let mut tree = object.tree();
        custom.normalize_stored(&mut tree);
        tree
    });
    let converted = conversion::convert(registry, context, custom, trees.collect()).await?;
    for (object, tree) in unknown.into_iter().zip(converted) {
        custom.keep(object, tree);
    }
    Ok(())
}

/// An object of one version in another, by its schema.
pub async fn convert(
    registry: &Registry,
    context: Option<&RequestContext>,
    from: &Custom,
    to: &Custom,
    mut tree: Object,
) -> Result<Object> {
    if !to.is_in(&tree) {
        if from.converts_by_webhook() {
            let converted = conversion::convert(registry, context, to, vec![tree]).await?;
            tree = converted.into_iter().next().unwrap_or_default();
        } else {
            to.rename(&mut tree);
        }
    }
    to.settle(&mut tree);
    Ok(tree)
}

fn version_of(tree: &Object) -> Option<&str> {
    let version = tree.get("apiVersion")?.as_str()?;
    version.rsplit('/').next()
}
