//! The settings of `insula serve`: files read, defaults filled in.

use std::path::{Path, PathBuf};

use insula_access::TokenFile;
use insula_apiserver::flow_control::Unsent;
use insula_apiserver::{Descriptions, Limits, egress};
use insula_core::Layout;
use insula_store::etcd;

use super::args::{Args, Engine, EtcdArgs, LimitArgs, TlsArgs};
use super::audit::AuditSettings;
use super::encryption::EncryptionSettings;
use super::oidc::Oidc;
use super::operators::OperatorSettings;
use super::pod_security;
use super::prepare::{Listening, ServerConfig};
use super::reload::{TrustFile, TrustFiles};
use super::tenant_limits::TenantLimitArgs;
use super::tls::{Tls, TlsFiles};
use crate::certificate_file::{certificates, read};
use crate::failure::Failure;

/// Everything that is known before anything is opened or created.
pub struct Settings {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The storage engine.
    pub store: StoreSettings,
    /// Encryption at rest, if it is enabled.
    pub encryption: Option<EncryptionSettings>,
    /// The listen address and the server's names.
    pub listening: Listening,
    /// The rest of the configuration.
    pub given: ServerConfig,
    /// The operators.
    pub operators: OperatorSettings,
}

/// The settings of the storage engine.
pub enum StoreSettings {
    /// A folder.
    Embedded(PathBuf),
    /// An etcd cluster.
    Etcd(etcd::Options),
    /// Memory only.
    Memory,
}

impl Settings {
    /// Reads the files that the arguments name.
    pub fn of(args: Args) -> Result<Self, Failure> {
        let trust_files = TrustFiles {
            client_ca: args.client_ca_file.as_deref().map(TrustFile::new),
            tokens: args.token_auth_file.as_deref().map(TrustFile::new),
            oidc_ca: args.oidc.ca_file.as_deref().map(TrustFile::new),
        };
        let client_cas = args.client_ca_file.as_deref().map(certificates);
        let tokens = args.token_auth_file.as_deref().map(tokens);
        let descriptions = args.openapi_descriptions.as_deref().map(descriptions);
        let pod_security = args.pod_security_config.as_deref().map(pod_security::load);
        Ok(Self {
            store: match args.store {
                Engine::Memory => StoreSettings::Memory,
                Engine::Embedded => StoreSettings::Embedded(args.data_dir.join("store")),
                Engine::Etcd => StoreSettings::Etcd(etcd_options(&args.etcd)?),
            },
            encryption: EncryptionSettings::of(args.encryption)?,
            given: ServerConfig {
                tls: tls(&args.tls)?,
                certificates_last: args.tls.certificates_last,
                client_cas: client_cas.transpose()?.unwrap_or_default(),
                tokens: tokens.transpose()?,
                trust_files,
                descriptions: descriptions.transpose()?,
                service_range: args.service_cluster_ip_range,
                pod_security: pod_security.transpose()?.unwrap_or_default(),
                issuer_url: args.service_account_issuer,
                oidc: Oidc::of(args.oidc)?,
                layout: Layout::new(&args.etcd.prefix),
                default_tenant: args.default_tenant,
                audit: AuditSettings::of(args.audit)?,
                event_ttl: args.event_ttl,
                limits: args
                    .connections
                    .apply(limits(&args.limits, &args.tenant_limits)),
                tenant_quota: args.tenant_limits.tenant_quota_default,
                tenant_fields: args.object_tenant_fields.into(),
                egress: egress::Settings {
                    allow: args.webhooks.allow,
                    deny: args.webhooks.deny,
                    ..egress::Settings::default()
                },
            },
            listening: Listening {
                address: args.listen,
                advertised: args.advertise_url,
                advertised_address: args.advertise_address,
                names: args.tls.sans,
            },
            data_dir: args.data_dir,
            operators: OperatorSettings::of(
                args.operators,
                args.operator_service_account,
                args.vsphere,
                args.metal3,
                args.azure,
            )?,
        })
    }
}

fn limits(args: &LimitArgs, tenants: &TenantLimitArgs) -> Limits {
    let unsent = Unsent {
        total: args.max_unsent_bytes,
        each: args.max_unsent_bytes_per_space,
        ..Unsent::default()
    };
    Limits {
        unsent,
        tenants: tenants.tenant_limits_default,
        ..Limits::default()
    }
}

fn etcd_options(args: &EtcdArgs) -> Result<etcd::Options, Failure> {
    let options = etcd::Options::new(args.servers.clone());
    let Some(ca) = &args.cafile else {
        return Ok(options);
    };
    let client = match (&args.certfile, &args.keyfile) {
        (Some(certificate), Some(key)) => Some(etcd::ClientCertificate {
            cert: read(certificate)?,
            key: read(key)?,
        }),
        _ => None,
    };
    let ca = read(ca)?;
    Ok(options.tls(etcd::Tls { ca, client }))
}

fn tls(args: &TlsArgs) -> Result<Option<(TlsFiles, Tls)>, Failure> {
    let (Some(certificate), Some(key)) = (&args.cert_file, &args.key_file) else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
    };
    let tls = files.load()?;
    Ok(Some((files, tls)))
}

fn tokens(path: &Path) -> Result<TokenFile, Failure> {
    let attempted = format!("cannot use the token file {}", path.display());
    TokenFile::load(path).map_err(|error| {
        Failure::new(&attempted, error)
            .hint("each line is token,user,uid,\"group,group\"; the groups are optional")
    })
}

fn descriptions(path: &Path) -> Result<Descriptions, Failure> {
    let json = read(path)?;
    Descriptions::parse(&json).map_err(|error| {
        let attempted = format!("cannot use the descriptions in {}", path.display());
        Failure::new(&attempted, error).hint("tools/kindgen/README.md says how to collect them")
    })
}
