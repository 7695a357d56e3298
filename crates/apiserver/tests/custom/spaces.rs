//! One resource name with a different definition in each space, before and after a restart.

use std::sync::Arc;

use insula_store::Store;
use insula_store::embedded::{self, Embedded};
use insula_store::memory::Memory;
use insula_testkit::server::{Client, DEFINITIONS, Setup, TestServer};
use serde_json::{Value, json};

use super::foo;
use super::samples::{create, names};

/// One space's definition of `foos.ex.io`.
struct Variant {
    token: &'static str,
    scope: &'static str,
    version: &'static str,
    /// The only field of its spec.
    field: &'static str,
    of: &'static str,
}

const VARIANTS: [Variant; 3] = [
    Variant {
        token: "t1",
        scope: "Namespaced",
        version: "v1",
        field: "text",
        of: "string",
    },
    Variant {
        token: "t2",
        scope: "Cluster",
        version: "v1",
        field: "number",
        of: "integer",
    },
    Variant {
        token: "system",
        scope: "Namespaced",
        version: "v2beta1",
        field: "flag",
        of: "boolean",
    },
];

impl Variant {
    fn definition(&self) -> Value {
        let mut definition = super::samples::foos_with_all();
        definition["spec"]["scope"] = self.scope.into();
        let version = &mut definition["spec"]["versions"][0];
        version["name"] = self.version.into();
        let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        *spec = json!({"replicas": {"type": "integer"}});
        spec[self.field] = json!({"type": self.of, "description": format!("As {}.", self.token)});
        version["additionalPrinterColumns"] = json!([{"name": self.field, "type": self.of, "jsonPath": format!(".spec.{}", self.field)}]);
        definition
    }

    fn value(&self) -> Value {
        match self.of {
            "string" => json!("a"),
            "integer" => json!(1),
            _ => json!(true),
        }
    }

    fn path(&self) -> String {
        let namespace = if self.scope == "Cluster" {
            ""
        } else {
            "namespaces/default/"
        };
        format!("/apis/ex.io/{}/{namespace}foos", self.version)
    }

    fn object(&self, name: &str) -> Value {
        let mut object = foo(name, json!({self.field: self.value()}));
        object["apiVersion"] = format!("ex.io/{}", self.version).into();
        object
    }

    /// Checks everything that shows how the space serves its kind.
    async fn check(&self, client: &Client, wanted: &[&str]) -> anyhow::Result<()> {
        let who = self.token;
        let list = client.get(&self.path()).await?.json();
        assert_eq!(names(&list), wanted, "{who}: {list}");
        for item in list["items"].as_array().into_iter().flatten() {
            assert_eq!(item["spec"], json!({self.field: self.value()}), "{who}");
        }
        let group = client.get("/apis/ex.io").await?.json();
        let versions = group["versions"].as_array().cloned().unwrap_or_default();
        let versions: Vec<_> = versions.iter().map(|one| one["version"].clone()).collect();
        assert_eq!(versions, [json!(self.version)], "{who}");
        let resources = client
            .get(&format!("/apis/ex.io/{}", self.version))
            .await?
            .json();
        assert_eq!(
            resources["resources"][0]["namespaced"],
            self.scope != "Cluster",
            "{who}"
        );
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let all = client.accept("/apis", accept).await?.text();
        let scope = if self.scope == "Cluster" {
            "Cluster"
        } else {
            "Namespaced"
        };
        let group = all.split("\"name\":\"ex.io\"").nth(1).unwrap_or("");
        assert!(
            group.contains(&format!("\"version\":\"{}\"", self.version)),
            "{who}: {group}"
        );
        assert!(
            group.contains(&format!("\"scope\":\"{scope}\"")),
            "{who}: {group}"
        );
        let table = client
            .accept(&self.path(), "application/json;as=Table;v=v1;g=meta.k8s.io")
            .await?;
        assert_eq!(
            table.json()["columnDefinitions"][1]["name"],
            self.field,
            "{who}"
        );
        let document = client
            .get(&format!("/openapi/v3/apis/ex.io/{}", self.version))
            .await?;
        assert_eq!(document.status, 200, "{who}: {}", document.text());
        let schemas = &document.json()["components"]["schemas"];
        let schema = &schemas[format!("io.ex.{}.Foo", self.version)]["properties"]["spec"];
        let described = &schema["properties"][self.field]["description"];
        assert_eq!(described, &json!(format!("As {who}.")), "{who}: {schema}");
        let second = client.get("/openapi/v2").await?.text();
        for other in &VARIANTS {
            let reported = format!("As {}.", other.token);
            assert_eq!(
                second.contains(&reported),
                other.token == who,
                "{who}: {reported}"
            );
            assert_eq!(
                document.text().contains(&reported),
                other.token == who,
                "{who}: {reported}"
            );
        }
        self.assert_others_not_served(client).await
    }

    /// Asserts that the other spaces' kinds are not served here.
    async fn assert_others_not_served(&self, client: &Client) -> anyhow::Result<()> {
        for other in VARIANTS.iter().filter(|other| other.token != self.token) {
            let answer = client
                .post(
                    &format!("{}?dryRun=All&fieldValidation=Strict", other.path()),
                    &other.object("z"),
                )
                .await?;
            let wanted = if other.version == self.version {
                [400, 404, 405]
            } else {
                [404; 3]
            };
            assert!(
                wanted.contains(&answer.status),
                "{}: {}",
                self.token,
                answer.text()
            );
            let one = client.get(&format!("{}/{}", other.path(), "a")).await?;
            let same_place = other.version == self.version && other.scope == self.scope;
            assert_eq!(
                one.status == 404,
                !same_place,
                "{} {}",
                self.token,
                other.path()
            );
        }
        Ok(())
    }
}

async fn clients(server: &TestServer) -> anyhow::Result<Vec<Client>> {
    server.tenant("t1").await?;
    server.tenant("t2").await?;
    let mut clients = Vec::new();
    for way in &VARIANTS {
        clients.push(server.client(way.token).await?);
    }
    Ok(clients)
}

/// Defines the kinds, uses them, restarts, uses them again and deletes one.
async fn run_lifecycle(
    store: Arc<dyn Store>,
    again: impl AsyncFnOnce(Arc<dyn Store>) -> anyhow::Result<Arc<dyn Store>>,
) -> anyhow::Result<()> {
    let mut server =
        TestServer::start_on_store(Arc::clone(&store), Setup::with_controllers()).await?;
    let all = clients(&server).await?;
    let defined = VARIANTS.iter().zip(&all);
    futures_util::future::try_join_all(
        defined.map(|(way, client)| async { client.define(&way.definition()).await }),
    )
    .await?;
    for (way, client) in VARIANTS.iter().zip(&all) {
        create(client, &way.path(), &way.object("a")).await?;
    }
    for (way, client) in VARIANTS.iter().zip(&all) {
        way.check(client, &["a"]).await?;
    }
    drop(all);
    server.stop().await;
    drop(server);
    let store = again(store).await?;
    let server = TestServer::start_on_store(store, Setup::with_controllers()).await?;
    let all = clients(&server).await?;
    for (way, client) in VARIANTS.iter().zip(&all) {
        way.check(client, &["a"]).await?;
        create(client, &way.path(), &way.object("b")).await?;
        way.check(client, &["a", "b"]).await?;
    }
    // One definition is deleted; the others are unaffected.
    for gone in 0..VARIANTS.len() - 1 {
        let path = format!("{DEFINITIONS}/foos.ex.io");
        assert_eq!(all[gone].delete(&path).await?.status, 200);
        all[gone].until_gone(&path).await?;
        assert_eq!(all[gone].get(&VARIANTS[gone].path()).await?.status, 404);
        assert_eq!(all[gone].get("/apis/ex.io").await?.status, 404);
        for left in gone + 1..VARIANTS.len() {
            VARIANTS[left].check(&all[left], &["a", "b"]).await?;
        }
    }
    let keys = server.keys().await?;
    let keys: Vec<_> = keys
        .iter()
        .filter(|key| key.starts_with("/registry/ex.io/"))
        .collect();
    assert_eq!(
        keys,
        [
            "/registry/ex.io/foos/default/a",
            "/registry/ex.io/foos/default/b"
        ]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i15_same_name_can_be_defined_differently_in_each_space() -> anyhow::Result<()> {
    run_lifecycle(Arc::new(Memory::new()), async |store| Ok(store)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i15_definitions_of_the_same_name_survive_a_restart() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().to_owned();
    let open = async || -> anyhow::Result<Arc<dyn Store>> {
        let opened = Embedded::open(path.clone(), embedded::Options::default()).await?;
        let store: Arc<dyn Store> = Arc::new(opened);
        Ok(store)
    };
    run_lifecycle(open().await?, async |store| {
        drop(store);
        open().await
    })
    .await
}

/// The system sees a tenant's definitions in paths of that tenant only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_kinds_are_served_in_their_space_only() -> anyhow::Result<()> {
    let server = TestServer::start_with_controllers().await?;
    let all = clients(&server).await?;
    let system = &all[2];
    for (way, client) in VARIANTS.iter().zip(&all).take(2) {
        client.define(&way.definition()).await?;
        create(client, &way.path(), &way.object("own")).await?;
    }
    for path in [
        "/apis/ex.io/v1/tenants/all/foos",
        "/apis/ex.io/v1/namespaces/default/foos",
        "/apis/ex.io/v1/foos",
        "/apis/ex.io",
    ] {
        assert_eq!(system.get(path).await?.status, 404, "{path}");
    }
    for (path, spec) in [
        ("/apis/ex.io/v1/tenants/t2/foos", json!({"number": 1})),
        ("/tenants/t2/apis/ex.io/v1/foos", json!({"number": 1})),
        ("/tenants/t1/apis/ex.io/v1/foos", json!({"text": "a"})),
        (
            "/apis/ex.io/v1/tenants/t1/namespaces/default/foos",
            json!({"text": "a"}),
        ),
    ] {
        let list = system.get(path).await?.json();
        assert_eq!(names(&list), ["own"], "{path}");
        assert_eq!(list["items"][0]["spec"], spec, "{path}");
    }
    Ok(())
}
