//! Formats of strings and numbers.

mod code;
mod mail;
mod network;
mod time;
mod uri;

use std::sync::Arc;

/// A format that values are validated against.
#[derive(Clone, Debug)]
pub struct Format {
    /// The name as written: `date-time`.
    name: Arc<str>,
    kind: Kind,
}

/// The check for the format.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Int32,
    Int64,
    Float,
    Double,
    Text(fn(&str) -> bool),
}

impl Format {
    /// The format of this name for a type, or for any type. `None` if Kubernetes does not
    /// recognize it, and so ignores it. Dashes are not significant.
    pub fn of(kind: Option<&str>, name: &str) -> Option<Self> {
        let found = match kind {
            None | Some("string") => Kind::Text(check(&name.replace('-', ""))?),
            Some("integer") if name == "int32" => Kind::Int32,
            Some("integer") if name == "int64" => Kind::Int64,
            Some("number") if name == "float" => Kind::Float,
            Some("number") if name == "double" => Kind::Double,
            Some(_) => return None,
        };
        Some(Self {
            name: name.into(),
            kind: found,
        })
    }

    /// The name as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reports whether it is a string format.
    pub(crate) fn is_of_text(&self) -> bool {
        matches!(self.kind, Kind::Text(_))
    }

    /// Checks a string. Number formats accept every string.
    pub fn fits(&self, text: &str) -> bool {
        match self.kind {
            Kind::Text(check) => check(text),
            _ => true,
        }
    }
}

/// The check for a string format.
fn check(name: &str) -> Option<fn(&str) -> bool> {
    Some(match name {
        "bsonobjectid" => code::is_object_id,
        "uri" => uri::is_request_uri,
        "email" => mail::is_address,
        "hostname" => network::is_hostname,
        "ipv4" => network::is_ipv4,
        "ipv6" => network::is_ipv6,
        "cidr" => network::is_cidr,
        "mac" => network::is_mac,
        "uuid" => code::is_uuid,
        "uuid3" => code::is_uuid3,
        "uuid4" => code::is_uuid4,
        "uuid5" => code::is_uuid5,
        "isbn" => code::is_isbn,
        "isbn10" => code::is_isbn10,
        "isbn13" => code::is_isbn13,
        "creditcard" => code::is_credit_card,
        "ssn" => code::is_ssn,
        "hexcolor" => code::is_hex_color,
        "rgbcolor" => code::is_rgb_color,
        "byte" => code::is_base64,
        "password" => |_| true,
        "date" => time::is_date,
        "duration" => time::is_duration,
        "datetime" => time::is_date_time,
        "k8sshortname" => network::is_short_name,
        "k8slongname" => network::is_long_name,
        _ => return None,
    })
}
