//! The key that the clusters share: kept where there is one, for a new one cuts off every
//! cluster that has joined.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};

use super::BrokerSettings;
use super::place::Place;
use crate::error::Error;
use crate::globalnet::{CLUSTERSET_IP_INFO, GLOBALNET_INFO, Ledger};
use crate::info::BrokerInfo;
use crate::names::ADMIN;
use crate::report::Report;
use crate::{psk, token};

/// Where the key is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Psk {
    /// Out of the file that was named.
    Given,
    /// Out of the file that is replaced.
    Kept,
    /// It is new.
    Generated,
}

/// What files have of the key. Nothing has been sent.
pub(super) struct Choice {
    given: Option<Secret>,
    replaced: Replaced,
}

/// What is to be known of the file that is replaced. No more is taken out of it.
enum Replaced {
    /// There is none, or it has no key.
    Nothing,
    /// It cannot be understood, and says so.
    Odd(String),
    /// It has a key.
    Keyed {
        key: Box<Secret>,
        /// Whether it is of the same broker, by where that is.
        is_same: bool,
        /// Of which account its token is.
        account: Option<String>,
    },
}

/// Looks at the files: at the one that was named, and at the one that is replaced.
pub(super) fn look(
    settings: &BrokerSettings,
    given: Option<&BrokerInfo>,
    place: &Place,
) -> Result<Choice, Error> {
    Ok(Choice {
        given: given.and_then(of),
        replaced: replaced(settings, place)?,
    })
}

impl Choice {
    /// The key: of the file that was named; else of the one that is replaced, if it is of the
    /// same broker; else a new one, unless clusters have joined with another.
    pub(super) async fn settle(
        self,
        client: &Client,
        namespace: &str,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<(Secret, Psk), Error> {
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
            return Ok((key, Psk::Given));
        }
        if let Some(key) = self
            .replaced
            .key(client, namespace, settings, report)
            .await?
        {
            return Ok((key, Psk::Kept));
        }
        let joined = joined(client, namespace).await?;
        match joined.is_empty() {
            true => Ok(generated(report)),
            false => Err(Error::invalid_with_hint(
                format!(
                    "clusters have joined this broker with an IPsec PSK that is not known here, and a new one would cut them off: {}",
                    listed(&joined)
                ),
                "give the file that they joined with as --broker-info-from, or `subctl recover-broker-info` from one of them; --new-psk makes a new one all the same",
            )),
        }
    }
}

impl Replaced {
    /// Its key, if it is of the same broker: by where that is, or by the account of its token,
    /// which is at no other.
    async fn key(
        self,
        client: &Client,
        namespace: &str,
        settings: &BrokerSettings,
        report: &dyn Report,
    ) -> Result<Option<Secret>, Error> {
        let file = &settings.output;
        match self {
            Self::Nothing => Ok(None),
            Self::Odd(why) => {
                report.warn(&format!("{file:?} is replaced, and it is kept: {why}"));
                Ok(None)
            }
            Self::Keyed {
                key,
                is_same,
                account,
            } => {
                if is_same || is_account(client, namespace, account).await? {
                    report.warn(&format!(
                        "Reusing the IPsec PSK of {file:?}, which is of the same broker: a new one would cut off the clusters that have joined"
                    ));
                    return Ok(Some(*key));
                }
                report.warn(&format!(
                    "{file:?} is replaced, and it is kept: it is of another broker"
                ));
                Ok(None)
            }
        }
    }
}

fn generated(report: &dyn Report) -> (Secret, Psk) {
    report.done("A new IPsec PSK will be generated");
    (psk::generate(), Psk::Generated)
}

/// What the file that is replaced has.
fn replaced(settings: &BrokerSettings, place: &Place) -> Result<Replaced, Error> {
    let file = settings.output.as_path();
    // A file that is not there has no key. One that cannot even be looked at may have.
    match file.try_exists() {
        Ok(true) => {}
        Ok(false) => return Ok(Replaced::Nothing),
        Err(error) => {
            return Err(Error::invalid(format!("cannot look at {file:?}: {error}")));
        }
    }
    let found = match BrokerInfo::read(file) {
        Ok(found) => found,
        Err(error @ crate::info::Error::Read { .. }) => return Err(error.into()),
        Err(error) => return Ok(Replaced::Odd(error.to_string())),
    };
    Ok(match of(&found) {
        Some(key) => Replaced::Keyed {
            key: Box::new(key),
            is_same: place.is_of(&found),
            account: found.client_token.as_ref().and_then(token::account_uid),
        },
        None => Replaced::Nothing,
    })
}

/// Whether this is the administrator of the broker.
async fn is_account(
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

/// The clusters that have joined: that have told the broker of themselves, or have addresses.
async fn joined(client: &Client, namespace: &str) -> Result<BTreeSet<String>, Error> {
    let attempted = || Error::when("see which clusters have joined");
    let kind = GroupVersionKind::gvk("submariner.io", "v1", "Cluster");
    let kind = ApiResource::from_gvk_with_plural(&kind, "clusters");
    let clusters: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let listed = match clusters.list_metadata(&ListParams::default()).await {
        // A cluster without the kind has none; who may not see them sees who has addresses.
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => Vec::new(),
        listed => listed.map_err(attempted())?.items,
    };
    let mut joined: BTreeSet<String> = listed.iter().map(ResourceExt::name_any).collect();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    for name in [GLOBALNET_INFO, CLUSTERSET_IP_INFO] {
        let found = match maps.get_opt(name).await {
            // What comes next needs this right, and says so.
            Err(kube::Error::Api(status)) if status.is_forbidden() => None,
            found => found.map_err(attempted())?,
        };
        let ledger = found.as_ref().map(Ledger::read).transpose()?;
        let entries = ledger.unwrap_or_default().clusters.into_iter();
        joined.extend(entries.map(|entry| entry.cluster_id));
    }
    Ok(joined)
}

/// As many as fit on a line.
fn listed(clusters: &BTreeSet<String>) -> String {
    const MOST: usize = 5;
    let named: Vec<_> = clusters.iter().take(MOST).map(String::as_str).collect();
    match clusters.len().saturating_sub(MOST) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn of(info: &BrokerInfo) -> Option<Secret> {
    let secret = info.ipsec_psk.as_ref()?;
    psk::of(secret).map(|key| psk::secret(key.to_vec()))
}
