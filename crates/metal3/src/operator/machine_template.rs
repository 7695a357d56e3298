//! Reconciles machine templates: a changed cleaning mode reaches the machines that were created from
//! the template. All other fields need new machines.

use insula_capi::names::CLONED_FROM;
use insula_operator::commit;
use insula_operator::retry::Outcome;
use kube::ResourceExt;
use serde_json::json;
use tracing::info;

use super::context::Reconciliation;
use crate::kinds::machine::{Metal3Machine, Metal3MachineTemplate};
use crate::names::PAUSED;

/// Annotation of objects that Cluster API created from a template: its kind.
const CLONED_FROM_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";
/// The kind of templates in [`CLONED_FROM_KIND`].
const TEMPLATE_KIND: &str = "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io";

/// Reconciles a template.
pub(super) async fn reconcile(of: &Reconciliation<'_>) -> Result<Outcome, kube::Error> {
    let templates = of.api::<Metal3MachineTemplate>();
    let Some(template) = templates.get_opt(&of.key.name).await? else {
        return Ok(Outcome::Gone);
    };
    let settled = Outcome::Settled(of.resync_after());
    let mode = template.spec.template.spec.automated_cleaning_mode.as_ref();
    let Some(mode) = mode.filter(|_| !template.annotations().contains_key(PAUSED)) else {
        return Ok(settled);
    };
    let machines = of.api::<Metal3Machine>();
    for machine in of.list::<Metal3Machine>().await? {
        let is_other = machine.spec.automated_cleaning_mode.as_ref() != Some(mode);
        if is_other && is_cloned_from(&machine, &of.key.name) {
            let change = json!({"spec": {"automatedCleaningMode": mode}});
            commit::patch(&machines, &machine, change).await?;
            info!(key = %of.key, machine = machine.name_any(), mode, "cleaning mode copied");
        }
    }
    Ok(settled)
}

/// Returns whether a machine was created from a template.
fn is_cloned_from(machine: &Metal3Machine, template: &str) -> bool {
    let annotation = |key: &str| machine.annotations().get(key).map(String::as_str);
    annotation(CLONED_FROM) == Some(template) && annotation(CLONED_FROM_KIND) == Some(TEMPLATE_KIND)
}
