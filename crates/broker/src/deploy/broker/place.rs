//! Where a broker is deployed, and as whom: what the file says, then what was asked for, then
//! what is usual; and the kube context where the file says nothing. Piece by piece.

use http::Uri;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Config, ResourceExt};

use super::{BrokerSettings, Mode};
use crate::connect::{self, is_same_place, is_same_server};
use crate::deploy::rights::{self, Right};
use crate::error::Error;
use crate::info::BrokerInfo;
use crate::names::{ADMIN, DEFAULT_NAMESPACE};
use crate::report::Report;
use crate::token;

/// Where a broker is deployed, and as whom.
#[derive(Clone)]
pub struct Place {
    /// The namespace.
    pub namespace: String,
    /// How its cluster is reached.
    pub config: Config,
    /// The URL that clusters are told.
    pub told_url: String,
    /// As whom.
    pub user: User,
    /// The kube context, if it is one of the same server.
    context: Option<Config>,
    /// The UID of the account that the token of the file is of.
    account: Option<String>,
}

/// Whose credential is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The file's.
    OfFile,
    /// The kube context's.
    OfContext,
}

impl Place {
    /// Finds it. Nothing is sent.
    ///
    /// # Errors
    ///
    /// If a piece is missing, or a credential would be sent to a server that it may not be of.
    pub fn find(
        context: Result<Config, Error>,
        settings: &BrokerSettings,
        given: Option<&BrokerInfo>,
        report: &dyn Report,
    ) -> Result<Self, Error> {
        let namespace = namespace(settings, given, report)?;
        let url = given.map(|given| given.url.as_str());
        let url = url.filter(|url| !url.is_empty());
        let user = match given.and_then(|given| connect::datum(given, "token")) {
            Some(_) => User::OfFile,
            None => User::OfContext,
        };
        let (config, context) = match (user, url, given) {
            (User::OfFile, Some(url), Some(given)) => {
                let config = connect::from_file(given)?;
                (config, of_same_server(context, &connect::url(url)?))
            }
            (User::OfFile, None, Some(given)) => (without_url(context, settings, given)?, None),
            (_, Some(url), _) => (without_user(context?, &connect::url(url)?)?, None),
            _ => (context?, None),
        };
        let told = settings.broker_url.as_deref().map(connect::url);
        let told = told.transpose()?;
        Ok(Self {
            namespace,
            told_url: written(told.as_ref().unwrap_or(&config.cluster_url)),
            config,
            user,
            context,
            account: given.and_then(|given| token::account_uid(given.client_token.as_ref()?)),
        })
    }

    /// A client for it.
    ///
    /// # Errors
    ///
    /// If what is configured cannot be used.
    pub fn client(&self) -> Result<Client, Error> {
        connected(self.config.clone())
    }

    /// Whether a file is of the same broker, by where it says that is.
    pub(super) fn is_of(&self, info: &BrokerInfo) -> bool {
        let namespace = info.namespace().ok().flatten();
        let (Ok(url), Ok(told)) = (connect::url(&info.url), connect::url(&self.told_url)) else {
            return false;
        };
        let ours = [&told, &self.config.cluster_url];
        let is_there = ours.into_iter().any(|ours| is_same_place(ours, &url));
        namespace.as_ref() == Some(&self.namespace) && is_there
    }

    /// A client of the kube context, if the file's user is an administrator of a broker of
    /// its own, who may look after it but not deploy it: Submariner's have always been so,
    /// and their files were given for the key alone. It is said, and done at the same
    /// cluster only. A tenant's administrator may deploy, or is told what is missing.
    pub(super) async fn instead_of_file(
        &self,
        client: &Client,
        mode: Mode,
        report: &dyn Report,
    ) -> Result<Option<Client>, Error> {
        if mode == Mode::Axon || self.user == User::OfContext {
            return Ok(None);
        }
        let namespace = Some(self.namespace.as_str());
        let needed = ["create", "update"];
        let needed = needed.map(|verb| Right::new(verb, "submariner.io", "brokers", namespace));
        let lacking = rights::lacking(client, needed.into()).await?;
        if lacking.is_empty() {
            return Ok(None);
        }
        let Some(client) = self.as_context().await else {
            return Err(Error::MissingRights(rights::name(&lacking)));
        };
        report.warn(
            "The user of the broker info file may not deploy a broker: going on as the user of the kube context, which is of the same cluster",
        );
        Ok(Some(client))
    }

    /// A client of the kube context, if it is of the same cluster: there the account of the
    /// file's token is. One server may have many clusters.
    async fn as_context(&self) -> Option<Client> {
        let client = connected(self.context.clone()?).ok()?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.namespace);
        let found = accounts.get(ADMIN).await.ok()?;
        (found.uid().is_some() && found.uid() == self.account).then_some(client)
    }
}

/// As it stands in files.
fn written(url: &Uri) -> String {
    url.to_string().trim_end_matches('/').to_owned()
}

fn connected(config: Config) -> Result<Client, Error> {
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

/// A token whose file does not say where it is from: it goes where we are told, else to the
/// context's server if that proves to be of the CA in the file, which it does before it is
/// sent anything.
fn without_url(
    context: Result<Config, Error>,
    settings: &BrokerSettings,
    given: &BrokerInfo,
) -> Result<Config, Error> {
    if let Some(url) = &settings.broker_url {
        let told = BrokerInfo {
            url: url.clone(),
            ..given.clone()
        };
        return connect::from_file(&told);
    }
    let roots = connect::authority(given)?;
    if roots.is_empty() {
        return Err(Error::invalid_with_hint(
            "the broker info file has a token, but neither says for which URL nor has a CA: it is not sent to the server of the kube context, which may be another",
            "say where it is from with --broker-url",
        ));
    }
    let mut config = Config::new(context?.cluster_url);
    config.auth_info = connect::user(given)?;
    config.root_cert = Some(roots);
    connect::url(&config.cluster_url.to_string())?;
    Ok(config)
}

/// The context's user at the URL of a file. Whoever wrote the file gets no credential of the
/// context by it: the server is the context's own. Another that shows a certificate of the
/// same CA is another all the same, of which one CA may have many.
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
