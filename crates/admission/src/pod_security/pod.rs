//! Pods, and the templates of pods in their controllers, as checks see them.

use insula_kinds::{Object, Value};

/// A pod, or the template of a controller's pods.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
}

/// A container of any sort.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a>(&'a Value);

/// The resources with a template of pods, and where they have it.
const TEMPLATES: [(&str, &str, &[&str]); 8] = [
    ("", "podtemplates", &["template"]),
    ("", "replicationcontrollers", &["spec", "template"]),
    ("apps", "daemonsets", &["spec", "template"]),
    ("apps", "deployments", &["spec", "template"]),
    ("apps", "replicasets", &["spec", "template"]),
    ("apps", "statefulsets", &["spec", "template"]),
    (
        "batch",
        "cronjobs",
        &["spec", "jobTemplate", "spec", "template"],
    ),
    ("batch", "jobs", &["spec", "template"]),
];

impl<'a> Pod<'a> {
    /// Views an object as a pod.
    pub fn of(pod: &'a Object) -> Self {
        Self {
            metadata: pod.get("metadata").unwrap_or(&Value::Null),
            spec: pod.get("spec").unwrap_or(&Value::Null),
        }
    }

    /// Whether the resource has a template of pods.
    pub fn has_template(group: &str, resource: &str) -> bool {
        template_path(group, resource).is_some()
    }

    /// Returns the template of a controller's pods, if it has one.
    pub fn of_template(group: &str, resource: &str, object: &'a Object) -> Option<Self> {
        let (first, rest) = template_path(group, resource)?.split_first()?;
        let outer = object.get(*first)?;
        let template = rest.iter().try_fold(outer, |at, member| at.get(member))?;
        template.is_object().then(|| Self {
            metadata: &template["metadata"],
            spec: &template["spec"],
        })
    }

    /// The spec.
    pub const fn spec(self) -> &'a Value {
        self.spec
    }

    /// The security context of the pod itself.
    pub fn security_context(self) -> &'a Value {
        &self.spec["securityContext"]
    }

    /// The annotations with string values, in the order of their keys.
    pub fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let annotations = self.metadata["annotations"].as_object();
        let annotations = annotations.into_iter().flatten();
        annotations.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// The containers: those that run first, then those that stay, then ephemeral ones.
    pub fn containers(self) -> impl Iterator<Item = Container<'a>> {
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        lists.into_iter().flat_map(move |list| self.list(list))
    }

    /// The names of the containers that fulfil a condition.
    pub fn named(self, mut condition: impl FnMut(Container<'a>) -> bool) -> Vec<&'a str> {
        let chosen = self.containers().filter(|container| condition(*container));
        chosen.map(Container::name).collect()
    }

    /// The containers in one list of the spec.
    pub fn list(self, list: &str) -> impl Iterator<Item = Container<'a>> + use<'a> {
        items(&self.spec[list]).map(Container)
    }

    /// The runtime class, if the pod names one.
    pub fn runtime_class(self) -> Option<&'a str> {
        self.spec["runtimeClassName"].as_str()
    }

    /// Whether the pod is for Windows nodes.
    pub fn is_windows(self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Whether the pod runs in a user namespace of its own.
    pub fn has_user_namespace(self) -> bool {
        self.spec["hostUsers"] == false
    }
}

impl<'a> Container<'a> {
    /// The name.
    pub fn name(self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// The image.
    pub fn image(self) -> &'a str {
        self.0["image"].as_str().unwrap_or_default()
    }

    /// The container's own security context.
    pub fn security_context(self) -> &'a Value {
        &self.0["securityContext"]
    }

    /// Another member.
    pub fn member(self, name: &str) -> &'a Value {
        &self.0[name]
    }
}

fn template_path(group: &str, resource: &str) -> Option<&'static [&'static str]> {
    let mut known = TEMPLATES.iter();
    let found = known.find(|(of, name, _)| *of == group && *name == resource);
    found.map(|(_, _, path)| *path)
}

/// The items of a list, none if it is absent.
pub fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The strings of a list.
pub fn strings(list: &Value) -> impl Iterator<Item = &str> {
    items(list).filter_map(Value::as_str)
}
