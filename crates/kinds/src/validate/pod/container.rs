//! The containers of a pod.

use std::collections::HashSet;

use super::{Context, handler, security, trimmed_image};
use crate::FieldError;
use crate::text;
use crate::validate::amount::{Amount, container_resource_name, requirements};
use crate::validate::check::{self, Errors};
use crate::validate::tree::Node;

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Validates the regular containers.
pub(super) fn containers(spec: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let containers = spec.get("containers");
    if containers.is_empty() {
        errors.push(containers.required(""));
        return;
    }
    let mut names = HashSet::new();
    for container in containers.items() {
        common(&container, context, errors);
        if !names.insert(container.get("name").text()) {
            errors.push(duplicate_name(&container));
        }
        handler::lifecycle(&container.get("lifecycle"), context, errors);
        handler::probes(&container, context, errors);
        restart_policy(&container, errors);
    }
    unique_host_ports(containers.items(), errors);
}

/// Validates the init containers.
pub(super) fn init_containers(spec: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let regular = spec.get("containers");
    let mut names: HashSet<_> = regular.items().map(|of| of.get("name").text()).collect();
    for container in spec.get("initContainers").items() {
        common(&container, context, errors);
        restart_policy(&container, errors);
        let name = container.get("name");
        if !names.insert(name.text()) && !name.is_empty() {
            errors.push(duplicate_name(&container));
        }
        unique_host_ports([container.clone()].into_iter(), errors);
        if container.get("restartPolicy").text() == "Always" {
            handler::lifecycle(&container.get("lifecycle"), context, errors);
            handler::probes(&container, context, errors);
            continue;
        }
        for field in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if container.get(field).is_set() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(container.get(field).forbidden(detail));
            }
        }
        for policy in container.get("resizePolicy").items() {
            let restart = policy.get("restartPolicy");
            if restart.text() == "RestartContainer" {
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(restart.invalid(detail));
            }
        }
    }
}

/// Validates the ephemeral containers.
pub(super) fn ephemeral_containers(spec: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let others = ["containers", "initContainers"];
    let others: HashSet<_> = others
        .into_iter()
        .flat_map(|list| spec.get(list).items())
        .map(|container| container.get("name").text())
        .collect();
    let mut names = others.clone();
    for container in spec.get("ephemeralContainers").items() {
        common(&container, context, errors);
        trimmed_image(&container, errors);
        if !names.insert(container.get("name").text()) {
            errors.push(duplicate_name(&container));
        }
        let target = container.get("targetContainerName");
        if !target.is_empty() && !others.contains(target.text()) {
            errors.push(target.not_found());
        }
        only_ephemeral_fields(&container, errors);
    }
}

fn only_ephemeral_fields(container: &Node<'_>, errors: &mut Errors) {
    let detail = "cannot be set for an Ephemeral Container";
    for field in [
        "ports",
        "resources",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
    ] {
        if !container.get(field).is_empty() {
            errors.push(container.get(field).forbidden(detail));
        }
    }
    for mount in container.get("volumeMounts").items() {
        for field in ["subPath", "subPathExpr"] {
            if !mount.get(field).is_empty() {
                errors.push(mount.get(field).forbidden(detail));
            }
        }
    }
}

fn duplicate_name(container: &Node<'_>) -> FieldError {
    let name = container.get("name");
    FieldError::duplicate(name.path.to_string(), &name.text().into())
}

/// Validates the fields that all containers share.
fn common(container: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    check::required_format(&container.get("name"), text::dns_label, errors);
    check::required(&container.get("image"), errors);
    let policies = ["File", "FallbackToLogsOnError"];
    check::one_of(
        &container.get("terminationMessagePolicy"),
        &policies,
        errors,
    );
    ports(&container.get("ports"), errors);
    environment(&container.get("env"), errors);
    environment_from(&container.get("envFrom"), errors);
    mounts(container, context, errors);
    devices(container, context, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    check::one_of(&container.get("imagePullPolicy"), &policies, errors);
    let resources = container.get("resources");
    requirements(&resources, container_resource_name, errors);
    claims(&resources.get("claims"), context, errors);
    resize_policy(&container.get("resizePolicy"), context, errors);
    security::container(&container.get("securityContext"), context, errors);
}

fn ports(ports: &Node<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for port in ports.items() {
        let name = port.get("name");
        if !name.is_empty() {
            let before = errors.len();
            check::format(&name, text::port_name, errors);
            if errors.len() == before && !names.insert(name.text()) {
                errors.push(name.duplicate());
            }
        }
        let inside = port.get("containerPort");
        if inside.int().unwrap_or_default() == 0 {
            errors.push(inside.required(""));
        } else {
            check::port(&inside, errors);
        }
        if port.get("hostPort").int().unwrap_or_default() != 0 {
            check::port(&port.get("hostPort"), errors);
        }
        check::one_of(&port.get("protocol"), PROTOCOLS, errors);
    }
}

fn unique_host_ports<'a>(containers: impl Iterator<Item = Node<'a>>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for container in containers {
        for port in container.get("ports").items() {
            let host = port.get("hostPort");
            let number = host.int().unwrap_or_default();
            if number == 0 {
                continue;
            }
            let protocol = port.get("protocol").text();
            let taken = format!("{protocol}/{}/{number}", port.get("hostIP").text());
            if !seen.insert(taken.clone()) {
                errors.push(FieldError::duplicate(host.path.to_string(), &taken.into()));
            }
        }
    }
}

fn environment(variables: &Node<'_>, errors: &mut Errors) {
    for variable in variables.items() {
        check::required_format(&variable.get("name"), text::env_name, errors);
        let source = variable.get("valueFrom");
        if source.is_set() {
            value_from(&variable, &source, errors);
        }
    }
}

fn value_from(variable: &Node<'_>, source: &Node<'_>, errors: &mut Errors) {
    let mut sources = 0;
    let mut given = |field| {
        let node = source.get(field);
        sources += usize::from(node.is_set());
        node.is_set().then_some(node)
    };
    if let Some(field) = given("fieldRef") {
        field_reference(&field, ENV_FIELDS, errors);
    }
    if let Some(resource) = given("resourceFieldRef") {
        resource_reference(&resource, false, errors);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = given(field) {
            check::format(&reference.get("name"), text::dns_subdomain, errors);
            check::required_format(&reference.get("key"), text::config_key, errors);
        }
    }
    if let Some(file) = given("fileKeyRef") {
        check::required_format(&file.get("key"), text::env_name, errors);
        check::required_format(&file.get("volumeName"), text::dns_label, errors);
        if check::required(&file.get("path"), errors) {
            check::no_backsteps(&file.get("path"), errors);
        }
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !variable.get("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(source.invalid_as(&"".into(), detail));
}

const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Validates a reference to a field of the pod; `known` are the fields without a
/// subscript.
pub(super) fn field_reference(reference: &Node<'_>, known: &[&str], errors: &mut Errors) {
    let path = reference.get("fieldPath");
    if !check::required(&reference.get("apiVersion"), errors) || !check::required(&path, errors) {
        return;
    }
    let version = reference.get("apiVersion").text();
    if version != "v1" {
        let detail = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.push(path.invalid(&detail));
        return;
    }
    let (field, subscript) = match path.text().strip_suffix("']") {
        Some(rest) => rest.split_once("['").unwrap_or((path.text(), "")),
        None => (path.text(), ""),
    };
    match field {
        _ if known.contains(&field) && subscript.is_empty() => {}
        "metadata.annotations" | "metadata.labels" if !subscript.is_empty() => {
            let key = match field {
                "metadata.labels" => subscript.to_owned(),
                _ => subscript.to_lowercase(),
            };
            for message in text::qualified_name(&key) {
                errors.push(reference.invalid_as(&key.as_str().into(), &message));
            }
        }
        _ if ANY_FIELD.contains(&field) && subscript.is_empty() => {
            errors.push(path.not_supported(known));
        }
        _ => {
            let detail = format!(
                "error converting fieldPath: field label not supported: {}",
                path.text()
            );
            errors.push(path.invalid(&detail));
        }
    }
}

/// All fields that some reference may name.
const ANY_FIELD: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Validates a reference to a container's resources.
pub(super) fn resource_reference(reference: &Node<'_>, in_volume: bool, errors: &mut Errors) {
    let resource = reference.get("resource");
    let huge = ["requests.hugepages-", "limits.hugepages-"];
    let is_huge = huge
        .iter()
        .any(|prefix| resource.text().starts_with(prefix));
    if in_volume && reference.get("containerName").is_empty() {
        errors.push(reference.get("containerName").required(""));
    } else if check::required(&resource, errors) && !is_huge {
        check::one_of_if_set(&resource, RESOURCES, errors);
    }
    divisor(reference, is_huge, errors);
}

fn divisor(reference: &Node<'_>, is_huge: bool, errors: &mut Errors) {
    let (resource, divisor) = (reference.get("resource").text(), reference.get("divisor"));
    if Amount::of(&divisor) == Amount::default() {
        return;
    }
    let units = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (units, measured) = match resource {
        "limits.cpu" | "requests.cpu" => ("1m and 1", "cpu"),
        "limits.memory" | "requests.memory" => (units, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (units, "local ephemeral storage")
        }
        _ if is_huge => (units, "hugepages"),
        _ => return,
    };
    let mut known = units.split(", ").flat_map(|unit| unit.split(" and "));
    if !known.any(|unit| unit == divisor.text()) {
        let detail =
            format!("only divisor's values {units} are supported with the {measured} resource");
        errors.push(divisor.invalid_as(&resource.into(), &detail));
    }
}

fn environment_from(sources: &Node<'_>, errors: &mut Errors) {
    for source in sources.items() {
        check::format_if_set(&source.get("prefix"), text::env_name, errors);
        let given = ["configMapRef", "secretRef"].map(|field| source.get(field));
        for reference in given.iter().filter(|reference| reference.is_set()) {
            check::required_format(&reference.get("name"), text::dns_subdomain, errors);
        }
        let detail = match given.iter().filter(|reference| reference.is_set()).count() {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(sources.invalid_as(&"".into(), detail));
    }
}

fn mounts(container: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mounts = container.get("volumeMounts");
    let devices = container.get("volumeDevices");
    let device = |field, text: &str| devices.items().any(|of| of.get(field).text() == text);
    let mut places = HashSet::new();
    for mount in mounts.items() {
        let (name, place) = (mount.get("name"), mount.get("mountPath"));
        check::required(&name, errors);
        if !context.volumes.contains_key(name.text()) {
            errors.push(FieldError::not_found(
                name.path.to_string(),
                &name.text().into(),
            ));
        }
        check::required(&place, errors);
        if !places.insert(place.text()) {
            errors.push(place.invalid_text("must be unique"));
        }
        if device("name", name.text()) {
            errors.push(name.invalid_text("must not already exist in volumeDevices"));
        }
        if device("devicePath", place.text()) {
            errors.push(place.invalid_text("must not already exist as a path in volumeDevices"));
        }
        sub_path(&mounts, &mount, errors);
        propagation(&mounts, &mount, container, errors);
    }
}

/// Validates the subpath of a mount. As in Kubernetes, the error does not state which
/// mount it is.
fn sub_path<'a>(mounts: &Node<'a>, mount: &Node<'a>, errors: &mut Errors) {
    let (path, expression) = (mount.get("subPath"), mount.get("subPathExpr"));
    if !path.is_empty() {
        check::relative_path(&path.at(mounts.path.field("subPath")), errors);
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(expression.invalid(detail));
        }
        check::relative_path(&expression.at(mounts.path.field("subPathExpr")), errors);
    }
}

fn propagation<'a>(mounts: &Node<'a>, mount: &Node<'a>, container: &Node<'a>, errors: &mut Errors) {
    let mode = mount
        .get("mountPropagation")
        .at(mounts.path.field("mountPropagation"));
    check::one_of_if_set(&mode, &["Bidirectional", "HostToContainer", "None"], errors);
    let privileged = container.get("securityContext").get("privileged").is_true();
    if mode.text() == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(mode.forbidden(detail));
    }
    let recursive = mount
        .get("recursiveReadOnly")
        .at(mounts.path.field("recursiveReadOnly"));
    match recursive.text() {
        "Enabled" | "IfPossible" => {
            if !mount.get("readOnly").is_true() {
                errors.push(recursive.forbidden("may only be specified when readOnly is true"));
            }
            if !matches!(mode.text(), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(recursive.forbidden(detail));
            }
        }
        _ => check::one_of_if_set(&recursive, &["Disabled", "Enabled", "IfPossible"], errors),
    }
}

fn devices(container: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mounts = container.get("volumeMounts");
    let mounted = |field, text: &str| mounts.items().any(|of| of.get(field).text() == text);
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for device in container.get("volumeDevices").items() {
        let (name, path) = (device.get("name"), device.get("devicePath"));
        let volume = context.volumes.get(name.text());
        check::required(&name, errors);
        if names.contains(name.text()) {
            errors.push(name.invalid_text("must be unique"));
        }
        let claims = |volume: &&Node<'_>| {
            volume.get("persistentVolumeClaim").is_set() || volume.get("ephemeral").is_set()
        };
        if volume.is_some() && volume.filter(claims).is_none() {
            errors.push(name.invalid_text("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"));
        }
        if volume.is_none() {
            errors.push(FieldError::not_found(
                name.path.to_string(),
                &name.text().into(),
            ));
        }
        check::required(&path, errors);
        if paths.contains(path.text()) {
            errors.push(path.invalid_text("must be unique"));
        }
        if path.text().split('/').any(|part| part == "..") {
            errors.push(path.invalid("can not contain backsteps ('..')"));
        } else {
            paths.insert(path.text());
        }
        if mounted("name", name.text()) {
            errors.push(name.invalid_text("must not already exist in volumeMounts"));
        }
        if mounted("mountPath", path.text()) {
            errors.push(path.invalid_text("must not already exist as a path in volumeMounts"));
        }
        if !name.is_empty() {
            names.insert(name.text());
        }
    }
}

fn claims(claims: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for claim in claims.items() {
        let name = claim.get("name").at(claim.path.clone());
        if !check::required(&name, errors) {
            continue;
        }
        let request = claim.get("request");
        check::format_if_set(&request, text::dns_label, errors);
        if !seen.insert((name.text(), request.text())) {
            errors.push(name.duplicate());
        }
        if !context.claims.contains(&name.text()) {
            let names = match context.claims.as_slice() {
                [] => " which is empty".to_owned(),
                names => format!(": {}", names.join(", ")),
            };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{names}");
            errors.push(name.not_found().with_detail(&detail));
        }
    }
}

fn resize_policy(policies: &Node<'_>, context: &Context<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for policy in policies.items() {
        let resource = policy.get("resourceName").at(policies.path.clone());
        let restart = policy.get("restartPolicy").at(policies.path.clone());
        if !seen.insert(resource.text()) {
            errors.push(resource.at(policy.path.clone()).duplicate());
        }
        check::one_of(&resource, &["cpu", "memory"], errors);
        check::one_of(&restart, &["NotRequired", "RestartContainer"], errors);
        if context.restart_policy == "Never" && restart.text() != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(restart.invalid_text(detail));
        }
    }
}

fn restart_policy(container: &Node<'_>, errors: &mut Errors) {
    let (policy, rules) = (
        container.get("restartPolicy"),
        container.get("restartPolicyRules"),
    );
    if !policy.is_set() {
        if !rules.is_empty() {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.push(policy.required(detail));
        }
    } else {
        check::one_of_if_set(&policy, &["Always", "Never", "OnFailure"], errors);
    }
    if rules.list().len() > 20 {
        errors.push(rules.too_many(20));
    }
    for rule in rules.items() {
        let actions = ["Restart", "RestartAllContainers"];
        if !actions.contains(&rule.get("action").text()) {
            errors.push(rule.get("action").not_supported(&actions));
        }
        let codes = rule.get("exitCodes");
        if !codes.is_set() {
            errors.push(codes.required("must be specified"));
            continue;
        }
        if !["In", "NotIn"].contains(&codes.get("operator").text()) {
            errors.push(codes.get("operator").not_supported(&["In", "NotIn"]));
        }
        if codes.get("values").list().len() > 255 {
            errors.push(codes.get("values").too_many(255));
        }
    }
}
