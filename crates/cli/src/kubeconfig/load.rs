//! From kubeconfig files to the configuration of a client.

use std::path::PathBuf;

use http::Uri;
use kube::Config;
use kube::config::{
    KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use serde_json::Value;

use super::environment;
use crate::failure::Failure;

/// Reads and merges kubeconfigs; the first one wins.
pub fn merged(files: &[PathBuf]) -> Result<Kubeconfig, Failure> {
    let mut merged = Kubeconfig::default();
    for file in files {
        let attempted = format!("cannot read {}", file.display());
        let next = Kubeconfig::read_from(file).map_err(|error| unreadable(&attempted, &error))?;
        let next = without_empty(&next).map_err(|error| Failure::new(&attempted, error))?;
        let both = merged.merge(next);
        merged = both.map_err(|error| Failure::new(&attempted, error))?;
    }
    Ok(merged)
}

/// Removes empty strings, which mean absent values as in Go: some programs write them, and the
/// first file's values win over those of the next.
fn without_empty(kubeconfig: &Kubeconfig) -> Result<Kubeconfig, serde_json::Error> {
    let mut file = serde_json::to_value(kubeconfig)?;
    remove_empty(&mut file);
    for (list, entry) in [("clusters", "cluster"), ("users", "user")] {
        for named in file[list].as_array_mut().into_iter().flatten() {
            remove_empty(&mut named[entry]);
        }
    }
    serde_json::from_value(file)
}

fn remove_empty(object: &mut Value) {
    if let Value::Object(fields) = object {
        fields.retain(|_, value| value != "");
    }
}

/// Returns the configuration of a client with a context's user.
pub async fn with_user(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<Config, Failure> {
    let context = context(&kubeconfig, options.context.as_deref());
    let user = context.and_then(|named| named.context.as_ref()?.user.clone());
    let user = options
        .user
        .clone()
        .or(user)
        .filter(|user| !user.is_empty());
    let is_named = |user: &String| {
        let named = |had: &NamedAuthInfo| had.name == *user;
        kubeconfig.auth_infos.iter().any(named)
    };
    // kube would send requests without credentials.
    match user.filter(|user| context.is_some() && !is_named(user)) {
        Some(user) => Err(missing("user", &user)),
        None => with_token(without_user(kubeconfig, options).await?),
    }
}

/// Returns the configuration of a client, whether the context's user exists or not.
pub async fn without_user(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> Result<Config, Failure> {
    let has_proxy = cluster(&kubeconfig, options).is_some_and(|named| {
        let cluster = named.cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.proxy_url.is_some())
    });
    let config = Config::from_custom_kubeconfig(kubeconfig, options).await;
    let mut config = config.map_err(|error| unusable(&error))?;
    check_url(&config.cluster_url)?;
    // kube does not compare the server with NO_PROXY.
    if !has_proxy && !environment::is_proxied(&config.cluster_url) {
        config.proxy_url = None;
    }
    Ok(config)
}

/// Prefers the token's file, as Kubernetes does: it is the one that is renewed.
fn with_token(mut config: Config) -> Result<Config, Failure> {
    let user = &mut config.auth_info;
    let Some(file) = &user.token_file else {
        return Ok(config);
    };
    let attempted = format!("cannot read {file} of the kubeconfig");
    let token = std::fs::read_to_string(file);
    let token = token.map_err(|error| Failure::new(&attempted, error))?;
    user.token = None;
    // kube sends the file's whole content. A file with a newline is written by hand, so it is
    // read only once.
    if token.trim() != token {
        user.token = Some(token.trim().into());
        user.token_file = None;
    }
    Ok(config)
}

/// Returns the named context, else the current one.
pub fn context<'a>(kubeconfig: &'a Kubeconfig, name: Option<&str>) -> Option<&'a NamedContext> {
    let name = name.or(kubeconfig.current_context.as_deref());
    let mut contexts = kubeconfig.contexts.iter();
    contexts.find(|had| Some(had.name.as_str()) == name)
}

fn cluster<'a>(
    kubeconfig: &'a Kubeconfig,
    options: &KubeConfigOptions,
) -> Option<&'a NamedCluster> {
    let context = context(kubeconfig, options.context.as_deref());
    let context = context.and_then(|named| named.context.as_ref());
    let name = options.cluster.as_ref();
    let name = name.or(context.map(|context| &context.cluster))?;
    kubeconfig.clusters.iter().find(|had| had.name == *name)
}

fn check_url(url: &Uri) -> Result<(), Failure> {
    match (url.scheme_str(), url.host()) {
        (Some("https" | "http"), Some(_)) => Ok(()),
        _ => Err(not_a_url("the scheme is neither https nor http")),
    }
}

fn not_a_url(why: impl std::fmt::Display) -> Failure {
    Failure::new("the server of the kubeconfig is not a URL", why)
}

/// Reports only the position of a syntax error, since the text contains keys.
fn unreadable(attempted: &str, error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::Parse(error) => {
            let place = error.location();
            let place = place.map_or(String::new(), |place| format!(" (line {})", place.line()));
            Failure::new(attempted, format!("not a kubeconfig{place}"))
        }
        KubeconfigError::ReadConfig(error, _) => Failure::new(attempted, error),
        other => Failure::new(attempted, other),
    }
}

/// Converts the error of a kubeconfig that was read but cannot be used.
pub fn unusable(error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::CurrentContextNotSet => {
            Failure::message("the kubeconfig has no current context")
                .hint("choose one with --context")
        }
        KubeconfigError::LoadContext(name) => missing("context", name),
        KubeconfigError::LoadClusterOfContext(name) => missing("cluster", name),
        KubeconfigError::MissingClusterUrl => {
            Failure::message("the cluster of the kubeconfig has no server")
        }
        KubeconfigError::ParseClusterUrl(error) => not_a_url(error),
        KubeconfigError::LoadClientKey(LoadDataError::NoBase64DataOrFile)
        | KubeconfigError::LoadClientCertificate(LoadDataError::NoBase64DataOrFile) => {
            Failure::message(
                "the kubeconfig has a client certificate without its key, or a key without its certificate",
            )
        }
        KubeconfigError::LoadCertificateAuthority(LoadDataError::ReadFile(error, path))
        | KubeconfigError::LoadClientCertificate(LoadDataError::ReadFile(error, path))
        | KubeconfigError::LoadClientKey(LoadDataError::ReadFile(error, path)) => {
            let attempted = format!("cannot read {} of the kubeconfig", path.display());
            Failure::new(&attempted, error)
        }
        other => Failure::new("cannot use the kubeconfig", other),
    }
}

fn missing(what: &str, name: &str) -> Failure {
    Failure::message(format!("the kubeconfig has no {what} {name:?}"))
}
