//! Label selectors and field selectors.

use insula_testkit::server::{Client, TestServer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

const FIELDS: &str = include_str!("data/reads/fieldselectors.json");
const LABEL_ERRORS: &str = include_str!("../../kinds/tests/data/selector/label-errors.txt");
const LABEL_MATCHES: &str = include_str!("../../kinds/tests/data/selector/label-matches.txt");
const FIELD_ERRORS: &str = include_str!("../../kinds/tests/data/selector/fields.txt");
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().filter(|line| !line.starts_with('#'))
}

/// The path of `v1/pods` or `apps/v1/deployments`.
fn path_of(resource: &str) -> String {
    match resource.split('/').count() {
        2 => format!("/api/{resource}"),
        _ => format!("/apis/{resource}"),
    }
}

async fn list_names(client: &Client, path: &str, query: &str) -> anyhow::Result<Vec<String>> {
    let answer = client.get(&format!("{path}?{query}")).await?;
    anyhow::ensure!(answer.status == 200, "{query}: {}", answer.text());
    let list = answer.json();
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

#[tokio::test]
async fn supported_field_selectors_match_the_recording() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.system().await?;
    let recorded: Map<String, Value> = serde_json::from_str(FIELDS)?;
    let mut fields = 0;
    for (resource, known) in &recorded {
        let path = path_of(resource);
        for field in known.as_array().into_iter().flatten() {
            let field = field.as_str().unwrap_or_default();
            let found = client
                .get(&format!("{path}?fieldSelector={field}%3Dx"))
                .await?;
            assert_eq!(found.status, 200, "{resource} {field}: {}", found.text());
            fields += 1;
        }
        let refused = client
            .get(&format!("{path}?fieldSelector=no.such%3Dx"))
            .await?;
        assert_eq!(refused.status, 400, "{resource}");
        let message = refused.message();
        let texts = [
            "\"no.such\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\"",
            "field label not supported: no.such",
            "field label \"no.such\" not supported for Job",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: no.such",
        ];
        assert!(texts.contains(&message.as_str()), "{resource}: {message}");
        let plain = known == &json!(["metadata.name", "metadata.namespace"]);
        assert_eq!(message == texts[0], plain, "{resource}: {message}");
    }
    assert!(
        recorded.len() > 50 && fields > 100,
        "{} {fields}",
        recorded.len()
    );
    Ok(())
}

#[tokio::test]
async fn invalid_field_selectors_are_refused_with_kubernetes_messages() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.system().await?;
    for row in rows(FIELD_ERRORS) {
        let [resource, selector, wanted] = row.split('|').collect::<Vec<_>>()[..] else {
            continue;
        };
        let path = path_of(resource);
        let path = format!("{path}?fieldSelector={}", escaped(selector));
        let answer = client.get(&path).await?;
        match wanted.strip_prefix('!') {
            Some(message) => {
                assert_eq!(
                    (answer.status, answer.message().as_str()),
                    (400, message),
                    "{row}"
                );
            }
            None => assert_eq!(answer.status, 200, "{row}: {}", answer.text()),
        }
        let watch = client.watch(&format!("{path}&watch=true")).await?;
        assert_eq!(watch.status, answer.status, "{row}");
    }
    Ok(())
}

#[tokio::test]
async fn fields_are_compared_as_text() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for (name, kind) in [
        ("one", "Opaque"),
        ("two", "example.com/x"),
        ("three", "Opaque"),
    ] {
        let object = json!({"metadata": {"name": name}, "type": kind});
        let created = client
            .post("/api/v1/namespaces/default/secrets", &object)
            .await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    let object = json!({
        "metadata": {"name": "p"},
        "spec": {"hostNetwork": false, "containers": [{"name": "c", "image": "i"}]},
    });
    let created = client
        .post("/api/v1/namespaces/default/pods", &object)
        .await?;
    assert_eq!(created.status, 201, "{}", created.text());
    for (path, selector, wanted) in [
        ("secrets", "type=Opaque", &["one", "three"][..]),
        ("secrets", "type!=Opaque", &["two"]),
        ("secrets", "type=Opaque,metadata.name!=one", &["three"]),
        ("secrets", "metadata.name=two", &["two"]),
        ("secrets", "metadata.name=tw", &[]),
        (
            "secrets",
            "metadata.namespace=default,metadata.name==one",
            &["one"],
        ),
        ("secrets", "metadata.namespace=other", &[]),
        ("secrets", "metadata.namespace!=default", &[]),
        ("secrets", "metadata.tenant=t1,metadata.name=one", &["one"]),
        ("secrets", "metadata.tenant=t2", &[]),
        ("pods", "status.phase=Pending", &["p"]),
        ("pods", "status.phase!=Pending", &[]),
        ("pods", "spec.nodeName=", &["p"]),
        ("pods", "spec.hostNetwork=false", &["p"]),
        (
            "pods",
            "spec.restartPolicy=Always,spec.schedulerName=default-scheduler",
            &["p"],
        ),
    ] {
        for path in [
            format!("/api/v1/{path}"),
            format!("/api/v1/namespaces/default/{path}"),
        ] {
            let query = format!("fieldSelector={}", escaped(selector));
            assert_eq!(
                list_names(&client, &path, &query).await?,
                wanted,
                "{path} {selector}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn name_selector_matches_exactly() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for name in ["a", "aa", "a-b", "b"] {
        client
            .post(MAPS, &json!({"metadata": {"name": name}}))
            .await?;
        let object = json!({"metadata": {"name": name}});
        client.post("/api/v1/namespaces", &object).await?;
    }
    for path in [MAPS, "/api/v1/configmaps", "/api/v1/namespaces"] {
        let found = list_names(&client, path, "fieldSelector=metadata.name%3Da").await?;
        assert_eq!(found, ["a"], "{path}");
        let found = list_names(&client, path, "limit=1&fieldSelector=metadata.name%3Da").await?;
        assert_eq!(found, ["a"], "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn label_selectors_match_as_in_kubernetes() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let mut created = std::collections::BTreeMap::new();
    for row in rows(LABEL_MATCHES) {
        let [selector, labels, wanted, _] = row.split('|').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let count = created.len();
        let name = created
            .entry(labels)
            .or_insert_with(|| format!("m{count}"))
            .clone();
        if created.len() > count {
            let pairs = labels.split(';').filter_map(|label| label.split_once('='));
            let labels: Map<String, Value> = pairs
                .map(|(key, value)| (key.to_owned(), value.into()))
                .collect();
            let object = json!({"metadata": {"name": name, "labels": labels}});
            let answer = client.post(MAPS, &object).await?;
            assert_eq!(answer.status, 201, "{row}: {}", answer.text());
        }
        let query = format!("labelSelector={}", escaped(selector));
        let found = list_names(&client, MAPS, &query).await?;
        assert_eq!(found.contains(&name), wanted == "yes", "{row}");
    }
    Ok(())
}

#[tokio::test]
async fn invalid_label_selectors_are_refused_with_kubernetes_messages() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    let mut count = 0;
    for row in rows(LABEL_ERRORS) {
        let (selector, wanted) = row.split_once(" => ").unwrap_or_default();
        let query = format!("labelSelector={}", escaped(selector));
        for path in [format!("{MAPS}?{query}"), format!("{MAPS}?watch=1&{query}")] {
            let answer = client.get(&path).await?;
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": wanted, "reason": "BadRequest", "code": 400,
            });
            assert_eq!((answer.status, answer.json()), (400, status), "{path}");
        }
        count += 1;
    }
    assert!(count > 15);
    Ok(())
}

#[tokio::test]
async fn label_and_field_selectors_are_combined() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let client = server.tenant("t1").await?;
    for (name, app) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let object = json!({"metadata": {"name": name, "labels": {"app": app}}});
        client.post(MAPS, &object).await?;
    }
    let query = "labelSelector=app%3Dx&fieldSelector=metadata.name!%3Da";
    assert_eq!(list_names(&client, MAPS, query).await?, ["b"]);
    Ok(())
}
