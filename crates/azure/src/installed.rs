//! The definitions that are installed on the API server, for conversion.
//!
//! Only the metadata of definitions is watched. A definition of the table is then read alone:
//! some have more than a megabyte.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{StreamExt, pin_mut};
use insula_operator::read::get_named;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use tracing::{debug, warn};

use crate::table::{self, Kind};
use crate::versions::Definitions;

/// The definitions of an API server.
pub struct Installed {
    api: Api<DynamicObject>,
    metadata: Api<PartialObjectMeta<CustomResourceDefinition>>,
    definitions: Arc<Definitions>,
    /// The generations that were read, by name.
    known: BTreeMap<String, i64>,
}

impl Installed {
    /// Creates a reader that keeps these definitions.
    pub fn new(client: &Client, definitions: Arc<Definitions>) -> Self {
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        Self {
            api: Api::all_with(client.clone(), &resource),
            metadata: Api::all(client.clone()),
            definitions,
            known: BTreeMap::new(),
        }
    }

    /// Reads all definitions of kinds of the table.
    ///
    /// # Errors
    ///
    /// If a request fails.
    pub async fn load(&mut self) -> Result<(), kube::Error> {
        let listed = self.metadata.list(&ListParams::default()).await?;
        for definition in listed.items {
            self.read(&definition.metadata).await?;
        }
        Ok(())
    }

    /// Keeps the definitions current, as long as it runs.
    pub async fn follow(mut self) {
        let events = watcher(self.metadata.clone(), Config::default());
        let events = events.default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(changed) | Event::Apply(changed)) => {
                    let name = changed.metadata.name.clone().unwrap_or_default();
                    if let Err(error) = self.read(&changed.metadata).await {
                        // It is read again when the watch starts anew, or it changes.
                        warn!(definition = name, %error, "definition not read");
                    }
                }
                Ok(Event::Delete(deleted)) => self.remove(&deleted.metadata),
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => debug!(%error, "watch of definitions restarted"),
            }
        }
    }

    /// Reads a definition, if it is of the table and has changed.
    async fn read(&mut self, metadata: &ObjectMeta) -> Result<(), kube::Error> {
        let name = metadata.name.clone().unwrap_or_default();
        let generation = metadata.generation.unwrap_or_default();
        if find(&name).is_none() || self.known.get(&name) == Some(&generation) {
            return Ok(());
        }
        let Some(found) = get_named(&self.api, &name).await? else {
            return Ok(());
        };
        // Every object of Kubernetes can be represented as JSON.
        let found = serde_json::to_value(found).unwrap_or_default();
        match self.definitions.insert(&found) {
            Ok(()) => {
                self.known.insert(name, generation);
            }
            Err(why) => warn!(definition = name, why, "definition ignored"),
        }
        Ok(())
    }

    fn remove(&mut self, metadata: &ObjectMeta) {
        let name = metadata.name.as_deref().unwrap_or_default();
        if let Some(kind) = find(name) {
            self.definitions.remove(kind.group(), kind.kind());
            self.known.remove(name);
        }
    }
}

/// Returns the kind of a definition's name.
fn find(name: &str) -> Option<&'static Kind> {
    let (plural, group) = name.split_once('.')?;
    let mut kinds = table::kinds().iter();
    kinds.find(|kind| kind.plural() == plural && kind.group() == group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definitions_of_the_table_are_read() {
        let found = find("resourcegroups.resources.azure.com");
        assert_eq!(found.map(Kind::kind), Some("ResourceGroup"));
        assert!(find("resourcegroups.example.com").is_none());
        assert!(find("resourcegroups").is_none());
    }
}
