//! The webhooks of the operator in a process of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use insula_azure::installed::Installed;
use insula_azure::manifests::ReviewedKinds;
use insula_azure::mapping::export::cel::Cel;
use insula_azure::roles;
use insula_azure::settings::{Settings, TlsVersion};
use insula_azure::versions::{self, Definitions};
use insula_azure::webhooks::{self, SharedExpressions};
use insula_operator::webhook::{Router, WebhookService};
use kube::Client;
use tokio::task::AbortHandle;

use crate::failure::Failure;
use crate::operator::webhooks::{self as server, Served};

/// The arguments of the webhook server, which the mode of the operator starts.
#[derive(clap::Args)]
pub struct WebhookArgs {
    /// Listen address of the webhooks, in a mode with webhooks (default: 0.0.0.0:9443)
    #[arg(long, value_name = "ADDR")]
    webhook_addr: Option<SocketAddr>,

    /// Directory with tls.crt and tls.key of the webhooks (default: a certificate of the
    /// operator's own, in a Secret)
    #[arg(long, value_name = "DIR")]
    webhook_cert_dir: Option<PathBuf>,

    /// Service of the webhooks in the operator's namespace, for the names of the certificate
    #[arg(long, value_name = "NAME", default_value = webhooks::SERVICE)]
    webhook_service: String,
}

/// Running webhooks.
pub struct Webhooks {
    server: server::Webhooks,
    following: AbortHandle,
}

/// Returns the handlers: conversion with these definitions, and admission of all kinds.
pub fn router(definitions: Arc<Definitions>) -> Router {
    let expressions: SharedExpressions = Arc::new(Cel);
    let router = versions::route(Router::new(), definitions);
    webhooks::route(router, &ReviewedKinds::All.list(), Some(&expressions))
}

impl WebhookArgs {
    /// Starts the server, when the definitions were read.
    pub async fn serve(self, client: &Client, settings: &Settings) -> Result<Webhooks, Failure> {
        let service = WebhookService::new(&settings.pod_namespace, &self.webhook_service);
        let definitions = Arc::new(Definitions::new());
        let mut installed = Installed::new(client, Arc::clone(&definitions));
        let loaded = installed.load().await;
        loaded.map_err(|error| Failure::new("cannot read definitions", error))?;
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, service.target_port));
        let arguments = server::WebhookArgs {
            webhook_addr: self.webhook_addr.or(Some(address)),
            webhook_cert_dir: self.webhook_cert_dir,
        };
        let served = Served {
            service,
            router: router(definitions),
            targets: roles::injected(),
            certificate_secret: webhooks::CERTIFICATE_SECRET,
            tls13_only: settings.min_tls_version == TlsVersion::Tls13,
        };
        let server = arguments.serve(client, served).await?;
        Ok(Webhooks {
            server,
            following: tokio::spawn(installed.follow()).abort_handle(),
        })
    }
}

impl Webhooks {
    /// Stops the server and waits for it.
    pub async fn end(self) -> Result<(), Failure> {
        self.following.abort();
        self.server.end().await
    }
}
