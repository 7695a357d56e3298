//! Validation of a webhook's endpoint: a URL or a service.

use insula_gotext::url::Url;
use insula_kinds::text;
use insula_kinds::validate::check::Errors;
use insula_kinds::validate::tree::Node;

const FORMAT: &str = "; desired format: https://host[/path]";

/// Validates a `clientConfig`.
pub(super) fn config(client: &Node<'_>, errors: &mut Errors) {
    let (url, service) = (client.get("url"), client.get("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => self::url(&url, errors),
        (false, true) => self::service(&service, errors),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
}

/// Validates the URL of a webhook.
pub fn url(node: &Node<'_>, errors: &mut Errors) {
    let url = match Url::parse(node.text()) {
        Ok(url) => url,
        Err(fault) => {
            let detail = format!("url must be a valid URL: {fault}{FORMAT}");
            errors.push(node.required(&detail));
            return;
        }
    };
    let mut refuse = |part: &str, detail: &str| {
        errors.push(node.invalid_as(&part.into(), detail));
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORMAT}");
        refuse(&url.scheme, &detail);
    }
    if url.host.is_empty() {
        refuse("", &format!("host must be specified{FORMAT}"));
    }
    if let Some(user) = &url.user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !url.raw_fragment().is_empty() {
        let detail = "fragments are not permitted in the URL";
        refuse(url.raw_fragment(), detail);
    }
    if !url.raw_query().is_empty() {
        let detail = "query parameters are not permitted in the URL";
        refuse(url.raw_query(), detail);
    }
}

/// Validates the service of a webhook.
pub fn service(service: &Node<'_>, errors: &mut Errors) {
    // Kubernetes swaps the two paths, which is visible to clients.
    for (empty, place) in [("namespace", "name"), ("name", "namespace")] {
        if service.get(empty).is_empty() {
            errors.push(service.get(place).required(""));
        }
    }
    let port = service.get("port");
    if port.is_set() && !text::port_number(port.int().unwrap_or_default()).is_empty() {
        let detail = format!("port is not valid: {}", text::range(1, 65535));
        errors.push(port.invalid(&detail));
    }
    path(&service.get("path"), errors);
}

fn path(path: &Node<'_>, errors: &mut Errors) {
    if matches!(path.text(), "" | "/") {
        return;
    }
    if path.text() == "//" {
        errors.push(path.invalid("segment[0] may not be empty"));
        return;
    }
    if !path.text().starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    // Kubernetes drops the first character even if it is not a slash.
    let mut letters = path.text().chars();
    letters.next();
    let rest = letters.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, segment) in rest.split('/').enumerate() {
        if segment.is_empty() {
            errors.push(path.invalid(&format!("segment[{index}] may not be empty")));
            continue;
        }
        for fault in text::dns_subdomain(segment) {
            errors.push(path.invalid(&format!("segment[{index}]: {fault}")));
        }
    }
}
