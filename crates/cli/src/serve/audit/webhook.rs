//! The webhook backend of the audit: arguments, and the kubeconfig of the collector.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;
use http::HeaderValue;
use insula_apiserver::egress::{Endpoint, EndpointSettings};
use insula_apiserver::pipeline::audit::{
    Throttle, Truncation, Webhook, WebhookMode, WebhookSettings,
};
use insula_tls::Trust;
use kube::config::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::certificate_file::read;
use crate::duration;
use crate::failure::Failure;
use crate::kubeconfig::load;

/// The arguments of the webhook backend.
#[derive(clap::Args)]
pub struct AuditWebhookArgs {
    /// Kubeconfig of the collector that audit events are posted to
    #[arg(long = "audit-webhook-config-file", value_name = "FILE")]
    pub webhook_config_file: Option<PathBuf>,

    /// Whether requests wait for the collector
    #[arg(long = "audit-webhook-mode", value_name = "MODE", value_enum)]
    #[arg(default_value = "batch")]
    pub webhook_mode: Mode,

    /// Events that wait for the collector in batch mode; further ones are dropped
    #[arg(long = "audit-webhook-batch-buffer-size", value_name = "EVENTS")]
    #[arg(default_value_t = 10_000, value_parser = positive)]
    pub webhook_buffer_size: usize,

    /// Events in one batch
    #[arg(long = "audit-webhook-batch-max-size", value_name = "EVENTS")]
    #[arg(default_value_t = 400, value_parser = positive)]
    pub webhook_max_size: usize,

    /// Time that a batch waits for more events
    #[arg(long = "audit-webhook-batch-max-wait", value_name = "DURATION")]
    #[arg(default_value = "30s", value_parser = duration::parse)]
    pub webhook_max_wait: Duration,

    /// Batches per second; 0 sends them without limit
    #[arg(long = "audit-webhook-batch-throttle-qps", value_name = "BATCHES")]
    #[arg(default_value_t = 10.0, value_parser = rate)]
    pub webhook_throttle_qps: f64,

    /// Batches that may be sent at once after a pause
    #[arg(long = "audit-webhook-batch-throttle-burst", value_name = "BATCHES")]
    #[arg(default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub webhook_throttle_burst: u32,

    /// Delay before a failed batch is sent again; later delays are longer
    #[arg(long = "audit-webhook-initial-backoff", value_name = "DURATION")]
    #[arg(default_value = "10s", value_parser = duration::parse)]
    pub webhook_initial_backoff: Duration,

    /// Version of the events; audit.k8s.io/v1 is the only one
    #[arg(long = "audit-webhook-version", value_name = "VERSION")]
    #[arg(default_value = "audit.k8s.io/v1", value_parser = ["audit.k8s.io/v1"])]
    pub webhook_version: String,

    /// Limit the size of events and batches
    #[arg(long = "audit-webhook-truncate-enabled")]
    pub webhook_truncate_enabled: bool,

    /// Bytes of a batch above which it is split
    #[arg(long = "audit-webhook-truncate-max-batch-size", value_name = "BYTES")]
    #[arg(default_value_t = 10_485_760, value_parser = positive)]
    pub webhook_truncate_max_batch_size: usize,

    /// Bytes of an event above which it loses its bodies, and then all but user, object and code
    #[arg(long = "audit-webhook-truncate-max-event-size", value_name = "BYTES")]
    #[arg(default_value_t = 102_400, value_parser = positive)]
    pub webhook_truncate_max_event_size: usize,
}

/// Whether requests wait for the collector.
#[derive(Clone, Copy, ValueEnum)]
pub enum Mode {
    /// Events are buffered, and dropped while the buffer is full
    Batch,
    /// A response waits until the collector has its event, or has failed
    Blocking,
    /// The same, and a request fails whose first event the collector does not take
    BlockingStrict,
}

/// The collector, and how events are sent to it.
pub struct WebhookBackend {
    endpoint: Endpoint,
    settings: WebhookSettings,
}

/// What a kubeconfig says about the collector.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    tls_server_name: Option<String>,
    insecure_skip_tls_verify: bool,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
}

/// What a kubeconfig says about the credentials.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    username: Option<String>,
    password: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    exec: Option<Value>,
    auth_provider: Option<Value>,
}

impl WebhookBackend {
    /// Reads the kubeconfig.
    pub fn of(args: &AuditWebhookArgs) -> Result<Option<Self>, Failure> {
        let Some(path) = &args.webhook_config_file else {
            return Ok(None);
        };
        Ok(Some(Self {
            endpoint: endpoint(path)?,
            settings: settings(args),
        }))
    }

    /// Whether requests are refused whose first event is not taken.
    pub fn is_strict(&self) -> bool {
        self.settings.mode == WebhookMode::BlockingStrict
    }

    /// Starts to send events.
    pub fn start(self) -> Webhook {
        Webhook::start(self.endpoint, self.settings)
    }
}

fn settings(args: &AuditWebhookArgs) -> WebhookSettings {
    WebhookSettings {
        mode: match args.webhook_mode {
            Mode::Batch => WebhookMode::Batch,
            Mode::Blocking => WebhookMode::Blocking,
            Mode::BlockingStrict => WebhookMode::BlockingStrict,
        },
        max_batch_events: args.webhook_max_size,
        max_wait: args.webhook_max_wait,
        buffer_events: args.webhook_buffer_size,
        throttle: (args.webhook_throttle_qps > 0.0).then_some(Throttle {
            qps: args.webhook_throttle_qps,
            burst: args.webhook_throttle_burst,
        }),
        initial_backoff: args.webhook_initial_backoff,
        truncation: args.webhook_truncate_enabled.then_some(Truncation {
            max_event_bytes: args.webhook_truncate_max_event_size,
            max_batch_bytes: args.webhook_truncate_max_batch_size,
        }),
    }
}

fn endpoint(path: &Path) -> Result<Endpoint, Failure> {
    let unusable = |why: &dyn std::fmt::Display| {
        let attempted = format!("cannot use the audit webhook of {}", path.display());
        Failure::new(&attempted, why.to_string())
            .hint("docs/audit.md has an example of the kubeconfig")
    };
    let kubeconfig = load::merged(&[path.to_owned()])?;
    let (cluster, user) = current(&kubeconfig).map_err(|why| unusable(&why))?;
    if cluster.insecure_skip_tls_verify {
        let why = "insecure-skip-tls-verify is not supported: events may contain secrets";
        return Err(unusable(&why));
    }
    if let Some(why) = unsupported(&user) {
        return Err(unusable(&why));
    }
    let url = cluster.server.parse();
    let settings = EndpointSettings {
        url: url.map_err(|error| unusable(&format!("the server is not a URL: {error}")))?,
        trust: trust(&cluster)?,
        server_name: cluster.tls_server_name,
        identity: identity(&user)?,
        authorization: authorization(&user)?,
        token_file: user.token_file.map(PathBuf::from),
    };
    Endpoint::new(settings).map_err(|error| unusable(&error))
}

/// Returns what the collector would be called without, although the kubeconfig has it.
fn unsupported(user: &User) -> Option<&'static str> {
    let has_certificate =
        user.client_certificate.is_some() || user.client_certificate_data.is_some();
    let has_key = user.client_key.is_some() || user.client_key_data.is_some();
    let has = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
    match () {
        () if has(&user.exec) => Some("exec is not supported"),
        () if has(&user.auth_provider) => Some("auth-provider is not supported"),
        () if has_certificate != has_key => Some("client-certificate and client-key go together"),
        () => None,
    }
}

/// Returns the cluster and the user of the current context.
fn current(kubeconfig: &Kubeconfig) -> Result<(Cluster, User), String> {
    let context = load::context(kubeconfig, None).and_then(|named| named.context.as_ref());
    let context = context.ok_or("the kubeconfig has no current context")?;
    // kube hides secrets, but not in the file that it would write.
    let file = serde_json::to_value(kubeconfig).map_err(|error| error.to_string())?;
    let cluster = entry(&file["clusters"], &context.cluster, "cluster")?;
    let user = context.user.as_deref().filter(|name| !name.is_empty());
    let user = user.map(|name| entry(&file["users"], name, "user"));
    Ok((cluster, user.transpose()?.unwrap_or_default()))
}

fn entry<T: DeserializeOwned + Default>(
    list: &Value,
    name: &str,
    member: &str,
) -> Result<T, String> {
    let mut entries = list.as_array().into_iter().flatten();
    let found = entries.find(|entry| entry["name"] == name);
    let found = found.ok_or_else(|| format!("the kubeconfig has no {member} {name:?}"))?;
    match &found[member] {
        Value::Null => Ok(T::default()),
        value => T::deserialize(value).map_err(|error| error.to_string()),
    }
}

fn trust(cluster: &Cluster) -> Result<Trust, Failure> {
    let data = cluster.certificate_authority_data.as_deref();
    let file = cluster.certificate_authority.as_deref();
    Ok(match contents(data, file)? {
        None => Trust::System,
        Some(pem) => Trust::Authorities(String::from_utf8_lossy(&pem).into_owned()),
    })
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(user: &User) -> Result<Option<Identity>, Failure> {
    let data = user.client_certificate_data.as_deref();
    let certificate = contents(data, user.client_certificate.as_deref())?;
    let data = user.client_key_data.as_deref();
    let key = contents(data, user.client_key.as_deref())?;
    let (Some(certificate), Some(key)) = (certificate, key) else {
        return Ok(None);
    };
    let wrong = |error| Failure::new("cannot use the client certificate of the kubeconfig", error);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(wrong)?;
    Ok(Some((chain.map_err(wrong)?, key)))
}

fn authorization(user: &User) -> Result<Option<HeaderValue>, Failure> {
    let token = match &user.token_file {
        Some(file) => Some(
            String::from_utf8_lossy(&read(Path::new(file))?)
                .trim()
                .to_owned(),
        ),
        None => user.token.clone(),
    };
    let basic = || {
        let password = user.password.as_deref().unwrap_or("");
        let pair = format!("{}:{password}", user.username.as_ref()?);
        Some(format!("Basic {}", BASE64_STANDARD.encode(pair)))
    };
    let text = token.map(|token| format!("Bearer {token}")).or_else(basic);
    let header = text.map(|text| HeaderValue::from_str(&text)).transpose();
    let mut header = header.map_err(|_| {
        Failure::message("the token or password of the kubeconfig cannot be sent in a header")
    })?;
    if let Some(header) = &mut header {
        header.set_sensitive(true);
    }
    Ok(header)
}

/// Returns data in base64, or else the content of a file.
fn contents(data: Option<&str>, file: Option<&str>) -> Result<Option<Vec<u8>>, Failure> {
    match (data, file) {
        (Some(data), _) => {
            let decoded = BASE64_STANDARD.decode(data.trim());
            let wrong = |error| Failure::new("the data of the kubeconfig is not base64", error);
            decoded.map(Some).map_err(wrong)
        }
        (None, Some(file)) => read(Path::new(file)).map(Some),
        (None, None) => Ok(None),
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("must be a positive number".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate >= 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("must be a number of batches per second".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: x, user: u}}}}]\n\
             clusters: [{{name: x, cluster: {{{cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    #[test]
    fn collector_is_read_from_a_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        for (cluster, user, error) in [
            ("server: 'https://a.example/audit'", "token: t", None),
            ("server: 'http://127.0.0.1:8080'", "", None),
            (
                "server: 'https://a.example'",
                "username: a, password: b",
                None,
            ),
            (
                "server: 'ftp://a.example'",
                "",
                Some("is not a URL of a server"),
            ),
            ("server: ''", "", Some("is not a URL")),
            (
                "server: 'https://a.example', insecure-skip-tls-verify: true",
                "",
                Some("insecure-skip-tls-verify is not supported"),
            ),
            (
                "server: 'https://a.example', certificate-authority-data: '%'",
                "",
                Some("is not base64"),
            ),
            (
                "server: 'https://a.example', certificate-authority: missing.pem",
                "",
                Some("missing.pem"),
            ),
            (
                "server: 'https://a.example'",
                "exec: {apiVersion: client.authentication.k8s.io/v1, command: c}",
                Some("exec is not supported"),
            ),
            (
                "server: 'https://a.example'",
                "auth-provider: {name: oidc, config: {}}",
                Some("auth-provider is not supported"),
            ),
            (
                "server: 'https://a.example'",
                "client-certificate-data: YQ==",
                Some("go together"),
            ),
        ] {
            std::fs::write(&path, config(cluster, user)).unwrap();
            match (endpoint(&path), error) {
                (Ok(_), None) => {}
                (Err(failure), Some(error)) => {
                    let text = failure.to_string();
                    assert!(text.contains(error), "{cluster}: {text}");
                }
                (Ok(endpoint), _) => panic!("{cluster}: {endpoint:?}"),
                (Err(failure), _) => panic!("{cluster}: {failure}"),
            }
        }
    }

    #[test]
    fn token_and_password_become_a_header() {
        let user = |text: &str| -> User { serde_saphyr::from_str(text).unwrap() };
        for (text, expected) in [
            ("{}", None),
            ("{token: t}", Some("Bearer t")),
            ("{username: a, password: b}", Some("Basic YTpi")),
        ] {
            let header = authorization(&user(text)).ok().flatten();
            let header = header.as_ref().map(|header| header.to_str().unwrap());
            assert_eq!(header, expected);
        }
    }
}
