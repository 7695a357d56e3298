//! The socket that an endpoint of an EncryptionConfiguration names.

use std::os::unix::net::SocketAddr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::error::ErrorKind;

/// Returns the path of the socket at `unix:///…`, in the form in which Tokio connects to it: an
/// abstract socket (`unix:///@NAME`) begins with a NUL byte.
pub(crate) fn socket_path(endpoint: &str) -> Result<PathBuf, ErrorKind> {
    let invalid = |why: &str| ErrorKind::Endpoint(why.to_owned());
    if endpoint.is_empty() {
        return Err(invalid("the endpoint is empty"));
    }
    let Some((scheme, rest)) = endpoint.split_once("://") else {
        return Err(invalid("the endpoint has no scheme"));
    };
    if scheme != "unix" {
        return Err(ErrorKind::Endpoint(format!(
            "unsupported scheme {scheme:?}"
        )));
    }
    // kube-apiserver would ignore the host: `unix://run/kms.sock` would be /kms.sock.
    if !rest.starts_with('/') {
        return Err(invalid("the path after unix:// must be absolute"));
    }
    if rest.contains(['?', '#']) {
        return Err(invalid("the endpoint has a query or a fragment"));
    }
    let path = percent_decode_str(rest)
        .decode_utf8()
        .map_err(|_| invalid("the path is not UTF-8"))?;
    if path.contains('\0') || path == "/" || path == "/@" {
        return Err(invalid("the endpoint names no socket"));
    }
    let path = match path.strip_prefix("/@") {
        Some(name) => format!("\0{name}"),
        None => path.into_owned(),
    };
    if !fits_socket_address(&path) {
        return Err(invalid("the path is too long for a unix socket"));
    }
    Ok(PathBuf::from(path))
}

/// Whether the path fits into the 108 bytes of a socket address: a file's path ends with a NUL
/// there, an abstract name begins with one.
fn fits_socket_address(path: &str) -> bool {
    match path.strip_prefix('\0') {
        Some(name) => name.len() <= 107,
        None => SocketAddr::from_pathname(path).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_names_a_file_or_an_abstract_socket() {
        for (endpoint, path) in [
            ("unix:///run/kms.sock", "/run/kms.sock"),
            ("unix:///@insula-kms", "\0insula-kms"),
            ("unix:///run/my%20kms.sock", "/run/my kms.sock"),
        ] {
            assert_eq!(socket_path(endpoint), Ok(PathBuf::from(path)), "{endpoint}");
        }
    }

    #[test]
    fn endpoint_that_names_no_socket_is_refused() {
        let long = format!("unix:///{}", "a".repeat(108));
        for (endpoint, why) in [
            ("", "the endpoint is empty"),
            ("/run/kms.sock", "the endpoint has no scheme"),
            ("http:///run/kms.sock", "unsupported scheme \"http\""),
            (
                "unix://run/kms.sock",
                "the path after unix:// must be absolute",
            ),
            (
                "unix:///run/kms.sock?a=b",
                "the endpoint has a query or a fragment",
            ),
            ("unix:///", "the endpoint names no socket"),
            ("unix:///@", "the endpoint names no socket"),
            ("unix:///run/%00", "the endpoint names no socket"),
            ("unix:///%ff", "the path is not UTF-8"),
            (&long, "the path is too long for a unix socket"),
        ] {
            let refused = Err(ErrorKind::Endpoint(why.to_owned()));
            assert_eq!(socket_path(endpoint), refused, "{endpoint}");
        }
    }
}
