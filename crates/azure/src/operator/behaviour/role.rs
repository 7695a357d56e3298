//! Built-in roles, which users may refer to by their names.

use serde_json::Value;

use super::{refusal, set};
use crate::arm::id::ResourceType;
use crate::arm::{RequestFailure, ResourceId};
use crate::operator::access::Azure;
use crate::table::Path;

const ROLE_DEFINITIONS: &str = "Microsoft.Authorization/roleDefinitions";
const BUILT_IN: &str = "BuiltInRole";

/// Replaces the name of a built-in role in a body by the id of the role.
///
/// # Errors
///
/// If the roles cannot be read, or none has the name.
pub(super) async fn resolve(
    azure: &Azure,
    assignment: &ResourceId,
    body: &mut Value,
    path: &Path,
    api: &str,
) -> Result<(), RequestFailure> {
    let Some(name) = unresolved(path, body).map(str::to_owned) else {
        return Ok(());
    };
    // Roles are read at the scope of the assignment: a credential that may assign roles there may
    // not be allowed to read anything above it.
    let Some(scope) = scope(assignment) else {
        return Err(unknown(&name));
    };
    let collection = format!("providers/{ROLE_DEFINITIONS}");
    let filter = format!("roleName eq '{}'", name.replace('\'', "''"));
    let client = azure.session.client();
    let found = client.list(&scope, &collection, api, Some(&filter)).await?;
    let role = found.iter().find(|role| is_built_in(role, &name));
    let id = role.and_then(|role| role_id(assignment, role));
    let id = id.ok_or_else(|| unknown(&name))?;
    set(path, body, id.into());
    Ok(())
}

/// Returns the name of a role in the place of its id.
fn unresolved<'a>(path: &Path, body: &'a Value) -> Option<&'a str> {
    let role = path.select(body).and_then(Value::as_str)?;
    (!role.starts_with('/')).then_some(role)
}

/// Returns what a role is assigned for: the id without `/providers/TYPE/NAME` at its end.
fn scope(assignment: &ResourceId) -> Option<ResourceId> {
    assignment.as_str().rsplitn(5, '/').nth(4)?.parse().ok()
}

/// Returns whether a role definition is the built-in role of a name. Custom roles may have any name.
fn is_built_in(role: &Value, name: &str) -> bool {
    let properties = &role["properties"];
    let is = |member: &str, expected: &str| {
        let value = properties[member].as_str();
        value.is_some_and(|value| value.eq_ignore_ascii_case(expected))
    };
    is("type", BUILT_IN) && is("roleName", name)
}

/// Returns the id of a role in the subscription of an assignment. Outside of subscriptions it is the
/// id that Azure returned.
fn role_id(assignment: &ResourceId, role: &Value) -> Option<String> {
    let Some(subscription) = assignment.subscription() else {
        return role["id"].as_str().map(str::to_owned);
    };
    let of_type: ResourceType = ROLE_DEFINITIONS.parse().ok()?;
    let subscription = ResourceId::of_subscription(subscription).ok()?;
    let id = subscription.extension(&of_type, &[role["name"].as_str()?]);
    id.ok().map(|id| id.to_string())
}

fn unknown(name: &str) -> RequestFailure {
    let message = format!(
        "there is no built-in role {name:?}: correct wellKnownName, or refer to the role by its armId"
    );
    refusal(
        http::StatusCode::BAD_REQUEST,
        "RoleDefinitionDoesNotExist",
        &message,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn role_is_an_id_or_unresolved() {
        let role = Path::parse("properties.roleDefinitionId").unwrap();
        let body = |role: &str| json!({"properties": {"roleDefinitionId": role}});
        assert_eq!(unresolved(&role, &body("Reader")), Some("Reader"));
        assert_eq!(unresolved(&role, &body("/subscriptions/s")), None);
        assert_eq!(unresolved(&role, &json!({})), None);
    }

    #[test]
    fn role_of_a_scope_is_in_its_subscription_or_as_azure_returned_it() {
        let end = "/providers/Microsoft.Authorization/roleAssignments/n";
        let group = "/subscriptions/s/resourceGroups/g";
        let management = "/providers/Microsoft.Management/managementGroups/m";
        let role =
            json!({"id": "/providers/Microsoft.Authorization/roleDefinitions/r", "name": "r"});
        for (of, expected) in [
            (
                group,
                "/subscriptions/s/providers/Microsoft.Authorization/roleDefinitions/r",
            ),
            (
                management,
                "/providers/Microsoft.Authorization/roleDefinitions/r",
            ),
        ] {
            let assignment: ResourceId = format!("{of}{end}").parse().unwrap();
            assert_eq!(scope(&assignment).unwrap().as_str(), of);
            assert_eq!(role_id(&assignment, &role).as_deref(), Some(expected));
        }
    }

    #[test]
    fn custom_role_of_the_name_is_not_the_built_in_one() {
        let role = |of: &str, name: &str| json!({"properties": {"type": of, "roleName": name}});
        assert!(is_built_in(&role("BuiltInRole", "Reader"), "reader"));
        assert!(!is_built_in(&role("CustomRole", "Reader"), "Reader"));
        assert!(!is_built_in(
            &role("BuiltInRole", "Reader and Data Access"),
            "Reader"
        ));
    }
}
