//! The default pull policy of an image.

/// Returns `Always` if the image's tag is `latest` or missing, `IfNotPresent` otherwise,
/// also for an invalid image name.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    }
}

fn latest(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let (repository, tag) = match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        _ => (name, None),
    };
    let valid = repository_is_valid(repository)
        && tag.is_none_or(tag_is_valid)
        && digest.is_none_or(digest_is_valid)
        && !is_identifier(image);
    valid && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

fn repository_is_valid(repository: &str) -> bool {
    let path = match repository.split_once('/') {
        Some((host, path)) if is_host(host) => {
            if !host_is_valid(host) {
                return false;
            }
            path
        }
        _ => repository,
    };
    path.split('/').all(component_is_valid)
}

/// Whether the first component is a registry host: one that cannot be a path component.
fn is_host(first: &str) -> bool {
    let upper = first.bytes().any(|byte| byte.is_ascii_uppercase());
    first.contains(['.', ':']) || first == "localhost" || upper
}

fn host_is_valid(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let port_is_valid =
        |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let label_is_valid = |label: &str| {
        let inner = label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-');
        inner && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let named = match address {
        Some(address) => address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'),
        None => name.split('.').all(label_is_valid),
    };
    named && port.is_none_or(port_is_valid)
}

/// Runs of lower-case letters and digits, joined by `.`, `_`, `__` or dashes.
fn component_is_valid(component: &str) -> bool {
    let alphanumeric = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let ends = component.starts_with(alphanumeric) && component.ends_with(alphanumeric);
    let mut separators = component.split(alphanumeric);
    ends && separators.all(|separator| {
        matches!(separator, "" | "." | "_" | "__") || separator.bytes().all(|byte| byte == b'-')
    })
}

fn tag_is_valid(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = tag.bytes().next().is_some_and(word);
    let rest = tag
        .bytes()
        .all(|byte| word(byte) || byte == b'.' || byte == b'-');
    first && rest && tag.len() <= 128
}

fn digest_is_valid(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hash)| {
        let hex = hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        algorithm.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && hash.len() >= 32
            && hex
    })
}

/// Sixty-four hexadecimal digits are an image ID, not a name.
fn is_identifier(image: &str) -> bool {
    image.len() == 64
        && image
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_images_are_always_pulled() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let cases = [
            ("nginx".to_owned(), "Always"),
            ("nginx:latest".to_owned(), "Always"),
            ("nginx:1.2".to_owned(), "IfNotPresent"),
            ("example.com:5000/a/b".to_owned(), "Always"),
            ("example.com:5000/a/b:v1".to_owned(), "IfNotPresent"),
            ("[::1]:5000/a".to_owned(), "Always"),
            (format!("nginx@{digest}"), "IfNotPresent"),
            (format!("nginx:latest@{digest}"), "Always"),
            (String::new(), "IfNotPresent"),
            ("Nginx".to_owned(), "IfNotPresent"),
            ("Host/nginx".to_owned(), "Always"),
            ("a__b--c.d".to_owned(), "Always"),
            ("a..b".to_owned(), "IfNotPresent"),
            ("a".repeat(64), "IfNotPresent"),
        ];
        for (image, wanted) in cases {
            assert_eq!(pull_policy(&image), wanted, "{image}");
        }
    }
}
