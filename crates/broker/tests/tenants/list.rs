//! Listing of tenants.

use futures_util::StreamExt;
use futures_util::stream;
use insula_broker::tenant::TenantSpec;
use insula_broker::tenants::{Tenants, phase};
use kube::ResourceExt;
use serde_json::json;

use crate::scene::{Scene, id, watched};

#[tokio::test]
async fn r52_none_one_and_a_thousand_tenants_are_listed_in_pages() {
    let scene = Scene::start().await;
    let (client, seen) = watched(&scene.client);
    let tenants = Tenants::new(&client);
    assert_eq!(tenants.list().await.unwrap(), []);
    let first = id("t0000");
    scene
        .tenants
        .create(&first, TenantSpec::default())
        .await
        .unwrap();
    scene
        .write_status(&first, json!({ "phase": "Failed" }))
        .await;
    let one = tenants.list().await.unwrap();
    assert_eq!(
        (one[0].name_any(), phase(&one[0])),
        ("t0000".to_owned(), "Failed")
    );
    stream::iter(1..1001)
        .for_each_concurrent(32, |number| {
            let tenants = &scene.tenants;
            async move {
                let id = id(&format!("t{number:04}"));
                tenants.create(&id, TenantSpec::default()).await.unwrap();
            }
        })
        .await;
    seen.lock().unwrap().clear();
    let all = tenants.list().await.unwrap();
    let names: Vec<_> = all.iter().map(ResourceExt::name_any).collect();
    let expected: Vec<_> = (0..1001).map(|number| format!("t{number:04}")).collect();
    assert_eq!(names, expected);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3, "{seen:?}");
    let limited = |line: &String| line.contains("limit=500");
    assert!(seen.iter().all(limited), "{seen:?}");
}
