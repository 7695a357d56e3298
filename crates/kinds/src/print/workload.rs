//! Workloads.

use super::row::Row;
use super::selector;
use crate::Value;
use crate::time::human_duration;

pub(super) fn pod_template(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.at("template.spec.containers").containers();
    let labels = row.at("template.metadata.labels").labels();
    vec![row.name(), names, images, Value::from(labels)]
}

pub(super) fn replication_controller(row: &Row<'_>) -> Vec<Value> {
    let selector = row.at("spec.selector").labels();
    replicas(row, selector)
}

pub(super) fn replica_set(row: &Row<'_>) -> Vec<Value> {
    let selector = selector::or_none(row.at("spec.selector"));
    replicas(row, selector)
}

fn replicas(row: &Row<'_>, selector: String) -> Vec<Value> {
    let [names, images] = row.at("spec.template.spec.containers").containers();
    vec![
        row.name(),
        row.number("spec.replicas"),
        row.number("status.replicas"),
        row.number("status.readyReplicas"),
        row.age(),
        names,
        images,
        Value::from(selector),
    ]
}

pub(super) fn deployment(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.at("spec.template.spec.containers").containers();
    // Unlike other kinds, Deployments print an empty selector as empty.
    let selector = selector::to_text(row.at("spec.selector"));
    vec![
        row.name(),
        ready_of_desired(row),
        row.number("status.updatedReplicas"),
        row.number("status.availableReplicas"),
        row.age(),
        names,
        images,
        Value::from(selector.unwrap_or_else(|| "<invalid>".to_owned())),
    ]
}

pub(super) fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.at("spec.template.spec.containers").containers();
    vec![row.name(), ready_of_desired(row), row.age(), names, images]
}

fn ready_of_desired(row: &Row<'_>) -> Value {
    let ready = row.at("status.readyReplicas").number();
    let desired = row.at("spec.replicas").number();
    Value::from(format!("{ready}/{desired}"))
}

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.at("spec.template.spec.containers").containers();
    vec![
        row.name(),
        row.number("status.desiredNumberScheduled"),
        row.number("status.currentNumberScheduled"),
        row.number("status.numberReady"),
        row.number("status.updatedNumberScheduled"),
        row.number("status.numberAvailable"),
        Value::from(row.at("spec.template.spec.nodeSelector").labels()),
        row.age(),
        names,
        images,
        Value::from(selector::or_none(row.at("spec.selector"))),
    ]
}

pub(super) fn controller_revision(row: &Row<'_>) -> Vec<Value> {
    let mut owners = row.at("metadata.ownerReferences").items();
    let controller = owners.find(|owner| owner.get("controller").is_true());
    let controller = controller.map_or("<none>".to_owned(), |owner| {
        let kind = owner.get("kind").text().to_lowercase();
        let name = owner.get("name").text();
        match owner.get("apiVersion").text().split_once('/') {
            Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()),
            None => format!("{kind}/{name}"),
        }
    });
    vec![
        row.name(),
        Value::from(controller),
        row.number("revision"),
        row.age(),
    ]
}

pub(super) fn job(row: &Row<'_>) -> Vec<Value> {
    let [names, images] = row.at("spec.template.spec.containers").containers();
    vec![
        row.name(),
        Value::from(job_status(row)),
        Value::from(job_completions(row)),
        Value::from(job_duration(row)),
        row.age(),
        names,
        images,
        Value::from(selector::or_none(row.at("spec.selector"))),
    ]
}

fn job_status(row: &Row<'_>) -> &'static str {
    let conditions = row.at("status.conditions");
    let first = |names: &[&'static str]| {
        let mut names = names.iter().copied();
        names.find(|name| conditions.has_true(name))
    };
    let over = first(&["Complete", "Failed"]);
    let deleting = row.deleting().then_some("Terminating");
    let under_way = || first(&["Suspended", "FailureTarget", "SuccessCriteriaMet"]);
    over.or(deleting).or_else(under_way).unwrap_or("Running")
}

fn job_completions(row: &Row<'_>) -> String {
    let succeeded = row.at("status.succeeded").number();
    let completions = row.at("spec.completions");
    if completions.exists() {
        return format!("{succeeded}/{}", completions.number());
    }
    match row.at("spec.parallelism").number() {
        many @ 2.. => format!("{succeeded}/1 of {many}"),
        _ => format!("{succeeded}/1"),
    }
}

fn job_duration(row: &Row<'_>) -> String {
    let start = row.at("status.startTime");
    match (start.seconds(), row.at("status.completionTime").seconds()) {
        (None, _) => String::new(),
        (Some(_), None) => row.since(start),
        (Some(start), Some(end)) => human_duration(end.saturating_sub(start)),
    }
}

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let template = row.at("spec.jobTemplate.spec");
    let [names, images] = template.at("template.spec.containers").containers();
    let last = row.at("status.lastScheduleTime").if_exists();
    let suspend = match row.at("spec.suspend").flag() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        row.name(),
        row.text("spec.schedule"),
        Value::from(row.at("spec.timeZone").set_or("<none>")),
        Value::from(suspend),
        row.count("status.active"),
        Value::from(last.map_or("<none>".to_owned(), |last| row.since(last))),
        row.age(),
        names,
        images,
        Value::from(selector::or_none(template.get("selector"))),
    ]
}

pub(super) fn pod_disruption_budget(row: &Row<'_>) -> Vec<Value> {
    let limit = |path| {
        let limit = row.at(path).if_exists();
        limit.map_or("N/A".to_owned(), |limit| limit.int_or_string())
    };
    vec![
        row.name(),
        Value::from(limit("spec.minAvailable")),
        Value::from(limit("spec.maxUnavailable")),
        row.number("status.disruptionsAllowed"),
        row.age(),
    ]
}
