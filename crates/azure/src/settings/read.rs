//! Settings from their values.

use std::time::Duration;

use super::namespaces::{TARGET_NAMESPACES, is_dns_label};
use super::reader::Reader;
use super::{
    Cloud, CredentialMode, MODES, Mode, POD_NAMESPACE, POLICIES, RateLimit, ReconcilePolicy,
    Settings, TLS_VERSIONS, TargetNamespaces, TlsVersion, WorkloadIdentityMode, credential,
    duration,
};

const OPERATOR_MODE: &str = "AZURE_OPERATOR_MODE";
const WEBHOOK_ONLY: &str = "AZURE_WEBHOOK_ONLY";
const SYNC_PERIOD: &str = "AZURE_SYNC_PERIOD";
const USER_AGENT_SUFFIX: &str = "AZURE_USER_AGENT_SUFFIX";
const METADATA_ENDPOINT: &str = "AZURE_POD_IDENTITY_AUTHORITY_HOST";

/// The address of the instance metadata service, which has the tokens of managed identities.
const DEFAULT_METADATA_ENDPOINT: &str = "http://169.254.169.254";
const DEFAULT_SYNC_PERIOD: Duration = Duration::from_secs(3600);
const DEFAULT_CONCURRENT_RECONCILES: usize = 4;

/// Settings of Azure Service Operator v1 for features that it alone has.
const IGNORED: [&str; 6] = [
    "AZURE_OPERATOR_KEYVAULT",
    "AZURE_SECRET_NAMING_VERSION",
    "PURGE_DELETED_KEYVAULT_SECRETS",
    "RECOVER_SOFT_DELETED_KEYVAULT_SECRETS",
    "REQUEUE_AFTER",
    "AZURE_LOCATION_DEFAULT",
];

/// Reads all settings. Problems are in the reader.
pub(super) fn read(reader: &mut Reader<'_>) -> Settings {
    for name in IGNORED {
        if reader.text(name).is_some() {
            reader.warn(format!("{name} is a setting of v1 and ignored"));
        }
    }
    let mode = read_mode(reader);
    let target_namespaces = TargetNamespaces::read(reader);
    if !mode.has_watchers() && target_namespaces != TargetNamespaces::All {
        let message = "target namespaces need an operator mode with watchers";
        reader.problem(TARGET_NAMESPACES, message);
    }
    Settings {
        pod_namespace: read_pod_namespace(reader),
        mode,
        target_namespaces,
        // Webhooks act on no resource, so that an incomplete credential is no problem there.
        credential: mode
            .has_watchers()
            .then(|| credential::read(reader))
            .flatten(),
        credential_mode: reader.choice(
            "AZURE_OPERATOR_AUTH_SOURCE_MODE",
            credential::MODES,
            CredentialMode::Fallback,
        ),
        workload_identity_mode: reader.choice(
            "AZURE_WORKLOAD_IDENTITY_AUTH_MODE",
            credential::WORKLOAD_IDENTITY_MODES,
            WorkloadIdentityMode::Strict,
        ),
        cloud: Cloud::read(reader),
        multiple_clouds: reader.lenient_bool("ALLOW_MULTI_ENV_MANAGEMENT"),
        metadata_endpoint: read_metadata_endpoint(reader),
        sync_period: read_sync_period(reader),
        concurrent_reconciles: reader.number(
            "MAX_CONCURRENT_RECONCILES",
            DEFAULT_CONCURRENT_RECONCILES,
            "a number of at least 1",
            |number| number >= 1,
        ),
        rate_limit: read_rate_limit(reader),
        default_policy: reader.choice(
            "DEFAULT_RECONCILE_POLICY",
            POLICIES,
            ReconcilePolicy::Manage,
        ),
        user_agent_suffix: read_user_agent_suffix(reader),
        min_tls_version: reader.choice("TLS_MIN_VERSION", TLS_VERSIONS, TlsVersion::Tls12),
    }
}

fn read_pod_namespace(reader: &mut Reader<'_>) -> String {
    let name = reader.text(POD_NAMESPACE).unwrap_or_default();
    match name {
        "" => reader.problem(POD_NAMESPACE, "missing: the namespace of the operator"),
        name if !is_dns_label(name) => reader.problem(POD_NAMESPACE, "no name of a namespace"),
        _ => {}
    }
    name.to_owned()
}

/// Reads the mode, which two settings may have.
fn read_mode(reader: &mut Reader<'_>) -> Mode {
    let default = Mode::WatchersAndWebhooks;
    let mode = reader.choice(OPERATOR_MODE, MODES, default);
    let Some(webhook_only) = reader.strict_bool(WEBHOOK_ONLY) else {
        return mode;
    };
    let is_set = reader.text(OPERATOR_MODE).is_some();
    if is_set && webhook_only != (mode == Mode::Webhooks) {
        let other = reader.text(OPERATOR_MODE).unwrap_or_default();
        let message = format!("{OPERATOR_MODE}={other:?} contradicts it: set one of both");
        reader.problem(WEBHOOK_ONLY, message);
    }
    match webhook_only {
        true => Mode::Webhooks,
        false => mode,
    }
}

fn read_sync_period(reader: &mut Reader<'_>) -> Option<Duration> {
    match reader.text(SYNC_PERIOD) {
        None => Some(DEFAULT_SYNC_PERIOD),
        Some("never") => None,
        Some(text) => {
            let period = duration::parse(text);
            if period.is_none() {
                let message = "expected a duration such as 1h30m or 60s, or never";
                reader.problem(SYNC_PERIOD, message);
            }
            period
        }
    }
}

fn read_rate_limit(reader: &mut Reader<'_>) -> Option<RateLimit> {
    let choices = [("disabled", false), ("bucket", true)];
    let is_limited = reader.choice("RATE_LIMIT_MODE", &choices, false);
    let limit = RateLimit {
        per_second: reader.number("RATE_LIMIT_QPS", 5.0, "a number above 0", |qps: f64| {
            qps > 0.0 && qps.is_finite()
        }),
        bucket_size: reader.number(
            "RATE_LIMIT_BUCKET_SIZE",
            100,
            "a number of at least 1",
            |size| size >= 1,
        ),
    };
    is_limited.then_some(limit)
}

fn read_user_agent_suffix(reader: &mut Reader<'_>) -> Option<String> {
    let suffix = reader.text(USER_AGENT_SUFFIX)?;
    if http::HeaderValue::from_str(suffix).is_err() || !suffix.is_ascii() {
        let message = "expected a text that an HTTP header can carry";
        reader.problem(USER_AGENT_SUFFIX, message);
    }
    Some(suffix.to_owned())
}

/// Reads the address of the metadata service, which has no TLS: no secret is sent to it.
fn read_metadata_endpoint(reader: &mut Reader<'_>) -> String {
    let Some(text) = reader.text(METADATA_ENDPOINT) else {
        return DEFAULT_METADATA_ENDPOINT.to_owned();
    };
    let uri: Option<http::Uri> = text.parse().ok();
    if uri.and_then(|uri| uri.host().map(str::is_empty)) != Some(false) {
        reader.problem(METADATA_ENDPOINT, "expected a URL");
    }
    text.trim_end_matches('/').to_owned()
}
