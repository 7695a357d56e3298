//! Custom objects in the version that a client requests.
//!
//! An object is stored in the storage version and by the schema at the time of the write. A
//! client sees it by the current schemas: with the defaults of the version that it is stored in,
//! converted to the requested one, and without fields that either does not know. Defaults of the
//! requested version count when an object is written in it. The result is cached beside the
//! object. It usually equals the stored object, and then only that fact is recorded.

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

/// The bytes of objects above which a conversion is CPU-bound work: a megabyte takes about
/// 20 ms.
const CPU_BOUND_BYTES: usize = 128 << 10;

impl Custom {
    /// Returns the object in this version. A conversion by webhook must have been
    /// [prepared](prepare); otherwise the object is returned as stored.
    pub fn show<'a>(&self, object: &'a Stored) -> Shown<'a> {
        self.try_show(object).unwrap_or(Shown::AsStored(object))
    }

    /// Returns the object in this version, or `None` if a webhook has to convert it first.
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
            self.coerce(&mut tree);
        } else {
            self.normalize(&mut tree);
        }
        Some(self.keep(object, &tree))
    }

    /// Records that an object in this version was normalized by the current schema when it was
    /// written, so that it is returned as stored.
    pub fn note_written(&self, object: &Stored) {
        object.versions().note_as_stored(self.form());
    }

    /// Normalizes an object by the current schema of the version that it is stored in.
    fn normalize_stored(&self, tree: &mut Object) {
        let version = version_of(tree).and_then(|version| self.named(version));
        if let Some(stored) = version {
            stored.normalize(tree);
        }
    }

    /// Whether an object is in this version.
    fn is_in(&self, tree: &Object) -> bool {
        version_of(tree) == Some(self.version().kind.version.as_str())
    }

    /// Whether a webhook converts its objects.
    pub fn converts_by_webhook(&self) -> bool {
        let conversion = &self.defined().definition().conversion;
        matches!(conversion, Conversion::Webhook { .. })
    }

    /// Sets the `apiVersion` to this version, for conversion strategy `None`.
    fn rename(&self, tree: &mut Object) {
        let version = self.version().kind.api_version();
        tree.insert("apiVersion".to_owned(), version.into());
    }

    /// Fills in the defaults of this version, and coerces the object.
    fn normalize(&self, tree: &mut Object) {
        if let Ok(schema) = self.schema() {
            schema.fill(tree);
            self.coerce(tree);
        }
    }

    /// Removes unknown fields, and nulls that are neither nullable nor have a default.
    fn coerce(&self, tree: &mut Object) {
        if let Ok(schema) = self.schema() {
            schema.drop_nulls(tree);
            schema.prune(tree, &mut Vec::new());
            schema.repair_embedded(tree);
        }
    }

    fn keep<'a>(&self, object: &'a Stored, tree: &Object) -> Shown<'a> {
        let body = encoding::custom(tree);
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

/// Prepares objects to be [shown](Custom::show): large amounts are processed as CPU-bound
/// work, and the webhook converts all objects that need it in one call.
pub async fn prepare<'a>(
    registry: &Registry,
    context: Option<&RequestContext>,
    kind: &Resource,
    objects: impl Iterator<Item = &'a Arc<Stored>>,
) -> Result<()> {
    match kind.custom() {
        None => Ok(()),
        Some(custom) => Box::pin(prepare_custom(registry, context, custom, objects)).await,
    }
}

async fn prepare_custom<'a>(
    registry: &Registry,
    context: Option<&RequestContext>,
    custom: &Custom,
    objects: impl Iterator<Item = &'a Arc<Stored>>,
) -> Result<()> {
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
    for (object, mut tree) in unknown.into_iter().zip(converted) {
        custom.coerce(&mut tree);
        custom.keep(object, &tree);
    }
    Ok(())
}

/// Converts an object to another version, without the defaults of that.
pub async fn convert(
    registry: &Registry,
    context: Option<&RequestContext>,
    from: &Custom,
    to: &Custom,
    mut tree: Object,
) -> Result<Object> {
    if !to.is_in(&tree) {
        if from.converts_by_webhook() {
            let converted = conversion::convert(registry, context, to, vec![tree]);
            let converted = Box::pin(converted).await?;
            tree = converted.into_iter().next().unwrap_or_default();
        } else {
            to.rename(&mut tree);
        }
    }
    to.coerce(&mut tree);
    Ok(tree)
}

fn version_of(tree: &Object) -> Option<&str> {
    let version = tree.get("apiVersion")?.as_str()?;
    version.rsplit('/').next()
}
