//! A server for admission and conversion webhooks.
//!
//! A provider registers handlers in a [`Router`]. On any Kubernetes, [`run`] serves the router
//! over HTTPS, keeps the serving certificate current and writes its CA bundle into the
//! configurations that call it. Inside `insula serve` the API server calls the router directly,
//! without network and certificates.
//!
//! ```
//! use insula_operator::webhook::{AdmissionResponse, Router};
//!
//! let router = Router::new()
//!     .validating("/validate-widgets", |request| async move {
//!         match request.name.len() {
//!             0..=20 => AdmissionResponse::allow(),
//!             _ => AdmissionResponse::deny("names have at most 20 characters"),
//!         }
//!     })
//!     .conversion("/convert", |mut object, desired| {
//!         object["apiVersion"] = desired.into();
//!         Ok(object)
//!     });
//! ```
//!
//! | module | is |
//! |---|---|
//! | [`router`] | paths and their handlers; read it first |
//! | [`admission`] | admission reviews: requests, responses and their patches |
//! | [`conversion`] | conversion reviews |
//! | [`versions`] | two versions of kinds, converted without loss by rules for their fields |
//! | [`server`] | the HTTPS server and its limits |
//! | [`certificate`] | the serving certificate: given in a folder, or issued and rotated here |
//! | [`injection`] | the CA bundle in webhook configurations and definitions |
//! | [`manifest`] | the Service, the configurations and the permissions |

pub mod admission;
pub mod certificate;
pub mod conversion;
pub mod injection;
pub mod manifest;
mod patch;
mod review;
pub mod router;
pub mod server;
pub mod versions;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

pub use admission::{AdmissionRequest, AdmissionResponse, ObjectSpace, Operation};
pub use certificate::{CertificateSource, Certificates};
pub use injection::Injection;
pub use manifest::WebhookService;
pub use router::Router;
pub use server::Settings;

/// The timeout of requests for certificates and CA bundles. An API server that does not respond
/// must not keep the files of a certificate from being read.
const API_TIMEOUT: Duration = Duration::from_secs(15);

/// What [`run`] needs.
pub struct Options {
    /// The bound listener.
    pub listener: TcpListener,
    /// The handlers.
    pub router: Arc<Router>,
    /// The serving certificate, which [`run`] keeps current.
    pub certificates: Arc<Certificates>,
    /// Where the certificate comes from.
    pub source: CertificateSource,
    /// Where the CA bundle is written, if the operator writes it.
    pub injection: Option<Injection>,
    /// The limits of the server.
    pub settings: Settings,
}

/// Serves webhooks until `stop` completes, and then lets running requests end.
///
/// # Errors
///
/// If TLS cannot be configured.
pub async fn run(options: Options, stop: impl Future<Output = ()>) -> Result<(), rustls::Error> {
    let certificates = Arc::clone(&options.certificates);
    let maintenance =
        certificate::maintain(options.source, &options.certificates, options.injection);
    let served = server::serve(
        options.listener,
        certificates,
        options.router,
        options.settings,
        stop,
    );
    tokio::select! {
        served = served => served,
        never = maintenance => match never {},
    }
}
