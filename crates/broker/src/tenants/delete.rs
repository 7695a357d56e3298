//! Deletion of a tenant.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{DeleteParams, Preconditions};

use super::wait::Wait;
use super::{Tenants, is_missing, message};
use crate::error::Error;
use crate::names::TenantId;
use crate::report::Report;
use crate::transient::is_transient;

/// Deletes a tenant and waits until it is gone.
pub async fn run(
    tenants: &Tenants,
    id: &TenantId,
    timeout: Duration,
    report: &dyn Report,
) -> Result<(), Error> {
    let attempted = || format!("delete tenant {id}");
    let found = tenants.get(id).await?;
    // Exactly this object: another of the same name may follow.
    let only_this = DeleteParams::default().preconditions(Preconditions {
        uid: found.uid(),
        resource_version: None,
    });
    match tenants.api.delete(id.as_str(), &only_this).await {
        Ok(_) => {}
        // Another client was faster, and another tenant of that name may exist already.
        Err(kube::Error::Api(status)) if is_missing(&status, id) || status.is_conflict() => {}
        Err(error) => return Err(tenants.map_error(error, id, attempted())),
    }
    let what = format!("Deleting tenant {id}");
    let mut wait = Wait::with_timeout(timeout);
    let mut why = String::new();
    loop {
        match tenants.api.get_opt(id.as_str()).await {
            Ok(Some(left)) if left.uid() == found.uid() => {
                // A message from before the deletion is not about it.
                let going = left.metadata.deletion_timestamp.is_some();
                let said = message(&left).filter(|_| going && super::is_deleting(&left));
                why = said.unwrap_or_default().to_owned();
            }
            Ok(_) => {
                report.done(&format!("Tenant {id} is deleted"));
                return Ok(());
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => return Err(tenants.map_error(error, id, attempted())),
        }
        wait.pause(&what, &why, report).await?;
    }
}
