//! What `insula serve` does with what it is told: files read, defaults filled in.

use std::path::{Path, PathBuf};

use insula_access::TokenFile;
use insula_core::Layout;
use insula_store::etcd;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::args::{Args, Engine, EtcdArgs, TlsArgs};
use super::prepare::{Given, Listening, Tls};
use crate::failure::Failure;

/// Everything that can be known before anything is opened or made.
pub struct Settings {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// What keeps the objects.
    pub store: StoreSettings,
    /// Where to listen, and what it is called there.
    pub listening: Listening,
    /// What else is given from outside.
    pub given: Given,
}

/// What keeps the objects.
pub enum StoreSettings {
    /// A folder.
    Embedded(PathBuf),
    /// An etcd.
    Etcd(etcd::Options),
    /// Nothing.
    Memory,
}

impl Settings {
    /// Reads what the arguments name.
    pub fn of(args: Args) -> Result<Self, Failure> {
        let client_cas = args.client_ca_file.as_deref().map(certificates);
        let tokens = args.token_auth_file.as_deref().map(tokens);
        Ok(Self {
            store: match args.store {
                Engine::Memory => StoreSettings::Memory,
                Engine::Embedded => StoreSettings::Embedded(args.data_dir.join("store")),
                Engine::Etcd => StoreSettings::Etcd(etcd_options(&args.etcd)?),
            },
            given: Given {
                tls: tls(&args.tls)?,
                client_cas: client_cas.transpose()?.unwrap_or_default(),
                tokens: tokens.transpose()?,
                layout: Layout::new(&args.etcd.prefix),
                default_tenant: args.default_tenant,
                audit_log: args.audit_log_path,
            },
            listening: Listening {
                address: args.listen,
                advertised: args.advertise_url,
                names: args.tls.sans,
            },
            data_dir: args.data_dir,
        })
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

fn tls(args: &TlsArgs) -> Result<Option<Tls>, Failure> {
    let (Some(certificate), Some(key)) = (&args.cert_file, &args.key_file) else {
        return Ok(None);
    };
    let attempted = format!("cannot serve with {}", certificate.display());
    let tls = Tls::parse(&read(certificate)?, &read(key)?);
    let tls = tls.map_err(|why| Failure::new(&attempted, why))?;
    Ok(Some(tls))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let attempted = format!("cannot use {}", path.display());
    let bytes = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Failure::new(&attempted, "it has no certificates in PEM")),
    }
}

fn tokens(path: &Path) -> Result<TokenFile, Failure> {
    let attempted = format!("cannot use the token file {}", path.display());
    TokenFile::load(path).map_err(|error| {
        Failure::new(&attempted, error)
            .hint("each line is token,user,uid,\"group,group\"; the groups may be left out")
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let attempted = format!("cannot read {}", path.display());
    std::fs::read(path).map_err(|error| Failure::new(&attempted, error))
}
