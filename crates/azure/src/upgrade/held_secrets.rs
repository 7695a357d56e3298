//! Secrets that an operator held, and that are left when it does not run any more.
//!
//! The operator removes its finalizer from a Secret with the last resource that needs it. Azure
//! Service Operator does not know the finalizer: a Secret that was held before a switch could not
//! be deleted, nor its namespace.

use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Error;
use super::api::{List, Metadata, get, merge, status_code};
use crate::names::CREDENTIAL_FINALIZER;

/// How often a Secret is read again that another client writes at the same time.
const MAX_ATTEMPTS: usize = 5;

/// The metadata of a Secret.
#[derive(Debug, Deserialize)]
struct Held {
    metadata: Metadata,
}

impl Held {
    fn is_held(&self) -> bool {
        let mut finalizers = self.metadata.finalizers.iter();
        finalizers.any(|one| one == CREDENTIAL_FINALIZER)
    }

    fn path(&self) -> String {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let name = &self.metadata.name;
        format!("/api/v1/namespaces/{namespace}/secrets/{name}")
    }

    /// Returns the patch that removes the finalizer, and fails if the Secret was written since.
    fn release(&self) -> Value {
        let mut finalizers = self.metadata.finalizers.clone();
        finalizers.retain(|one| one != CREDENTIAL_FINALIZER);
        json!({"metadata": {
            "resourceVersion": self.metadata.resource_version, "finalizers": finalizers,
        }})
    }
}

/// Releases the Secrets of a namespace, or of all, and returns their names. An operator that still
/// runs holds them again.
///
/// # Errors
///
/// If the API server does not answer.
pub async fn release(client: &Client, namespace: Option<&str>) -> Result<Vec<String>, Error> {
    let path = match namespace {
        Some(namespace) => format!("/api/v1/namespaces/{namespace}/secrets"),
        None => "/api/v1/secrets".to_owned(),
    };
    let mut held = Vec::new();
    let list = List::of_metadata(path);
    let listed = list.each(client, |secret: Held| {
        if secret.is_held() {
            held.push(secret);
        }
    });
    let listed = listed.await;
    listed.map_err(|error| Error::new("list secrets", error))?;
    let mut released = Vec::new();
    for secret in held {
        let name = secret.metadata.full_name();
        release_one(client, secret).await?;
        released.push(name);
    }
    released.sort();
    released.dedup();
    Ok(released)
}

async fn release_one(client: &Client, mut secret: Held) -> Result<(), Error> {
    let path = secret.path();
    let attempted = format!("release Secret {}", secret.metadata.full_name());
    for _ in 0..MAX_ATTEMPTS {
        let error = match merge::<Held>(client, &path, &secret.release()).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match status_code(&error) {
            // A Secret that was being deleted is gone with its last finalizer.
            Some(404) => return Ok(()),
            Some(409) => {}
            _ => return Err(Error::new(attempted, error)),
        }
        secret = match get::<Held>(client, &path).await {
            Ok(found) if found.is_held() => found,
            Ok(_) => return Ok(()),
            Err(error) if status_code(&error) == Some(404) => return Ok(()),
            Err(error) => return Err(Error::new(attempted, error)),
        };
    }
    Err(Error::Conflict(attempted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_finalizer_of_operators_is_removed() {
        let secret = |finalizers: &[&str]| -> Held {
            serde_json::from_value(json!({"metadata": {
                "name": "s", "namespace": "n", "resourceVersion": "7", "finalizers": finalizers,
            }}))
            .unwrap()
        };
        assert!(!secret(&["other"]).is_held());
        let held = secret(&["other", CREDENTIAL_FINALIZER]);
        assert!(held.is_held());
        assert_eq!(held.path(), "/api/v1/namespaces/n/secrets/s");
        assert_eq!(
            held.release(),
            json!({"metadata": {"resourceVersion": "7", "finalizers": ["other"]}})
        );
    }
}
