//! A vCenter, over SOAP: sessions, inventory, virtual machines, tasks.
//!
//! | module | is |
//! |---|---|
//! | `login` | opens, checks and closes sessions |
//! | `session` | a session, and what is asked in it about single objects |
//! | `inventory` | where things are, as people write it |
//! | `machine` | what is known of a virtual machine |
//! | `clone` | new virtual machines out of templates |
//! | `task` | what a vCenter does in its own time |
//! | `properties` | properties of objects, and of what they point to |
//! | `call` | calls of methods, with the cookies of one login |
//! | `text`, `element` | what is sent, and what is received |
//! | `wire`, `trust` | connections, and whom to believe at the other end |

mod call;
mod clone;
mod element;
mod inventory;
mod login;
mod machine;
mod properties;
mod session;
mod task;
mod text;
mod trust;
mod wire;

use std::fmt;
use std::str::FromStr;

use insula_identity::reason::Reason;

pub use self::clone::{Card, Clone, Hardware};
pub use self::inventory::{NotLocated, Place};
pub use self::login::VCenters;
pub use self::machine::{Disk, Machine, MachineCard, Snapshot};
pub use self::session::Session;
pub use self::task::Task;

/// Something in a vCenter, by type and ID, as in `VirtualMachine:vm-65`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// Its type.
    pub kind: String,
    /// By which it is known among all of its type.
    pub id: String,
}

impl Object {
    /// The object of this type and ID.
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
            let fits = |letter: char| letter.is_ascii_alphanumeric() || also.contains(letter);
            !part.is_empty() && part.chars().all(fits)
        };
        match text.split_once(':') {
            Some((kind, id)) if sane(kind, "") && sane(id, "-_.:") => Ok(Self::new(kind, id)),
            _ => Err(NotAnObject(text.to_owned())),
        }
    }
}

/// What a vCenter says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Its version, as in `8.0.2`.
    pub version: String,
    /// The version of what it speaks, as in `8.0.2.0`.
    pub api_version: String,
    /// `VirtualCenter`, or it is none.
    pub api_type: String,
    /// By which it is known among vCenters.
    pub instance_uuid: String,
}

/// A text that is no type and ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no type and ID of an object")]
pub struct NotAnObject(pub String);

/// Why a vCenter did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The session is over.
    #[error("the session is over")]
    NotAuthenticated,
    /// The object is not there any more.
    #[error("{0} is not there any more")]
    Gone(String),
    /// It says why, by the type of its fault (`InvalidPowerState`, `DuplicateName`,
    /// `NoPermission`) and in its own words.
    #[error("the vCenter refuses {method}: {message} ({fault})")]
    Fault {
        /// What it was asked.
        method: &'static str,
        /// The type of its fault.
        fault: String,
        /// Its words.
        message: String,
    },
    /// It shows a certificate now that is not believed.
    #[error("the certificate of the vCenter is not trusted: {0}")]
    NotTrusted(String),
    /// It does not answer.
    #[error("the vCenter does not answer: {0}")]
    Unreachable(String),
    /// It answers, but not as a vCenter does.
    #[error("the vCenter's answer to {method} is not to be understood: {why}")]
    Unexpected {
        /// What it was asked.
        method: &'static str,
        /// What is wrong with the answer.
        why: String,
    },
}

impl Error {
    /// Why the vCenter cannot be used, if it cannot.
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
    fn an_object_is_written_as_it_is_read() {
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
