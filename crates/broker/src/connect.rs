//! Connections to a broker with the credentials of a broker info.

use std::time::Duration;

use insula_operator::user_agent;
use kube::Config;
use kube::config::AuthInfo;
use serde_json::json;

use crate::error::Error;
use crate::info::BrokerInfo;

/// The user agent of the commands.
pub const AGENT: &str = concat!("subctl/", env!("CARGO_PKG_VERSION"));

/// The read timeout. Nothing is watched over these connections.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds a client configuration from the URL and token of a file. The server's certificate
/// must be issued by the CA in the file or by one that the machine trusts: some clusters are
/// behind a name with a certificate of a public CA.
///
/// # Errors
///
/// If the file has no URL or token, or invalid ones.
pub fn from_file(info: &BrokerInfo) -> Result<Config, Error> {
    let mut config = Config::new(url(&info.url)?);
    config.auth_info = auth_info(info)?;
    user_agent::set_user_agent(&mut config, AGENT);
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    let mut roots = ca_certificates(info)?;
    if roots.is_empty() {
        return Ok(config);
    }
    let system = insula_tls::system_authorities().into_iter();
    roots.extend(system.map(|certificate| certificate.to_vec()));
    config.root_cert = Some(roots);
    Ok(config)
}

/// Parses the URL of a broker. It must be HTTPS, since a token is sent there. A missing scheme
/// means HTTPS, as in Submariner's own programs.
///
/// # Errors
///
/// If it is not such a URL.
pub fn url(text: &str) -> Result<http::Uri, Error> {
    let wrong = |problem: &str| {
        let hint = "it is like https://broker.example.com:6443";
        // The text before an @ may contain a password.
        let shown = text.rsplit('@').next().unwrap_or_default();
        Error::invalid_with_hint(format!("{shown:?} is not a broker URL: {problem}"), hint)
    };
    let whole = match text.contains("://") {
        true => text.to_owned(),
        false => format!("https://{text}"),
    };
    let uri: http::Uri = whole.parse().map_err(|_| wrong("it cannot be read"))?;
    match uri.authority() {
        _ if uri.scheme_str() != Some("https") => Err(wrong("it is not https")),
        Some(authority) if authority.as_str().contains('@') => Err(wrong("it names a user")),
        Some(_) if uri.query().is_some() => Err(wrong("it has a query")),
        Some(_) => Ok(uri),
        None => Err(wrong("it names no host")),
    }
}

/// Returns whether two URLs have the same host and port.
pub(crate) fn is_same_server(one: &http::Uri, other: &http::Uri) -> bool {
    let address = |uri: &http::Uri| {
        let host = uri.host().map(str::to_ascii_lowercase);
        let usual = match uri.scheme_str() {
            Some("http") => 80,
            _ => 443,
        };
        (host, uri.port_u16().unwrap_or(usual))
    };
    address(one) == address(other)
}

/// Returns whether two URLs are of the same API: same server, same path.
pub(crate) fn is_same_api(one: &http::Uri, other: &http::Uri) -> bool {
    let path = |uri: &http::Uri| uri.path().trim_end_matches('/').to_owned();
    is_same_server(one, other) && path(one) == path(other)
}

/// Returns a URL without a space of Insula at its end, and without a slash there.
#[must_use]
pub fn without_space(url: &str) -> &str {
    let url = url.trim_end_matches('/');
    match url.rsplit_once("/tenants/") {
        // The host may be called `tenants`.
        Some((before, name)) if !name.contains('/') && !before.ends_with('/') => before,
        _ => url,
    }
}

/// Builds the authentication with the token of a file.
pub(crate) fn auth_info(info: &BrokerInfo) -> Result<AuthInfo, Error> {
    let token = token_data(info, "token");
    let token = token.and_then(|token| std::str::from_utf8(token).ok());
    let token = token.map(str::trim).filter(|token| is_header_value(token));
    let missing = || Error::invalid("the broker info file has no token that can be used");
    let user = serde_json::from_value(json!({ "token": token.ok_or_else(missing)? }));
    // The field is present and a string.
    user.map_err(|_| missing())
}

/// Returns the CA certificates in a file as DER.
pub(crate) fn ca_certificates(info: &BrokerInfo) -> Result<Vec<Vec<u8>>, Error> {
    let Some(bundle) = token_data(info, "ca.crt") else {
        return Ok(Vec::new());
    };
    let wrong = || Error::invalid("ca.crt in the broker info file contains no valid certificate");
    let roots = insula_tls::authorities(bundle).map_err(|_| wrong())?;
    Ok(roots.iter().map(|root| root.to_vec()).collect())
}

/// Returns a value of the token's Secret in a file, if it is not empty.
pub(crate) fn token_data<'a>(info: &'a BrokerInfo, key: &str) -> Option<&'a [u8]> {
    let data = info.client_token.as_ref()?.data.as_ref()?;
    let value = &data.get(key)?.0;
    (!value.is_empty()).then_some(value)
}

/// Returns whether a token can be sent in a header.
fn is_header_value(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|sign| sign.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[test]
    fn broker_url_is_https_without_user_and_query() {
        for (text, read) in [
            ("https://1.2.3.4:6443", "https://1.2.3.4:6443/"),
            ("1.2.3.4:6443", "https://1.2.3.4:6443/"),
            ("https://h/tenants/a", "https://h/tenants/a"),
        ] {
            assert_eq!(url(text).unwrap().to_string(), read);
        }
        for (text, problem) in [
            ("http://1.2.3.4", "it is not https"),
            ("https://", "it cannot be read"),
            ("", "it cannot be read"),
            ("https://a b", "it cannot be read"),
            ("https://me:secret@h", "it names a user"),
            ("https://h/?q", "it has a query"),
            ("file:///etc", "it cannot be read"),
        ] {
            let error = url(text).unwrap_err().to_string();
            let shown = text.strip_prefix("https://me:secret@").unwrap_or(text);
            assert_eq!(error, format!("{shown:?} is not a broker URL: {problem}"));
        }
    }

    #[test]
    fn unresponsive_server_times_out() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let info = info(&silent.local_addr().unwrap().to_string(), "t");
        let mut config = from_file(&info).unwrap();
        assert!(config.read_timeout.is_some() && config.connect_timeout.is_some());
        config.connect_timeout = Some(Duration::from_millis(50));
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let refused = runtime.block_on(async {
            let client = kube::Client::try_from(config).unwrap();
            client.apiserver_version().await.unwrap_err()
        });
        let refused = Error::when("ask")(refused);
        let hint = "is the server running, and is this its address?";
        assert_eq!(refused.hint().as_deref(), Some(hint), "{refused}");
    }

    #[test]
    fn invalid_token_or_ca_in_a_file_is_refused() {
        for token in ["", " ", "a b", "a\nb", "\u{e4}"] {
            let refused = from_file(&info("https://h", token)).unwrap_err();
            let said = "the broker info file has no token that can be used";
            assert_eq!(refused.to_string(), said, "{token:?}");
        }
        let block = |text: &str| {
            format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
        };
        for bundle in ["else".to_owned(), block("AAAA"), block("%%")] {
            let mut info = info("https://h", "t");
            let data = info.client_token.as_mut().and_then(|it| it.data.as_mut());
            let bundle = ByteString(bundle.into_bytes());
            data.unwrap().insert("ca.crt".to_owned(), bundle);
            let refused = from_file(&info).unwrap_err();
            let said = "ca.crt in the broker info file contains no valid certificate";
            assert_eq!(refused.to_string(), said);
        }
    }

    fn info(url: &str, token: &str) -> BrokerInfo {
        let token = ByteString(token.as_bytes().to_vec());
        BrokerInfo {
            url: url.to_owned(),
            client_token: Some(Secret {
                data: Some([("token".to_owned(), token)].into()),
                ..Secret::default()
            }),
            ipsec_psk: None,
            components: Default::default(),
            custom_domains: Vec::new(),
            namespace: None,
        }
    }

    #[test]
    fn servers_are_compared_by_host_and_port() {
        for (one, other, same) in [
            ("https://h", "https://H:443/tenants/a", true),
            ("https://h:6443", "https://h:6444", false),
            ("https://h", "https://g", false),
        ] {
            let (a, b) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(is_same_server(&a, &b), same, "{one} {other}");
        }
    }

    #[test]
    fn space_is_removed_from_the_end_of_a_url() {
        for (url, expected) in [
            ("https://h:1/tenants/acme/", "https://h:1"),
            ("https://h:1/", "https://h:1"),
            ("https://h/k8s/tenants/system", "https://h/k8s"),
            ("https://h/tenants/a/b", "https://h/tenants/a/b"),
            ("https://h/proxy", "https://h/proxy"),
            ("https://tenants/x", "https://tenants/x"),
        ] {
            assert_eq!(without_space(url), expected);
        }
    }

    #[test]
    fn apis_are_compared_with_default_port_and_path() {
        for (one, other, same) in [
            ("https://h", "https://H:443/", true),
            ("https://h/tenants/a/", "https://h:443/tenants/a", true),
            ("https://h/tenants/a", "https://h/tenants/b", false),
            ("https://h", "https://h:6443", false),
        ] {
            let (a, b) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(is_same_api(&a, &b), same, "{one} {other}");
        }
    }
}
