//! Custom resources: a tenant's definitions, and whether it has any, are invisible to other
//! tenants.

use insula_testkit::server::{Answer, Client, DEFINITIONS, TestServer, definition};
use serde_json::{Value, json};

use super::{body_without, names};

const FOOS: &str = "/apis/ex.io/v1/namespaces/default/foos";

fn foos(scope: &str) -> Value {
    let mut foos = definition("ex.io", "foos", "Foo", json!({"type": "object"}));
    foos["spec"]["scope"] = scope.into();
    foos["spec"]["versions"][0]["subresources"] = json!({
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    });
    foos
}

fn foo(name: &str) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": name}})
}

/// Everything in a response that a client can observe.
fn observable(answer: &Answer) -> String {
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .filter(|(name, _)| !["audit-id", "date", "content-length"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value:?}"))
        .collect();
    headers.sort();
    format!(
        "{} {headers:?} {}",
        answer.status,
        body_without(answer, &[])
    )
}

/// Every request that can be sent for `foos`, in every spelling of the space; the bodies are
/// invalid on purpose.
fn all_requests(space: &str) -> Vec<(&'static str, String)> {
    let collections = ["namespaces/default/foos", "foos", "namespaces/nothing/foos"];
    let below = [
        "",
        "/canary",
        "/nothing",
        "/canary/status",
        "/canary/scale",
        "/canary/x",
    ];
    let mut all_requests = Vec::new();
    for collection in collections {
        for below in below {
            for version in ["v1", "v2"] {
                let path = format!("{collection}{below}");
                for path in [
                    format!("/apis/ex.io/{version}/tenants/{space}/{path}"),
                    format!("/tenants/{space}/apis/ex.io/{version}/{path}"),
                    format!("/apis/ex.io/{version}/watch/tenants/{space}/{path}"),
                ] {
                    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
                        all_requests.push((method, path.clone()));
                    }
                }
            }
        }
    }
    for page in [
        "/apis/ex.io",
        "/apis/ex.io/v1",
        "/openapi/v3/apis/ex.io/v1",
        "/openapi/v2",
    ] {
        all_requests.push(("GET", format!("/tenants/{space}{page}")));
    }
    for one in [DEFINITIONS.to_owned(), format!("{DEFINITIONS}/foos.ex.io")] {
        all_requests.push(("GET", format!("/tenants/{space}{one}")));
        all_requests.push(("DELETE", format!("/tenants/{space}{one}")));
    }
    all_requests
}

async fn send_all(client: &Client, space: &str) -> anyhow::Result<Vec<String>> {
    let mut answers = Vec::new();
    for (method, path) in all_requests(space) {
        let headers = [("content-type", "application/json")];
        let answer = client.send(method.parse()?, &path, &headers, "{").await?;
        let plain = path.replace(&format!("/{space}/"), "/@/");
        let reported = observable(&answer).replace(&format!("/tenants/{space}/"), "/tenants/@/");
        let reported = reported.replace(&format!("tenant \\\\\"{space}\\\\\""), "tenant @");
        let reported = reported.replace(&format!("tenant \\\"{space}\\\""), "tenant @");
        answers.push(format!("{method} {plain}: {reported}"));
    }
    Ok(answers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i15_another_tenants_definition_does_not_change_any_response() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (attacker, victim) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let system = server.system().await?;
    let mut first = None;
    // It makes no difference which other tenant defines the kind, nor how.
    let stages: [(&Client, Option<&str>); 4] = [
        (&victim, None),
        (&victim, Some("Namespaced")),
        (&system, Some("Cluster")),
        (&attacker, Some("Namespaced")),
    ];
    for (number, (client, scope)) in stages.into_iter().enumerate() {
        if let Some(scope) = scope {
            client.define(&foos(scope)).await?;
            let path = if scope == "Cluster" {
                "/apis/ex.io/v1/foos"
            } else {
                FOOS
            };
            let created = client.post(path, &foo("canary")).await?;
            assert_eq!(created.status, 201, "{}", created.text());
        }
        for space in ["t2", "ghost", "system"] {
            let answers = send_all(&attacker, space).await?;
            for answer in &answers {
                let refused = answer.contains(": 403 ") || answer.contains(": 405 ");
                assert!(refused, "{space}: {answer}");
            }
            let first = first.get_or_insert_with(|| answers.clone());
            for (was, is) in first.iter().zip(&answers) {
                assert_eq!(is, was, "{space}, stage {number}");
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i18_discovery_does_not_reveal_another_tenants_kinds() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let pages = [
        ("/apis", "application/json"),
        ("/apis", aggregated),
        ("/openapi/v2", "application/json"),
        ("/openapi/v3", "application/json"),
        ("/apis/ex.io", "application/json"),
        ("/apis/ex.io/v1", "application/json"),
        ("/openapi/v3/apis/ex.io/v1", "application/json"),
        (FOOS, "application/json"),
        (DEFINITIONS, "application/json"),
    ];
    let reported = async |client: &Client| -> anyhow::Result<Vec<(u16, String, String)>> {
        let mut reported = Vec::new();
        for (page, accept) in pages {
            let answer = client.accept(page, accept).await?;
            // A list of objects carries its revision, which is counted once for the whole server.
            let body = match page == DEFINITIONS {
                true => answer.json()["items"].to_string(),
                false => answer.text(),
            };
            reported.push((answer.status, answer.header("etag").to_owned(), body));
        }
        Ok(reported)
    };
    let before = reported(&one).await?;
    other.define(&foos("Namespaced")).await?;
    assert_eq!(reported(&one).await?, before);
    let others = reported(&other).await?;
    for (index, (page, accept)) in pages.iter().enumerate() {
        assert_ne!(others[index].2, before[index].2, "{page} {accept}");
        let tags = (&others[index].1, &before[index].1);
        assert!(tags.0.is_empty() || tags.0 != tags.1, "{page} {accept}");
        assert!(!before[index].2.contains("Foo"), "{page}");
    }
    // Tenants with equal definitions get equal documents.
    one.define(&foos("Namespaced")).await?;
    let same = reported(&one).await?;
    for index in 0..pages.len() - 2 {
        assert_eq!(same[index], others[index], "{:?}", pages[index]);
    }
    other.delete(&format!("{DEFINITIONS}/foos.ex.io")).await?;
    other
        .until_gone(&format!("{DEFINITIONS}/foos.ex.io"))
        .await?;
    assert_eq!(reported(&other).await?[..7], before[..7]);
    assert_eq!(names(&one.get(FOOS).await?.json()), Vec::<&str>::new());
    Ok(())
}
