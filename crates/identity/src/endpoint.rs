//! Where a credential may be sent, and whom to believe there.

/// A host and a port, in one way of writing: lower case, no brackets, no dot at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

/// An endpoint that was written in a way that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host, and no host with a port")]
pub struct NotAnEndpoint(pub String);

impl Endpoint {
    /// As people write it: a host, an address (IPv6 with or without brackets), or either with
    /// a port. No scheme, no user, no path.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, NotAnEndpoint> {
        todo!("{text}{default_port}")
    }
    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }
    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Whom to believe at an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// Whoever the usual authorities vouch for.
    #[default]
    Verified,
    /// The same, or whoever shows the certificate of this fingerprint: pairs of hexadecimal
    /// digits in upper case with colons, 20 pairs for SHA-1, 32 for SHA-256.
    Pinned(String),
    /// Anybody.
    Anybody,
}

/// Where a credential may be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// Nowhere: nobody has said.
    #[default]
    Nowhere,
    /// Wherever its owner says, who chose the endpoint too.
    Anywhere,
    /// To these, and whom to believe there, if whoever owns the credential says so.
    Only(Vec<(Endpoint, Option<Trust>)>),
}
