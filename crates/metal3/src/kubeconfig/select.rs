//! The context that is used, with its cluster and user.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_identity::credential::Hidden;
use insula_identity::endpoint::Endpoint;

use super::access::{
    Authentication, ClientCertificate, HostAccess, HostCertificates, Impersonation, Verification,
};
use super::file::{Cluster, Context, File, User};
use super::invalid::{InvalidKubeconfig, Place};
use super::server::{InvalidUrl, Server};

/// The namespace of a context that names none, as for `kubectl`.
const DEFAULT_NAMESPACE: &str = "default";

/// Returns the access of a context; of the current one if none is named.
pub(super) fn access(
    file: File,
    context: Option<&str>,
    certificates: HostCertificates,
) -> Result<HostAccess, InvalidKubeconfig> {
    let current = file.current_context.as_deref();
    let name = context.or(current).filter(|name| !name.is_empty());
    let name = name.ok_or(InvalidKubeconfig::NoCurrentContext)?.to_owned();
    let context = file.contexts().find(|one| one.name == name);
    let context = context.ok_or_else(|| InvalidKubeconfig::NoContext(name.clone()))?;
    let context = context.context.as_ref();
    let namespace = namespace(context, &name)?;
    let (cluster, user) = entries(&file, context, &name)?;
    let server = server(cluster, &name)?;
    let (verification, server_name) = verification(cluster, &name, certificates)?;
    let certificate = certificate(user, &name)?;
    Ok(HostAccess {
        server,
        namespace,
        verification,
        server_name,
        authentication: authentication(user, &name, certificate.is_some())?,
        certificate,
        impersonation: impersonation(user, &name)?,
    })
}

fn namespace(context: Option<&Context>, name: &str) -> Result<String, InvalidKubeconfig> {
    let namespace = context.and_then(|context| set(&context.namespace));
    let namespace = namespace.unwrap_or(DEFAULT_NAMESPACE);
    // It becomes a segment of URLs.
    match is_label(namespace) {
        true => Ok(namespace.to_owned()),
        false => Err(InvalidKubeconfig::InvalidNamespace(name.to_owned())),
    }
}

fn is_label(text: &str) -> bool {
    let is_letter = |one: u8| one.is_ascii_lowercase() || one.is_ascii_digit() || one == b'-';
    matches!(text.len(), 1..=63)
        && text.bytes().all(is_letter)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Returns the cluster and the user that a context names.
fn entries<'a>(
    file: &'a File,
    context: Option<&Context>,
    name: &str,
) -> Result<(&'a Cluster, &'a User), InvalidKubeconfig> {
    let incomplete = |missing| InvalidKubeconfig::Incomplete {
        missing,
        context: name.to_owned(),
    };
    let unknown = |missing| InvalidKubeconfig::Unknown {
        missing,
        context: name.to_owned(),
    };
    let cluster = context.and_then(|context| set(&context.cluster));
    let cluster = cluster.ok_or_else(|| incomplete("cluster"))?;
    let user = context.and_then(|context| set(&context.user));
    let user = user.ok_or_else(|| incomplete("user"))?;
    let cluster = file.clusters().find(|one| one.name == cluster);
    let cluster = cluster.ok_or_else(|| unknown("cluster"))?;
    let user = file.users().find(|one| one.name == user);
    let user = user.ok_or_else(|| unknown("user"))?;
    let cluster = cluster.cluster.as_ref();
    let cluster = cluster.ok_or_else(|| InvalidKubeconfig::NoServer(name.to_owned()))?;
    let user = user.user.as_ref();
    let user = user.ok_or_else(|| InvalidKubeconfig::NoAuthentication(name.to_owned()))?;
    Ok((cluster, user))
}

fn server(cluster: &Cluster, context: &str) -> Result<Server, InvalidKubeconfig> {
    let url = set(&cluster.server);
    let url = url.ok_or_else(|| InvalidKubeconfig::NoServer(context.to_owned()))?;
    Server::parse(url).map_err(|invalid| match invalid {
        InvalidUrl::Plain => InvalidKubeconfig::PlainServer(context.to_owned()),
        InvalidUrl::Other => InvalidKubeconfig::InvalidServer(context.to_owned()),
    })
}

fn verification(
    cluster: &Cluster,
    context: &str,
    certificates: HostCertificates,
) -> Result<(Verification, Option<String>), InvalidKubeconfig> {
    let place = Place::cluster_of(context);
    let name = set(&cluster.tls_server_name).map(str::to_owned);
    let is_host = |name: &String| {
        let parsed = Endpoint::parse(name, 443);
        parsed.is_ok_and(|end| end.host() == name.to_ascii_lowercase())
    };
    if !name.as_ref().is_none_or(is_host) {
        let field = "tls-server-name";
        return Err(InvalidKubeconfig::InvalidText { field, place });
    }
    let authorities = set(&cluster.certificate_authority_data);
    let is_insecure = cluster.insecure_skip_tls_verify == Some(true);
    let verification = match (authorities, is_insecure, certificates) {
        (Some(_), true, _) => {
            return Err(InvalidKubeconfig::InsecureWithAuthority(context.to_owned()));
        }
        (None, true, HostCertificates::Verified) => {
            return Err(InvalidKubeconfig::InsecureNotAllowed(context.to_owned()));
        }
        (None, true, HostCertificates::AnyIfAsked) => Verification::None,
        (None, false, _) => Verification::Usual,
        (Some(data), false, _) => {
            let field = "certificate-authority-data";
            let pem = decode(data, field, &place, "a certificate", |tag| {
                tag == "CERTIFICATE"
            })?;
            Verification::Authorities(pem)
        }
    };
    Ok((verification, name))
}

fn authentication(
    user: &User,
    context: &str,
    has_certificate: bool,
) -> Result<Authentication, InvalidKubeconfig> {
    let invalid = |field| InvalidKubeconfig::InvalidText {
        field,
        place: Place::user_of(context),
    };
    let (token, username, password) = (set(&user.token), set(&user.username), set(&user.password));
    match (token, username, password) {
        (Some(_), Some(_), _) | (Some(_), None, Some(_)) => Err(
            InvalidKubeconfig::SeveralAuthentications(context.to_owned()),
        ),
        (Some(token), None, None) => match token.bytes().all(|one| one.is_ascii_graphic()) {
            true => Ok(Authentication::Token(Hidden::new(token))),
            false => Err(invalid("token")),
        },
        (None, Some(username), password) => {
            // The first colon ends the name.
            if username.contains(':') || !is_text(username) {
                return Err(invalid("username"));
            }
            let password = password.unwrap_or_default();
            match is_text(password) {
                true => Ok(Authentication::Password {
                    username: username.to_owned(),
                    password: Hidden::new(password),
                }),
                false => Err(invalid("password")),
            }
        }
        (None, None, Some(_)) => Err(InvalidKubeconfig::Without {
            field: "password",
            needed: "username",
            place: Place::user_of(context),
        }),
        (None, None, None) => match has_certificate {
            true => Ok(Authentication::CertificateOnly),
            false => Err(InvalidKubeconfig::NoAuthentication(context.to_owned())),
        },
    }
}

fn certificate(user: &User, context: &str) -> Result<Option<ClientCertificate>, InvalidKubeconfig> {
    const CERTIFICATE: &str = "client-certificate-data";
    const KEY: &str = "client-key-data";
    let place = Place::user_of(context);
    let without = |field, needed| InvalidKubeconfig::Without {
        field,
        needed,
        place: Place::user_of(context),
    };
    let (certificate, key) = match (
        set(&user.client_certificate_data),
        set(&user.client_key_data),
    ) {
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(without(CERTIFICATE, KEY)),
        (None, Some(_)) => return Err(without(KEY, CERTIFICATE)),
        (Some(certificate), Some(key)) => (certificate, key),
    };
    let is_certificate = |tag: &str| tag == "CERTIFICATE";
    let certificate = decode(
        certificate,
        CERTIFICATE,
        &place,
        "a certificate",
        is_certificate,
    )?;
    let is_key = |tag: &str| tag.ends_with("PRIVATE KEY");
    let key = decode(key, KEY, &place, "a private key", is_key)?;
    Ok(Some(ClientCertificate {
        certificate: Hidden::new(certificate),
        key: Hidden::new(key),
    }))
}

fn impersonation(user: &User, context: &str) -> Result<Option<Impersonation>, InvalidKubeconfig> {
    let place = || Place::user_of(context);
    let uid = set(&user.as_uid).map(str::to_owned);
    let groups = user.as_groups.clone().unwrap_or_default();
    let extra = user.as_user_extra.clone().unwrap_or_default();
    let Some(name) = set(&user.impersonate) else {
        let field = match (&uid, groups.is_empty(), extra.is_empty()) {
            (Some(_), _, _) => "as-uid",
            (None, false, _) => "as-groups",
            (None, true, false) => "as-user-extra",
            (None, true, true) => return Ok(None),
        };
        // Without the user, the account would act as itself, which is not what is asked for.
        return Err(InvalidKubeconfig::Without {
            field,
            needed: "as",
            place: place(),
        });
    };
    let extra_texts = extra
        .iter()
        .flat_map(|(key, values)| values.iter().chain([key]));
    for (field, are_valid) in [
        ("as", is_text(name)),
        ("as-uid", uid.as_deref().is_none_or(is_text)),
        ("as-groups", groups.iter().all(|group| is_text(group))),
        (
            "as-user-extra",
            extra_texts.into_iter().all(|text| is_text(text)),
        ),
    ] {
        if !are_valid {
            let place = place();
            return Err(InvalidKubeconfig::InvalidText { field, place });
        }
    }
    Ok(Some(Impersonation {
        user: name.to_owned(),
        uid,
        groups,
        extra,
    }))
}

/// Returns PEM from base64, if it has the expected content.
fn decode(
    data: &str,
    field: &'static str,
    place: &Place,
    what: &'static str,
    is_expected: impl Fn(&str) -> bool,
) -> Result<String, InvalidKubeconfig> {
    let place = place.clone();
    // Long lines are often wrapped.
    let data: String = data.split_ascii_whitespace().collect();
    let Ok(bytes) = STANDARD.decode(data) else {
        return Err(InvalidKubeconfig::NotBase64 { field, place });
    };
    let text = String::from_utf8(bytes).ok();
    let text = text.filter(|text| {
        let blocks = pem::parse_many(text).unwrap_or_default();
        blocks.iter().any(|block| is_expected(block.tag()))
    });
    text.ok_or(InvalidKubeconfig::NotPem { field, what, place })
}

/// Returns a text unless it is missing or empty.
fn set(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// Returns whether a text can be sent in a header.
fn is_text(text: &str) -> bool {
    !text.contains(char::is_control)
}
