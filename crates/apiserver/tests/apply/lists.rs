//! Associative lists, sets and atomic lists.

use super::*;

fn with_env(names: &[&str]) -> Value {
    let mut spec = minimal_deployment();
    let env: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "value": "1"}))
        .collect();
    spec["template"]["spec"]["containers"][0]["env"] = env.into();
    deployment(&spec)
}

fn env(object: &Value) -> Vec<&str> {
    let env = &object["spec"]["template"]["spec"]["containers"][0]["env"];
    let env = env.as_array().into_iter().flatten();
    env.filter_map(|one| one["name"].as_str()).collect()
}

#[tokio::test]
async fn applied_items_keep_their_order_among_existing_ones() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    for (number, (wanted, gives)) in [
        (&["a", "b", "c"][..], &["a", "b", "c"][..]),
        (&["d", "b"], &["a", "d", "b", "c"]),
        (&["c", "a", "b"], &["d", "c", "a", "b"]),
        (&["a", "x", "b", "c"], &["d", "a", "x", "b", "c"]),
    ]
    .into_iter()
    .enumerate()
    {
        let manager = format!("m{number}");
        let answer = apply(&client, DEPLOYMENT, &manager, &with_env(wanted)).await?;
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        assert_eq!(env(&answer.json()), gives, "{wanted:?}");
    }
    Ok(())
}

#[tokio::test]
async fn items_are_removed_with_their_last_manager() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    apply(&client, DEPLOYMENT, "one", &with_env(&["a", "b"])).await?;
    apply(&client, DEPLOYMENT, "two", &with_env(&["b", "c"])).await?;
    let answer = apply(&client, DEPLOYMENT, "one", &with_env(&[])).await?;
    assert_eq!(env(&answer.json()), ["b", "c"]);
    Ok(())
}

#[tokio::test]
async fn sets_have_unique_values_with_their_own_managers() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let with = |finalizers: &[&str]| {
        let mut object = map(&json!({"k": "v"}));
        object["metadata"]["finalizers"] = json!(finalizers);
        object
    };
    apply(&client, MAP, "one", &with(&["a.io/x", "b.io/x"])).await?;
    let answer = apply(&client, MAP, "two", &with(&["b.io/x", "c.io/x"])).await?;
    let object = answer.json();
    assert_eq!(
        object["metadata"]["finalizers"],
        json!(["a.io/x", "b.io/x", "c.io/x"])
    );
    assert_eq!(
        owners(&object)[0].1["f:metadata"],
        json!({"f:finalizers": {"v:\"a.io/x\"": {}, "v:\"b.io/x\"": {}}})
    );
    let answer = apply(&client, MAP, "one", &with(&["a.io/x"])).await?;
    let left = json!(["a.io/x", "b.io/x", "c.io/x"]);
    assert_eq!(answer.json()["metadata"]["finalizers"], left);
    let answer = apply(&client, MAP, "two", &with(&["c.io/x"])).await?;
    let left = json!(["a.io/x", "c.io/x"]);
    assert_eq!(answer.json()["metadata"]["finalizers"], left);
    Ok(())
}

#[tokio::test]
async fn ports_are_keyed_by_number_and_protocol() -> anyhow::Result<()> {
    let (_server, client) = start_tenant().await?;
    let services = "/api/v1/namespaces/default/services/s";
    let with = |ports: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"ports": ports}})
    };
    let both =
        with(json!([{"port": 53, "name": "t"}, {"port": 53, "name": "u", "protocol": "UDP"}]));
    let answer = apply(&client, services, "one", &both).await?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(
        owners(&answer.json())[0].1["f:spec"]["f:ports"],
        json!({
            "k:{\"port\":53,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}},
            "k:{\"port\":53,\"protocol\":\"UDP\"}":
                {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}},
        })
    );
    Ok(())
}
