//! A minimal walk through create, read and watch.

use insula_testkit::server::TestServer;
use serde_json::json;

#[tokio::test]
async fn objects_of_equal_name_are_created_read_and_watched_in_two_spaces() -> anyhow::Result<()> {
    let server = TestServer::start().await?;
    let (one, other) = (server.tenant("t1").await?, server.tenant("t2").await?);
    let path = "/api/v1/namespaces/default/configmaps";
    let mut watch = one.watch(&format!("{path}?watch=true")).await?;
    for (client, value) in [(&one, "1"), (&other, "2")] {
        let object = json!({"metadata": {"name": "same"}, "data": {"of": value}});
        let created = client.post(path, &object).await?;
        assert_eq!(created.status, 201, "{}", created.text());
    }
    let event = watch.next().await?.unwrap_or_default();
    assert_eq!(event["type"], "ADDED");
    assert_eq!(event["object"]["metadata"]["tenant"], "t1");
    assert_eq!(event["object"]["data"]["of"], "1");
    assert_eq!(
        event["object"]["metadata"]["selfLink"],
        "/api/v1/tenants/t1/namespaces/default/configmaps/same"
    );
    let found = other.get(&format!("{path}/same")).await?.json();
    assert_eq!(found["data"]["of"], "2");
    let list = one.get(path).await?.json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    Ok(())
}
