//! GETs of collections, page by page.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::access::covers;
use super::message::{ArmRequest, Response};
use super::path::ArmId;
use super::resource::Resource;
use super::state::ArmState;

/// Some of the built-in roles, with the ids that they have in all tenants.
const BUILT_IN_ROLES: &[(&str, &str)] = &[
    ("Contributor", "b24988ac-6180-42a0-ab88-20f7382dd24c"),
    (
        "Key Vault Secrets User",
        "4633458b-17de-408a-b874-0445c86b69e6",
    ),
    ("Owner", "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"),
    ("Reader", "acdd72a7-3385-48ef-bd42-f606fba81ae7"),
    (
        "Storage Blob Data Contributor",
        "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    ),
];

/// The members of a resource in the list of all resources of a group.
const LISTED: [&str; 8] = [
    "id", "name", "type", "location", "tags", "kind", "sku", "identity",
];

impl ArmState {
    pub fn list(&self, id: &ArmId, tail: &str, request: &ArmRequest) -> Result<Response, Response> {
        self.check_place(&id.child(tail, "any"), "read")?;
        let collection = match id.namespace() {
            Some(namespace) => format!("{namespace}/{tail}").to_ascii_lowercase(),
            None => tail.to_ascii_lowercase(),
        };
        let filter = request.parameter("$filter");
        let elements = match collection.as_str() {
            "resourcegroups" if id.group.is_none() => self.groups(id),
            "resources" if id.is_group() => self.resources_of(id)?,
            "microsoft.authorization/roledefinitions" => self.roles(id, filter)?,
            "microsoft.authorization/roleassignments" => self.assignments(id, filter)?,
            _ if id.provided.is_empty() => {
                let message = format!("The resource '{tail}' was not found.");
                return Err(Response::error(404, "ResourceNotFound", message));
            }
            _ => self.children(id, tail),
        };
        Ok(self.page(elements, request))
    }

    fn groups(&self, id: &ArmId) -> Vec<Value> {
        let below = self.below(&format!("{}/resourcegroups", id.key()));
        let groups = below.filter(|(_, group)| group.id.is_group());
        groups.map(|(_, group)| self.view(group)).collect()
    }

    /// All resources of a group that have a location, without their properties.
    fn resources_of(&self, group: &ArmId) -> Result<Vec<Value>, Response> {
        if self.get(group).is_none() {
            return Err(self.not_found(group));
        }
        let below = self.below(&group.key()).map(|(_, resource)| resource);
        let tracked = below.filter(|resource| !resource.location().is_empty());
        let shown = tracked.map(|resource| {
            let mut view = self.view(resource);
            if let Some(members) = view.as_object_mut() {
                members.retain(|name, _| LISTED.contains(&name.as_str()));
            }
            view
        });
        Ok(shown.collect())
    }

    /// The built-in roles, and the custom ones of the scope.
    fn roles(&self, id: &ArmId, filter: Option<&str>) -> Result<Vec<Value>, Response> {
        let subscription = &id.subscription;
        let scope = match subscription.is_empty() {
            true => String::new(),
            false => format!("/subscriptions/{subscription}"),
        };
        let built_in = BUILT_IN_ROLES.iter().map(|(role, name)| {
            let id = format!("{scope}/providers/Microsoft.Authorization/roleDefinitions/{name}");
            json!({
                "id": id, "name": name, "type": "Microsoft.Authorization/roleDefinitions",
                "properties": {
                    "roleName": role, "type": "BuiltInRole", "assignableScopes": ["/"],
                },
            })
        });
        let custom = self.children(id, "roleDefinitions");
        let all = built_in.chain(custom);
        let Some((member, value)) = filter.map(comparison).transpose()? else {
            return Ok(all.collect());
        };
        let is_asked = |role: &Value| {
            let found = role["properties"][member.as_str()].as_str();
            found.is_some_and(|found| found.eq_ignore_ascii_case(&value))
        };
        Ok(all.filter(is_asked).collect())
    }

    /// The role assignments of a scope, those above it, and without a filter those below it.
    fn assignments(&self, id: &ArmId, filter: Option<&str>) -> Result<Vec<Value>, Response> {
        let only_at_scope = match filter {
            None => false,
            Some("atScope()") => true,
            Some(other) => return Err(unsupported(other)),
        };
        let key = id.scope().key();
        let is_listed = |resource: &&Resource| {
            let of = resource.id.key();
            let Some((scope, _)) =
                of.split_once("/providers/microsoft.authorization/roleassignments/")
            else {
                return false;
            };
            covers(scope, &key) || (!only_at_scope && covers(&key, scope))
        };
        let listed = self.resources.values().filter(is_listed);
        Ok(listed.map(|assignment| self.view(assignment)).collect())
    }

    /// The page of a collection that a request asks for.
    fn page(&self, elements: Vec<Value>, request: &ArmRequest) -> Response {
        let from = request.parameter("$skiptoken");
        let from: usize = from.and_then(|from| from.parse().ok()).unwrap_or(0);
        let size = self.page_size.unwrap_or(usize::MAX);
        let until = from.saturating_add(size);
        let is_last = until >= elements.len();
        let page: Vec<Value> = elements.into_iter().skip(from).take(size).collect();
        let mut body = json!({"value": page});
        if !is_last {
            let query = request.query.iter();
            let query = query.filter(|(name, _)| name != "$skiptoken");
            let query: String = query
                .map(|(name, value)| {
                    let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                    format!("{name}={value}&")
                })
                .collect();
            let (endpoint, path) = (&request.endpoint, &request.path);
            body["nextLink"] = format!("{endpoint}{path}?{query}$skiptoken={until}").into();
        }
        Response::json(200, body)
    }
}

/// Reads a filter such as `roleName eq 'Reader'`.
fn comparison(filter: &str) -> Result<(String, String), Response> {
    let parts = filter.split_once(" eq ");
    let parts = parts.and_then(|(member, value)| {
        let value = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
        let known = ["roleName", "type"].contains(&member.trim());
        known.then(|| (member.trim().to_owned(), value.replace("''", "'")))
    });
    parts.ok_or_else(|| unsupported(filter))
}

fn unsupported(filter: &str) -> Response {
    let message = format!("The filter '{filter}' is not supported.");
    Response::error(400, "UnsupportedQuery", message)
}
