//! Objects in the versions in which somebody wants to see them.

use insula_admission::{EquivalentResources, GroupVersionResource, Target, VersionedObjects};
use insula_kinds::{Object, Value, convert, decode, kinds};

use super::{Act, Body, target_of};
use crate::codec::input;
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::encoding;
use crate::registry::resource::Resource;
use crate::registry::versions;
use crate::status::{Result, StatusError};
use crate::write::rules;

/// What is written, in the version that is judged and in those that were asked for.
pub(super) struct Versions<'a> {
    registry: &'a Registry,
    by: Caller<'a>,
    kind: &'a Resource,
    judged: Resource,
    object: Option<Object>,
    old: Option<&'a Object>,
    /// It is something else than an object of the kind.
    body: Option<Body>,
}

/// What is written, in one version and in full.
pub(super) struct Shown {
    object: Option<Object>,
    old: Option<Object>,
}

/// As what else objects of a kind are served.
pub(super) struct Equivalents<'a>(Option<&'a Resource>);

impl<'a> Equivalents<'a> {
    /// What is written below an object is known by one name only.
    pub fn of(act: &Act<'a>) -> Self {
        Self(Some(act.kind).filter(|_| act.body.is_none()))
    }
}

impl EquivalentResources for Equivalents<'_> {
    fn equivalents(&self, _: &GroupVersionResource, _: &str) -> Vec<Target> {
        match self.0 {
            None => Vec::new(),
            Some(Resource::BuiltIn(id)) => {
                let storage = kinds().get(*id).storage();
                let all = kinds().iter().map(|(_, kind)| kind);
                let same = all.filter(|kind| kind.storage() == storage);
                same.map(target_of).collect()
            }
            Some(Resource::Custom(custom)) => {
                let versions = custom.defined().definition().versions.iter();
                let served = versions.filter(|version| version.served);
                served.map(|version| target_of(&version.kind)).collect()
            }
        }
    }
}

impl Shown {
    pub fn subject(&self) -> VersionedObjects<'_> {
        VersionedObjects {
            object: self.object.as_ref(),
            old: self.old.as_ref(),
        }
    }

    pub const fn object(&self) -> Option<&Object> {
        self.object.as_ref()
    }
}

impl<'a> Versions<'a> {
    pub fn new(act: &Act<'a>, object: Option<&Object>, old: Option<&'a Object>) -> Self {
        Self {
            registry: act.registry,
            by: act.by,
            kind: act.kind,
            judged: rules::judged_as(act.kind),
            object: object.cloned(),
            old,
            body: act.body,
        }
    }

    /// As it is judged: labels are the same in all versions.
    pub fn judged(&self) -> VersionedObjects<'_> {
        VersionedObjects {
            object: self.object.as_ref(),
            old: self.old,
        }
    }

    /// In another version, in full.
    pub async fn shown(&self, target: &Target) -> Result<Shown> {
        if let Some(body) = self.body {
            let whole = |object: &Object| named(body, object.clone());
            return Ok(Shown {
                object: self.object.as_ref().map(whole),
                old: self.old.map(whole),
            });
        }
        let version = self.version(target)?;
        let mut shown = Shown {
            object: None,
            old: None,
        };
        if let Some(object) = &self.object {
            shown.object = Some(self.convert(&version, object).await?);
        }
        if let Some(old) = self.old {
            shown.old = Some(self.convert(&version, old).await?);
        }
        Ok(shown)
    }

    /// Takes what somebody made of the object in that version. Says whether it changed.
    pub async fn take(&mut self, target: &Target, tree: Value) -> Result<bool> {
        if let (Some(body), Value::Object(tree)) = (self.body, &tree) {
            let before = self.object.replace(tree.clone());
            let whole = before.map(|before| named(body, before));
            return Ok(whole.as_ref() != Some(tree));
        }
        let version = self.version(target)?;
        let object = read(&version, tree)?;
        let object = match (&version, &self.judged) {
            (Resource::Custom(from), Resource::Custom(to)) if version != self.judged => {
                versions::convert(self.registry, Some(self.by.context), from, to, object).await?
            }
            _ => object,
        };
        let changed = self.object.as_ref() != Some(&object);
        self.object = Some(object);
        Ok(changed)
    }

    pub fn into_object(self) -> Option<Object> {
        self.object
    }

    fn version(&self, target: &Target) -> Result<Resource> {
        let GroupVersionResource {
            group,
            version,
            resource,
        } = &target.resource;
        let found = match self.kind {
            Resource::BuiltIn(_) => kinds()
                .find(group, version, resource)
                .map(Resource::BuiltIn),
            Resource::Custom(custom) => custom.named(version).map(Resource::Custom),
        };
        let unknown = || {
            let why = format!("unable to convert to {}: unknown kind", target.resource);
            StatusError::internal(why)
        };
        found.ok_or_else(unknown)
    }

    async fn convert(&self, to: &Resource, object: &Object) -> Result<Object> {
        let mut object = object.clone();
        match (&self.judged, to) {
            (Resource::Custom(from), Resource::Custom(into)) => {
                if self.judged != *to {
                    object =
                        versions::convert(self.registry, Some(self.by.context), from, into, object)
                            .await?;
                }
            }
            _ => convert::convert(&self.judged, to, &mut object),
        }
        let text = encoding::encoded(to, &object);
        // It was just written.
        serde_json::from_slice(&text).map_err(StatusError::internal)
    }
}

/// With what it is.
fn named(body: Body, mut object: Object) -> Object {
    let version = insula_kinds::api_version(body.group, body.version);
    object.insert("apiVersion".to_owned(), version.into());
    object.insert("kind".to_owned(), body.kind.into());
    object
}

/// An object from its full form, with what is missing filled in.
fn read(version: &Resource, tree: Value) -> Result<Object> {
    let mut object = match version {
        Resource::BuiltIn(_) => {
            let decoded = decode::value(version.type_id(), tree);
            decoded.map_err(StatusError::internal)?.object
        }
        Resource::Custom(custom) => {
            let decoded = decode::custom_value(tree);
            let mut decoded = decoded.map_err(StatusError::internal)?;
            input::prune_custom(custom, &mut decoded)?;
            let kind = &custom.version().kind;
            let object = &mut decoded.object;
            object.insert("apiVersion".to_owned(), kind.api_version().into());
            object.insert("kind".to_owned(), kind.kind.as_str().into());
            decoded.object
        }
    };
    rules::fill(version, &mut object)?;
    Ok(object)
}
