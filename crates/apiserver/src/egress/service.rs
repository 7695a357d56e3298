//! The backend of a service.
//!
//! There is no data plane that forwards traffic for a service's address. So a service is
//! resolved from its objects, in this order: the name of an `ExternalName`; a ready address
//! of one of its EndpointSlices; an address of its Endpoints; its cluster IP, for networks
//! that route it.

use std::net::IpAddr;
use std::sync::Arc;

use insula_core::Space;
use insula_kinds::{Object, Value, kinds};

use insula_cache::{Cache, Stored};
use insula_kinds::core_kind;

/// Resolves services.
pub trait Services: Send + Sync {
    /// Returns the backend of a service's port in a space. The error is a message.
    fn resolve(
        &self,
        space: &Space,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<Backend, String>;
}

/// The backend of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A host by name or address, which is yet to be checked.
    Host(String, u16),
    /// The cluster IP of a service without endpoints. Only a network of the server's machine that
    /// routes such addresses leads anywhere.
    ClusterIp(String, u16),
}

impl Backend {
    /// Returns the host and the port.
    pub fn address(&self) -> (&str, u16) {
        match self {
            Self::Host(host, port) | Self::ClusterIp(host, port) => (host, *port),
        }
    }
}

/// Returns the error of a service that no endpoints are known of.
pub(super) fn no_endpoints(service: &str) -> String {
    format!(
        "no endpoints available for service \"{service}\": nothing runs pods here, so give the \
         service an EndpointSlice with the address of a webhook that runs elsewhere, or the \
         webhook a url"
    )
}

/// The label that assigns an EndpointSlice to a service.
const SERVICE: &str = "kubernetes.io/service-name";

impl Services for Cache {
    fn resolve(
        &self,
        space: &Space,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<Backend, String> {
        let find = |resource: &str| {
            let collection = self.find(core_kind(resource), space)?;
            collection.get(&format!("{namespace}/{name}"))
        };
        let found = find("services").ok_or_else(|| format!("service \"{name}\" not found"))?;
        let slices = slices(self, space, namespace);
        let slices = slices.iter().map(|slice| slice.tree());
        let slices = slices.filter(|slice| belongs(slice, name)).collect();
        let of = Known {
            service: found.tree(),
            slices,
            endpoints: find("endpoints").map(|endpoints| endpoints.tree()),
        };
        of.backend(name, port)
    }
}

fn slices(cache: &Cache, space: &Space, namespace: &str) -> Vec<Arc<Stored>> {
    let kind = kinds().find("discovery.k8s.io", "v1", "endpointslices");
    let collection = kind.and_then(|kind| cache.find(kind, space));
    let prefix = format!("{namespace}/");
    collection.map_or_else(Vec::new, |all| all.snapshot(&prefix, None).objects)
}

fn belongs(slice: &Object, service: &str) -> bool {
    let labels = slice.get("metadata").and_then(|meta| meta.get("labels"));
    labels.and_then(|labels| labels.get(SERVICE)?.as_str()) == Some(service)
}

/// The objects of a service.
struct Known {
    service: Object,
    slices: Vec<Object>,
    endpoints: Option<Object>,
}

impl Known {
    fn backend(&self, name: &str, port: u16) -> Result<Backend, String> {
        let spec = self.service.get("spec").unwrap_or(&Value::Null);
        if spec["type"] == "ExternalName" {
            let host = spec["externalName"].as_str().unwrap_or_default();
            return Ok(Backend::Host(host.to_owned(), port));
        }
        let mut ports = list(&spec["ports"]);
        let known = ports.find(|one| one["port"].as_u64() == Some(u64::from(port)));
        let missing = || format!("no service port {port} found for service \"{name}\"");
        let called = known.ok_or_else(missing)?["name"]
            .as_str()
            .unwrap_or_default();
        let slices = self.slices.iter();
        let ready = slices.filter_map(|slice| in_slice(slice, called)).next();
        let ready = ready.or_else(|| in_endpoints(self.endpoints.as_ref()?, called));
        if let Some((address, port)) = ready {
            return Ok(Backend::Host(address, port));
        }
        let address = spec["clusterIP"].as_str().unwrap_or_default();
        match address.parse::<IpAddr>() {
            Ok(_) => Ok(Backend::ClusterIp(address.to_owned(), port)),
            Err(_) => Err(no_endpoints(name)),
        }
    }
}

fn in_slice(slice: &Object, called: &str) -> Option<(String, u16)> {
    let port = named_port(slice.get("ports")?, called)?;
    let mut endpoints = list(slice.get("endpoints")?);
    // An endpoint without the condition is ready.
    let ready = endpoints.find(|one| one["conditions"]["ready"] != false)?;
    let address = list(&ready["addresses"]).next()?.as_str()?;
    Some((address.to_owned(), port))
}

fn in_endpoints(endpoints: &Object, called: &str) -> Option<(String, u16)> {
    list(endpoints.get("subsets")?).find_map(|subset| {
        let port = named_port(&subset["ports"], called)?;
        let address = list(&subset["addresses"]).next()?["ip"].as_str()?;
        Some((address.to_owned(), port))
    })
}

fn named_port(ports: &Value, called: &str) -> Option<u16> {
    let name = |port: &&Value| port["name"].as_str().unwrap_or_default() == called;
    let port = list(ports).find(name)?["port"].as_u64()?;
    u16::try_from(port).ok()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    fn resolved(service: Value, slices: &[Value], endpoints: Value) -> Result<Backend, String> {
        let known = Known {
            service: object(service),
            slices: slices.iter().cloned().map(object).collect(),
            endpoints: endpoints.as_object().cloned(),
        };
        known.backend("s", 443)
    }

    #[test]
    fn service_is_resolved_from_its_objects_in_order() {
        let service = json!({"spec": {
            "clusterIP": "10.0.0.9", "ports": [{"name": "web", "port": 443}],
        }});
        let slice = |ready: Value| {
            json!({
                "endpoints": [
                    {"addresses": ["192.0.2.1"], "conditions": {"ready": ready}},
                ],
                "ports": [{"name": "other", "port": 1}, {"name": "web", "port": 8443}],
            })
        };
        let endpoints = json!({"subsets": [
            {"addresses": [{"ip": "192.0.2.2"}], "ports": [{"name": "web", "port": 9443}]},
        ]});
        let host = |host: &str, port| Ok(Backend::Host(host.to_owned(), port));
        for (slices, endpoints, expected) in [
            (
                vec![slice(json!(true))],
                &endpoints,
                host("192.0.2.1", 8443),
            ),
            (
                vec![slice(Value::Null)],
                &endpoints,
                host("192.0.2.1", 8443),
            ),
            (
                vec![slice(json!(false))],
                &endpoints,
                host("192.0.2.2", 9443),
            ),
            (
                vec![],
                &Value::Null,
                Ok(Backend::ClusterIp("10.0.0.9".to_owned(), 443)),
            ),
        ] {
            let found = resolved(service.clone(), &slices, endpoints.clone());
            assert_eq!(found, expected);
        }
        let external = json!({"spec": {"type": "ExternalName", "externalName": "a.test"}});
        let found = resolved(external, &[], Value::Null);
        assert_eq!(found, host("a.test", 443));
    }

    #[test]
    fn unresolvable_service_has_an_error_message() {
        let headless = json!({"spec": {"clusterIP": "None", "ports": [{"port": 443}]}});
        let none = "no endpoints available for service \"s\": nothing runs pods here, so give \
                    the service an EndpointSlice with the address of a webhook that runs \
                    elsewhere, or the webhook a url";
        let none = Err(none.to_owned());
        assert_eq!(resolved(headless, &[], Value::Null), none);
        let other = json!({"spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 80}]}});
        let none = Err("no service port 443 found for service \"s\"".to_owned());
        assert_eq!(resolved(other, &[], Value::Null), none);
    }
}
