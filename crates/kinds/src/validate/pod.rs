//! Pods and pod templates.

mod container;
mod handler;
mod scheduling;
mod security;
mod update;
mod volume;
mod warnings;

use std::collections::{HashMap, HashSet};

pub(super) use scheduling::{node_selector, taint_effect, tolerations, topology_terms};
pub(super) use update::{ephemeral_containers, resize, status, update};
pub(super) use volume::{access_modes, claim_spec, driver, host_path, nfs};
pub(super) use warnings::warnings;

use super::amount::{self, container_resource_name, requirements};
use super::check::{self, Errors};
use super::meta;
use super::tree::Node;
use crate::text;

/// The parts of a pod that rules for other parts depend on.
struct Context<'a> {
    /// The valid volumes by name.
    volumes: HashMap<&'a str, Node<'a>>,
    /// The names of resource claims.
    claims: Vec<&'a str>,
    grace: Option<i64>,
    restart_policy: &'a str,
    host_users: bool,
    os: &'a str,
    /// Whether this is a pod, not a template.
    is_pod: bool,
}

/// Validates a new pod.
pub(super) fn create(pod: &Node<'_>, errors: &mut Errors) {
    metadata_and_spec(pod, errors);
    let spec = pod.get("spec");
    if !spec.get("ephemeralContainers").is_empty() {
        errors.push(
            spec.get("ephemeralContainers")
                .forbidden("cannot be set on create"),
        );
    }
    if !spec.get("nodeName").is_empty() && !spec.get("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(spec.get("nodeName").forbidden(detail));
    }
}

/// Validates metadata and spec, on create and update.
fn metadata_and_spec(pod: &Node<'_>, errors: &mut Errors) {
    let spec = pod.get("spec");
    annotations(&pod.get("metadata").get("annotations"), &spec, errors);
    pod_spec(&spec, Some(pod), errors);
    if spec.get("serviceAccountName").is_empty() {
        for volume in spec.get("volumes").items() {
            for source in volume.get("projected").get("sources").items() {
                let token = source.get("serviceAccountToken");
                if token.is_set() {
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.push(token.forbidden(detail));
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).items() {
            trimmed_image(&container, errors);
        }
    }
}

/// Validates the pod template of a workload.
pub(super) fn template(template: &Node<'_>, errors: &mut Errors) {
    let (metadata, spec) = (template.get("metadata"), template.get("spec"));
    meta::labels(
        &metadata.get("labels").at(template.path.field("labels")),
        errors,
    );
    let notes = metadata
        .get("annotations")
        .at(template.path.field("annotations"));
    meta::annotations(&notes, errors);
    annotations(&notes, &spec, errors);
    pod_spec(&spec, None, errors);
    if !spec.get("ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(spec.get("ephemeralContainers").forbidden(detail));
    }
}

fn annotations(annotations: &Node<'_>, spec: &Node<'_>, errors: &mut Errors) {
    let mirror = annotations.entry("kubernetes.io/config.mirror");
    if mirror.is_set() && spec.get("nodeName").is_empty() {
        errors.push(mirror.invalid("must set spec.nodeName if mirror pod annotation is set"));
    }
    let cost = annotations.entry("controller.kubernetes.io/pod-deletion-cost");
    let plain = !cost.text().starts_with('+') && !has_leading_zero(cost.text());
    if cost.is_set() && !(plain && cost.text().parse::<i32>().is_ok()) {
        errors.push(cost.invalid("must be a 32bit integer"));
    }
}

fn has_leading_zero(number: &str) -> bool {
    let digits = number.trim_start_matches('-');
    digits.len() > 1 && digits.starts_with('0')
}

fn trimmed_image(container: &Node<'_>, errors: &mut Errors) {
    let image = container.get("image");
    if image.text().trim() != image.text() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

/// Validates a pod's spec; `pod` is none for a template.
pub(super) fn pod_spec(spec: &Node<'_>, pod: Option<&Node<'_>>, errors: &mut Errors) {
    let grace = spec.get("terminationGracePeriodSeconds");
    if !grace.is_set() {
        errors.push(grace.required(""));
    }
    let name = pod.map_or("", |pod| pod.get("metadata").get("name").text());
    let context = Context {
        volumes: volume::volumes(&spec.get("volumes"), name, pod.is_some(), errors),
        claims: claim_names(&spec.get("resourceClaims")),
        grace: grace.int(),
        restart_policy: spec.get("restartPolicy").text(),
        host_users: spec.get("hostUsers").value().as_bool() != Some(false),
        os: spec.get("os").get("name").text(),
        is_pod: pod.is_some(),
    };
    resource_claims(&spec.get("resourceClaims"), errors);
    container::containers(spec, &context, errors);
    container::init_containers(spec, &context, errors);
    container::ephemeral_containers(spec, &context, errors);
    pod_resources(spec, errors);
    host_ports(spec, &context, errors);
    let restart = ["Always", "OnFailure", "Never"];
    check::one_of(&spec.get("restartPolicy"), &restart, errors);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check::one_of(&spec.get("dnsPolicy"), &dns, errors);
    meta::labels(&spec.get("nodeSelector"), errors);
    security::pod(spec, errors);
    scheduling::affinity(&spec.get("affinity"), errors);
    dns_config(spec, errors);
    gates(spec, errors);
    scheduling::spread(&spec.get("topologySpreadConstraints"), errors);
    host_users(spec, &context, errors);
    host_name(spec, errors);
    names(spec, errors);
    scheduling::tolerations(&spec.get("tolerations"), errors);
    host_aliases(&spec.get("hostAliases"), errors);
    check::format_if_set(&spec.get("priorityClassName"), text::dns_subdomain, errors);
    if spec.get("runtimeClassName").is_set() {
        check::format(&spec.get("runtimeClassName"), text::dns_subdomain, errors);
    }
    if spec.get("preemptionPolicy").is_set() {
        let known = ["PreemptLowerPriority", "Never"];
        check::one_of(&spec.get("preemptionPolicy"), &known, errors);
    }
    for (resource, overhead) in spec.get("overhead").entries() {
        let overhead = overhead.at(spec.path.field("overhead").field("limits").key(resource));
        container_resource_name(&overhead, resource, errors);
        amount::resource_value(&overhead, resource, errors);
    }
    if spec.get("os").is_set() {
        let name = spec.get("os").get("name");
        if check::required(&name, errors) {
            // Kubernetes states the path of the struct.
            let name = name.at(spec.path.field("os"));
            check::one_of_if_set(&name, &["linux", "windows"], errors);
        }
    }
}

fn claim_names<'a>(claims: &Node<'a>) -> Vec<&'a str> {
    let names = claims.items().map(|claim| claim.get("name").text());
    let mut names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names
}

fn resource_claims(claims: &Node<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for claim in claims.items() {
        let name = claim.get("name");
        if check::required(&name, errors) {
            if seen.insert(name.text()) {
                check::format(&name, text::dns_label, errors);
            } else {
                errors.push(name.duplicate());
            }
        }
        let (direct, template) = (
            claim.get("resourceClaimName"),
            claim.get("resourceClaimTemplateName"),
        );
        if direct.is_set() && template.is_set() {
            let detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
            errors.push(claim.invalid(detail));
        }
        if !direct.is_set() && !template.is_set() {
            let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.push(claim.invalid(detail));
        }
        for reference in [direct, template] {
            if reference.is_set() {
                check::format(&reference, text::dns_subdomain, errors);
            }
        }
    }
}

fn pod_resources(spec: &Node<'_>, errors: &mut Errors) {
    let resources = spec.get("resources");
    if !resources.is_set() {
        return;
    }
    if resources.get("claims").is_set() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.push(resources.get("claims").forbidden(detail));
    }
    requirements(&resources, pod_resource_name, errors);
}

fn pod_resource_name(node: &Node<'_>, name: &str, errors: &mut Errors) {
    let before = errors.len();
    amount::resource_name(node, name, errors);
    let known = matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
    if errors.len() == before && !known {
        errors.push(crate::FieldError::not_supported(
            node.path.to_string(),
            &name.into(),
            &["cpu", "memory"],
        ));
    }
}

fn host_ports(spec: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    if !spec.get("hostNetwork").is_true() {
        return;
    }
    for container in spec.get("containers").items() {
        for port in container.get("ports").items() {
            let host = port.get("hostPort").int().unwrap_or_default();
            let inside = port.get("containerPort").int().unwrap_or_default();
            if (context.is_pod || host != 0) && host != inside {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(port.get("hostPort").invalid_int(detail));
            }
        }
    }
}

fn dns_config(spec: &Node<'_>, errors: &mut Errors) {
    let config = spec.get("dnsConfig");
    let (servers, searches) = (config.get("nameservers"), config.get("searches"));
    if spec.get("dnsPolicy").text() == "None" {
        if !config.is_set() {
            errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(servers.required(detail));
            return;
        }
    }
    if servers.list().len() > 3 {
        errors.push(servers.invalid("must not have more than 3 nameservers"));
    }
    servers
        .items()
        .for_each(|server| check::ip(&server, errors));
    if searches.list().len() > 32 {
        errors.push(searches.invalid("must not have more than 32 search paths"));
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        for message in text::dns_subdomain_with_underscore(name) {
            errors.push(search.invalid_as(&name.into(), &message));
        }
    }
    for option in config.get("options").items() {
        if option.get("name").is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

fn gates(spec: &Node<'_>, errors: &mut Errors) {
    for gate in spec.get("readinessGates").items() {
        check::format(&gate.get("conditionType"), text::qualified_name, errors);
    }
    let mut seen = HashSet::new();
    for gate in spec.get("schedulingGates").items() {
        let name = gate.get("name").at(gate.path.clone());
        check::format(&name, text::qualified_name, errors);
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn host_users(spec: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    if context.host_users {
        return;
    }
    // Kubernetes spells two of the fields this way.
    for (field, printed) in [
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ] {
        if spec.get(field).is_true() {
            errors.push(spec.get(printed).forbidden("when `hostUsers` is false"));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.get(list).items() {
            let devices = container.get("volumeDevices");
            if !devices.is_empty() {
                errors.push(devices.forbidden("when `hostUsers` is false"));
            }
        }
    }
}

fn host_name(spec: &Node<'_>, errors: &mut Errors) {
    let name = spec.get("hostnameOverride");
    if !name.is_set() {
        return;
    }
    if spec.get("setHostnameAsFQDN").is_true() {
        errors.push(name.forbidden("may not be specified when setHostnameAsFQDN is true"));
    }
    if spec.get("hostNetwork").is_true() {
        errors.push(name.forbidden("may not be specified when hostNetwork is true"));
    }
    if name.text().len() > 64 {
        errors.push(name.too_long(64));
    }
    check::format(&name, text::dns_subdomain, errors);
}

fn names(spec: &Node<'_>, errors: &mut Errors) {
    check::format_if_set(&spec.get("serviceAccountName"), text::dns_subdomain, errors);
    check::format_if_set(&spec.get("nodeName"), text::dns_subdomain, errors);
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline
        .int()
        .is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds))
    {
        errors.push(deadline.invalid(&text::range(1, i64::from(i32::MAX))));
    }
    check::format_if_set(&spec.get("hostname"), text::dns_label, errors);
    check::format_if_set(&spec.get("subdomain"), text::dns_label, errors);
}

fn host_aliases(aliases: &Node<'_>, errors: &mut Errors) {
    for alias in aliases.items() {
        check::ip(&alias.get("ip"), errors);
        for name in alias.get("hostnames").items() {
            check::format(&name, text::dns_subdomain, errors);
        }
    }
}
