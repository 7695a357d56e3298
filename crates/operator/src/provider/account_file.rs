//! A file with an account of the operator's own: username, password, and the servers that they
//! may be sent to.

use std::collections::BTreeMap;
use std::path::PathBuf;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::AllowedEndpoints;
use serde::Deserialize;

use super::servers::{AllowedServer, InvalidServer, bound};
use super::{CredentialsFile, StaticCredentials};

/// Returns a reader for a file with an account. The account may be sent to these servers if the
/// file names none; a server without a port has this one.
pub fn account_file(
    file: impl Into<PathBuf>,
    default_bound: AllowedEndpoints,
    port: u16,
) -> CredentialsFile {
    CredentialsFile::new(file, move |text| {
        parse(text, &default_bound, port).map_err(|error| error.to_string())
    })
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    servers: Option<Vec<AllowedServer>>,
}

/// Why a file is not used. The messages reveal none of its content.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidFile {
    #[error("it is not YAML with username, password and servers")]
    Format,
    #[error("{0} is missing or empty")]
    Missing(&'static str),
    #[error(transparent)]
    Server(#[from] InvalidServer),
}

fn parse(
    text: &str,
    default_bound: &AllowedEndpoints,
    port: u16,
) -> Result<StaticCredentials, InvalidFile> {
    // The parser's message would show lines of the file.
    let file: File = serde_saphyr::from_str(text).map_err(|_| InvalidFile::Format)?;
    let mut data = BTreeMap::new();
    for (key, value) in [("username", file.username), ("password", file.password)] {
        if value.is_empty() {
            return Err(InvalidFile::Missing(key));
        }
        data.insert(key.to_owned(), Hidden::new(value));
    }
    let bound = match file.servers {
        None => default_bound.clone(),
        Some(servers) => bound(&servers, port)?,
    };
    Ok(StaticCredentials { data, bound })
}

#[cfg(test)]
mod tests {
    use insula_identity::endpoint::{Endpoint, Trust};

    use super::*;

    const PORT: u16 = 443;

    fn end(text: &str) -> Endpoint {
        Endpoint::parse(text, PORT).unwrap()
    }

    #[test]
    fn credentials_file_is_parsed_with_its_servers() {
        let default = AllowedEndpoints::Only(vec![(end("default.example"), None)]);
        let print = "ab".repeat(20);
        let pinned = Some(Trust::pinned(&print).unwrap());
        let both = AllowedEndpoints::Only(vec![
            (end("a.example:444"), pinned),
            (end("b.example"), Some(Trust::AnyCertificate)),
            (end("c.example"), None),
        ]);
        for (text, expected) in [
            ("username: u\npassword: p\n".to_owned(), Ok(default.clone())),
            (
                "username: u\npassword: p\nservers: []\n".to_owned(),
                Ok(AllowedEndpoints::Only(vec![])),
            ),
            (
                format!(
                    "username: u\npassword: p\nservers:\n- {{address: a.example:444, thumbprint: {print}}}\n\
                     - {{address: b.example, insecureSkipVerify: true}}\n- address: c.example\n"
                ),
                Ok(both),
            ),
            (
                "username: u\n".to_owned(),
                Err("password is missing or empty"),
            ),
            (
                "username: ''\npassword: p\n".to_owned(),
                Err("username is missing or empty"),
            ),
            ("".to_owned(), Err("username is missing or empty")),
            (
                "{{ hunter2".to_owned(),
                Err("it is not YAML with username, password and servers"),
            ),
            (
                "password: [hunter2]".to_owned(),
                Err("it is not YAML with username, password and servers"),
            ),
            (
                "username: u\npassword: p\nservers: [{address: 'https://a'}]".to_owned(),
                Err("\"https://a\" is no host, and no host with a port"),
            ),
            (
                "username: u\npassword: p\nservers: [{address: a, thumbprint: AA}]".to_owned(),
                Err(
                    "\"AA\" is no SHA-1 and no SHA-256 fingerprint: 20 or 32 pairs of hexadecimal digits",
                ),
            ),
        ] {
            let read = parse(&text, &default, PORT).map(|given| given.bound);
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn debug_output_hides_static_credentials() {
        let given = parse(
            "username: u\npassword: hunter2\n",
            &AllowedEndpoints::Anywhere,
            PORT,
        )
        .unwrap();
        let shown = format!("{given:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
