//! Flags in the syntax of Submariner's own programs.

/// Parses `--flag`, `--flag=true` and `--flag=false`.
pub fn parse_bool(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" | "1" | "t" | "T" | "TRUE" | "True" => Ok(true),
        "false" | "0" | "f" | "F" | "FALSE" | "False" => Ok(false),
        _ => Err("must be true or false"),
    }
}

/// Parses an `https://` URL without user, query and fragment.
pub fn broker_url(text: &str) -> Result<String, &'static str> {
    let wrong = "a URL is https://HOST with an optional port and path";
    let url: http::Uri = text.parse().map_err(|_| wrong)?;
    let plain = url.query().is_none() && !text.contains(['#', '?', '@']);
    match (url.host(), url.scheme_str()) {
        (Some(host), Some("https")) if !host.is_empty() && plain => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(wrong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_url_accepts_https_only() {
        for (text, url) in [
            ("https://a", "https://a"),
            ("https://a:6443/", "https://a:6443"),
            ("https://[::1]:1/k8s/", "https://[::1]:1/k8s"),
        ] {
            assert_eq!(broker_url(text).as_deref(), Ok(url));
        }
        for bad in [
            "",
            "a",
            "a:1",
            "http://a",
            "https://",
            "https://a?b",
            "https://a#b",
            "https://u:p@a",
        ] {
            broker_url(bad).unwrap_err();
        }
    }
}
