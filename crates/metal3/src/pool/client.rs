//! The client of an API server that a kubeconfig names.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_identity::credential::Hidden;
use insula_operator::user_agent::set_user_agent;
use kube::Config;
use kube::config::AuthInfo;

use crate::kubeconfig::{Authentication, HostAccess, Verification};
use crate::names::AGENT;

/// Returns the configuration of a client; none if the access has a certificate or URL that cannot
/// be parsed.
pub(super) fn config(access: &HostAccess) -> Option<Config> {
    let mut config = Config::new(access.server.url().parse().ok()?);
    access.namespace.clone_into(&mut config.default_namespace);
    config.tls_server_name.clone_from(&access.server_name);
    match &access.verification {
        Verification::Usual => {}
        Verification::Authorities(pem) => config.root_cert = Some(certificates(pem)?),
        Verification::None => config.accept_invalid_certs = true,
    }
    config.auth_info = account(access)?;
    // Failed requests are retried by the reconciler, with a backoff of its own.
    config.default_retry = false;
    set_user_agent(&mut config, AGENT);
    Some(config)
}

fn account(access: &HostAccess) -> Option<AuthInfo> {
    let mut account = AuthInfo::default();
    let text = |hidden: &Hidden| hidden.text().map(str::to_owned);
    match &access.authentication {
        Authentication::CertificateOnly => {}
        Authentication::Token(token) => account.token = Some(text(token)?.into()),
        Authentication::Password { username, password } => {
            account.username = Some(username.clone());
            account.password = Some(text(password)?.into());
        }
    }
    if let Some(pair) = &access.certificate {
        account.client_certificate_data = Some(STANDARD.encode(pair.certificate.reveal()));
        account.client_key_data = Some(STANDARD.encode(pair.key.reveal()).into());
    }
    if let Some(user) = &access.impersonation {
        account.impersonate = Some(user.user.clone());
        account.impersonate_uid.clone_from(&user.uid);
        account.impersonate_groups = Some(user.groups.clone());
        let extra = user.extra.iter();
        let extra = extra.map(|(key, values)| (key.clone(), values.clone()));
        account.impersonate_user_extra = Some(extra.collect::<HashMap<_, _>>());
    }
    Some(account)
}

/// Returns the certificates of a PEM text, as DER; none if there are none.
fn certificates(pem: &str) -> Option<Vec<Vec<u8>>> {
    let blocks = pem::parse_many(pem).ok()?;
    let blocks = blocks
        .into_iter()
        .filter(|block| block.tag() == "CERTIFICATE");
    let found: Vec<_> = blocks.map(pem::Pem::into_contents).collect();
    (!found.is_empty()).then_some(found)
}
