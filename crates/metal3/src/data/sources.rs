//! The objects that values come from.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::kinds::data_template::{AnnotationSource, MacSource};
use crate::kinds::host::BareMetalHost;

/// The objects that values come from.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The machine of Cluster API.
    pub machine: &'a ObjectMeta,
    /// The machine of Metal3.
    pub metal3_machine: &'a ObjectMeta,
    /// The host.
    pub host: &'a BareMetalHost,
    /// The namespace of the data.
    pub namespace: &'a str,
    /// The index of the data.
    pub index: u32,
}

/// The addresses of a machine, by the name of the pool.
pub type Addresses = BTreeMap<String, PoolAddress>;

/// An address from a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolAddress {
    /// The address.
    pub address: String,
    /// The prefix length of its network.
    pub prefix: Option<i32>,
    /// Its gateway.
    pub gateway: Option<String>,
    /// Its DNS servers.
    pub dns_servers: Vec<String>,
}

/// Why data cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The kind of object is not known.
    #[error("object {0:?} is none of machine, metal3machine and baremetalhost")]
    UnknownObject(String),
    /// The host was not inspected.
    #[error("the host has no list of network interfaces")]
    NoInterfaces,
    /// The host has no such interface.
    #[error("the host has no network interface {0:?}")]
    NoInterface(String),
    /// The host has no MAC address to boot from.
    #[error("key {0:?} needs the bootMACAddress of the host, which is empty")]
    NoBootMac(String),
    /// The text is no MAC address.
    #[error("link {link:?} has {value:?}, which is no MAC address")]
    InvalidMac {
        /// The ID of the link.
        link: String,
        /// The text.
        value: String,
    },
    /// There is no address from a pool.
    #[error("there is no address from pool {0:?}")]
    NoAddress(String),
    /// The address has no prefix length.
    #[error("the address from pool {0:?} has no prefix")]
    NoPrefix(String),
    /// The network names no pool.
    #[error("network {0:?} names no pool")]
    NoPool(String),
    /// The annotation with the name of a pool is missing.
    #[error("annotation {annotation:?} of {object:?} with the name of a pool is missing or empty")]
    NoPoolAnnotation {
        /// The kind of object.
        object: String,
        /// The key of the annotation.
        annotation: String,
    },
    /// Two kinds of pools have one name, and claims could not be told apart.
    #[error("pool {0:?} is referenced with two kinds")]
    TwoKinds(String),
    /// The prefix length is too large, or negative.
    #[error("prefix {prefix} is not between 0 and {max}")]
    InvalidPrefix {
        /// The prefix length.
        prefix: i32,
        /// The largest one.
        max: u32,
    },
    /// Parameters of a bond would replace other fields.
    #[error("bond {bond:?} has parameters that are fields of their own: {}", .names.join(", "))]
    BondParameters {
        /// The ID of the bond.
        bond: String,
        /// The names of the parameters.
        names: Vec<String>,
    },
    /// A virtual network has no number.
    #[error("vlan {0:?} has no vlanID")]
    NoVlanId(String),
}

impl<'a> Sources<'a> {
    /// Returns the metadata of an object by its kind, in any case.
    pub(super) fn object(&self, kind: &str) -> Result<&'a ObjectMeta, RenderError> {
        match kind.to_lowercase().as_str() {
            "machine" => Ok(self.machine),
            "metal3machine" => Ok(self.metal3_machine),
            "baremetalhost" => Ok(&self.host.metadata),
            _ => Err(RenderError::UnknownObject(kind.to_owned())),
        }
    }

    /// Returns an annotation; an empty text if it is missing.
    pub(super) fn annotation(&self, kind: &str, key: &str) -> Result<&'a str, RenderError> {
        let annotations = self.object(kind)?.annotations.as_ref();
        let value = annotations.and_then(|annotations| annotations.get(key));
        Ok(value.map(String::as_str).unwrap_or_default())
    }

    /// Returns a label; an empty text if it is missing.
    pub(super) fn label(&self, kind: &str, key: &str) -> Result<&'a str, RenderError> {
        let labels = self.object(kind)?.labels.as_ref();
        let value = labels.and_then(|labels| labels.get(key));
        Ok(value.map(String::as_str).unwrap_or_default())
    }

    /// Returns the MAC address of an interface of the host.
    pub(super) fn interface(&self, name: &str) -> Result<&'a str, RenderError> {
        let interfaces = self.host.interfaces();
        if interfaces.is_empty() {
            return Err(RenderError::NoInterfaces);
        }
        let interface = interfaces.iter().find(|one| one.name == name);
        let interface = interface.ok_or_else(|| RenderError::NoInterface(name.to_owned()))?;
        Ok(&interface.mac)
    }

    /// Returns the MAC address of a link.
    pub(super) fn mac(&self, link: &str, source: &MacSource) -> Result<String, RenderError> {
        let value = match (
            set(&source.string),
            set(&source.from_host_interface),
            &source.from_annotation,
        ) {
            (Some(string), _, _) => string.to_owned(),
            (None, Some(name), _) => self.interface(name)?.to_owned(),
            (None, None, Some(AnnotationSource { object, annotation })) => {
                self.annotation(object, annotation)?.to_owned()
            }
            (None, None, None) => String::new(),
        };
        match is_mac(&value) {
            true => Ok(value),
            false => Err(RenderError::InvalidMac {
                link: link.to_owned(),
                value,
            }),
        }
    }
}

/// Returns a text unless it is missing or empty.
pub(super) fn set(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Returns whether a text is six pairs of hexadecimal digits with colons or dashes.
fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_valid = |(at, one): (usize, &u8)| match at % 3 {
        2 => matches!(one, b':' | b'-'),
        _ => one.is_ascii_hexdigit(),
    };
    bytes.len() == 17 && bytes.iter().enumerate().all(is_valid)
}

/// Returns the address from a pool.
pub(super) fn address_of<'a>(
    addresses: &'a Addresses,
    pool: &str,
) -> Result<&'a PoolAddress, RenderError> {
    let address = addresses.get(pool);
    address.ok_or_else(|| RenderError::NoAddress(pool.to_owned()))
}
