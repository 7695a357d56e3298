//! Matching of requests by webhooks, policies and bindings.

use insula_kinds::selector::LabelSelector;
use insula_kinds::{Object, Value};

use crate::refusal::Refusal;
use crate::request::{GroupVersionResource, Operation, Request, Target, VersionedObjects};

/// The match criteria of a webhook, policy or binding.
#[derive(Clone, Debug)]
pub struct Criteria {
    namespaces: Selector,
    objects: Selector,
    /// `None` matches every request. An empty list of a webhook matches none.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// Whether other versions of the same resource match as well (`matchPolicy: Equivalent`).
    equivalent: bool,
}

/// Knowledge about the resources that are served where the request is made.
pub trait EquivalentResources {
    /// The other groups and versions in which the objects of a resource are served. The
    /// resource itself may be included.
    fn equivalents(&self, resource: &GroupVersionResource, subresource: &str) -> Vec<Target>;
}

/// A parsed selector, or its error. Validated configurations have no error.
type Selector = Result<LabelSelector, String>;

#[derive(Clone, Debug, Default)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    Any,
    Cluster,
    Namespaced,
}

impl Criteria {
    /// The criteria of a webhook.
    pub fn from_webhook(hook: &Value) -> Self {
        Self {
            rules: Some(rules(&hook["rules"])),
            ..Self::selecting(hook)
        }
    }

    /// The criteria of a policy or binding. Without rules, every resource matches.
    pub fn from_match_resources(constraints: &Value) -> Self {
        let rules = rules(&constraints["resourceRules"]);
        Self {
            rules: Some(rules).filter(|rules| !rules.is_empty()),
            excluded: self::rules(&constraints["excludeResourceRules"]),
            ..Self::selecting(constraints)
        }
    }

    fn selecting(from: &Value) -> Self {
        Self {
            namespaces: selector(&from["namespaceSelector"]),
            objects: selector(&from["objectSelector"]),
            rules: None,
            excluded: Vec::new(),
            equivalent: from["matchPolicy"] == "Equivalent",
        }
    }

    /// Matches a request. Returns the resource and kind as which it matched. `namespace` is
    /// the object of the request's namespace, `None` if it does not exist. Selector errors are
    /// only reported for requests that match otherwise.
    pub fn matches(
        &self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
        namespace: Option<&Object>,
        equivalents: &dyn EquivalentResources,
    ) -> Result<Option<Target>, Refusal> {
        let in_namespace = self.matches_namespace(request, subject, namespace);
        if in_namespace == Ok(false) {
            return Ok(None);
        }
        let selected = self.matches_object(subject);
        if selected == Ok(false) || self.find(&self.excluded, request, equivalents).is_some() {
            return Ok(None);
        }
        let found = match &self.rules {
            Some(rules) => self.find(rules, request, equivalents),
            None => Some(request.target.clone()),
        };
        if found.is_some() {
            in_namespace?;
            selected?;
        }
        Ok(found)
    }

    fn matches_namespace(
        &self,
        request: &Request<'_>,
        subject: VersionedObjects<'_>,
        namespace: Option<&Object>,
    ) -> Result<bool, Refusal> {
        let of_namespaces = request.target.resource.resource == "namespaces";
        if request.namespace.is_empty() && !of_namespaces {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref();
        let selector = selector.map_err(|why| Refusal::internal(why))?;
        if selector.is_everything() {
            return Ok(true);
        }
        // The stored namespace does not have the new labels yet.
        let written = matches!(request.operation, Operation::Create | Operation::Update);
        if of_namespaces && request.subresource.is_empty() && written {
            return Ok(selector.matches_labels(labels(subject.object)));
        }
        let missing = || Refusal::no_namespace(request.namespace);
        let namespace = namespace.ok_or_else(missing)?;
        Ok(selector.matches_labels(labels(Some(namespace))))
    }

    fn matches_object(&self, subject: VersionedObjects<'_>) -> Result<bool, Refusal> {
        let selector = self.objects.as_ref();
        let selector = selector.map_err(|why| Refusal::internal(why))?;
        let one =
            |object: Option<&Object>| object.is_some() && selector.matches_labels(labels(object));
        Ok(selector.is_everything() || one(subject.object) || one(subject.old))
    }

    /// Finds a matching rule, first for the request's own resource, then for equivalents.
    fn find(
        &self,
        rules: &[Rule],
        request: &Request<'_>,
        equivalents: &dyn EquivalentResources,
    ) -> Option<Target> {
        let asked = &request.target.resource;
        if rules.iter().any(|rule| rule.matches(request, asked)) {
            return Some(request.target.clone());
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = equivalents.equivalents(asked, request.subresource);
        rules.iter().find_map(|rule| {
            let mut others = others.iter().filter(|other| other.resource != *asked);
            let found = others.find(|other| rule.matches(request, &other.resource));
            found.cloned()
        })
    }
}

impl Rule {
    fn read(rule: &Value) -> Self {
        Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            scope: match rule["scope"].as_str() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::Any,
            },
            names: texts(&rule["resourceNames"]),
        }
    }

    fn matches(&self, request: &Request<'_>, resource: &GroupVersionResource) -> bool {
        let or_any =
            |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        self.matches_scope(request, resource)
            && or_any(&self.operations, request.operation.as_str())
            && or_any(&self.groups, &resource.group)
            && or_any(&self.versions, &resource.version)
            && self.matches_resource(&resource.resource, request.subresource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }

    fn matches_scope(&self, request: &Request<'_>, resource: &GroupVersionResource) -> bool {
        // Requests for a Namespace carry its name as namespace, but the kind is cluster-scoped.
        let of_namespaces = (
            resource.group.as_str(),
            resource.version.as_str(),
            resource.resource.as_str(),
        ) == ("", "v1", "namespaces");
        let namespaced = !of_namespaces && !request.namespace.is_empty();
        match self.scope {
            Scope::Any => true,
            Scope::Cluster => !namespaced,
            Scope::Namespaced => namespaced,
        }
    }

    /// `pods` excludes subresources; `pods/*` includes pods and all their subresources.
    fn matches_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|item| {
            let (of, below) = item.split_once('/').unwrap_or((item, ""));
            (of == "*" || of == resource) && (below == "*" || below == subresource)
        })
    }
}

fn rules(list: &Value) -> Vec<Rule> {
    let rules = list.as_array().map_or(&[][..], Vec::as_slice);
    rules.iter().map(Rule::read).collect()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().map_or(&[][..], Vec::as_slice).iter();
    let texts = texts.filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn selector(selector: &Value) -> Selector {
    match selector.as_object() {
        Some(selector) => LabelSelector::from_object(selector),
        None => Ok(LabelSelector::default()),
    }
}

/// The labels of an object.
fn labels(object: Option<&Object>) -> Option<&Object> {
    object?.get("metadata")?.get("labels")?.as_object()
}
