//! `insula tenant revoke`.

use insula_core::Space;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Server;
use super::access::{self, Credentials};
use super::revocation::{self, Selector, Target};
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
    let space = &args.name;
    let selector = args.target.resolve(&server.client).await;
    let selector = selector.map_err(|error| {
        error.to_failure(&format!("cannot revoke credentials of tenant {space}"))
    })?;
    let what = selector.describe();
    let attempted = format!("cannot revoke {what} of tenant {space}");
    // A tenant's administrator may revoke, and may not read the record.
    let known = Credentials::load(server, space).await.ok();
    let concerned = known
        .as_ref()
        .map(|known| known.denied_by(&selector.spec()));
    if let (Some(user), Some([])) = (selector.user(), concerned.as_deref()) {
        warn_unknown(user);
    }
    let concerned = concerned.unwrap_or_default();
    let object = to_object(&selector, args.reason.as_deref(), &concerned, args.force);
    let path = revocation::path(space);
    let revoked = create(server, &path, object, args.dry_run).await;
    match revoked.map_err(|error| failure(&error, &attempted, args.force))? {
        Created::AlreadyRevoked => return Err(Failure::new(&attempted, "it is revoked already")),
        Created::Revoked if args.dry_run => {
            return output::print(&access::table(&concerned, true)?);
        }
        Created::Revoked => {}
    }
    let count = match concerned.len() {
        1 => "1 known credential".to_owned(),
        count => format!("{count} known credentials"),
    };
    output::print(&format!("{what} of tenant {space} revoked: {count}\n"))
}

#[expect(clippy::print_stderr, reason = "a warning is no data")]
fn warn_unknown(user: &str) {
    eprintln!("warning: no credential of user {user:?} is known: is the name right?");
}

/// Returns the revocation to create.
fn to_object(
    selector: &Selector,
    reason: Option<&str>,
    concerned: &[access::Credential],
    force: bool,
) -> Value {
    let mut object = json!({
        "apiVersion": "access.insula.dev/v1",
        "kind": "CredentialRevocation",
        "metadata": { "name": selector.name() },
        "spec": selector.spec(),
    });
    if let Some(reason) = reason {
        object["spec"]["reason"] = reason.into();
    }
    if let Some(expires) = expiry(&object, concerned) {
        object["spec"]["expires"] = expires;
    }
    if force {
        object["metadata"]["annotations"] = json!({ ALLOW_OWN: "true" });
    }
    object
}

/// The result of creating a revocation.
enum Created {
    Revoked,
    /// There is one that denies the same, for as long, and that the same users may delete.
    AlreadyRevoked,
}

/// Creates a revocation. The same target has the same name, but a user of the tenant may have
/// created another object of that name before.
async fn create(
    server: &Server,
    path: &str,
    mut object: Value,
    dry_run: bool,
) -> Result<Created, ClientError> {
    let client = &server.client;
    let probe = format!("{path}?dryRun=All");
    let target = if dry_run { &probe } else { path };
    match client.post(target, &object).await {
        Err(error) if error.is_conflict() => {}
        created => return created.map(|_| Created::Revoked),
    }
    let name = object["metadata"]["name"].take();
    let prefix = format!("{}-", name.as_str().unwrap_or_default());
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("name");
        metadata.insert("generateName".to_owned(), prefix.into());
    }
    // A dry run tells which authority a revocation by this caller has.
    let mine = client.post(&probe, &object).await?;
    let list = client.get(path).await?;
    let mut revocations = list["items"].as_array().into_iter().flatten();
    if revocations.any(|found| covers(found, &mine)) {
        return Ok(Created::AlreadyRevoked);
    }
    client.post(target, &object).await.map(|_| Created::Revoked)
}

/// Whether a revocation makes another one unnecessary.
fn covers(found: &Value, other: &Value) -> bool {
    let same = |field: &str| found["spec"][field] == other["spec"][field];
    let target = ["certificate", "token", "user", "issuedBefore"];
    let time = |object: &Value| {
        object["spec"]["expires"]
            .as_str()?
            .parse::<Timestamp>()
            .ok()
    };
    let lasts = found["spec"]["expires"].is_null()
        || matches!((time(found), time(other)), (Some(found), Some(other)) if found >= other);
    target.iter().all(|field| same(field))
        && found["metadata"]["deletionTimestamp"].is_null()
        && (found["spec"]["authority"] == "System" || same("authority"))
        && lasts
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
        ClientError::Refused { message, .. } if !force && message.contains(ALLOW_OWN) => {
            Failure::new(attempted, "it is the credential of this command")
                .hint("use another credential, or --force")
        }
        _ => error.to_failure(attempted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_equal_or_stronger_revocation_makes_another_one_unnecessary() {
        let early = "2026-01-31T12:00:00Z";
        let late = "2026-01-31T13:00:00+00:00";
        let of = |spec: Value| json!({"metadata": {}, "spec": spec});
        let mine = of(json!({"token": "t", "authority": "System", "expires": early}));
        let tenants = of(json!({"token": "t", "authority": "Tenant", "expires": early}));
        let mut terminating = mine.clone();
        terminating["metadata"]["deletionTimestamp"] = early.into();
        for (found, other, covered) in [
            (mine.clone(), &mine, true),
            (mine.clone(), &tenants, true),
            (tenants.clone(), &tenants, true),
            (tenants.clone(), &mine, false),
            (terminating, &mine, false),
            (
                of(json!({"token": "t", "authority": "System"})),
                &mine,
                true,
            ),
            (
                of(json!({"token": "t", "authority": "System", "expires": late})),
                &mine,
                true,
            ),
            (
                mine.clone(),
                &of(json!({"token": "t", "authority": "System"})),
                false,
            ),
            (
                of(json!({"user": "t", "authority": "System"})),
                &mine,
                false,
            ),
        ] {
            assert_eq!(covers(&found, other), covered, "{found} {other}");
        }
    }
}
