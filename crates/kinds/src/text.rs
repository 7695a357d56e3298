//! Formats of strings; each function returns the messages of Kubernetes for a violation.

/// Messages; none if the string is valid.
pub type Messages = Vec<String>;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Returns the message that states a range.
pub fn range(lo: i64, hi: i64) -> String {
    format!("must be between {lo} and {hi}, inclusive")
}

/// Formats a rule with its regular expression and examples.
pub fn pattern(rule: &str, expression: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{expression}')");
    }
    let examples: Vec<_> = examples.iter().map(|text| format!("'{text}', ")).collect();
    let examples = examples.join(" or ");
    format!("{rule} (e.g. {examples}regex used for validation is '{expression}')")
}

/// Validates a DNS label: lower-case letters, digits and `-`, at most 63.
pub fn dns_label(text: &str) -> Messages {
    let mut messages = max_length(63, text);
    if !is_label(text) {
        messages.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    messages
}

/// Validates a DNS label that begins with a letter.
pub fn dns1035_label(text: &str) -> Messages {
    let mut messages = max_length(63, text);
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        messages.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    messages
}

/// Validates DNS labels joined by dots, at most 253 bytes.
pub fn dns_subdomain(text: &str) -> Messages {
    let mut messages = max_length(253, text);
    if !is_subdomain(text) {
        messages.push(pattern(SUBDOMAIN_RULE, SUBDOMAIN, &["example.com"]));
    }
    messages
}

/// Validates a subdomain with labels that may contain and begin with `_`, as search domains do.
pub(crate) fn dns_subdomain_with_underscore(text: &str) -> Messages {
    let mut messages = max_length(253, text);
    let is_label = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        is_label(&label.replace('_', "-"))
    };
    if !text.split('.').all(is_label) {
        messages.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    messages
}

/// Validates a subdomain below `*.`.
pub(crate) fn wildcard_subdomain(text: &str) -> Messages {
    let mut messages = max_length(253, text);
    if !text.strip_prefix("*.").is_some_and(is_subdomain) {
        messages.push(pattern(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    messages
}

/// Validates a name with an optional subdomain before `/`, such as a label key.
pub fn qualified_name(text: &str) -> Messages {
    let mut messages = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, None) => name,
        (Some(prefix), Some(name), None) => {
            qualified_prefix(prefix, &mut messages);
            name
        }
        _ => {
            let rule = pattern(QUALIFIED_RULE, QUALIFIED, &["MyName", "my.name", "123-abc"]);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        messages.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        let rule = pattern(QUALIFIED_RULE, QUALIFIED, &["MyName", "my.name", "123-abc"]);
        messages.push(format!("name part {rule}"));
    }
    messages
}

fn qualified_prefix(prefix: &str, messages: &mut Messages) {
    if prefix.is_empty() {
        messages.push("prefix part must be non-empty".to_owned());
        return;
    }
    if prefix.len() > 253 {
        messages.push("prefix part must be no more than 253 bytes".to_owned());
    }
    if !is_subdomain(prefix) {
        let rule = pattern(SUBDOMAIN_RULE, SUBDOMAIN, &["example.com"]);
        messages.push(format!("prefix part {rule}"));
    }
}

/// Validates a label's value.
pub fn label_value(text: &str) -> Messages {
    let mut messages = Vec::new();
    if text.len() > 63 {
        messages.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_qualified(text) {
        messages.push(pattern(
            &format!(
                "a valid label must be an empty string or {}",
                &QUALIFIED_RULE["must ".len()..]
            ),
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    messages
}

/// Validates a path segment of a URL.
pub fn path_segment(text: &str) -> Messages {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    path_segment_prefix(text)
}

/// Validates the beginning of a [`path_segment`].
pub(crate) fn path_segment_prefix(text: &str) -> Messages {
    let unsafe_parts = ["/", "%"].into_iter().filter(|part| text.contains(part));
    unsafe_parts
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// Validates the key of a ConfigMap or a Secret.
pub(crate) fn config_key(text: &str) -> Messages {
    let mut messages = max_length(253, text);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(allowed) {
        messages.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if text == "." || text == ".." {
        messages.push(format!("must not be '{text}'"));
    } else if text.starts_with("..") {
        messages.push("must not start with '..'".to_owned());
    }
    messages
}

/// Validates the name of an environment variable.
pub(crate) fn env_name(text: &str) -> Messages {
    let printable = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'=';
    let mut messages = Vec::new();
    if text.is_empty() {
        messages.push("environment variable name must be non-empty".to_owned());
    }
    if !text.bytes().all(printable) {
        messages.push("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned());
    }
    messages
}

/// Validates the name of a port (RFC 6335).
pub(crate) fn port_name(text: &str) -> Messages {
    let mut messages = max_length(15, text);
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.is_empty() || !text.bytes().all(allowed) {
        messages.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// Validates a port number.
pub fn port_number(port: i64) -> Messages {
    if (1..=65535).contains(&port) {
        Vec::new()
    } else {
        vec![range(1, 65535)]
    }
}

/// Validates a user or group ID.
pub(crate) fn posix_id(id: i64) -> Messages {
    if (0..=i64::from(i32::MAX)).contains(&id) {
        Vec::new()
    } else {
        vec![range(0, i64::from(i32::MAX))]
    }
}

/// Validates a percentage: digits and `%`.
pub fn percent(text: &str) -> Messages {
    let digits = text.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// Validates the name of an HTTP header.
pub(crate) fn header_name(text: &str) -> Messages {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !text.is_empty() && text.bytes().all(allowed) {
        return Vec::new();
    }
    vec![pattern(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

fn max_length(limit: usize, text: &str) -> Messages {
    if text.len() > limit {
        vec![format!("must be no more than {limit} characters")]
    } else {
        Vec::new()
    }
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && text.bytes().all(inner)
}
