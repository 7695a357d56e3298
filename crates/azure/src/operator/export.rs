//! Secrets and ConfigMaps with values of the resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use insula_operator::cpu_bound::Pool;
use insula_operator::read::get_named;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::Value;

use super::access::Azure;
use super::object::Object;
use super::object::Status;
use super::policy::Annotations;
use super::ready::Problem;
use crate::arm::{RequestFailure, ResourceId};
use crate::mapping::export::{self, Exported, Target};

/// Why values were not exported.
pub(super) enum Failed {
    /// A request to Azure for a value failed.
    Azure(Box<RequestFailure>),
    /// The export is not possible.
    Problem(Problem),
}

/// The threads that expressions are compiled and evaluated on.
static EXPRESSIONS: Pool = Pool::new();

const REASON: &str = "FailedWritingAdditionalKubernetesObjects";

/// Writes all exports of an object.
///
/// # Errors
///
/// If a request to the API server fails. The inner error is why an export is not possible.
pub(super) async fn write(
    object: &Object<'_>,
    azure: &Azure,
    status: &Status,
) -> Result<Result<(), Failed>, kube::Error> {
    let expressions = &object.of.context.provider.expressions;
    let mut value = object.value().clone();
    value["status"] = Value::Object(status.clone());
    let impossible =
        |error: export::ExportError| Failed::Problem(Problem::error(REASON, error.to_string()));
    let value = Arc::new(value);
    let (kind, of, with) = (object.kind, Arc::clone(&value), Arc::clone(expressions));
    let is_costly = export::limits::has_expressions(&value);
    let calls = run(is_costly, move || export::calls(kind, &of, &*with));
    let calls = match calls.await {
        Ok(calls) => calls,
        Err(error) => return Ok(Err(impossible(error))),
    };
    let mut responses = BTreeMap::new();
    for call in calls {
        let client = azure.session.client();
        let id: Result<ResourceId, _> = call.id.parse();
        let Ok(id) = id else {
            return Ok(Err(impossible(export::ExportError::NoId)));
        };
        // Only resources of the credential's subscription are asked.
        if let Err(problem) = azure.check_subscription(&id) {
            return Ok(Err(Failed::Problem(problem)));
        }
        let answered = match call.post {
            true => {
                client
                    .post(&id, &call.suffix, &call.api_version, None)
                    .await
            }
            false => client.get(&id, &call.api_version).await,
        };
        match answered {
            Ok(response) => responses.insert(call.index, response.body),
            Err(failure) => return Ok(Err(Failed::Azure(Box::new(failure)))),
        };
    }
    let with = Arc::clone(expressions);
    let exported = run(is_costly, move || {
        export::objects(kind, &value, &responses, &*with)
    });
    let exported = match exported.await {
        Ok(exported) => exported,
        Err(error) => return Ok(Err(impossible(error))),
    };
    for one in exported {
        if let Some(problem) = write_one(object, one).await? {
            return Ok(Err(Failed::Problem(problem)));
        }
    }
    Ok(Ok(()))
}

/// Runs work, off the threads of the runtime if it is costly. Objects without expressions do not
/// wait for those of others.
async fn run<T: Send + 'static>(is_costly: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    match is_costly {
        true => EXPRESSIONS.run(async move { work() }).await,
        false => work(),
    }
}

/// Writes one Secret or ConfigMap. Returns the problem of one that belongs to another owner.
async fn write_one(
    object: &Object<'_>,
    exported: Exported,
) -> Result<Option<Problem>, kube::Error> {
    let metadata = ObjectMeta {
        name: Some(exported.name.clone()),
        namespace: object.of.key.namespace.clone(),
        labels: Some(exported.labels).filter(|labels| !labels.is_empty()),
        annotations: Some(exported.annotations).filter(|all| !all.is_empty()),
        owner_references: Some(vec![owner(object)]),
        ..ObjectMeta::default()
    };
    match exported.target {
        Target::Secret => {
            let data = exported.data.into_iter();
            let data = data.map(|(key, value)| (key, ByteString(value.reveal().to_vec())));
            let secret = Secret {
                metadata,
                data: Some(data.collect()),
                type_: Some("Opaque".to_owned()),
                ..Secret::default()
            };
            let is_same = |known: &Secret, new: &Secret| known.data == new.data;
            put(object, object.of.api::<Secret>(), secret, is_same).await
        }
        Target::ConfigMap => {
            let data = exported.data.into_iter();
            let data = data.filter_map(|(key, value)| Some((key, value.text()?.to_owned())));
            let map = ConfigMap {
                metadata,
                data: Some(data.collect()),
                ..ConfigMap::default()
            };
            let is_same = |known: &ConfigMap, new: &ConfigMap| known.data == new.data;
            put(object, object.of.api::<ConfigMap>(), map, is_same).await
        }
    }
}

/// Creates or replaces an object that this one owns.
async fn put<K>(
    object: &Object<'_>,
    api: Api<K>,
    mut new: K,
    is_same: impl Fn(&K, &K) -> bool,
) -> Result<Option<Problem>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug,
    K: serde::Serialize + serde::de::DeserializeOwned,
{
    let name = new.name_any();
    let Some(known) = get_named(&api, &name).await? else {
        api.create(&PostParams::default(), &new).await?;
        return Ok(None);
    };
    let uid = object.metadata().uid.clone().unwrap_or_default();
    let owners = known.owner_references();
    if !owners.iter().any(|owner| owner.uid == uid) {
        let kind = K::kind(&());
        let message = format!(
            "{kind} {name:?} exists and was not made for this resource: delete it, or export to \
             another name"
        );
        return Ok(Some(Problem::error(REASON, message)));
    }
    let is_labelled =
        contains(known.labels(), new.labels()) && contains(known.annotations(), new.annotations());
    if !is_same(&known, &new) || !is_labelled {
        new.meta_mut().resource_version = known.resource_version();
        new.meta_mut().owner_references = Some(owners.to_vec());
        // Other labels and annotations stay.
        let (labels, annotations) = (known.labels().clone(), known.annotations().clone());
        keep(new.labels_mut(), labels);
        keep(new.annotations_mut(), annotations);
        api.replace(&name, &PostParams::default(), &new).await?;
    }
    Ok(None)
}

fn contains(known: &Annotations, new: &Annotations) -> bool {
    new.iter()
        .all(|(name, value)| known.get(name) == Some(value))
}

fn keep(new: &mut Annotations, known: Annotations) {
    for (name, value) in known {
        new.entry(name).or_insert(value);
    }
}

fn owner(object: &Object<'_>) -> OwnerReference {
    let value = object.as_owner();
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    OwnerReference {
        api_version: text("apiVersion"),
        kind: text("kind"),
        name: text("name"),
        uid: text("uid"),
        ..OwnerReference::default()
    }
}
