//! The Secrets that the host of a machine reads. The Bare Metal Operator reads only Secrets next
//! to the host, so with an identity they are copied there.

use std::collections::BTreeMap;

use insula_capi::bootstrap;
use insula_operator::retry::Outcome;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, SecretReference};

use super::conclude::State;
use super::data::{META_DATA_FAILED, RenderedSecrets};
use super::gate::Owners;
use super::{Halt, MachineReconciler, RETRY, Step, beside};
use crate::kinds::host::BareMetalHost;
use crate::kinds::machine::Metal3Machine;
use crate::operator::host_secret::{self, Existing, HostSecret, SECRET_CONFLICT};
use crate::pool::HostPool;

/// The Secrets of a machine are next to its host.
const META_DATA_READY: &str = "AssociateMetal3MachineMetaDataSuccess";

/// The Secrets of a machine, next to its host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct HostSecrets {
    pub user_data: Option<SecretReference>,
    pub meta_data: Option<SecretReference>,
    pub network_data: Option<SecretReference>,
}

/// A kind of data that a host reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    User,
    Meta,
    Network,
}

impl Content {
    pub(super) const ALL: [Self; 3] = [Self::User, Self::Meta, Self::Network];

    /// Returns the name of the Secret next to the host. It differs from that of the bootstrap
    /// Secret, which may be in the same namespace.
    pub(super) fn secret_name(self, machine: &str) -> String {
        let suffix = match self {
            Self::User => "userdata",
            Self::Meta => "metadata",
            Self::Network => "networkdata",
        };
        format!("{machine}-{suffix}")
    }

    fn field(self) -> &'static str {
        match self {
            Self::User => "userData",
            Self::Meta => "metaData",
            Self::Network => "networkData",
        }
    }

    /// Returns the keys that are copied: those that the Bare Metal Operator reads, and the format
    /// of bootstrap data.
    fn copied(self, data: &BTreeMap<String, ByteString>) -> BTreeMap<String, ByteString> {
        let keys = [self.field(), "value", "format"];
        let keys = &keys[..if self == Self::User { 3 } else { 2 }];
        let copied = data.iter().filter(|(key, _)| keys.contains(&key.as_str()));
        copied
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }
}

/// A Secret in the namespace of a machine that its host is to read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    content: Content,
    name: String,
}

impl MachineReconciler<'_> {
    /// Returns the Secrets that the host is to read, after they are next to it.
    pub(super) async fn secrets(
        &mut self,
        pool: &HostPool,
        owners: &Owners<'_>,
        host: &BareMetalHost,
        rendered: &RenderedSecrets,
    ) -> Step<HostSecrets> {
        let bootstrap = owners.machine.bootstrap_secret();
        let sources = match sources(&self.machine.stored, bootstrap) {
            Ok(sources) => sources,
            Err(message) => {
                self.report.meta_data = Some(State::new(false, META_DATA_FAILED, message));
                return Err(self.wait_for_events());
            }
        };
        let machine = self.of.key.name.clone();
        let mut found = HostSecrets {
            user_data: None,
            meta_data: rendered.meta_data.as_ref().map(|it| beside(it, pool)),
            network_data: rendered.network_data.as_ref().map(|it| beside(it, pool)),
        };
        // A host with an image has read its Secrets.
        let is_empty = host.spec.image.is_none() && host.spec.custom_deploy.is_none();
        for source in sources {
            let content = source.content;
            let name = match pool.is_in_cluster() {
                true => source.name,
                false => {
                    if is_empty {
                        self.copy(pool, owners, &source).await?;
                    }
                    content.secret_name(&machine)
                }
            };
            let place = match content {
                Content::User => &mut found.user_data,
                Content::Meta => &mut found.meta_data,
                Content::Network => &mut found.network_data,
            };
            *place = Some(beside(name, pool));
        }
        let status = self.status();
        status.user_data.clone_from(&found.user_data);
        status.meta_data.clone_from(&found.meta_data);
        status.network_data.clone_from(&found.network_data);
        self.report.meta_data = Some(State::new(true, META_DATA_READY, ""));
        Ok(found)
    }

    /// Copies a Secret to the namespace of the host.
    async fn copy(&mut self, pool: &HostPool, owners: &Owners<'_>, source: &Source) -> Step<()> {
        let Source { content, name } = source;
        let Some(secret) = self.of.read::<Secret>(name).await? else {
            let message = format!("there is no Secret {name:?}");
            return Err(self.no_source(*content, message));
        };
        let data = content.copied(&secret.data.unwrap_or_default());
        if !data.contains_key("value") && !data.contains_key(content.field()) {
            let field = content.field();
            let message = format!("Secret {name:?} has neither key {field:?} nor key \"value\"");
            return Err(self.no_source(*content, message));
        }
        let owner = self.secret_owner();
        let wanted = HostSecret {
            name: content.secret_name(&owner.name),
            owner: &owner,
            cluster: &owners.machine.spec.cluster_name,
            data,
        };
        let secrets = pool.secrets();
        let written = host_secret::create_or_check(&secrets, &wanted, Existing::Replace).await;
        match written.map_err(Halt::Hosts)? {
            Ok(()) => Ok(()),
            Err(conflict) => {
                let state = State::new(false, SECRET_CONFLICT, conflict.to_string());
                self.report.meta_data = Some(state);
                Err(Halt::Stop(Outcome::Waits(RETRY)))
            }
        }
    }

    fn no_source(&mut self, content: Content, message: String) -> Halt {
        let reason = match content {
            Content::User => bootstrap::WAITING,
            _ => META_DATA_FAILED,
        };
        self.report.meta_data = Some(State::new(false, reason, message));
        self.wait_for_events()
    }
}

/// Returns the Secrets of the machine's namespace that its host is to read: its bootstrap data,
/// else its own user data, and what its user supplies instead of rendered data.
///
/// # Errors
///
/// If one is in another namespace: what a user may not read must not come to a host of theirs.
fn sources(machine: &Metal3Machine, bootstrap: Option<&str>) -> Result<Vec<Source>, String> {
    let spec = &machine.spec;
    let bootstrap = bootstrap.map(|name| SecretReference {
        name: Some(name.to_owned()),
        namespace: None,
    });
    let user_data = bootstrap.or_else(|| spec.user_data.clone());
    let given = [
        (Content::User, &user_data),
        (Content::Meta, &spec.meta_data),
        (Content::Network, &spec.network_data),
    ];
    let mut sources = Vec::new();
    for (content, reference) in given {
        let Some(reference) = reference else {
            continue;
        };
        let Some(name) = reference.name.clone().filter(|name| !name.is_empty()) else {
            continue;
        };
        let namespace = reference.namespace.as_ref().filter(|name| !name.is_empty());
        if namespace.is_some() && namespace != machine.metadata.namespace.as_ref() {
            let field = content.field();
            return Err(format!(
                "{field} is a Secret of another namespace than that of the machine"
            ));
        }
        sources.push(Source { content, name });
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn machine(spec: Value) -> Metal3Machine {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
            "metadata": {"name": "m", "namespace": "team-a"}, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn bootstrap_data_wins_and_other_namespaces_are_refused() {
        let source = |content, name: &str| Source {
            content,
            name: name.to_owned(),
        };
        let own = json!({
            "userData": {"name": "u"},
            "metaData": {"name": "md", "namespace": "team-a"},
            "networkData": {"name": ""},
        });
        for (spec, bootstrap, expected) in [
            (json!({}), None, Ok(vec![])),
            (
                own.clone(),
                Some("b"),
                Ok(vec![
                    source(Content::User, "b"),
                    source(Content::Meta, "md"),
                ]),
            ),
            (
                own,
                None,
                Ok(vec![
                    source(Content::User, "u"),
                    source(Content::Meta, "md"),
                ]),
            ),
            (
                json!({"networkData": {"name": "n", "namespace": "team-b"}}),
                Some("b"),
                Err(
                    "networkData is a Secret of another namespace than that of the machine"
                        .to_owned(),
                ),
            ),
        ] {
            assert_eq!(sources(&machine(spec), bootstrap), expected);
        }
    }

    #[test]
    fn only_known_keys_are_copied() {
        let value = || ByteString(b"x".to_vec());
        let all = [
            "userData",
            "metaData",
            "networkData",
            "value",
            "format",
            "key",
        ];
        let all: BTreeMap<_, _> = all.map(|key| (key.to_owned(), value())).into();
        for (content, name, expected) in [
            (
                Content::User,
                "m-userdata",
                &["format", "userData", "value"][..],
            ),
            (Content::Meta, "m-metadata", &["metaData", "value"][..]),
            (
                Content::Network,
                "m-networkdata",
                &["networkData", "value"][..],
            ),
        ] {
            let copied = content.copied(&all);
            assert_eq!(copied.keys().collect::<Vec<_>>(), expected);
            assert_eq!(content.secret_name("m"), name);
        }
    }
}
