//! A client for the vCenter SOAP API: sessions, inventory, virtual machines, tasks.
//!
//! | module | content |
//! |---|---|
//! | `login` | opens, checks and closes sessions |
//! | `session` | a session, and calls about single objects |
//! | `inventory` | lookup of objects by name, path or ID |
//! | `machine` | the observed state of a virtual machine |
//! | `clone` | clones of templates |
//! | `task` | tasks and power operations |
//! | `properties` | the PropertyCollector: properties of objects and of referenced objects |
//! | `call` | method calls with the cookies of one login |
//! | `xml_writer`, `element` | XML of requests, and XML of responses |

mod call;
mod clone;
mod element;
mod inventory;
mod login;
mod machine;
mod properties;
mod session;
mod task;
mod xml_writer;

use std::fmt;
use std::str::FromStr;

use insula_identity::reason::Reason;

pub use self::clone::{Card, Clone, Hardware};
pub use self::inventory::{NotLocated, Place};
pub use self::login::VCenters;
pub use self::machine::{Disk, Machine, MachineCard, Snapshot};
pub use self::session::Session;
pub use self::task::Task;

/// The oldest supported major version of a vCenter.
pub(crate) const MIN_MAJOR_VERSION: u32 = 6;

/// A managed object reference: type and ID, as in `VirtualMachine:vm-65`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// Its type.
    pub kind: String,
    /// Its ID, unique among objects of its type.
    pub id: String,
}

impl Object {
    /// Returns the reference to the object of this type and ID.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            id: id.into(),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.kind, self.id)
    }
}

impl FromStr for Object {
    type Err = NotAnObject;

    fn from_str(text: &str) -> Result<Self, NotAnObject> {
        let sane = |part: &str, also: &str| {
            let fits = |message: char| message.is_ascii_alphanumeric() || also.contains(message);
            !part.is_empty() && part.chars().all(fits)
        };
        match text.split_once(':') {
            Some((kind, id)) if sane(kind, "") && sane(id, "-_.:") => Ok(Self::new(kind, id)),
            _ => Err(NotAnObject(text.to_owned())),
        }
    }
}

/// The `AboutInfo` of a vCenter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its version, as in `8.0.2`.
    pub version: String,
    /// The version of its API, as in `8.0.2.0`.
    pub api_version: String,
    /// `VirtualCenter`; other values are not vCenters.
    pub api_type: String,
    /// The UUID of the vCenter.
    pub instance_uuid: String,
}

/// A text that is no managed object reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a managed object reference")]
pub struct NotAnObject(pub String);

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The session has expired.
    #[error("the session has expired")]
    NotAuthenticated,
    /// The object does not exist any more.
    #[error("{0} no longer exists")]
    Gone(String),
    /// The vCenter answered with a fault: its type (`InvalidPowerState`, `DuplicateName`,
    /// `NoPermission`) and its message.
    #[error("the vCenter refuses {method}: {message} ({fault})")]
    Fault {
        /// The method that was called.
        method: &'static str,
        /// The type of the fault.
        fault: String,
        /// The message of the fault.
        message: String,
    },
    /// The server's certificate is not trusted.
    #[error("the certificate of the vCenter is not trusted: {0}")]
    NotTrusted(String),
    /// The vCenter does not answer.
    #[error("the vCenter does not answer: {0}")]
    Unreachable(String),
    /// The response is not that of a vCenter.
    #[error("the vCenter's answer to {method} is invalid: {why}")]
    Unexpected {
        /// The method that was called.
        method: &'static str,
        /// What is wrong with the response.
        why: String,
    },
}

impl Error {
    fn unexpected(method: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Unexpected { method, why }
    }

    /// Returns the reason for which the vCenter cannot be used.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NotTrusted(_) => Reason::CertificateNotTrusted,
            _ => Reason::Unreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_reference_round_trips() {
        for text in [
            "VirtualMachine:vm-65",
            "Datastore:datastore-1",
            "Folder:group-v3",
        ] {
            assert_eq!(
                text.parse::<Object>().map(|object| object.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in [
            "",
            "vm-1",
            ":",
            "VirtualMachine:",
            ":vm-1",
            "/DC0/vm:1",
            "A B:1",
            "A:1 2",
        ] {
            assert_eq!(text.parse::<Object>(), Err(NotAnObject(text.to_owned())));
        }
    }
}
