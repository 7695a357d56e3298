//! Jobs and CronJobs.

mod schedule;
mod status;

pub(super) use status::job_status;

use super::check::{self, Errors};
use super::meta;
use super::pod;
use super::tree::Node;
use crate::FieldError;
use crate::text;

const INDEXED: &str = "requires indexed completion mode";

/// Validates a Job.
pub(super) fn job(object: &Node<'_>, errors: &mut Errors) {
    generated_selector(object, errors);
    let spec = object.get("spec");
    job_and_selector(&spec, errors);
    let completions = spec.get("completions").int().unwrap_or_default();
    if is_indexed(&spec) && completions > 0 {
        let name = object.get("metadata").get("name");
        let host = format!("{}-{}", name.text(), completions - 1);
        if !text::dns_label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(name.invalid_text(&detail));
        }
    }
}

/// Validates the generated selector: unless it is manual, a Job selects by its own UID.
fn generated_selector(job: &Node<'_>, errors: &mut Errors) {
    let spec = job.get("spec");
    let selector = spec.get("selector");
    if spec.get("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let metadata = job.get("metadata");
    let (uid, name) = (metadata.get("uid"), metadata.get("name"));
    check::required(&uid, errors);
    let expected = [
        ("controller-uid", uid.text()),
        ("job-name", name.text()),
        ("batch.kubernetes.io/controller-uid", uid.text()),
        ("batch.kubernetes.io/job-name", name.text()),
    ];
    let labels = spec.get("template").get("metadata").get("labels");
    for (key, value) in expected {
        let label = labels.entry(key);
        let detail = format!("must be '{value}'");
        if !label.is_set() {
            errors.push(label.required(&detail));
        } else if label.text() != value {
            errors.push(label.invalid_as(labels.value(), &detail));
        }
    }
    let Some(Ok(parsed)) = selector
        .object()
        .map(crate::selector::LabelSelector::from_object)
    else {
        return;
    };
    let value = |key: &str| expected.iter().find(|of| of.0 == key).map(|of| of.1);
    if !parsed.matches(value) {
        let detail = "`selector` not auto-generated";
        errors.push(check::invalid_selector(&selector, detail));
    }
}

fn job_and_selector(spec: &Node<'_>, errors: &mut Errors) {
    job_spec(spec, errors);
    let selector = spec.get("selector");
    if selector.is_set() {
        meta::selector(&selector, errors);
    } else {
        errors.push(selector.required(""));
    }
    let labels = spec.get("template").get("metadata").get("labels");
    check::selects_template(&selector, &labels, errors);
}

fn job_spec(spec: &Node<'_>, errors: &mut Errors) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    check::all_nonnegative(spec, &counts, errors);
    let per_index = spec.get("backoffLimitPerIndex");
    if spec.get("maxFailedIndexes").is_set() && !per_index.is_set() {
        errors.push(per_index.required("when maxFailedIndexes is specified"));
    }
    managed_by(&spec.get("managedBy"), errors);
    let mode = spec.get("completionMode");
    check::one_of_if_set(&mode, &["NonIndexed", "Indexed"], errors);
    if is_indexed(spec) {
        indexed(spec, errors);
    }
    if matches!(mode.text(), "" | "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if spec.get(field).is_set() {
                errors.push(spec.get(field).invalid(INDEXED));
            }
        }
    }
    failure_policy(spec, errors);
    success_policy(spec, errors);
    replacement_policy(spec, errors);
    pod::template(&spec.get("template"), errors);
    restart_policy(spec, errors);
}

fn is_indexed(spec: &Node<'_>) -> bool {
    spec.get("completionMode").text() == "Indexed"
}

fn managed_by(manager: &Node<'_>, errors: &mut Errors) {
    if !manager.is_set() {
        return;
    }
    if check::required(manager, errors) {
        match manager.text().split_once('/') {
            Some((host, path)) if !host.is_empty() && !path.is_empty() => {
                for message in text::dns_subdomain(host) {
                    errors.push(manager.invalid_as(&host.into(), &message));
                }
            }
            _ => {
                let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                errors.push(manager.invalid(detail));
            }
        }
    }
    if manager.text().len() > 63 {
        errors.push(manager.too_long(63));
    }
}

fn indexed(spec: &Node<'_>, errors: &mut Errors) {
    let (completions, parallelism) = (spec.get("completions"), spec.get("parallelism"));
    let failed = spec.get("maxFailedIndexes");
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    let above = |node: &Node<'_>, max: i64| node.int().is_some_and(|number| number > max);
    if above(&parallelism, 100_000) {
        let detail = "must be less than or equal to 100000 when completion mode is Indexed";
        errors.push(parallelism.invalid(detail));
    }
    if completions.int().is_some_and(|max| above(&failed, max)) {
        errors.push(failed.invalid("must be less than or equal to completions"));
    }
    if above(&failed, 100_000) {
        errors.push(failed.invalid("must be less than or equal to 100000"));
    }
    if !above(&completions, 100_000) || !spec.get("backoffLimitPerIndex").is_set() {
        return;
    }
    if !failed.is_set() {
        let detail = "must be specified when completions is above 100000";
        errors.push(failed.required(detail));
    }
    for node in [parallelism, failed] {
        if above(&node, 10_000) {
            let detail = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index";
            errors.push(node.invalid(detail));
        }
    }
}

fn failure_policy(spec: &Node<'_>, errors: &mut Errors) {
    let rules = spec.get("podFailurePolicy").get("rules");
    if rules.list().len() > 20 {
        errors.push(rules.too_many(20));
    }
    for rule in rules.items() {
        failure_action(spec, &rule.get("action"), errors);
        let (codes, conditions) = (rule.get("onExitCodes"), rule.get("onPodConditions"));
        if codes.is_set() {
            exit_codes(spec, &codes, errors);
        }
        for condition in conditions.items() {
            check::format(&condition.get("type"), text::qualified_name, errors);
            required_one_of(
                &condition.get("status"),
                &["False", "True", "Unknown"],
                errors,
            );
        }
        let detail = match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(FieldError::invalid_without_value(
            rule.path.to_string(),
            detail,
        ));
    }
}

fn failure_action(spec: &Node<'_>, action: &Node<'_>, errors: &mut Errors) {
    if action.text() != "FailIndex" {
        required_one_of(action, &["Count", "FailIndex", "FailJob", "Ignore"], errors);
    } else if !spec.get("backoffLimitPerIndex").is_set() {
        errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
    }
}

/// Validates a required value; the error for a missing one lists `known`.
fn required_one_of(node: &Node<'_>, known: &[&str], errors: &mut Errors) {
    if node.is_empty() {
        let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
        errors.push(node.required(&format!("valid values: [{}]", known.join(" "))));
    } else {
        check::one_of_if_set(node, known, errors);
    }
}

fn exit_codes(spec: &Node<'_>, codes: &Node<'_>, errors: &mut Errors) {
    let operator = codes.get("operator");
    required_one_of(&operator, &["In", "NotIn"], errors);
    let container = codes.get("containerName");
    let pod = spec.get("template").get("spec");
    let known = ["containers", "initContainers"].into_iter().any(|list| {
        pod.get(list)
            .items()
            .any(|of| of.get("name").text() == container.text())
    });
    if container.is_set() && !known {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(container.invalid(detail));
    }
    let values = codes.get("values");
    if values.is_empty() {
        errors.push(values.invalid("at least one value is required"));
    } else if values.list().len() > 255 {
        errors.push(values.too_many(255));
    }
    let mut last = None;
    let mut ordered = true;
    for value in values.items() {
        if operator.text() == "In" && value.int() == Some(0) {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if values
            .list()
            .iter()
            .filter(|other| *other == value.value())
            .count()
            > 1
            && last == value.int()
        {
            errors.push(value.duplicate());
        }
        ordered &= last <= value.int();
        last = value.int();
    }
    if !ordered {
        errors.push(values.invalid("must be ordered"));
    }
}

fn success_policy(spec: &Node<'_>, errors: &mut Errors) {
    let policy = spec.get("successPolicy");
    if !policy.is_set() {
        return;
    }
    if !is_indexed(spec) {
        errors.push(policy.invalid(INDEXED));
        return;
    }
    let rules = policy.get("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(rules.required(detail));
    }
    if rules.list().len() > 20 {
        errors.push(rules.too_many(20));
    }
    let completions = spec.get("completions").int().unwrap_or_default();
    for rule in rules.items() {
        let (count, indexes) = (rule.get("succeededCount"), rule.get("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.push(rule.required(detail));
        }
        check::nonnegative(&count, errors);
        if count.int().is_some_and(|count| count > completions) {
            let detail = format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            );
            errors.push(count.invalid(&detail));
        }
    }
}

fn replacement_policy(spec: &Node<'_>, errors: &mut Errors) {
    let policy = spec.get("podReplacementPolicy");
    let known: &[&str] = if spec.get("podFailurePolicy").is_set() {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    check::one_of_if_set(&policy, known, errors);
}

fn restart_policy(spec: &Node<'_>, errors: &mut Errors) {
    let policy = spec.get("template").get("spec").get("restartPolicy");
    match policy.text() {
        "" | "Always" => {
            errors.push(policy.required(r#"valid values: "OnFailure", "Never""#));
        }
        "OnFailure" => {
            if spec.get("podFailurePolicy").is_set() {
                let detail = r#"only "Never" is supported when podFailurePolicy is specified"#;
                errors.push(policy.invalid(detail));
            }
        }
        "Never" => {}
        _ => errors.push(policy.not_supported(&["OnFailure", "Never"])),
    }
}

/// Validates an update of a Job.
pub(super) fn job_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (old, new) = (old.get("spec"), new.get("spec"));
    job_and_selector(&new, errors);
    let completions = new.get("completions");
    if !is_indexed(&new) {
        check::immutable(&old.get("completions"), &completions, errors);
    } else if completions.is_set()
        && !completions.same(&old.get("completions"))
        && completions.int() != new.get("parallelism").int()
    {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
    check::immutable_selector(&old.get("selector"), &new.get("selector"), errors);
    job_template(&old, &new, errors);
    for field in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        check::immutable(&old.get(field), &new.get(field), errors);
    }
}

/// Validates the template: a suspended Job may still change scheduling and resources.
fn job_template(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    let (before, after) = (old.get("template"), new.get("template"));
    if !old.get("suspend").is_true() {
        check::immutable(&before, &after, errors);
        return;
    }
    let fixed = |template: &Node<'_>| {
        let mut template = template.value().clone();
        for (place, names) in [
            ("/metadata", &["labels", "annotations"][..]),
            (
                "/spec",
                &["nodeSelector", "tolerations", "schedulingGates"][..],
            ),
            ("/spec/affinity", &["nodeAffinity"][..]),
        ] {
            if let Some(members) = template
                .pointer_mut(place)
                .and_then(|of| of.as_object_mut())
            {
                names.iter().for_each(|name| drop(members.remove(*name)));
            }
        }
        for list in ["/spec/containers", "/spec/initContainers"] {
            let containers = template.pointer_mut(list).and_then(|of| of.as_array_mut());
            for container in containers.into_iter().flatten() {
                if let Some(members) = container.as_object_mut() {
                    members.remove("resources");
                }
            }
        }
        template
    };
    if !super::tree::same(&fixed(&before), &fixed(&after)) {
        errors.push(after.invalid(check::IMMUTABLE));
    }
}

/// Validates a new CronJob.
pub(super) fn cron_job(object: &Node<'_>, errors: &mut Errors) {
    cron_spec(None, &object.get("spec"), errors);
    let name = object.get("metadata").get("name");
    // Jobs get the name plus eleven characters.
    if name.text().len() > 52 {
        errors.push(name.invalid("must be no more than 52 characters"));
    }
}

/// Validates an update of a CronJob.
pub(super) fn cron_job_update(old: &Node<'_>, new: &Node<'_>, errors: &mut Errors) {
    cron_spec(Some(&old.get("spec")), &new.get("spec"), errors);
}

fn cron_spec(old: Option<&Node<'_>>, spec: &Node<'_>, errors: &mut Errors) {
    let schedule = spec.get("schedule");
    if check::required(&schedule, errors) {
        schedule::schedule(old, spec, errors);
    }
    check::nonnegative(&spec.get("startingDeadlineSeconds"), errors);
    let zone = spec.get("timeZone");
    if old.is_none_or(|old| !old.get("timeZone").same(&zone)) {
        schedule::time_zone(&zone, errors);
    }
    let policies = ["Allow", "Forbid", "Replace"];
    check::one_of(&spec.get("concurrencyPolicy"), &policies, errors);
    let template = spec.get("jobTemplate").get("spec");
    job_spec(&template, errors);
    if template.get("selector").is_set() {
        let detail = "`selector` will be auto-generated";
        errors.push(check::invalid_selector(&template.get("selector"), detail));
    }
    let manual = template.get("manualSelector");
    if manual.is_true() {
        let known = ["nil", "false"];
        let error = FieldError::not_supported(manual.path.to_string(), manual.value(), &known);
        errors.push(error);
    }
    let limits = ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"];
    check::all_nonnegative(spec, &limits, errors);
}
