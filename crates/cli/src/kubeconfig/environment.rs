//! The environment's proxy.

use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;

/// Returns whether `HTTPS_PROXY` and `NO_PROXY` have requests to a server proxied. Loopback
/// addresses never are, as in Go.
pub fn is_proxied(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    };
    !is_loopback && Matcher::from_env().intercept(server).is_some()
}
