//! `insula azure import`.

use insula_testkit::azure::FakeAzure;
use serde_json::json;

use crate::process::output;

const GROUP: &str = "/subscriptions/sub/resourceGroups/Shop_1";

#[tokio::test]
async fn r30_resources_are_printed_with_their_children_and_failures_have_hints() {
    let azure = FakeAzure::start().await.unwrap();
    azure.add_secret("tenant", "reader", "s3cret");
    azure.add_subscription("sub", "tenant", &["reader"]);
    azure.add_subscription("other", "tenant", &[]);
    let network = format!("{GROUP}/providers/Microsoft.Network/virtualNetworks/net");
    azure.add_resource(GROUP, json!({"location": "westus"}));
    azure.add_resource(&network, json!({"location": "westus"}));
    let prefix = json!({"properties": {"addressPrefix": "10.0.1.0/24"}});
    azure.add_resource(&format!("{network}/subnets/front"), prefix);
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, azure.ca_pem()).unwrap();
    let (ca_file, none) = (ca_file.to_str().unwrap(), folder.path().join("none"));
    let settings = azure.settings();
    let mut env = vec![
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "reader"),
        ("AZURE_CLIENT_SECRET", "s3cret"),
    ];
    env.extend(settings.iter().map(|(name, value)| (*name, value.as_str())));
    let import = async |id: &str, arguments: &[&str]| {
        let arguments = [&["azure", "import", id, "--ca-file", ca_file], arguments].concat();
        let output = output(&none, &arguments, &env).await;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, yaml, errors) = import(GROUP, &["--with-children", "-n", "red"]).await;
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let expected = "\
---
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata:
  name: shop-1
  namespace: red
spec:
  azureName: Shop_1
  location: westus
---
apiVersion: network.azure.com/v20250301
kind: VirtualNetwork
metadata:
  name: net
  namespace: red
spec:
  azureName: net
  enableDdosProtection: false
  location: westus
  owner:
    name: shop-1
---
apiVersion: network.azure.com/v20250301
kind: VirtualNetworksSubnet
metadata:
  name: net-front
  namespace: red
spec:
  addressPrefix: 10.0.1.0/24
  azureName: front
  owner:
    name: net
  privateEndpointNetworkPolicies: Disabled
  privateLinkServiceNetworkPolicies: Enabled
";
    assert_eq!(yaml, expected);
    let missing = format!("{GROUP}-2");
    let denied = GROUP.replace("/sub/", "/other/");
    let unknown = format!("{GROUP}/providers/Contoso.Shop/baskets/b");
    for (id, message, hint) in [
        (&missing, "ResourceGroupNotFound", "check the id"),
        (&denied, "AuthorizationFailed", "the role Reader"),
        (&unknown, "there is no kind for", "docs/azure.md"),
    ] {
        let (code, yaml, errors) = import(id, &["--with-children"]).await;
        assert_eq!((code, yaml.as_str()), (Some(1), ""), "{errors}");
        assert!(
            errors.contains(message) && errors.contains(hint),
            "{errors}"
        );
        assert!(!errors.contains("s3cret"), "{errors}");
    }
}
