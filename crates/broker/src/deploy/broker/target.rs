//! The target of a deployment: cluster, namespace and credential. Each comes from the file,
//! then from the flags, then from the defaults; the kube context provides what the file lacks.

use http::Uri;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config, ResourceExt};

use super::{BrokerSettings, Mode};
use crate::connect::{self, is_same_api, is_same_server};
use crate::deploy::permissions::{self, Permission};
use crate::error::Error;
use crate::info::BrokerInfo;
use crate::names::{ADMIN, DEFAULT_NAMESPACE};
use crate::report::Report;
use crate::token;

/// The target of a deployment.
#[derive(Clone)]
pub struct Target {
    /// The namespace.
    pub namespace: String,
    /// The client configuration of the cluster.
    pub config: Config,
    /// The URL for clusters.
    pub advertised_url: String,
    /// The origin of the credential.
    pub user: CredentialSource,
    /// The kube context, if it is of the same server.
    context: Option<Config>,
    /// The UID of the account of the file's token.
    account: Option<String>,
}

/// The origin of the credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// The broker info file.
    File,
    /// The kube context.
    KubeContext,
}

impl Target {
    /// Resolves the target. Nothing is sent.
    ///
    /// # Errors
    ///
    /// If a part is missing, or a credential would be sent to a server it may not belong to.
    pub fn resolve(
        context: Result<Config, Error>,
        settings: &BrokerSettings,
        given: Option<&BrokerInfo>,
        report: &dyn Report,
    ) -> Result<Self, Error> {
        let namespace = namespace(settings, given, report)?;
        let url = given.map(|given| given.url.as_str());
        let url = url.filter(|url| !url.is_empty());
        let user = match given.and_then(|given| connect::token_data(given, "token")) {
            Some(_) => CredentialSource::File,
            None => CredentialSource::KubeContext,
        };
        let (config, context) = match (user, url, given) {
            (CredentialSource::File, Some(url), Some(given)) => {
                let config = connect::from_file(given)?;
                (config, of_same_server(context, &connect::url(url)?))
            }
            (CredentialSource::File, None, Some(given)) => {
                (without_url(context, settings, given)?, None)
            }
            (_, Some(url), _) => (without_user(context?, &connect::url(url)?)?, None),
            _ => (context?, None),
        };
        let advertised = settings.broker_url.as_deref().map(connect::url);
        let advertised = advertised.transpose()?;
        let advertised_url = match &advertised {
            Some(url) => formatted(url),
            // The kubeconfig of a tenant names its space, as the token in the file does.
            None => connect::without_space(&formatted(&config.cluster_url)).to_owned(),
        };
        Ok(Self {
            namespace,
            advertised_url,
            config,
            user,
            context,
            account: given.and_then(|given| token::account_uid(given.client_token.as_ref()?)),
        })
    }

    /// Creates a client.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn client(&self) -> Result<Client, Error> {
        connect_to(self.config.clone())
    }

    /// Returns whether a file is of the same broker, by URL and namespace.
    pub(super) fn is_of(&self, info: &BrokerInfo) -> bool {
        let namespace = info.namespace().ok().flatten();
        let (Ok(url), Ok(advertised)) =
            (connect::url(&info.url), connect::url(&self.advertised_url))
        else {
            return false;
        };
        let ours = [&advertised, &self.config.cluster_url];
        let is_there = ours.into_iter().any(|ours| is_same_api(ours, &url));
        namespace.as_ref() == Some(&self.namespace) && is_there
    }

    /// Returns a client of the kube context if the file's user administers a classic broker,
    /// which does not include deploying it: such files have always been given for their key
    /// alone. It is used at the same cluster only, and with a warning. A tenant's
    /// administrator may deploy, or gets the missing permissions reported.
    pub(super) async fn context_fallback(
        &self,
        client: &Client,
        mode: Mode,
        report: &dyn Report,
    ) -> Result<Option<Client>, Error> {
        if mode == Mode::Axon || self.user == CredentialSource::KubeContext {
            return Ok(None);
        }
        let namespace = Some(self.namespace.as_str());
        let needed = ["create", "update"];
        let needed =
            needed.map(|verb| Permission::new(verb, "submariner.io", "brokers", namespace));
        let lacking = permissions::missing(client, needed.into()).await?;
        if lacking.is_empty() {
            return Ok(None);
        }
        let Some(client) = self.as_context().await else {
            return Err(Error::MissingPermissions(permissions::describe(&lacking)));
        };
        report.warn(
            "The user of the broker info file may not deploy a broker: continuing as the user of the kube context, which is of the same cluster",
        );
        Ok(Some(client))
    }

    /// Returns a client of the kube context if it is of the same cluster, which is proved by
    /// the account of the file's token: one server may have many clusters.
    async fn as_context(&self) -> Option<Client> {
        let client = connect_to(self.context.clone()?).ok()?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.namespace);
        let found = accounts.get(ADMIN).await.ok()?;
        (found.uid().is_some() && found.uid() == self.account).then_some(client)
    }
}

/// Formats a URL as in files.
fn formatted(url: &Uri) -> String {
    url.to_string().trim_end_matches('/').to_owned()
}

fn connect_to(config: Config) -> Result<Client, Error> {
    let url = config.cluster_url.clone();
    Client::try_from(config).map_err(Error::when(format!("connect to {url}")))
}

fn namespace(
    settings: &BrokerSettings,
    given: Option<&BrokerInfo>,
    report: &dyn Report,
) -> Result<String, Error> {
    let of_file = given.map(BrokerInfo::namespace).transpose()?.flatten();
    if let (Some(of_file), Some(asked)) = (&of_file, &settings.namespace)
        && of_file != asked
    {
        report.warn(&format!(
            "Using namespace {of_file} of the broker info file, not {asked} of --namespace"
        ));
    }
    let asked = of_file.or_else(|| settings.namespace.clone());
    Ok(asked.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()))
}

fn of_same_server(context: Result<Config, Error>, url: &Uri) -> Option<Config> {
    let same = |context: &Config| is_same_server(&context.cluster_url, url);
    context.ok().filter(same)
}

/// Resolves the target of a file with a token but without a URL: --broker-url, else the
/// context's server if its certificate is of the CA in the file, which is verified before
/// anything is sent.
fn without_url(
    context: Result<Config, Error>,
    settings: &BrokerSettings,
    given: &BrokerInfo,
) -> Result<Config, Error> {
    if let Some(url) = &settings.broker_url {
        let advertised = BrokerInfo {
            url: url.clone(),
            ..given.clone()
        };
        return connect::from_file(&advertised);
    }
    let roots = connect::ca_certificates(given)?;
    if roots.is_empty() {
        return Err(Error::invalid_with_hint(
            "the broker info file has a token, but neither a URL nor a CA: it is not sent to the server of the kube context, which may be a different one",
            "pass its URL as --broker-url",
        ));
    }
    let mut config = Config::new(context?.cluster_url);
    config.auth_info = connect::auth_info(given)?;
    config.root_cert = Some(roots);
    connect::url(&config.cluster_url.to_string())?;
    Ok(config)
}

/// Resolves the target of a file with a URL but without a user: the context's credential is
/// sent only to the context's own server, never to an address that the file's author chose. A
/// certificate of the same CA proves nothing, since one CA may have issued many.
fn without_user(context: Config, url: &Uri) -> Result<Config, Error> {
    if !is_same_server(&context.cluster_url, url) {
        return Err(Error::invalid_with_hint(
            format!(
                "the broker info file names {url} and no user: the credential of the kube context, which is of {}, is not sent there",
                context.cluster_url
            ),
            "use a kube context of that server",
        ));
    }
    let mut config = context;
    config.cluster_url = url.clone();
    Ok(config)
}
