//! Called by the API server of the same process.

use std::sync::Arc;

use insula_apiserver::egress::{InProcessServices, Settings};
use insula_core::Space;
use insula_operator::webhook::{ObjectSpace, Router};
use insula_testkit::server::{Setup, TestServer};
use serde_json::json;

use super::scene::{
    Calls, V1, V2, configurations, create, router, service, warnings, widget, widgets,
};

/// A server with the provider's handlers, as `insula serve` registers them.
async fn server(router: Router) -> anyhow::Result<TestServer> {
    let router = Arc::new(router);
    let mut services = InProcessServices::default();
    let service = service();
    services.register(
        &service.namespace,
        &service.name,
        Arc::new(move |mut request| {
            let space = request.extensions_mut().remove::<Space>();
            let space = space.map(|space| match space {
                Space::System => ObjectSpace::System,
                Space::Tenant(tenant) => ObjectSpace::Tenant(tenant.to_string()),
            });
            let router = Arc::clone(&router);
            Box::pin(async move { router.handle(request, space).await })
        }),
    );
    TestServer::start_with(Setup {
        egress: Settings {
            in_process: services,
            ..Settings::default()
        },
        ..Setup::with_controllers()
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_converted_without_loss_in_the_system_and_in_tenants() -> anyhow::Result<()> {
    let calls = Calls::default();
    let server = server(router(&calls)).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let mut published = widgets(None);
    published["metadata"]["annotations"] = json!({"multi-tenancy.k8s.io/published": "true"});
    system.define(&published).await?;
    for client in [&system, &tenant] {
        let first = create(client, V1, &widget("v1", "a", json!({"color": "red"}))).await?;
        assert_eq!(calls.take(), Vec::<String>::new());
        let read = client.get(&format!("{V2}/a")).await?.json();
        assert_eq!(read["apiVersion"], "ex.io/v2");
        assert_eq!(read["spec"], json!({"hue": "red"}));
        assert_eq!(read["metadata"], first["metadata"]);
        assert_eq!(calls.take(), ["convert a to ex.io/v2"]);
        // What only the newer version has survives in the older one.
        let spec = json!({"hue": "blue", "finish": "matt", "size": 5});
        let written = create(client, V2, &widget("v2", "b", spec.clone())).await?;
        assert_eq!(written["spec"], spec);
        let mut old = client.get(&format!("{V1}/b")).await?.json();
        assert_eq!(old["spec"], json!({"color": "blue", "size": 5}));
        assert_eq!(
            old["metadata"]["annotations"],
            json!({"ex.io/finish": "matt"})
        );
        old["spec"]["color"] = "green".into();
        let replaced = client.put(&format!("{V1}/b"), &old).await?;
        assert_eq!(replaced.status, 200, "{}", replaced.text());
        let new = client.get(&format!("{V2}/b")).await?.json();
        let expected = json!({"hue": "green", "finish": "matt", "size": 5});
        assert_eq!(new["spec"], expected);
        assert_eq!(
            new["metadata"].get("annotations").unwrap_or(&json!({})),
            &json!({})
        );
        // A list keeps its order.
        let list = client.get(V2).await?.json();
        let hues: Vec<_> = list["items"].as_array().unwrap().iter().collect();
        let hues: Vec<_> = hues.iter().map(|item| &item["spec"]["hue"]).collect();
        assert_eq!(hues, ["red", "green"]);
        calls.take();
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_conversion_names_the_object_and_its_cause() -> anyhow::Result<()> {
    let router = Router::new().conversion("/convert", |_, _| Err("it is Monday".to_owned()));
    let server = server(router).await?;
    let system = server.system().await?;
    system.define(&widgets(None)).await?;
    create(&system, V1, &widget("v1", "a", json!({"color": "red"}))).await?;
    let failed = system.get(&format!("{V2}/a")).await?;
    assert_eq!(failed.status, 500);
    assert_eq!(
        failed.message(),
        "conversion webhook for ex.io/v1, Kind=Widget failed: \
         Widget default/a of ex.io/v1 not converted to ex.io/v2: it is Monday"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_warnings_and_patches_reach_the_client() -> anyhow::Result<()> {
    let calls = Calls::default();
    let server = server(router(&calls)).await?;
    let (system, tenant) = (server.system().await?, server.tenant("t1").await?);
    let mut published = widgets(None);
    published["metadata"]["annotations"] = json!({"multi-tenancy.k8s.io/published": "true"});
    system.define(&published).await?;
    for (path, mut configuration) in configurations() {
        let annotations = json!({"multi-tenancy.k8s.io/admit-tenants": "true"});
        configuration["metadata"]["annotations"] = annotations;
        create(&system, path, &configuration).await?;
    }
    for (client, space) in [(&system, "system"), (&tenant, "t1")] {
        let refused = client
            .post(V1, &widget("v1", "a", json!({"color": "beige"})))
            .await?;
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert_eq!(refused.json()["reason"], "Invalid");
        assert_eq!(
            refused.message(),
            "admission webhook \"w.ex.io\" denied the request: beige is not a color"
        );
        assert_eq!(warnings(&refused), ["299 - \"spec.color: use red\""]);
        let accepted = client
            .post(V1, &widget("v1", "a", json!({"color": "pink"})))
            .await?;
        assert_eq!(accepted.status, 201, "{}", accepted.text());
        assert_eq!(accepted.json()["spec"], json!({"color": "pink", "size": 3}));
        assert_eq!(warnings(&accepted), ["299 - \"spec.color: pink fades\""]);
        let dry = format!("{V1}?dryRun=All");
        create(client, &dry, &widget("v1", "b", json!({"color": "red"}))).await?;
        // A panic fails its request, and no other.
        let failed = client
            .post(V1, &widget("v1", "c", json!({"color": "panic"})))
            .await?;
        assert_eq!(failed.status, 500, "{}", failed.text());
        create(client, V1, &widget("v1", "d", json!({"color": "red"}))).await?;
        let seen = |name: &str, dry: &str| {
            ["mutate", "validate"]
                .map(|handler| format!("{handler} default/{name} of {space}{dry}"))
        };
        let expected = [
            seen("a", ""),
            seen("a", ""),
            seen("b", " dry"),
            seen("c", ""),
            seen("d", ""),
        ];
        assert_eq!(calls.take(), expected.concat());
    }
    Ok(())
}
