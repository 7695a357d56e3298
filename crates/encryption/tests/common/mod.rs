//! What the tests of encrypted stores share.

use std::sync::Arc;

use insula_core::{Layout, TenantName};
use insula_encryption::key_storage::KeyStorage;
use insula_encryption::{Config, EncryptedStore, Location, Owner, Resolver};
use insula_store::Store;

/// A configuration with keys of these names, for these resources. The secret of a key is its name,
/// repeated.
pub fn config(keys: &[&str], resources: &str) -> Config {
    use base64::Engine;
    let secret = |name: &str| {
        let secret: Vec<u8> = name.bytes().cycle().take(32).collect();
        base64::engine::general_purpose::STANDARD.encode(secret)
    };
    let keys: Vec<_> = keys
        .iter()
        .map(|name| format!("{{name: {name}, secret: {}}}", secret(name)))
        .collect();
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [{resources}]\n  providers:\n  - aesgcm: {{keys: [{}]}}\n  - identity: {{}}\n",
        keys.join(", ")
    );
    Config::parse(&text).unwrap()
}

/// Keys `/registry/{resource}/{tenant}/{name}` for tenants with names that begin with `t`; all other
/// keys belong to the system. The UID of a tenant is `uid-{name}`.
pub struct TestResolver;

impl Resolver for TestResolver {
    fn locate<'a>(&self, key: &'a [u8]) -> Option<Location<'a>> {
        let key = std::str::from_utf8(key).ok().unwrap_or("/registry/other/x");
        if Layout::default().encryption_record_name(key).is_some() {
            return None;
        }
        let segments: Vec<_> = key
            .strip_prefix("/registry/")
            .unwrap_or("other")
            .split('/')
            .collect();
        let tenant = |name: &str| TenantName::parse(name).unwrap();
        let owner = match segments[..] {
            ["tenants", name] => Owner::TenantObject(tenant(name)),
            [_, name, _] if name.starts_with('t') => Owner::Tenant(tenant(name)),
            _ => Owner::System,
        };
        Some(Location {
            group: "",
            resource: segments[0],
            owner,
        })
    }

    fn tenant_uid(&self, tenant: &TenantName) -> Option<String> {
        Some(format!("uid-{tenant}"))
    }
}

pub async fn open(
    inner: Arc<dyn Store>,
    storage: Arc<dyn KeyStorage>,
    keys: &[&str],
    resources: &str,
) -> Arc<EncryptedStore> {
    let opened = EncryptedStore::open(inner, storage, Layout::default(), &config(keys, resources))
        .await
        .unwrap();
    opened.attach(Arc::new(TestResolver));
    opened
}
