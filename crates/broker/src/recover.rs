//! Recovery of a lost `broker-info.subm`.
//!
//! The pre-shared key is known only to the clusters that have joined. So recovery runs from
//! one of them, which may read everything else at the broker; it works from the broker's own
//! cluster only if the key is there too, or none is needed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, Client, ResourceExt};

use crate::broker::Broker;
use crate::component::{self, CONNECTIVITY};
use crate::error::Error;
use crate::info::{self, BrokerInfo, Saved};
use crate::join::{Membership, membership};
use crate::names::OPERATOR_NAMESPACE;
use crate::report::Report;
use crate::{lookup, names, psk, show, token};

/// The cluster that recovery runs from.
pub struct Context {
    /// A client with administrator rights.
    pub client: Client,
    /// Its URL, written to the file if it is the broker's own cluster.
    pub url: String,
}

/// The settings of a recovery.
#[derive(Clone, Debug)]
pub struct RecoverSettings {
    /// The broker's namespace, if the cluster does not know it.
    pub namespace: Option<String>,
    /// A different URL of the broker.
    pub broker_url: Option<String>,
    /// The file to write.
    pub output: PathBuf,
}

/// The result of a recovery.
#[derive(Debug)]
pub struct Recovered {
    /// The recovered content.
    pub info: BrokerInfo,
    /// The written file.
    pub saved: Saved,
}

/// Creates a client for the broker from its URL and token.
pub type Connect<'a> = &'a (dyn Fn(&BrokerInfo) -> Result<Client, Error> + Send + Sync);

/// A broker and what the cluster knows about it.
struct KnownBroker {
    client: Client,
    url: String,
    namespace: String,
    psk: Option<Vec<u8>>,
}

/// Recovers the file.
///
/// # Errors
///
/// If a part of its content is not known to this cluster.
pub async fn recover(
    context: &Context,
    connect: Connect<'_>,
    settings: &RecoverSettings,
    report: &dyn Report,
) -> Result<Recovered, Error> {
    settings
        .namespace
        .as_deref()
        .map_or(Ok(()), show::validate_namespace)?;
    let url = settings.broker_url.as_deref().map(crate::connect::url);
    url.transpose()?;
    info::check(&settings.output)?;
    report.begin("Retrieving Broker information");
    let known = match membership(&context.client).await {
        Ok(Some(membership)) => from_member(context, &membership, connect, settings).await?,
        Ok(None) => from_broker_cluster(context, settings).await?,
        // A broker's administrator may read the broker's namespace only.
        Err(error) if settings.namespace.is_some() && is_forbidden(&error) => {
            from_broker_cluster(context, settings).await?
        }
        Err(error) => return Err(error),
    };
    let info = gather(known).await?;
    report.done("Retrieved Broker information");
    let saved = info::save(&settings.output, &info)?;
    Ok(Recovered { info, saved })
}

fn is_forbidden(error: &Error) -> bool {
    let Error::Server { source, .. } = error else {
        return false;
    };
    matches!(&**source, kube::Error::Api(status) if status.is_forbidden())
}

/// Collects what a member cluster knows.
async fn from_member(
    context: &Context,
    membership: &Membership,
    connect: Connect<'_>,
    settings: &RecoverSettings,
) -> Result<KnownBroker, Error> {
    let secrets: Api<Secret> = Api::namespaced(context.client.clone(), OPERATOR_NAMESPACE);
    let server = membership.field("brokerK8sApiServer").unwrap_or_default();
    let url = settings.broker_url.clone();
    let own = BrokerInfo {
        url: url.unwrap_or_else(|| format!("https://{server}")),
        client_token: Some(own_token(&secrets, membership).await?),
        namespace: membership
            .field("brokerK8sRemoteNamespace")
            .map(str::to_owned),
        ..BrokerInfo::default()
    };
    let namespace = own.namespace()?;
    let asked = settings.namespace.clone();
    if let (Some(asked), Some(namespace)) = (&asked, &namespace)
        && asked != namespace
    {
        return Err(Error::invalid_with_hint(
            format!("this cluster has joined the broker in namespace {namespace}, not in {asked}"),
            "leave --namespace out",
        ));
    }
    Ok(KnownBroker {
        client: connect(&own)?,
        namespace: namespace
            .or(asked)
            .unwrap_or_else(|| names::DEFAULT_NAMESPACE.to_owned()),
        url: own.url,
        psk: own_psk(&secrets, membership).await?,
    })
}

/// Returns the cluster's own token: from the Secret that its membership names, or from the
/// spec, where older versions stored it.
async fn own_token(secrets: &Api<Secret>, membership: &Membership) -> Result<Secret, Error> {
    if let Some(found) = secret(secrets, membership.field("brokerK8sSecret")).await?
        && token::of(&found).is_some()
    {
        return Ok(found);
    }
    let token = membership.field("brokerK8sApiServerToken");
    let mut data = vec![("token", token.unwrap_or_default().as_bytes().to_vec())];
    let ca = membership.field("brokerK8sCA");
    if let Some(ca) = ca.and_then(|ca| STANDARD.decode(ca).ok()) {
        data.push(("ca.crt", ca));
    }
    let data = data
        .into_iter()
        .map(|(key, bytes)| (key.to_owned(), ByteString(bytes)));
    Ok(Secret {
        data: Some(data.collect()),
        ..Secret::default()
    })
}

async fn own_psk(secrets: &Api<Secret>, membership: &Membership) -> Result<Option<Vec<u8>>, Error> {
    let found = secret(secrets, membership.field("ceIPSecPSKSecret")).await?;
    if let Some(key) = found.as_ref().and_then(psk::of) {
        return Ok(Some(key.to_vec()));
    }
    let key = membership.field("ceIPSecPSK");
    let key = key.and_then(|key| STANDARD.decode(key).ok());
    Ok(key.filter(|key| !key.is_empty()))
}

/// Collects what the broker's own cluster knows.
async fn from_broker_cluster(
    context: &Context,
    settings: &RecoverSettings,
) -> Result<KnownBroker, Error> {
    let client = context.client.clone();
    let namespace = match &settings.namespace {
        Some(namespace) => namespace.clone(),
        None => only_broker_namespace(&client).await?,
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let key = secret(&secrets, Some(names::PSK)).await?;
    let url = settings.broker_url.as_ref().unwrap_or(&context.url);
    Ok(KnownBroker {
        client,
        url: url.clone(),
        namespace,
        psk: key.as_ref().and_then(psk::of).map(<[u8]>::to_vec),
    })
}

/// Returns the namespace of the only broker of the cluster.
async fn only_broker_namespace(client: &Client) -> Result<String, Error> {
    let brokers = show::list(client, None).await?;
    let namespaces: Vec<String> = brokers.iter().filter_map(ResourceExt::namespace).collect();
    match namespaces.as_slice() {
        [only] => Ok(only.clone()),
        [] => Err(Error::invalid_with_hint(
            "this cluster has joined no broker and has none",
            "use the context of a cluster that has joined, or of the broker",
        )),
        several => Err(Error::invalid_with_hint(
            format!("there are {} brokers on this cluster", several.len()),
            "--namespace says which; `subctl show brokers` shows them",
        )),
    }
}

/// Collects the content of the file.
async fn gather(known: KnownBroker) -> Result<BrokerInfo, Error> {
    let KnownBroker {
        client,
        url,
        namespace,
        psk,
    } = known;
    let missing = |missing: String| Error::NoBroker {
        namespace: namespace.clone(),
        missing,
    };
    let brokers: Api<Broker> = Api::namespaced(client.clone(), &namespace);
    let broker = lookup::get(&brokers, names::BROKER).await;
    let broker = broker.map_err(Error::when(format!("read the broker at {url}")))?;
    let broker = broker.ok_or_else(|| missing(format!("Broker {}", names::BROKER)))?;
    let admin = admin_token(&client, &namespace).await?;
    let admin = admin.ok_or_else(|| missing(format!("token for {}", names::ADMIN)))?;
    let components = broker.spec.components.into_iter();
    let components: BTreeSet<_> = components
        .filter(|word| component::ALL.contains(&word.as_str()))
        .collect();
    if psk.is_none() && components.contains(CONNECTIVITY) {
        return Err(Error::invalid_with_hint(
            "the IPsec PSK is not known to this cluster",
            "use the context of a cluster that has joined",
        ));
    }
    Ok(BrokerInfo {
        url,
        client_token: Some(admin),
        ipsec_psk: psk.map(psk::secret),
        components,
        custom_domains: broker.spec.default_custom_domains,
        namespace: Some(namespace),
    })
}

/// Returns the Secret with the token of the broker's administrator.
async fn admin_token(client: &Client, namespace: &str) -> Result<Option<Secret>, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = accounts.get_opt(names::ADMIN).await;
    let attempted = format!("read service account {}", names::ADMIN);
    let Some(account) = account.map_err(Error::when(attempted))? else {
        return Ok(None);
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = token::find_for(&secrets, &account).await?;
    let found = found.filter(|secret| token::of(secret).is_some());
    Ok(found.map(token::for_distribution))
}

/// Returns a Secret by a name from an object's spec. The name is validated, because the
/// Secret's content is sent where that object says: it must not lead into another namespace.
async fn secret(secrets: &Api<Secret>, name: Option<&str>) -> Result<Option<Secret>, Error> {
    let Some(name) = name.filter(|name| name.split('.').all(names::is_label)) else {
        return Ok(None);
    };
    let found = secrets.get_opt(name).await;
    found.map_err(Error::when(format!("read Secret {name}")))
}
