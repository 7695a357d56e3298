//! The choice of the pre-shared key: an existing one is kept, since a new one cuts off every
//! cluster that has joined.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};

use super::BrokerSettings;
use super::target::Target;
use crate::error::Error;
use crate::globalnet::{Allocations, CLUSTERSET_IP_INFO, GLOBALNET_INFO};
use crate::info::BrokerInfo;
use crate::names::ADMIN;
use crate::report::Report;
use crate::{psk, token};

/// The origin of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PskSource {
    /// The file that was given.
    Given,
    /// The file that is replaced.
    Kept,
    /// Newly generated.
    Generated,
}

/// The keys in the files. Nothing was sent yet.
pub(super) struct Candidates {
    given: Option<Secret>,
    replaced: PreviousFile,
}

/// The relevant content of the file that is replaced.
enum PreviousFile {
    /// There is no file, or it has no key.
    NoKey,
    /// It cannot be decoded; with the reason.
    Invalid(String),
    /// It has a key.
    HasKey {
        key: Box<Secret>,
        /// Whether it is of the same broker, by URL and namespace.
        is_same: bool,
        /// The UID of its token's account.
        account: Option<String>,
    },
}

/// Reads the keys in the given file and in the one that is replaced.
pub(super) fn read_candidates(
    settings: &BrokerSettings,
    given: Option<&BrokerInfo>,
    target: &Target,
) -> Result<Candidates, Error> {
    Ok(Candidates {
        given: given.and_then(of),
        replaced: replaced(settings, target)?,
    })
}

impl Candidates {
    /// Chooses the key: that of the given file; else that of the replaced file, if it is of
    /// the same broker; else a new one, unless clusters have joined with another.
    pub(super) async fn resolve(
        self,
        client: &Client,
        namespace: &str,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<(Secret, PskSource), Error> {
        if settings.new_psk {
            let joined = joined(client, namespace).await?;
            if !joined.is_empty() {
                let joined = listed(&joined);
                report.warn(&format!(
                    "A new IPsec PSK cuts off the clusters that have joined, until they join again: {joined}"
                ));
            }
            return Ok(generated(report));
        }
        if let Some(key) = self.given {
            report.done("Reusing the IPsec PSK of the broker info file");
            return Ok((key, PskSource::Given));
        }
        if let Some(key) = self
            .replaced
            .key(client, namespace, settings, report)
            .await?
        {
            return Ok((key, PskSource::Kept));
        }
        let joined = joined(client, namespace).await?;
        match joined.is_empty() {
            true => Ok(generated(report)),
            false => Err(Error::invalid_with_hint(
                format!(
                    "clusters have joined this broker with an unknown IPsec PSK, and a new one would cut them off: {}",
                    listed(&joined)
                ),
                "pass the file that they joined with as --broker-info-from, or run `subctl recover-broker-info` on one of them; --new-psk generates a new one nevertheless",
            )),
        }
    }
}

impl PreviousFile {
    /// Returns its key, if it is of the same broker: by URL and namespace, or by its token's
    /// account, which exists at no other broker.
    async fn key(
        self,
        client: &Client,
        namespace: &str,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<Option<Secret>, Error> {
        let file = &settings.output;
        match self {
            Self::NoKey => Ok(None),
            Self::Invalid(why) => {
                report.warn(&format!("{file:?} is replaced and backed up: {why}"));
                Ok(None)
            }
            Self::HasKey {
                key,
                is_same,
                account,
            } => {
                if is_same || is_broker_admin(client, namespace, account).await? {
                    report.warn(&format!(
                        "Reusing the IPsec PSK of {file:?}, which belongs to the same broker: a new one would cut off the clusters that have joined"
                    ));
                    return Ok(Some(*key));
                }
                report.warn(&format!(
                    "{file:?} is replaced and backed up: it belongs to another broker"
                ));
                Ok(None)
            }
        }
    }
}

fn generated(report: &dyn Report) -> (Secret, PskSource) {
    report.done("A new IPsec PSK will be generated");
    (psk::generate(), PskSource::Generated)
}

/// Reads the file that is replaced.
fn replaced(settings: &BrokerSettings, target: &Target) -> Result<PreviousFile, Error> {
    let file = settings.output.as_path();
    // A missing file has no key. One that cannot be examined may have one.
    match file.try_exists() {
        Ok(true) => {}
        Ok(false) => return Ok(PreviousFile::NoKey),
        Err(error) => {
            return Err(Error::invalid(format!("cannot examine {file:?}: {error}")));
        }
    }
    let found = match BrokerInfo::read(file) {
        Ok(found) => found,
        Err(error @ crate::info::Error::Read { .. }) => return Err(error.into()),
        Err(error) => return Ok(PreviousFile::Invalid(error.to_string())),
    };
    Ok(match of(&found) {
        Some(key) => PreviousFile::HasKey {
            key: Box::new(key),
            is_same: target.is_of(&found),
            account: found.client_token.as_ref().and_then(token::account_uid),
        },
        None => PreviousFile::NoKey,
    })
}

/// Returns whether this is the UID of the broker's administrator.
async fn is_broker_admin(
    client: &Client,
    namespace: &str,
    account: Option<String>,
) -> Result<bool, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let found = accounts.get_opt(ADMIN).await;
    let found = found.map_err(Error::when(format!("read service account {ADMIN}")))?;
    let uid = found.and_then(|found| found.uid());
    Ok(uid.is_some() && uid == account)
}

/// Returns the clusters that have joined: those with a Cluster object or addresses.
async fn joined(client: &Client, namespace: &str) -> Result<BTreeSet<String>, Error> {
    let attempted = || Error::when("see which clusters have joined");
    let kind = GroupVersionKind::gvk("submariner.io", "v1", "Cluster");
    let kind = ApiResource::from_gvk_with_plural(&kind, "clusters");
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let listed = match clusters.list_metadata(&ListParams::default()).await {
        // Without the kind there are no clusters; without permission the allocations show
        // them.
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => Vec::new(),
        listed => listed.map_err(attempted())?.items,
    };
    let mut joined: BTreeSet<String> = listed.iter().map(ResourceExt::name_any).collect();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    for name in [GLOBALNET_INFO, CLUSTERSET_IP_INFO] {
        let found = match maps.get_opt(name).await {
            // The next steps need this permission and report it.
            Err(kube::Error::Api(status)) if status.is_forbidden() => None,
            found => found.map_err(attempted())?,
        };
        let allocations = found.as_ref().map(Allocations::read).transpose()?;
        let entries = allocations.unwrap_or_default().clusters.into_iter();
        joined.extend(entries.map(|entry| entry.cluster_id));
    }
    Ok(joined)
}

/// Lists the first few clusters.
fn listed(clusters: &BTreeSet<String>) -> String {
    const MAX_LISTED: usize = 5;
    let named: Vec<_> = clusters
        .iter()
        .take(MAX_LISTED)
        .map(String::as_str)
        .collect();
    match clusters.len().saturating_sub(MAX_LISTED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn of(info: &BrokerInfo) -> Option<Secret> {
    let secret = info.ipsec_psk.as_ref()?;
    psk::of(secret).map(|key| psk::secret(key.to_vec()))
}
