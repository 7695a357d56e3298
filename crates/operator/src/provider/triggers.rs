//! The watches that trigger reconciliations.
//!
//! Except for identities only metadata is watched, and only the keys of changed objects are kept.
//! The space of an object is taken from the path that the server reports, never from the object.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::core::DynamicResourceScope;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use super::resolve::tenant_resource;
use super::{Context, Dependency, IdentityKind, Provider, StaticCredentials, WatchedKind};
use crate::commit::has_finalizer;
use crate::key::{GroupKind, Key, Space};
use crate::queue::Trigger;
use crate::spaces::client_for;
use crate::watch::{Change, ListMode, Listed, Observed, keyed};

type Triggers = BoxStream<'static, Trigger>;
type Metadata = PartialObjectMeta<DynamicObject>;

/// Returns all triggers as a stream. When the stream is dropped, the operator has stopped working,
/// and all sessions are released.
pub(super) async fn triggers<P: Provider>(context: Arc<Context<P>>) -> Triggers {
    let lists = ListMode::of(&context.client).await;
    let watches = Watches {
        client: match context.tenants {
            true => client_for(&context.client, "all"),
            false => context.client.clone(),
        },
        context: Arc::clone(&context),
        lists,
    };
    let mut all = watches.all();
    all.push(key_triggers(context.sessions.wakeups()));
    all.push(key_triggers(Arc::clone(&context.requeue).keys()));
    all.push(static_credential_triggers(&context));
    let guard = ReleaseOnDrop(context);
    let all = stream::select_all(all).inspect(move |_| {
        // Moved into the closure, so that it is dropped with the stream.
        let _ = &guard;
    });
    all.boxed()
}

/// Releases everything when the stream of triggers is dropped.
struct ReleaseOnDrop<P: Provider>(Arc<Context<P>>);

impl<P: Provider> Drop for ReleaseOnDrop<P> {
    fn drop(&mut self) {
        self.0.forget_all();
    }
}

fn key_triggers(names: impl Stream<Item = Arc<str>> + Send + 'static) -> Triggers {
    names.map(Trigger::Touched).boxed()
}

/// Returns triggers for changes of the static credentials.
fn static_credential_triggers<P: Provider>(context: &Arc<Context<P>>) -> Triggers {
    let mut receiver: watch::Receiver<Option<StaticCredentials>> =
        context.static_credentials.clone();
    receiver.mark_unchanged();
    let context = Arc::clone(context);
    stream::unfold((receiver, context), |(mut receiver, context)| async {
        if receiver.changed().await.is_err() {
            // The sender was dropped: there will be no more changes.
            return None;
        }
        let users = context.dependents(&Dependency::StaticCredentials);
        Some((stream::iter(users), (receiver, context)))
    })
    .flatten()
    .boxed()
}

struct Watches<P: Provider> {
    client: Client,
    context: Arc<Context<P>>,
    lists: ListMode,
}

impl<P: Provider> Watches<P> {
    fn all(&self) -> Vec<Triggers> {
        let mut all = self.secrets();
        if self.context.watch_namespaces {
            all.extend(self.metadata(&WatchedKind::dependency::<Namespace>()));
        }
        let (reconciled, others): (Vec<_>, Vec<_>) = self
            .context
            .kinds
            .iter()
            .partition(|kind| kind.is_reconciled);
        all.extend(others.into_iter().flat_map(|kind| self.metadata(kind)));
        all.extend(self.announced(&reconciled));
        if let Some(kind) = P::IDENTITIES {
            all.push(self.identities(kind));
            all.extend(self.context.tenants.then(|| self.tenants()));
        }
        all
    }

    /// Watches reconciled kinds. The provider is told when each watch has observed all existing
    /// objects, or may not list them.
    fn announced(&self, kinds: &[&WatchedKind]) -> Vec<Triggers> {
        let watches = kinds
            .iter()
            .flat_map(|kind| self.apis_of(kind).into_iter().map(move |api| (*kind, api)));
        let watches: Vec<_> = watches.collect();
        let kinds: Vec<_> = watches.iter().map(|(kind, _)| kind.group_kind()).collect();
        self.context.provider.watches_started(&kinds);
        let watches = watches.into_iter().enumerate();
        let announced = watches.map(|(watch, (kind, api))| {
            let context = Arc::clone(&self.context);
            self.metadata_of(kind, api, move |listed| match listed {
                Listed::Complete => context.provider.watch_listed(watch),
                Listed::Forbidden => context.provider.watch_forbidden(watch),
            })
        });
        announced.collect()
    }

    /// Identities are watched with their status: their users depend on whether they are usable, and
    /// not on how many users there are. They are read untyped, so that an invalid one does not
    /// break the watch.
    fn identities(&self, kind: &IdentityKind) -> Triggers {
        let resource = (kind.resource)();
        let (context, filtered) = (Arc::clone(&self.context), Arc::clone(&self.context));
        let (kind, same_kind) = (
            GroupKind::of_resource(&resource),
            GroupKind::of_resource(&resource),
        );
        let see = move |identity: &DynamicObject| Observed {
            name: filtered.key_of(&kind, identity.meta()).text(),
            is_managed: filtered.is_assigned(identity.meta()),
            digest: availability_hash(&identity.data["status"]),
            is_known: false,
        };
        let also = move |identity: &DynamicObject, change| match change {
            Change::Written if context.is_assigned(identity.meta()) => Vec::new(),
            _ => context.dependents_of(&same_kind, identity.meta(), change),
        };
        let api = Api::all_with(self.client.clone(), &resource);
        keyed(api, Config::default(), self.lists, see, also, |_| {}).boxed()
    }

    /// Watches the tenants, which identities may be lent to. They are objects of the operator's
    /// own space.
    fn tenants(&self) -> Triggers {
        let resource = tenant_resource();
        let (context, kind) = (Arc::clone(&self.context), GroupKind::of_resource(&resource));
        let also = move |tenant: &Metadata, _| {
            let name = tenant.metadata.name.as_deref().unwrap_or_default();
            let key = Key::cluster_scoped(kind.clone(), None, name);
            context.dependents(&Dependency::Object(key))
        };
        let api: Api<Metadata> = Api::all_with(self.context.client.clone(), &resource);
        let config = Config::default();
        keyed(api, config, self.lists, not_managed, also, |_| {}).boxed()
    }

    /// Watches the metadata of a kind.
    fn metadata(&self, watched: &WatchedKind) -> Vec<Triggers> {
        let apis = self.apis_of(watched).into_iter();
        apis.map(|api| self.metadata_of(watched, api, |_| {}))
            .collect()
    }

    fn apis_of(&self, watched: &WatchedKind) -> Vec<Api<Metadata>> {
        match watched.is_namespaced {
            true => self.namespaced_apis(&watched.resource, &[]),
            false => vec![Api::all_with(self.client.clone(), &watched.resource)],
        }
    }

    /// Watches the metadata of some objects of a kind. All of them trigger their dependents.
    fn metadata_of(
        &self,
        watched: &WatchedKind,
        api: Api<Metadata>,
        listed: impl Fn(Listed) + Send + 'static,
    ) -> Triggers {
        // The server selects namespaced objects, so that large clusters with several operators are
        // not watched as a whole by each of them.
        let config = match &self.context.watch_filter {
            Some(value) if watched.is_reconciled && watched.is_namespaced => {
                Config::default().labels(&format!("{}={value}", P::NAMES.watch_label))
            }
            _ => Config::default(),
        };
        let (context, filtered) = (Arc::clone(&self.context), Arc::clone(&self.context));
        let (kind, same_kind) = (watched.group_kind(), watched.group_kind());
        let is_reconciled = watched.is_reconciled;
        let see = move |object: &Metadata| {
            let key = filtered.key_of(&kind, &object.metadata);
            let is_managed = is_reconciled && filtered.is_watched(&object.metadata);
            if is_managed {
                let metadata = Some(&object.metadata);
                filtered.provider.object_observed(&key, metadata);
            }
            filtered.observed(&key, &object.metadata, is_managed)
        };
        let also = move |object: &Metadata, change| {
            if is_reconciled && change == Change::Gone {
                let key = context.key_of(&same_kind, &object.metadata);
                context.provider.object_observed(&key, None);
            }
            context.dependents_of(&same_kind, &object.metadata, change)
        };
        keyed(api, config, self.lists, see, also, listed).boxed()
    }

    /// Watches Secrets: held ones are reconciled, and all trigger the objects that depend on them.
    fn secrets(&self) -> Vec<Triggers> {
        let resource = ApiResource::erase::<Secret>(&());
        let watch = |api: Api<Metadata>| {
            let (context, filtered) = (Arc::clone(&self.context), Arc::clone(&self.context));
            let kind = GroupKind::of::<Secret>;
            let see = move |secret: &Metadata| {
                let key = filtered.key_of(&kind(), &secret.metadata);
                let is_managed = has_finalizer(secret, P::NAMES.secret_finalizer);
                filtered.observed(&key, &secret.metadata, is_managed)
            };
            let also = move |secret: &Metadata, change| {
                context.dependents_of(&kind(), &secret.metadata, change)
            };
            keyed(api, Config::default(), self.lists, see, also, |_| {}).boxed()
        };
        // The operator's namespace has the Secrets of identities, and nothing else that counts.
        let home = P::IDENTITIES.map(|_| self.context.operator_namespace.as_str());
        let apis = self.namespaced_apis(&resource, home.as_slice());
        apis.into_iter().map(watch).collect()
    }

    /// Returns the namespaces to watch: the configured ones and these, or all. In all spaces there
    /// is one watch, and other namespaces are filtered out.
    fn namespaced_apis<K>(&self, resource: &ApiResource, also: &[&str]) -> Vec<Api<K>>
    where
        K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>,
        K: Clone + Debug + DeserializeOwned,
    {
        let named = &self.context.namespaces;
        if named.is_empty() || self.context.tenants {
            return vec![Api::all_with(self.client.clone(), resource)];
        }
        let further = also.iter().filter(|place| !named.contains(**place));
        let places = named.iter().map(String::as_str).chain(further.copied());
        places
            .map(|place| Api::namespaced_with(self.client.clone(), place, resource))
            .collect()
    }
}

impl<P: Provider> Context<P> {
    /// Returns triggers for the objects that depend on this.
    fn dependents(&self, on: &Dependency) -> Vec<Trigger> {
        let names = self.depends.on(on).into_iter();
        names.map(Trigger::Touched).collect()
    }

    /// Returns triggers for the objects that depend on an object, on its kind, or, when it is
    /// deleted, on the members of its group.
    fn dependents_of(
        &self,
        kind: &GroupKind,
        metadata: &ObjectMeta,
        change: Change,
    ) -> Vec<Trigger> {
        let key = self.key_of(kind, metadata);
        let space = key.space.clone();
        let mut triggers = self.dependents(&Dependency::Kind {
            kind: kind.clone(),
            space: space.clone(),
        });
        let labels = metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get(P::NAMES.member_label));
        let is_member = self.reconciled_resource(kind).is_some();
        if let Some(value) = label.filter(|_| is_member && change == Change::Gone) {
            triggers.extend(self.dependents(&Dependency::Members {
                space,
                namespace: key.namespace_or_empty().to_owned(),
                value: value.clone(),
            }));
        }
        triggers.extend(self.dependents(&Dependency::Object(key)));
        triggers
    }

    /// Returns how the queue knows an object of which only metadata is watched.
    fn observed(&self, key: &Key, metadata: &ObjectMeta, is_managed: bool) -> Observed {
        let name = key.text();
        let version = metadata.resource_version.as_deref().unwrap_or_default();
        Observed {
            is_managed,
            digest: 0,
            is_known: P::GUARDS_WRITES && self.own_writes.is_handled(&name, version),
            name,
        }
    }

    fn key_of(&self, kind: &GroupKind, metadata: &ObjectMeta) -> Key {
        Key {
            kind: kind.clone(),
            space: self.space_of(metadata),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    /// Returns whether an object is in a configured namespace, or assigned to this operator if it
    /// has none.
    fn is_watched(&self, metadata: &ObjectMeta) -> bool {
        match &metadata.namespace {
            Some(namespace) => self.namespaces.is_empty() || self.namespaces.contains(namespace),
            None => self.is_assigned(metadata),
        }
    }

    /// Returns the space of an object.
    fn space_of(&self, metadata: &ObjectMeta) -> Space {
        match self.tenants {
            true => space_of_path(metadata.self_link.as_deref().unwrap_or_default()),
            false => None,
        }
    }
}

fn not_managed<K>(_: &K) -> Observed {
    Observed {
        name: Arc::from(""),
        is_managed: false,
        digest: 0,
        is_known: false,
    }
}

/// Returns a hash that changes when the availability of an identity, or its reason, changes.
fn availability_hash(status: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    status["ready"].as_bool().hash(&mut hasher);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == "Available") {
        for key in ["status", "reason", "message"] {
            condition[key].as_str().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Returns the space of a path: only the segments after the version count.
pub(super) fn space_of_path(link: &str) -> Space {
    let mut segments = link.split('/').skip(1);
    let after = match segments.next()? {
        "api" => 1,
        "apis" => 2,
        _ => return None,
    };
    let mut segments = segments.skip(after);
    match (segments.next(), segments.next()) {
        (Some("tenants"), Some(space)) => Some(space.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn space_is_taken_from_the_path_only() {
        for (link, expected) in [
            ("/api/v1/tenants/acme/namespaces/a/secrets/s", Some("acme")),
            ("/api/v1/namespaces/tenants/secrets/acme", None),
            ("/api/v1/namespaces/tenants", None),
            ("/apis/g/v1/tenants/acme/namespaces/a/k/n", Some("acme")),
            ("/apis/g/v1/tenants/acme/k/n", Some("acme")),
            ("/apis/g/v1/namespaces/a/tenants/acme", None),
            ("/apis/tenants/acme/k/n", None),
            ("", None),
            ("/", None),
            ("tenants/acme", None),
        ] {
            assert_eq!(space_of_path(link).as_deref(), expected, "{link}");
        }
    }

    #[test]
    fn number_of_users_does_not_change_the_availability_hash() {
        let condition = |reason: &str| json!([{"type": "Available", "reason": reason}]);
        let before =
            availability_hash(&json!({"ready": true, "conditions": condition("Available")}));
        let others = json!({"ready": true, "users": 5, "conditions": condition("Available")});
        assert_eq!(availability_hash(&others), before);
        let unfit = json!({"ready": false, "conditions": condition("Available")});
        assert_ne!(availability_hash(&unfit), before);
        let otherwise = json!({"ready": true, "conditions": condition("Deleting")});
        assert_ne!(availability_hash(&otherwise), before);
        assert_ne!(availability_hash(&Value::Null), before);
    }
}
