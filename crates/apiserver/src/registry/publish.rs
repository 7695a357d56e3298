//! Published definitions: custom resource definitions of the system that tenants see as
//! read-only objects of their own spaces.
//!
//! They are stored once. A tenant with a definition of the same name sees its own.
//!
//! ```text
//! overlay     watches of published and own definitions
//! sharing     which tenants a list of all spaces includes
//! holders     which tenants have objects
//! rules       what tenants must not change, and the system not while tenants have objects
//! ```

mod holders;
mod overlay;
mod rules;
mod sharing;

use std::sync::Arc;

use insula_core::{Revision, Space};
use memchr::memmem;

pub use overlay::Overlay;
pub use rules::{
    Act, absent, admit, check_withdrawal, confirm_withdrawal, deletion_warning, is_withdrawal,
};
pub use sharing::Sharing;

use crate::registry::apis::definition_address;
use crate::registry::resource::Resource;
use crate::registry::{Address, Registry};
use insula_cache::is_published;
use insula_cache::{Cache, Lost, Stored};

/// Whether published objects of this kind are visible in this space.
pub fn concerns(kind: &Resource, space: &Space) -> bool {
    kind.is(insula_cache::definitions()) && !space.is_system()
}

/// Returns the published definition at an address without a stored object.
pub fn find(registry: &Registry, address: &Address) -> Option<Arc<Stored>> {
    if !concerns(&address.kind, &address.space) {
        return None;
    }
    let published = registry.cached(&definition_address(&Space::System, &address.name));
    let published = published.filter(|definition| is_published(definition))?;
    Some(shown(&published, &address.space))
}

impl Registry {
    /// Returns the object at an address from the cache: the stored, the built-in or the
    /// published one.
    pub fn seen(&self, address: &Address) -> Option<Arc<Stored>> {
        self.cached(address).or_else(|| find(self, address))
    }
}

/// Returns the definitions that a tenant sees as of `revision`, in key order.
pub fn at(cache: &Cache, space: &Space, revision: Revision) -> Result<Vec<Arc<Stored>>, Lost> {
    let system = cache.collection(insula_cache::definitions(), &Space::System);
    let mut all = match cache.find(insula_cache::definitions(), space) {
        Some(own) => own.at(revision)?,
        None => Vec::new(),
    };
    let own = all.len();
    for definition in system.at(revision)? {
        let hidden = all[..own].binary_search_by(|own| own.key.cmp(&definition.key));
        if hidden.is_err() && is_published(&definition) {
            all.push(shown(&definition, space));
        }
    }
    all.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(all)
}

/// Whether the definition is the tenant's own.
pub fn is_own(registry: &Registry, space: &Space, definition: &Stored) -> bool {
    let own = registry.cached(&definition_address(space, definition.name()));
    own.is_some_and(|own| own.uid() == definition.uid())
}

/// Returns a definition of the system as an object of a tenant's space. Definitions are large
/// and tenants many, so the JSON is edited in place instead of parsed.
pub(crate) fn shown(definition: &Stored, space: &Space) -> Arc<Stored> {
    const MARK: &[u8] = br#""selfLink":""#;
    let body = &definition.body();
    let address = definition_address(space, definition.name());
    let tenant = space.tenant().map_or("", |tenant| tenant.as_str());
    let place = format!(
        r#""tenant":"{tenant}","selfLink":"{}","#,
        address.self_link()
    );
    // Only names precede it, and they contain no quotes.
    let link = memmem::find(body, MARK);
    let (start, end) = match link {
        Some(start) => {
            let rest = &body[start + MARK.len()..];
            let length = memmem::find(rest, br#"","#).map_or(rest.len(), |length| length + 2);
            (start, start + MARK.len() + length)
        }
        None => {
            let uid = memmem::find(body, br#""uid":""#).unwrap_or(0);
            (uid, uid)
        }
    };
    let text = [&body[..start], place.as_bytes(), &body[end..]].concat();
    Arc::new(definition.shown_as(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"foos.ex.io","selfLink":"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos.ex.io","uid":"u-1","annotations":{"multi-tenancy.k8s.io/published":"true","a":"\"selfLink\":\"x\","}},"spec":{}}"#;

    #[test]
    fn published_definition_differs_only_in_tenant_and_self_link() {
        let system = Stored::new("foos.ex.io".into(), Revision::new(7), SYSTEM.as_bytes());
        let tenant = Space::parse("t1").unwrap();
        let (mut seen, mut wanted) = (shown(&system, &tenant).tree(), system.tree());
        let place = seen["metadata"].as_object_mut().unwrap();
        assert_eq!(place.remove("tenant"), Some("t1".into()));
        let link = "/apis/apiextensions.k8s.io/v1/tenants/t1/customresourcedefinitions/foos.ex.io";
        assert_eq!(place.remove("selfLink"), Some(link.into()));
        assert_eq!(place["resourceVersion"], "7");
        wanted["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("selfLink");
        assert_eq!(seen, wanted);
    }
}
