//! Imported resources are applied as they are.

use std::collections::BTreeMap;

use insula_azure::entra::Cleartext;
use insula_azure::import::children::read_tree;
use insula_azure::import::{Import, open_session};
use serde_json::{Value, json};

use crate::scene::{GROUP, Scene, account, identity, network, resource, server, subnet, vault};
use crate::world::credential;

/// Imports the resource group with everything in it.
async fn import(scene: &Scene) -> anyhow::Result<Vec<Value>> {
    let settings = scene.azure.settings().into_iter().chain(credential("red"));
    let settings: BTreeMap<_, _> = settings.map(|(k, v)| (k.to_owned(), v)).collect();
    let authorities = pem::parse_many(scene.azure.ca_pem())?;
    let authorities = authorities.into_iter().map(pem::Pem::into_contents);
    let id = GROUP.parse()?;
    let session = open_session(settings, &id, authorities.collect(), Cleartext::Refused).await?;
    let tree = read_tree(Import::find(id, None)?, &session, async |_: &str| None).await?;
    assert!(tree.failures.is_empty(), "{:?}", tree.failures);
    Ok(tree.objects)
}

#[tokio::test]
async fn r30_imported_resources_are_applied_as_they_are_and_change_nothing() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    scene.group().await?;
    let namespace = crate::scene::NAMESPACE;
    scene
        .secret(namespace, "database", &[("password", "pa55word")])
        .await?;
    let role = resource(
        "authorization.azure.com/v1api20220401",
        "RoleAssignment",
        "reads",
        json!({
            "owner": {"group": "storage.azure.com", "kind": "StorageAccount", "name": "shopdata"},
            "principalId": "11111111-1111-4111-8111-111111111111",
            "roleDefinitionReference": {"wellKnownName": "Reader"},
        }),
    );
    let originals = [
        network("net"),
        subnet("net", "front", "10.0.1.0/24"),
        account("shopdata"),
        identity("robot"),
        server("orders-db"),
        vault("keys", None),
        role,
    ];
    for object in &originals {
        scene.make(object).await?;
    }
    let before = content(&scene);
    let imported = import(&scene).await?;
    assert_eq!(imported.len(), 8, "{imported:#?}");
    // A resource belongs to one object: the first ones let go of what they manage.
    let group = crate::scene::group("shop");
    for object in originals.iter().rev().chain([&group]) {
        let policy = json!({"serviceoperator.azure.com/reconcile-policy": "detach-on-delete"});
        let detached = json!({"metadata": {"annotations": policy}});
        scene.patch(object, detached).await?;
        scene.delete(object).await?;
        scene.await_gone(object).await?;
    }
    assert_eq!(content(&scene), before);
    scene.namespace_of("other", "red").await?;
    for object in &imported {
        let mut object = object.clone();
        object["metadata"]["namespace"] = "other".into();
        scene.create(&object).await?;
    }
    for object in &imported {
        let mut object = object.clone();
        object["metadata"]["namespace"] = "other".into();
        scene.await_ready(&object, "True", "Succeeded").await?;
    }
    assert_eq!(content(&scene), before);
    Ok(())
}

/// What Azure has, without marks of changes.
fn content(scene: &Scene) -> BTreeMap<String, Value> {
    let ids = scene.azure.resource_ids().into_iter();
    let shown = ids.filter_map(|id| {
        let mut content = scene.azure.resource(&id)?;
        remove_etags(&mut content);
        Some((id, content))
    });
    shown.collect()
}

fn remove_etags(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("etag");
            members.values_mut().for_each(remove_etags);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_etags),
        _ => {}
    }
}
