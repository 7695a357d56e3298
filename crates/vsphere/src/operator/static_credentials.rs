//! The file with the operator's own account, for clusters that reference no identity.

use std::collections::BTreeMap;

use insula_identity::credential::Hidden;
use insula_identity::endpoint::{
    AllowedEndpoints, Endpoint, InvalidEndpoint, InvalidFingerprint, Trust,
};
use insula_operator::provider::{CredentialsFile, StaticCredentials};
use serde::Deserialize;

use crate::names::PORT;

/// Returns a reader for the file. The account may be sent to these servers if the file names
/// none.
pub fn credentials_file(
    file: impl Into<std::path::PathBuf>,
    default_bound: AllowedEndpoints,
) -> CredentialsFile {
    CredentialsFile::new(file, move |text| {
        parse(text, &default_bound).map_err(|error| error.to_string())
    })
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    servers: Option<Vec<Server>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Server {
    address: String,
    #[serde(default)]
    thumbprint: Option<String>,
    #[serde(default)]
    insecure_skip_verify: bool,
}

/// Why a file is not used. The messages reveal none of its content.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum InvalidFile {
    #[error("it is not YAML with username, password and servers")]
    Format,
    #[error("{0} is missing or empty")]
    Missing(&'static str),
    #[error(transparent)]
    Address(#[from] InvalidEndpoint),
    #[error(transparent)]
    Thumbprint(#[from] InvalidFingerprint),
}

fn parse(text: &str, default_bound: &AllowedEndpoints) -> Result<StaticCredentials, InvalidFile> {
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
        Some(servers) => bound(&servers)?,
    };
    Ok(StaticCredentials { data, bound })
}

fn bound(servers: &[Server]) -> Result<AllowedEndpoints, InvalidFile> {
    let endpoints = servers.iter().map(|server| {
        let trust = match (&server.thumbprint, server.insecure_skip_verify) {
            (Some(text), _) if !text.is_empty() => Some(Trust::pinned(text)?),
            (_, true) => Some(Trust::AnyCertificate),
            (_, false) => None,
        };
        Ok((Endpoint::parse(&server.address, PORT)?, trust))
    });
    Ok(AllowedEndpoints::Only(
        endpoints.collect::<Result<_, InvalidFile>>()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let read = parse(&text, &default).map(|given| given.bound);
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn debug_output_hides_static_credentials() {
        let given = parse(
            "username: u\npassword: hunter2\n",
            &AllowedEndpoints::Anywhere,
        )
        .unwrap();
        let shown = format!("{given:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
