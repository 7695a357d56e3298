//! Rules for object names.

use std::net::IpAddr;

use super::check;
use super::tree::Node;
use crate::Kind;
use crate::text::{self, Messages};

/// The rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Subdomain,
    Label,
    PathSegment,
    Tenant,
    Definition,
    ApiService,
    IpAddress,
}

/// Validates the name of an object.
pub(super) fn name(kind: &Kind, object: &Node<'_>, name: &str) -> Messages {
    match rule(kind) {
        Rule::Subdomain => text::dns_subdomain(name),
        Rule::Label => text::dns_label(name),
        Rule::PathSegment => text::path_segment(name),
        Rule::Tenant => tenant(name),
        Rule::Definition => definition(object, name, name),
        Rule::ApiService => api_service(object, name),
        Rule::IpAddress => ip_address(name),
    }
}

/// Validates the prefix of a generated name.
pub(super) fn generate_name(kind: &Kind, object: &Node<'_>, prefix: &str) -> Messages {
    match rule(kind) {
        Rule::Subdomain => text::dns_subdomain(&mask_trailing_dash(prefix)),
        Rule::Label => text::dns_label(&mask_trailing_dash(prefix)),
        Rule::Tenant => text::dns_label(&mask_trailing_dash(prefix)),
        Rule::PathSegment => text::path_segment_prefix(prefix),
        Rule::Definition => definition(object, prefix, &mask_trailing_dash(prefix)),
        _ => name(kind, object, prefix),
    }
}

fn rule(kind: &Kind) -> Rule {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => Rule::Label,
        ("", "Tenant") => Rule::Tenant,
        ("rbac.authorization.k8s.io", _) | ("", "Event")
        // Kubernetes has no rule of their own for these.
        | ("policy", "PodDisruptionBudget")
        | ("certificates.k8s.io", "CertificateSigningRequest") => Rule::PathSegment,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Rule::Definition,
        ("apiregistration.k8s.io", "APIService") => Rule::ApiService,
        ("networking.k8s.io", "IPAddress") => Rule::IpAddress,
        _ => Rule::Subdomain,
    }
}

/// Validates the name of a Tenant. `all` means every tenant in paths.
fn tenant(name: &str) -> Messages {
    let mut messages = text::dns_label(name);
    if name == "all" {
        messages.push("is not an acceptable tenant name".to_owned());
    }
    messages
}

/// Validates the name of a definition; `form` is the part that must have the form of a
/// name.
fn definition(object: &Node<'_>, name: &str, form: &str) -> Messages {
    let spec = object.get("spec");
    let plural = spec.get("names").get("plural").text();
    let wanted = format!("{plural}.{}", spec.get("group").text());
    let mut messages = text::dns_subdomain(form);
    if name != wanted {
        messages.push(r#"must be spec.names.plural+"."+spec.group"#.to_owned());
    }
    messages
}

fn api_service(object: &Node<'_>, name: &str) -> Messages {
    let messages = text::path_segment(name);
    if !messages.is_empty() {
        return messages;
    }
    let spec = object.get("spec");
    let wanted = format!(
        "{}.{}",
        spec.get("version").text(),
        spec.get("group").text()
    );
    if name == wanted {
        return Vec::new();
    }
    let wanted = insula_gotext::quote(&wanted);
    vec![format!(
        r#"must be `spec.version+"."+spec.group`: {wanted}"#
    )]
}

fn ip_address(name: &str) -> Messages {
    let messages = check::ip_messages(name);
    let canonical = name.parse::<IpAddr>().map(|address| address.to_string());
    match canonical {
        Ok(canonical) if messages.is_empty() && canonical != name => {
            let canonical = insula_gotext::quote(&canonical);
            vec![format!("must be in canonical form ({canonical})")]
        }
        _ => messages,
    }
}

/// Replaces a trailing dash, as more characters follow the prefix.
fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        // As upstream, the character before the dash is masked, too; only ASCII is valid
        // anyway.
        Some(rest) if !rest.is_empty() => {
            let mut rest = rest.to_owned();
            rest.pop();
            rest.push('a');
            rest
        }
        _ => prefix.to_owned(),
    }
}
