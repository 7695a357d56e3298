//! Imports from a fake Azure.

use std::collections::BTreeMap;

use insula_azure::arm::Progress;
use insula_azure::entra::Cleartext;
use insula_azure::import::children::{Tree, read_tree};
use insula_azure::import::{Import, ImportError, open_session};
use insula_testkit::azure::{FakeAzure, Fault};
use serde_json::{Value, json};

const GROUP: &str = "/subscriptions/sub/resourceGroups/group";
const NETWORK: &str = "/subscriptions/sub/resourceGroups/group/providers/Microsoft.Network/\
                       virtualNetworks/Net_One";
const CLIENT: &str = "reader";
const SECRET: &str = "s3cret-of-the-reader";

struct Scene {
    azure: FakeAzure,
    authorities: Vec<Vec<u8>>,
}

impl Scene {
    async fn start() -> anyhow::Result<Self> {
        let azure = FakeAzure::start().await?;
        azure.add_secret("tenant", CLIENT, SECRET);
        azure.add_subscription("sub", "tenant", &[CLIENT]);
        let authorities = pem::parse_many(azure.ca_pem())?;
        let authorities = authorities.into_iter().map(|it| it.into_contents());
        let scene = Self {
            authorities: authorities.collect(),
            azure,
        };
        scene.put(GROUP, json!({"location": "westus"})).await?;
        let network = json!({
            "location": "westus",
            "tags": {"team": "a"},
            "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/16"]}},
        });
        scene.put(NETWORK, network).await?;
        Ok(scene)
    }

    /// Creates a resource that the operator does not know.
    async fn put(&self, id: &str, body: Value) -> anyhow::Result<()> {
        let import = id.parse::<insula_azure::arm::ResourceId>()?;
        let session = self.session(SECRET, &import).await?;
        let api_version = match id {
            GROUP => "2020-06-01",
            _ => "2025-03-01",
        };
        let client = session.client();
        let mut progress = client.put(&import, api_version, &body).await?.progress;
        while let Progress::InProgress { token, .. } = progress {
            progress = client.poll(token).await?.progress;
        }
        Ok(())
    }

    fn environment(&self, secret: &str) -> BTreeMap<String, String> {
        let own = [
            ("AZURE_TENANT_ID", "tenant"),
            ("AZURE_CLIENT_ID", CLIENT),
            ("AZURE_CLIENT_SECRET", secret),
            // Settings of an operator do not matter.
            ("AZURE_OPERATOR_MODE", "webhooks"),
        ];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let endpoints = self.azure.settings().into_iter();
        let endpoints = endpoints.map(|(name, value)| (name.to_owned(), value));
        own.into_iter().chain(endpoints).collect()
    }

    async fn session(
        &self,
        secret: &str,
        id: &insula_azure::arm::ResourceId,
    ) -> Result<insula_azure::arm::Session, ImportError> {
        let (environment, authorities) = (self.environment(secret), self.authorities.clone());
        open_session(environment, id, authorities, Cleartext::Refused).await
    }

    async fn import(&self, id: &str, version: Option<&str>) -> anyhow::Result<Value> {
        self.import_with(SECRET, id, version).await
    }

    async fn import_with(
        &self,
        secret: &str,
        id: &str,
        version: Option<&str>,
    ) -> anyhow::Result<Value> {
        let id: insula_azure::arm::ResourceId = id.parse()?;
        let session = self.session(secret, &id).await?;
        let import = Import::find(id, version)?;
        let definition = import.own_definition();
        Ok(import.read(&session, definition).await?)
    }

    async fn import_tree(&self, id: &str) -> anyhow::Result<Tree> {
        let id: insula_azure::arm::ResourceId = id.parse()?;
        let session = self.session(SECRET, &id).await?;
        let import = Import::find(id, None)?;
        // No definition is installed besides the program's own.
        Ok(read_tree(import, &session, async |_: &str| None).await?)
    }
}

/// Returns kind, name and owner of objects.
fn outline(tree: &Tree) -> Vec<(String, String, Value)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let objects = tree.objects.iter();
    let outlined = objects.map(|object| {
        let name = text(&object["metadata"]["name"]);
        (text(&object["kind"]), name, object["spec"]["owner"].clone())
    });
    outlined.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r30_children_are_imported_with_owners_by_name() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let authorization = "providers/Microsoft.Authorization/roleAssignments";
    let account = format!("{GROUP}/providers/Microsoft.Storage/storageAccounts/data");
    let location = json!({"location": "westus"});
    for (id, body) in [
        (format!("{NETWORK}/subnets/a"), json!({})),
        (format!("{NETWORK}/subnets/B_c"), json!({})),
        (format!("{NETWORK}/subnets/b-c"), json!({})),
        (account.clone(), location.clone()),
        (format!("{account}/blobServices/default"), json!({})),
        (
            format!("{account}/blobServices/default/containers/logs"),
            json!({}),
        ),
        (
            format!("{account}/{authorization}/{}", "1".repeat(8)),
            json!({"properties": {"principalId": "p"}}),
        ),
        (
            format!("{GROUP}/{authorization}/{}", "2".repeat(8)),
            json!({"properties": {"principalId": "p"}}),
        ),
        (
            format!("{GROUP}/providers/Contoso.Shop/baskets/b"),
            location.clone(),
        ),
    ] {
        scene.put(&id, body).await?;
    }
    scene.azure.set_page_size(1);
    let tree = scene.import_tree(GROUP).await?;
    let by_name = |name: &str| json!({ "name": name });
    let of_any =
        |group: &str, kind: &str, name: &str| json!({"group": group, "kind": kind, "name": name});
    let subnet = "VirtualNetworksSubnet";
    let found = outline(&tree);
    let mut names = found.iter().map(|(_, name, _)| name.clone());
    let distinct = names.find(|name| name.starts_with("net-one-b-c-"));
    let distinct = distinct.unwrap_or_default();
    let expected = [
        ("ResourceGroup", "group", Value::Null),
        (
            "RoleAssignment",
            "22222222",
            of_any("resources.azure.com", "ResourceGroup", "group"),
        ),
        ("VirtualNetwork", "net-one", by_name("group")),
        ("StorageAccount", "data", by_name("group")),
        (subnet, "net-one-a", by_name("net-one")),
        (subnet, "net-one-b-c", by_name("net-one")),
        (subnet, distinct.as_str(), by_name("net-one")),
        (
            "RoleAssignment",
            "11111111",
            of_any("storage.azure.com", "StorageAccount", "data"),
        ),
        (
            "StorageAccountsBlobService",
            "data-default",
            by_name("data"),
        ),
        (
            "StorageAccountsBlobServicesContainer",
            "data-default-logs",
            by_name("data-default"),
        ),
    ];
    let expected = expected.map(|(kind, name, owner)| (kind.to_owned(), name.to_owned(), owner));
    let (mut found, mut expected) = (found, expected.to_vec());
    found.sort_by_key(|one| format!("{one:?}"));
    expected.sort_by_key(|one| format!("{one:?}"));
    assert_eq!(found, expected);
    let types: Vec<_> = tree.without_kind.iter().collect();
    assert_eq!(types, ["Contoso.Shop/baskets"]);
    assert!(tree.failures.is_empty(), "{:?}", tree.failures);
    // The root keeps its owner, which is not imported.
    let tree = scene.import_tree(NETWORK).await?;
    assert_eq!(tree.objects[0]["spec"]["owner"], json!({"armId": GROUP}));
    assert_eq!(tree.objects.len(), 4);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r30_list_that_may_not_be_read_is_reported_and_the_rest_is_imported() -> anyhow::Result<()>
{
    let scene = Scene::start().await?;
    let subnets = format!("{NETWORK}/subnets");
    scene.put(&format!("{subnets}/a"), json!({})).await?;
    let fault = Fault::arm("GET", &subnets).error(403, "AuthorizationFailed", "no right");
    scene.azure.inflict(fault);
    let tree = scene.import_tree(NETWORK).await?;
    assert_eq!(outline(&tree).len(), 1);
    let texts: Vec<_> = tree.failures.iter().map(ToString::to_string).collect();
    let of = "Microsoft.Network/virtualNetworks/subnets";
    let expected = format!("cannot read {of} of {NETWORK}: AuthorizationFailed: no right ");
    assert!(
        texts.len() == 1 && texts[0].starts_with(&expected),
        "{texts:?}"
    );
    let hint = "give the client the role Reader for the resource";
    assert_eq!(tree.failures[0].hint(), Some(hint));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resource_becomes_a_custom_resource_with_the_fields_that_users_set() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let expected = json!({
        "apiVersion": "network.azure.com/v20250301",
        "kind": "VirtualNetwork",
        "metadata": {"name": "net-one"},
        "spec": {
            "azureName": "Net_One",
            "location": "westus",
            "owner": {"armId": GROUP},
            "tags": {"team": "a"},
            "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
            // A default of Azure that users can change.
            "enableDdosProtection": false,
        },
    });
    assert_eq!(scene.import(NETWORK, None).await?, expected);
    let older = scene.import(NETWORK, Some("v1api20240301")).await?;
    assert_eq!(older["apiVersion"], "network.azure.com/v1api20240301");
    assert_eq!(older["spec"], expected["spec"]);
    let group = scene.import(GROUP, None).await?;
    assert_eq!(
        group["spec"],
        json!({"azureName": "group", "location": "westus"})
    );
    let reads = scene.azure.requests();
    assert!(
        reads
            .iter()
            .all(|call| call.method == "GET" || call.method == "PUT")
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_say_what_to_do_and_have_no_secret() -> anyhow::Result<()> {
    let scene = Scene::start().await?;
    let missing = NETWORK.replace("Net_One", "missing");
    let denied = NETWORK.replace("/sub/", "/other/");
    let wrong = "another-s3cret";
    for (secret, id, part) in [
        (SECRET, missing.as_str(), "cannot read /subscriptions/sub/"),
        (SECRET, denied.as_str(), "cannot read /subscriptions/other/"),
        (wrong, NETWORK, "cannot read /subscriptions/sub/"),
    ] {
        let failed = scene.import_with(secret, id, None).await;
        let error = failed.err().ok_or_else(|| anyhow::anyhow!("{id}"))?;
        let error: ImportError = error.downcast()?;
        let text = error.to_string();
        assert!(text.starts_with(part), "{text}");
        assert!(!text.contains(secret), "{text}");
        assert!(error.hint().is_some(), "{text}");
    }
    let id = NETWORK.parse()?;
    let none = open_session(BTreeMap::new(), &id, Vec::new(), Cleartext::Refused).await;
    // Without variables it is the managed identity of the machine.
    assert!(none.is_ok());
    Ok(())
}
