//! Who asks: servers write it down beside the fields that were set, and in their logs.

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::Config;

/// Lets every request say that it is from this program.
pub fn introduce(config: &mut Config, program: &'static str) {
    let agent = HeaderValue::from_static(program);
    config.headers.retain(|(name, _)| *name != USER_AGENT);
    config.headers.push((USER_AGENT, agent));
}
