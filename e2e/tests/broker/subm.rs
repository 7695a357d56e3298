//! A broker-info file, decoded independently of the code under test.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use serde_json::Value;

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Subm(pub Value);

impl Subm {
    /// Reads a file in URL-safe base64, padded, on one line.
    #[track_caller]
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let json = BASE64_URL_SAFE.decode(&text).unwrap();
        Self(serde_json::from_slice(&json).unwrap())
    }

    /// Writes a file, as Submariner does.
    pub fn write(&self, path: &Path) {
        let text = BASE64_URL_SAFE.encode(self.0.to_string());
        std::fs::write(path, text).unwrap();
    }

    /// The same without some fields.
    pub fn without(&self, fields: &[&str]) -> Self {
        let mut less = self.clone();
        let all = less.0.as_object_mut().unwrap();
        all.retain(|field, _| !fields.contains(&field.as_str()));
        less
    }

    /// The same with another value.
    pub fn with(&self, field: &str, value: Value) -> Self {
        let mut other = self.clone();
        other.0[field] = value;
        other
    }

    /// Its fields, in their order on disk.
    pub fn keys(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let json = String::from_utf8(BASE64_URL_SAFE.decode(text).unwrap()).unwrap();
        top_level_keys(&json)
    }

    /// The broker's URL.
    pub fn url(&self) -> &str {
        self.0["brokerURL"].as_str().unwrap()
    }

    /// The field `namespace`.
    pub fn namespace(&self) -> Option<&str> {
        self.0["namespace"].as_str()
    }

    /// The token of the broker's administrator.
    pub fn token(&self) -> String {
        String::from_utf8(self.data("token")).unwrap()
    }

    /// The namespace of that token.
    pub fn token_namespace(&self) -> String {
        String::from_utf8(self.data("namespace")).unwrap()
    }

    /// The broker's CA.
    pub fn authority(&self) -> String {
        String::from_utf8(self.data("ca.crt")).unwrap()
    }

    fn data(&self, key: &str) -> Vec<u8> {
        let text = self.0["ClientToken"]["data"][key].as_str().unwrap();
        BASE64_STANDARD.decode(text).unwrap()
    }

    /// The pre-shared key, if there is one.
    pub fn psk(&self) -> Option<Vec<u8>> {
        let text = self.0["IPSecPSK"]["data"]["psk"].as_str()?;
        Some(BASE64_STANDARD.decode(text).unwrap())
    }
}

/// Returns the permissions of a file.
#[track_caller]
pub fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// Scans by hand, because a parser would sort them.
fn top_level_keys(json: &str) -> Vec<String> {
    let (mut keys, mut depth, mut at) = (Vec::new(), 0, 0);
    while let Some(next) = json[at..].find(['"', '{', '}', '[', ']']) {
        at += next;
        match json.as_bytes()[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {
                let end = at + 1 + closing_quote(&json[at + 1..]);
                if depth == 1 && json[end + 1..].starts_with(':') {
                    keys.push(json[at + 1..end].to_owned());
                }
                at = end;
            }
        }
        at += 1;
    }
    keys
}

fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    let is_end = |sign: char| {
        let end = sign == '"' && !escaped;
        escaped = sign == '\\' && !escaped;
        end
    };
    text.find(is_end).unwrap()
}

#[test]
fn top_level_keys_are_read_in_order() {
    let json = r#"{"b":{"x":1},"a":"\"c\":{","d":[{"e":2}]}"#;
    assert_eq!(top_level_keys(json), ["b", "a", "d"]);
}
