//! Objects in the versions that webhooks and policies match.

use insula_admission::{EquivalentResources, GroupVersionResource, Target, VersionedObjects};
use insula_kinds::{Object, Value, convert, decode, kinds};

use super::{Attributes, BodyKind, target_of};
use crate::codec::input;
use crate::pipeline::authorize::Caller;
use crate::registry::Registry;
use crate::registry::encoding;
use crate::registry::resource::Resource;
use crate::registry::versions;
use crate::status::{Result, StatusError};
use crate::write::strategy;

/// The written objects, convertible from the version that is validated to others.
pub(super) struct Versions<'a> {
    registry: &'a Registry,
    caller: Caller<'a>,
    kind: &'a Resource,
    validated_as: Resource,
    object: Option<Object>,
    old: Option<&'a Object>,
    /// The kind of the body, if it is not an object of the resource.
    body: Option<BodyKind>,
}

/// The written objects in one version, complete with type metadata.
pub(super) struct ConvertedObjects {
    object: Option<Object>,
    old: Option<Object>,
}

/// The other groups and versions that serve the objects of a resource.
pub(super) struct Equivalents<'a>(Option<&'a Resource>);

impl<'a> Equivalents<'a> {
    /// Returns the equivalents of the written resource. The body of a subresource has none.
    pub fn of(attributes: &Attributes<'a>) -> Self {
        Self(Some(attributes.kind).filter(|_| attributes.body.is_none()))
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

impl ConvertedObjects {
    pub fn objects(&self) -> VersionedObjects<'_> {
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
    pub fn new(
        attributes: &Attributes<'a>,
        object: Option<&Object>,
        old: Option<&'a Object>,
    ) -> Self {
        Self {
            registry: attributes.registry,
            caller: attributes.caller,
            kind: attributes.kind,
            validated_as: strategy::validated_as(attributes.kind),
            object: object.cloned(),
            old,
            body: attributes.body,
        }
    }

    /// Returns the objects in the version that is validated. It suffices for selectors, because
    /// labels are the same in all versions.
    pub fn unconverted(&self) -> VersionedObjects<'_> {
        VersionedObjects {
            object: self.object.as_ref(),
            old: self.old,
        }
    }

    /// Returns the objects in another version.
    pub async fn converted(&self, target: &Target) -> Result<ConvertedObjects> {
        if let Some(body) = self.body {
            let whole = |object: &Object| with_type_meta(body, object.clone());
            return Ok(ConvertedObjects {
                object: self.object.as_ref().map(whole),
                old: self.old.map(whole),
            });
        }
        let version = self.version(target)?;
        let mut converted = ConvertedObjects {
            object: None,
            old: None,
        };
        if let Some(object) = &self.object {
            converted.object = Some(self.convert(&version, object).await?);
        }
        if let Some(old) = self.old {
            converted.old = Some(self.convert(&version, old).await?);
        }
        Ok(converted)
    }

    /// Sets the object to a patched one in that version. Returns whether it changed.
    pub async fn set_patched(&mut self, target: &Target, tree: Value) -> Result<bool> {
        if let (Some(body), Value::Object(tree)) = (self.body, &tree) {
            let before = self.object.replace(tree.clone());
            let whole = before.map(|before| with_type_meta(body, before));
            return Ok(whole.as_ref() != Some(tree));
        }
        let version = self.version(target)?;
        let object = read(&version, tree)?;
        let object = match (&version, &self.validated_as) {
            (Resource::Custom(from), Resource::Custom(to)) if version != self.validated_as => {
                versions::convert(self.registry, Some(self.caller.context), from, to, object)
                    .await?
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
        match (&self.validated_as, to) {
            (Resource::Custom(from), Resource::Custom(into)) => {
                if self.validated_as != *to {
                    object = versions::convert(
                        self.registry,
                        Some(self.caller.context),
                        from,
                        into,
                        object,
                    )
                    .await?;
                }
            }
            _ => convert::convert(&self.validated_as, to, &mut object),
        }
        let text = encoding::encoded(to, &object);
        // Decoding cannot fail: the text was just encoded.
        serde_json::from_slice(&text).map_err(StatusError::internal)
    }
}

/// Adds `apiVersion` and `kind`.
fn with_type_meta(body: BodyKind, mut object: Object) -> Object {
    let version = insula_kinds::api_version(body.group, body.version);
    object.insert("apiVersion".to_owned(), version.into());
    object.insert("kind".to_owned(), body.kind.into());
    object
}

/// Decodes an object and applies defaults.
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
    strategy::default_and_convert(version, &mut object)?;
    Ok(object)
}
