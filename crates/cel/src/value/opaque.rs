//! Values of library types, which only have functions.

mod authorization;
mod quantity;
mod semver;

use std::net::IpAddr;
use std::sync::Arc;

use insula_gotext::url::Url;
use ipnet::IpNet;

pub(crate) use authorization::Stage;
pub use authorization::{
    Authorization, AuthorizationRequest, Authorizer, Caller, Decision, Resource, Target,
};
pub use quantity::QuantityValue;
pub use semver::Semver;

/// A value of a library type, which only has functions.
#[derive(Clone, Debug)]
pub enum Opaque<'a> {
    /// A quantity.
    Quantity(Arc<QuantityValue>),
    /// An absolute URL.
    Url(Arc<Url>),
    /// An IP address.
    Ip(IpAddr),
    /// A CIDR.
    Cidr(IpNet),
    /// A semantic version.
    Semver(Arc<Semver>),
    /// A named format.
    Format(&'static Format),
    /// An authorization request or its decision.
    Authorization(Arc<Authorization<'a>>),
}

/// A named format.
#[derive(Debug)]
pub struct Format {
    /// The name in expressions.
    pub(crate) name: &'static str,
    /// The length of the regular expression that the format is priced with.
    pub(crate) size: u64,
    /// Returns the errors of a string.
    pub(crate) faults: fn(&str) -> Vec<String>,
}

impl Opaque<'_> {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorization(about) => about.type_name(),
        }
    }
}
