//! The URI of a request, without values that might be secrets.

use std::borrow::Cow;

use http::Uri;

/// The parameters of the API. Others may be secrets, such as a token in the URL by mistake,
/// or the command line of an `exec`.
const KNOWN: [&str; 38] = [
    "allowWatchBookmarks",
    "container",
    "continue",
    "dryRun",
    "exact",
    "exclude",
    "export",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "follow",
    "force",
    "gracePeriodSeconds",
    "hash",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "includeObject",
    "labelSelector",
    "limit",
    "limitBytes",
    "orphanDependents",
    "pretty",
    "previous",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "sinceSeconds",
    "sinceTime",
    "space",
    "tailLines",
    "timeout",
    "timeoutSeconds",
    "timestamps",
    "untilTime",
    "user",
    "verb",
    "verbose",
    "watch",
];

/// The replacement of a redacted value.
const HIDDEN: &str = "****";

/// Returns path and query with the values of known parameters only.
pub fn redacted(uri: &Uri) -> Cow<'_, str> {
    let query = uri.query().unwrap_or("");
    if query.split('&').all(is_known) {
        let whole = uri.path_and_query().map(|whole| whole.as_str());
        return Cow::Borrowed(whole.unwrap_or(""));
    }
    let mut text = String::with_capacity(uri.path().len() + query.len() + HIDDEN.len());
    text.push_str(uri.path());
    for (place, parameter) in query.split('&').enumerate() {
        text.push(if place == 0 { '?' } else { '&' });
        redact(parameter, &mut text);
    }
    Cow::Owned(text)
}

fn is_known(parameter: &str) -> bool {
    let (name, _) = parameter.split_once('=').unwrap_or((parameter, ""));
    parameter.is_empty() || KNOWN.contains(&name)
}

/// Redacts a parameter. One without `=` may itself be a secret.
fn redact(parameter: &str, text: &mut String) {
    if is_known(parameter) {
        return text.push_str(parameter);
    }
    if let Some((name, _)) = parameter.split_once('=') {
        text.push_str(name);
        text.push('=');
    }
    text.push_str(HIDDEN);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_unknown_parameters_are_redacted() {
        for (sent, loggable_message) in [
            ("/api", "/api"),
            ("/api?", "/api?"),
            ("/api?limit=5&continue=abc", "/api?limit=5&continue=abc"),
            ("/api?watch&limit=1", "/api?watch&limit=1"),
            ("/api?labelSelector=a%3Db", "/api?labelSelector=a%3Db"),
            (
                "/audit?space=a&user=b&verb=get&untilTime=t",
                "/audit?space=a&user=b&verb=get&untilTime=t",
            ),
            ("/api?access_token=s", "/api?access_token=****"),
            (
                "/api?limit=5&token=s&watch=1",
                "/api?limit=5&token=****&watch=1",
            ),
            ("/api?TOKEN=s", "/api?TOKEN=****"),
            ("/api?%74oken=s", "/api?%74oken=****"),
            ("/api?Limit=s", "/api?Limit=****"),
            ("/api?token=a=b", "/api?token=****"),
            ("/api?token=s&token=s", "/api?token=****&token=****"),
            ("/api?s", "/api?****"),
            ("/api?=s", "/api?=****"),
            ("/api?&s&", "/api?&****&"),
            (
                "/exec?command=s&container=c",
                "/exec?command=****&container=c",
            ),
            ("https://u:s@host/api?password=s", "/api?password=****"),
            ("https://u:s@host/api", "/api"),
            ("*", "*"),
        ] {
            let uri: Uri = sent.parse().unwrap();
            assert_eq!(redacted(&uri), loggable_message, "{sent}");
        }
    }
}
