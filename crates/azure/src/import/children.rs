//! A resource with everything below it: children, the resources of a group, and role assignments.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tracing::debug;

use super::{Import, ImportError, own_definition};
use crate::arm::{RequestFailure, ResourceId, Session};
use crate::mapping::import::distinct_name;
use crate::table::{self, Kind, Owner};

/// The number of requests that are sent at the same time.
const CONCURRENT_REQUESTS: usize = 8;
/// The api-version of the list of a resource group's resources.
const RESOURCES_API: &str = "2021-04-01";
/// The group and kind of role assignments, which any resource may have.
const ROLE_ASSIGNMENT: (&str, &str) = ("authorization.azure.com", "RoleAssignment");
/// The group and kind of resource groups, with one list of resources of all types.
const RESOURCE_GROUP: (&str, &str) = ("resources.azure.com", "ResourceGroup");

/// The custom resources of a resource and of everything below it.
#[derive(Debug, Default)]
pub struct Tree {
    /// The custom resources, owners before what they own.
    pub objects: Vec<Value>,
    /// Types of resources that no kind is for.
    pub without_kind: BTreeSet<String>,
    /// What could not be read.
    pub failures: Vec<ImportError>,
}

/// A resource that was found, and the custom resource that owns it.
struct Found {
    import: Import,
    owner: Option<Value>,
}

/// A collection of an imported resource that may have further ones.
struct Collection<'a> {
    of: &'a ResourceId,
    kind: &'static Kind,
    owner: &'a Value,
}

/// The definitions of kinds, by name.
type Definitions = BTreeMap<String, Option<CustomResourceDefinition>>;

/// Reads a resource and everything below it. `installed` returns the definition of a kind that this
/// program has none of.
///
/// # Errors
///
/// If the resource itself cannot be read. What cannot be read below it is part of the result.
pub async fn read_tree(
    root: Import,
    session: &Session,
    mut installed: impl AsyncFnMut(&str) -> Option<CustomResourceDefinition>,
) -> Result<Tree, ImportError> {
    let (mut tree, mut definitions) = (Tree::default(), Definitions::new());
    let mut names = BTreeSet::new();
    let owner = None;
    let mut level = vec![Found {
        import: root,
        owner,
    }];
    while !level.is_empty() {
        add_definitions(&mut definitions, &level, &mut installed).await;
        let read = read_level(session, &level, &definitions).await;
        let mut imported = Vec::new();
        for (found, read) in level.into_iter().zip(read) {
            match read {
                Ok(object) => imported.push(name(found, object, &mut names)),
                Err(error) if found.owner.is_none() => return Err(error),
                Err(error) => tree.note(error),
            }
        }
        level = find_below(session, &imported, &mut tree).await;
        tree.objects
            .extend(imported.into_iter().map(|(_, object)| object));
    }
    Ok(tree)
}

/// Adds the definitions of the kinds of some resources.
async fn add_definitions(
    definitions: &mut Definitions,
    level: &[Found],
    installed: &mut impl AsyncFnMut(&str) -> Option<CustomResourceDefinition>,
) {
    for found in level {
        if let Entry::Vacant(vacant) = definitions.entry(found.import.definition_name()) {
            let definition = match own_definition(vacant.key()) {
                Some(own) => Some(own.clone()),
                None => installed(vacant.key()).await,
            };
            vacant.insert(definition);
        }
    }
}

async fn read_level(
    session: &Session,
    level: &[Found],
    definitions: &Definitions,
) -> Vec<Result<Value, ImportError>> {
    let reads = level.iter().map(|found| {
        let definition = definitions.get(&found.import.definition_name());
        let definition = definition.and_then(Option::as_ref);
        found.import.read(session, definition)
    });
    stream::iter(reads)
        .buffered(CONCURRENT_REQUESTS)
        .collect()
        .await
}

/// Gives a custom resource its owner, and a name that no other of its kind has.
fn name(
    found: Found,
    mut object: Value,
    names: &mut BTreeSet<(&'static str, &'static str, String)>,
) -> (Import, Value) {
    let Found { import, owner } = found;
    if let Some(owner) = owner {
        object["spec"]["owner"] = owner;
    }
    let kind = import.kind;
    let wanted = object["metadata"]["name"].as_str().unwrap_or_default();
    let of_kind = |name: &str| (kind.group(), kind.kind(), name.to_owned());
    let name = match names.contains(&of_kind(wanted)) {
        true => distinct_name(wanted, import.id.as_str()),
        false => wanted.to_owned(),
    };
    names.insert(of_kind(&name));
    object["metadata"]["name"] = name.into();
    (import, object)
}

/// Finds what is directly below some resources.
async fn find_below(
    session: &Session,
    imported: &[(Import, Value)],
    tree: &mut Tree,
) -> Vec<Found> {
    let collections = imported.iter().flat_map(|(import, object)| {
        let kinds = table::kinds().iter();
        let kinds = kinds.filter(|kind| is_below(kind, import.kind));
        let is_group = is_resource_group(import.kind);
        // One list has the resources of all types.
        let kinds = kinds.filter(move |kind| !is_group || *kind.owner() == Owner::Any);
        let kinds = kinds.chain(is_group.then_some(import.kind));
        kinds.map(|kind| Collection {
            of: &import.id,
            kind,
            owner: object,
        })
    });
    let ids = collections.map(async |collection| {
        let ids = collection.ids(session).await;
        (collection, ids)
    });
    let mut ids = stream::iter(ids).buffered(CONCURRENT_REQUESTS);
    let mut below = Vec::new();
    while let Some((collection, ids)) = ids.next().await {
        match ids {
            Ok(ids) => {
                let found = ids.into_iter().filter_map(|id| collection.find(id, tree));
                below.extend(found);
            }
            Err(failure) => tree.note(ImportError::Read {
                id: format!("{} of {}", collection.kind.arm_type(), collection.of),
                failure,
            }),
        }
    }
    below
}

fn is_resource_group(kind: &Kind) -> bool {
    (kind.group(), kind.kind()) == RESOURCE_GROUP
}

/// Returns whether resources of a kind are looked for below those of another one.
fn is_below(kind: &Kind, owner: &Kind) -> bool {
    match kind.owner() {
        Owner::Kind { group, kind } => (owner.group(), owner.kind()) == (group, kind),
        // Others of any owner are of services that refuse most types of owners.
        Owner::Any => (kind.group(), kind.kind()) == ROLE_ASSIGNMENT,
        Owner::None => false,
    }
}

impl Collection<'_> {
    /// Returns the ids of the resources of the collection.
    async fn ids(&self, session: &Session) -> Result<Vec<String>, RequestFailure> {
        let (client, of, kind) = (session.client(), self.of, self.kind);
        let version = kind.version(&super::default_version(kind));
        let api_version = version.map(table::Version::api_version).unwrap_or_default();
        let collection = kind.arm_type().rsplit('/').next().unwrap_or_default();
        let listed = match kind.fixed_name() {
            _ if is_resource_group(kind) => {
                client.list(of, "resources", RESOURCES_API, None).await?
            }
            _ if *kind.owner() == Owner::Any => self.extensions(session, &api_version).await?,
            // Azure has no list of some of them, and there is only one anyway.
            Some(name) => return Ok(vec![format!("{of}/{collection}/{name}")]),
            None => client.list(of, collection, &api_version, None).await?,
        };
        let ids = listed.iter().filter_map(|one| one["id"].as_str());
        Ok(ids.map(str::to_owned).collect())
    }

    /// Returns the extensions of the resource itself: the list has those of scopes above it too.
    async fn extensions(
        &self,
        session: &Session,
        api_version: &str,
    ) -> Result<Vec<Value>, RequestFailure> {
        let collection = format!("providers/{}", self.kind.arm_type());
        let client = session.client();
        let listed = client.list(self.of, &collection, api_version, Some("atScope()"));
        let is_own = |one: &Value| {
            let scope = one["properties"]["scope"].as_str();
            scope.is_some_and(|scope| scope.eq_ignore_ascii_case(self.of.as_str()))
        };
        Ok(listed.await?.into_iter().filter(is_own).collect())
    }

    /// Returns a resource of the collection, if there is a kind for it.
    fn find(&self, id: String, tree: &mut Tree) -> Option<Found> {
        let id: ResourceId = id.parse().ok()?;
        let import = match Import::find(id, None) {
            Ok(import) => import,
            Err(ImportError::NoKind(arm_type)) => {
                tree.without_kind.insert(arm_type);
                return None;
            }
            Err(_) => return None,
        };
        let kind = import.kind;
        // The list of a group has some children of its resources too, which are found there.
        if is_resource_group(self.kind) && !is_below(kind, self.kind) {
            return None;
        }
        let name = self.owner["metadata"]["name"].clone();
        let owner = match kind.owner() {
            Owner::Any => {
                let (api_version, kind) = (&self.owner["apiVersion"], &self.owner["kind"]);
                let group = api_version.as_str().and_then(|it| it.split('/').next());
                json!({"group": group, "kind": kind, "name": name})
            }
            _ => json!({ "name": name }),
        };
        let owner = Some(owner);
        Some(Found { import, owner })
    }
}

impl Tree {
    /// Records why something below the resource was not read, unless it is simply not there.
    fn note(&mut self, error: ImportError) {
        let status = match &error {
            ImportError::Read { failure, .. } => failure.arm_error().map(|it| it.status.as_u16()),
            _ => None,
        };
        match (&error, status) {
            (ImportError::NotUseful(_), _) | (_, Some(404 | 405)) => {
                debug!(%error, "resource not imported");
            }
            _ => self.failures.push(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types are listed by the last part of their name, so that it must be all that the owner's type
    /// does not have.
    #[test]
    fn type_of_a_child_is_that_of_its_owner_and_one_part() {
        for kind in table::kinds() {
            let Owner::Kind { group, kind: owner } = kind.owner() else {
                continue;
            };
            let owner = table::find(group, owner).unwrap();
            assert!(is_below(kind, owner));
            let (parent, _) = kind.arm_type().rsplit_once('/').unwrap();
            match is_resource_group(owner) {
                true => assert!(!parent.contains('/'), "{}", kind.arm_type()),
                false => assert!(parent.eq_ignore_ascii_case(owner.arm_type()), "{parent}"),
            }
        }
    }

    #[test]
    fn second_object_of_a_name_gets_another_one() {
        let import = |id: &str| {
            let id = format!("/subscriptions/s/resourceGroups/{id}");
            Import::find(id.parse().unwrap(), None).unwrap()
        };
        let mut names = BTreeSet::new();
        let mut named = |id: &str| {
            let found = Found {
                import: import(id),
                owner: None,
            };
            let object = json!({"metadata": {"name": "my-group"}, "spec": {}});
            let (_, object) = name(found, object, &mut names);
            object["metadata"]["name"].as_str().unwrap().to_owned()
        };
        assert_eq!(named("My_Group"), "my-group");
        let second = named("my-group");
        assert!(second.starts_with("my-group-"), "{second}");
        assert_ne!(second, named("MY.group"));
    }
}
