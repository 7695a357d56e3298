//! The `User-Agent` of requests, which servers record in managed fields and logs.

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::Config;

/// Sets the `User-Agent` of all requests to the program's name.
pub fn set_user_agent(config: &mut Config, program: &'static str) {
    let agent = HeaderValue::from_static(program);
    config.headers.retain(|(name, _)| *name != USER_AGENT);
    config.headers.push((USER_AGENT, agent));
}
