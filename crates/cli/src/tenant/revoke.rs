//! `insula tenant revoke`.

use insula_core::Space;
use serde_json::{Value, json};

use super::Server;
use super::access::{self, Credentials};
use super::revocation::{self, Target};
use crate::client::ClientError;
use crate::failure::Failure;
use crate::output;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant, or `system`
    #[arg(value_parser = revocation::space)]
    name: Space,

    #[command(flatten)]
    target: Target,

    /// Reason, shown with the revocation
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Revoke even the credential of this command
    #[arg(long)]
    force: bool,

    /// Show which credentials would be revoked
    #[arg(long)]
    dry_run: bool,
}

/// The annotation that allows to revoke the credential of the request itself.
const ALLOW_OWN: &str = "access.insula.dev/allow-own-credential";

/// Revokes credentials.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let (space, target) = (&args.name, &args.target);
    let what = target.describe();
    let attempted = format!("cannot revoke {what} of tenant {space}");
    // A tenant's administrator may revoke, and may not read the record.
    let known = Credentials::load(server, space).await.unwrap_or_default();
    let concerned = known.denied_by(&target.spec());
    let mut object = json!({
        "apiVersion": "access.insula.dev/v1",
        "kind": "CredentialRevocation",
        "metadata": { "name": target.name() },
        "spec": target.spec(),
    });
    if let Some(reason) = &args.reason {
        object["spec"]["reason"] = reason.as_str().into();
    }
    if let Some(expires) = expiry(&object, &concerned) {
        object["spec"]["expires"] = expires;
    }
    if args.force {
        object["metadata"]["annotations"] = json!({ ALLOW_OWN: "true" });
    }
    let mut path = revocation::path(space);
    if args.dry_run {
        path.push_str("?dryRun=All");
    }
    let created = server.client.post(&path, &object).await;
    created.map_err(|error| failure(&error, &attempted, args.force))?;
    if args.dry_run {
        return output::print(&access::table(&concerned, true)?);
    }
    let count = match concerned.len() {
        1 => "1 known credential".to_owned(),
        count => format!("{count} known credentials"),
    };
    output::print(&format!("{what} of tenant {space} revoked: {count}\n"))
}

/// Returns when a single credential expires: its revocation is needed no longer than that.
fn expiry(revocation: &Value, concerned: &[access::Credential]) -> Option<Value> {
    let spec = &revocation["spec"];
    let single = !spec["certificate"].is_null() || !spec["token"].is_null();
    let expires = &concerned.first()?.object["expires"];
    (single && expires.is_string()).then(|| expires.clone())
}

fn failure(error: &ClientError, attempted: &str, force: bool) -> Failure {
    match error {
        ClientError::Refused { status, .. } if status.as_u16() == 409 => {
            Failure::new(attempted, "it is revoked already")
        }
        ClientError::Refused { message, .. } if !force && message.contains(ALLOW_OWN) => {
            Failure::new(attempted, "it is the credential of this command")
                .hint("use another credential, or --force")
        }
        _ => error.to_failure(attempted),
    }
}
