//! Validation of the conversion strategy.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use insula_gotext::url::Url;
use insula_kinds::text::{dns_subdomain, dns1035_label};
use x509_parser::pem::Pem;

use super::internal_form::InternalForm;
use super::place::{Place, Report};
use super::print;
use super::props::Props;
use super::requirements::Requirements;

const STRATEGIES: &[&str] = &["None", "Webhook"];
const REVIEWS: &[&str] = &["v1", "v1beta1"];
const FORMAT: &str = "; desired format: https://host[/path]";

/// Validates the conversion; `place` is the `spec`.
pub(super) fn validate(
    form: &InternalForm<'_>,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    let Some(conversion) = form.spec.child("conversion") else {
        return;
    };
    let place = place.field("conversion");
    let (strategy, at) = (conversion.text("strategy"), place.field("strategy"));
    if strategy != "None" && form.preserves_unknown() {
        let detail = "must be None if spec.preserveUnknownFields is true";
        report.invalid_text(at, strategy, detail);
    }
    if strategy.is_empty() {
        report.required(at, "");
    } else if !STRATEGIES.contains(&strategy) {
        report.not_supported(at, strategy, STRATEGIES);
    }
    let webhook = conversion.child("webhook");
    let client = webhook.and_then(|webhook| webhook.child("clientConfig"));
    let reviews = place.field("conversionReviewVersions");
    let at = place.field("webhookClientConfig");
    let webhook = webhook.unwrap_or(Props::of(None));
    if strategy == "Webhook" {
        match client {
            Some(client) => self::client(client, at, requirements, report),
            None => report.required(at, "required when strategy is set to Webhook"),
        }
        self::reviews(webhook, reviews, requirements, report);
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        report.forbidden(at, detail);
    }
    if !webhook.list("conversionReviewVersions").is_empty() {
        report.forbidden(reviews, detail);
    }
}

/// Reports whether the webhook accepts a known version of ConversionReview, if there is one.
pub(super) fn has_known_review(spec: Props<'_>) -> bool {
    let conversion = spec.child("conversion");
    let webhook = conversion.and_then(|conversion| conversion.child("webhook"));
    let Some(webhook) = webhook else {
        return true;
    };
    let mut versions = webhook.texts("conversionReviewVersions").peekable();
    versions.peek().is_none() || versions.any(|version| REVIEWS.contains(&version))
}

/// Reports whether the webhook has an invalid CA bundle.
pub(super) fn has_invalid_ca_bundle(spec: Props<'_>) -> bool {
    let conversion = spec.child("conversion");
    let webhook = conversion.and_then(|conversion| conversion.child("webhook"));
    let client = webhook.and_then(|webhook| webhook.child("clientConfig"));
    client.is_some_and(|client| ca_fault(client.text("caBundle")).is_some())
}

fn client(
    client: Props<'_>,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    match (client.maybe_text("url"), client.child("service")) {
        (Some(url), None) => self::url(url, place.field("url"), report),
        (None, Some(service)) => self::service(service, place.field("service"), report),
        _ => report.required(place, "exactly one of url or service is required"),
    }
    let bundle = client.text("caBundle");
    if let Some(fault) = ca_fault(bundle).filter(|_| requirements.valid_ca_bundle) {
        report.invalid_as(
            place.field("caBundle"),
            || print::json(client.get("caBundle")),
            &fault,
        );
    }
}

fn reviews(
    webhook: Props<'_>,
    place: Place<'_>,
    requirements: &Requirements<'_>,
    report: &mut Report,
) {
    let name = "conversionReviewVersions";
    if webhook.list(name).is_empty() {
        return report.required(place, "");
    }
    let (mut seen, mut known) = (HashSet::new(), false);
    for (index, version) in webhook.texts(name).enumerate() {
        let at = place.index(index);
        if !seen.insert(version) {
            report.invalid_text(at, version, "duplicate version");
            continue;
        }
        for fault in dns1035_label(version) {
            report.invalid_text(at, version, &fault);
        }
        known = known || REVIEWS.contains(&version);
    }
    if requirements.known_reviews && !known {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        report.invalid_as(place, || print::json(webhook.get(name)), &detail);
    }
}

fn url(url: &str, place: Place<'_>, report: &mut Report) {
    let url = match Url::parse(url) {
        Ok(url) => url,
        Err(error) => {
            let detail = format!("url must be a valid URL: {error}{FORMAT}");
            return report.required(place, &detail);
        }
    };
    let mut refuse = |part: &str, detail: &str| report.invalid_text(place, part, detail);
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

fn service(service: Props<'_>, place: Place<'_>, report: &mut Report) {
    // Kubernetes swaps the two paths.
    for (reported, checked) in [("name", "namespace"), ("namespace", "name")] {
        if service.text(checked).is_empty() {
            report.required(place.field(reported), "");
        }
    }
    let port = service.int("port").unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        report.invalid(place.field("port"), &port.into(), detail);
    }
    path(service.text("path"), place.field("path"), report);
}

fn path(path: &str, place: Place<'_>, report: &mut Report) {
    if matches!(path, "" | "/") {
        return;
    }
    let mut refuse = |detail: &str| report.invalid_text(place, path, detail);
    if path == "//" {
        return refuse("segment[0] may not be empty");
    }
    if !path.starts_with('/') {
        refuse("must start with a '/'");
    }
    // Kubernetes drops the first byte even if it is not a slash, which can split a character.
    let mut letters = path.chars();
    let torn = letters.next().is_some_and(|first| !first.is_ascii());
    let rest = letters.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (index, segment) in rest.split('/').enumerate() {
        let torn = torn && index == 0;
        if segment.is_empty() && !torn {
            refuse(&format!("segment[{index}] may not be empty"));
            continue;
        }
        let segment = if torn { "\u{fffd}" } else { segment };
        for fault in dns_subdomain(segment) {
            refuse(&format!("segment[{index}]: {fault}"));
        }
    }
}

/// The error of a CA bundle, base64 of PEM, if it is invalid.
fn ca_fault(bundle: &str) -> Option<String> {
    if bundle.is_empty() {
        return None;
    }
    let bytes = STANDARD.decode(bundle).unwrap_or_default();
    let blocks: Vec<_> = Pem::iter_from_buffer(&bytes)
        .map_while(Result::ok)
        .collect();
    let mut certificates = blocks.iter().filter(|block| block.label == "CERTIFICATE");
    if certificates.clone().any(|block| block.parse_x509().is_ok()) {
        return None;
    }
    let why = if certificates.next().is_some() {
        "failed to parse certificate: x509: malformed certificate"
    } else if blocks.is_empty() {
        "unable to parse bytes as PEM block"
    } else {
        "no valid certificate authority data seen"
    };
    Some(format!("unable to load root certificates: {why}"))
}
