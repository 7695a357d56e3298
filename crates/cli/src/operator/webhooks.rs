//! The webhooks of an operator outside of the server process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use insula_operator::webhook::certificate::{CertificateFolder, SecretCertificates};
use insula_operator::webhook::injection::Target;
use insula_operator::webhook::{
    self, CertificateSource, Certificates, Injection, Options, Router, WebhookService,
};
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::failure::Failure;

/// The arguments of the webhook server.
#[derive(clap::Args)]
pub struct WebhookArgs {
    /// Listen address of the webhooks that convert versions and validate objects (default: none)
    #[arg(long, value_name = "ADDR")]
    pub(super) webhook_addr: Option<SocketAddr>,

    /// Directory with tls.crt and tls.key of the webhooks (default: a certificate of the
    /// operator's own, in a Secret)
    #[arg(long, value_name = "DIR", requires = "webhook_addr")]
    pub(super) webhook_cert_dir: Option<PathBuf>,
}

/// The webhooks of an operator.
pub struct Served {
    /// The Service that configurations name.
    pub service: WebhookService,
    /// The handlers.
    pub router: Router,
    /// The objects that need the CA bundle.
    pub targets: Vec<Target>,
    /// The Secret with the operator's own certificate.
    pub certificate_secret: &'static str,
    /// Whether TLS 1.2 is refused.
    pub tls13_only: bool,
}

/// A webhook server, if one was requested.
#[derive(Default)]
pub struct Webhooks {
    running: Option<Running>,
}

/// A running webhook server, which ends when `stop` is dropped.
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), rustls::Error>>,
}

impl WebhookArgs {
    /// Starts the server.
    pub async fn serve(self, client: &Client, served: Served) -> Result<Webhooks, Failure> {
        let Some(address) = self.webhook_addr else {
            return Ok(Webhooks::default());
        };
        let listener = TcpListener::bind(address).await.map_err(|error| {
            Failure::new(&format!("cannot listen on {address}"), error)
                .hint("choose another --webhook-addr")
        })?;
        let (router, (source, injection)) = (
            served.router,
            self.certificate(
                client,
                served.service,
                served.targets,
                served.certificate_secret,
            ),
        );
        let options = Options {
            listener,
            router: Arc::new(router),
            certificates: Arc::new(Certificates::default()),
            source,
            injection,
            settings: webhook::Settings {
                tls13_only: served.tls13_only,
                ..webhook::Settings::default()
            },
        };
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            stopped.await.ok();
        };
        let task = tokio::spawn(webhook::run(options, stopped));
        Ok(Webhooks {
            running: Some(Running { stop, task }),
        })
    }

    /// Returns the source of the certificate. The CA bundle of a given certificate is written by
    /// the program that issues it.
    fn certificate(
        self,
        client: &Client,
        service: WebhookService,
        targets: Vec<Target>,
        certificate_secret: &str,
    ) -> (CertificateSource, Option<Injection>) {
        if let Some(folder) = self.webhook_cert_dir {
            return (
                CertificateSource::Folder(CertificateFolder::new(folder)),
                None,
            );
        }
        let certificates = SecretCertificates::new(
            client,
            &service.namespace,
            certificate_secret,
            service.dns_names(),
        );
        let injection = Injection::new(client, service, targets);
        (
            CertificateSource::Secret(Box::new(certificates)),
            Some(injection),
        )
    }
}

impl Webhooks {
    /// Stops the server and waits for it.
    pub async fn end(self) -> Result<(), Failure> {
        let Some(Running { stop, task }) = self.running else {
            return Ok(());
        };
        drop(stop);
        match task.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(Failure::new("cannot serve webhooks", error)),
            Err(error) => Err(Failure::new("the webhook server panicked", error)),
        }
    }
}
