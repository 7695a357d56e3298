//! Everything that was said, and what must not be in it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insula_e2e::command::Said;

use crate::subm::Subm;

/// What programs said while a cluster lived, and the secrets that they had.
#[derive(Debug, Default)]
pub struct Journal {
    said: Mutex<Vec<String>>,
    secrets: Mutex<Vec<String>>,
}

impl Journal {
    /// Somebody said something.
    pub fn note(&self, said: &Said) {
        self.said.lock().unwrap().push(said.to_string());
    }

    /// Somebody's log.
    pub fn note_file(&self, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let text = format!("{}:\n{text}", path.display());
        self.said.lock().unwrap().push(text);
    }

    /// The secrets of a file must not be said.
    pub fn hide(&self, subm: &Subm) {
        let key = subm.psk().map(|psk| BASE64_STANDARD.encode(psk));
        let mut secrets = self.secrets.lock().unwrap();
        secrets.extend(key);
        if subm.0["ClientToken"]["data"]["token"].is_string() {
            let token = subm.token();
            secrets.push(BASE64_STANDARD.encode(&token));
            // The signature is enough to know it by, and all that is secret in it.
            let signature = token.rsplit('.').next().unwrap();
            secrets.push(signature.to_owned());
        }
    }

    /// So many secrets were there to be hidden.
    pub fn hidden(&self) -> usize {
        self.secrets.lock().unwrap().len()
    }

    /// What was said that has a secret in it, with the secret made out.
    pub fn betrayals(&self) -> Vec<String> {
        let (said, secrets) = (self.said.lock().unwrap(), self.secrets.lock().unwrap());
        let betrayed = said
            .iter()
            .filter(|text| secrets.iter().any(|secret| text.contains(secret)));
        betrayed.cloned().collect()
    }
}

/// Every file in a folder and below that others may read and that has a secret in it.
pub fn readable_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(readable_files(&path)),
            false if crate::subm::mode(&path) & 0o077 != 0 => found.push(path),
            false => {}
        }
    }
    found
}
