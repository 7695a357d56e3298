//! Recorded output, and the secrets that must not be in it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use insula_e2e::command::Said;

use crate::subm::Subm;

/// The output of programs during a cluster's lifetime, and the secrets they had.
#[derive(Debug, Default)]
pub struct Journal {
    said: Mutex<Vec<String>>,
    secrets: Mutex<Vec<String>>,
}

impl Journal {
    /// Records the output of a program.
    pub fn note(&self, said: &Said) {
        self.said.lock().unwrap().push(said.to_string());
    }

    /// Records a log file.
    pub fn note_file(&self, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let text = format!("{}:\n{text}", path.display());
        self.said.lock().unwrap().push(text);
    }

    /// Adds the secrets of a file.
    pub fn hide(&self, subm: &Subm) {
        let key = subm.psk().map(|psk| BASE64_STANDARD.encode(psk));
        let mut secrets = self.secrets.lock().unwrap();
        secrets.extend(key);
        if subm.0["ClientToken"]["data"]["token"].is_string() {
            let token = subm.token();
            secrets.push(BASE64_STANDARD.encode(&token));
            // The signature identifies the token, and is its only secret part.
            let signature = token.rsplit('.').next().unwrap();
            secrets.push(signature.to_owned());
        }
    }

    /// Returns the number of secrets.
    pub fn hidden(&self) -> usize {
        self.secrets.lock().unwrap().len()
    }

    /// Returns the recorded output that contains a secret, with the secret redacted.
    pub fn leaks(&self) -> Vec<String> {
        let (said, secrets) = (self.said.lock().unwrap(), self.secrets.lock().unwrap());
        let betrayed = said
            .iter()
            .filter(|text| secrets.iter().any(|secret| text.contains(secret)));
        betrayed.cloned().collect()
    }
}

/// Returns every file below a folder that others may read.
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
