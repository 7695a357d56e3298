//! Label and field selectors.

use insula_kinds::Object;
use insula_kinds::core_kind;
use insula_kinds::selector::{FieldSelector, LabelOperator, LabelRequirement, LabelSelector};

use crate::codec::view::View;
use crate::registry::resource::Resource;
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use insula_cache::{Interest, Stored, Term};

/// The selectors of a request.
#[derive(Clone, Debug)]
pub struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    kind: Resource,
    /// Whether all selected fields are part of the key.
    fields_in_key: bool,
    /// The name in the path of a watch.
    only: Option<String>,
}

/// The fields of pods that kubelets and schedulers select by.
const INDEXED_POD_FIELDS: [&str; 2] = ["spec.nodeName", "status.phase"];

impl Selection {
    /// Parses `labelSelector` and `fieldSelector`.
    pub fn read(query: &Query, kind: &Resource) -> Result<Self> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or(""));
        let labels = labels.map_err(StatusError::bad_request)?;
        let fields = FieldSelector::parse(kind, query.get("fieldSelector").unwrap_or(""));
        let fields = fields.map_err(StatusError::bad_request)?;
        let in_key = |field: &str| matches!(field, "metadata.name" | "metadata.namespace");
        let fields_in_key = fields
            .requirements()
            .iter()
            .all(|wanted| in_key(&wanted.field));
        Ok(Self {
            labels,
            fields,
            kind: kind.clone(),
            fields_in_key,
            only: None,
        })
    }

    /// Restricts the selection to the object with this name.
    #[must_use]
    pub fn only(mut self, name: &str) -> Self {
        self.only = Some(name.to_owned());
        self
    }

    /// Whether it chooses everything.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything() && self.only.is_none()
    }

    /// Returns the common prefix of all chosen keys, in a list of this namespace or of all.
    pub fn prefix(&self, namespace: Option<&str>) -> String {
        let name = self.only.as_deref().or_else(|| self.fields.name());
        let name = name.unwrap_or("");
        if !self.kind.namespaced() {
            return name.to_owned();
        }
        match namespace.or_else(|| self.fields.namespace()) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => String::new(),
        }
    }

    /// Returns which objects it may choose, in a watch of this namespace or of all. The narrowest
    /// part of the selection counts, because an object has to meet all of them.
    pub fn interest(&self, namespace: Option<&str>) -> Interest {
        let namespace = namespace.or_else(|| self.fields.namespace());
        let namespace = namespace.filter(|_| self.kind.namespaced());
        let name = self.only.as_deref().or_else(|| self.fields.name());
        if let Some(name) = name {
            return match namespace {
                Some(namespace) => Interest::Key(format!("{namespace}/{name}").into()),
                None if self.kind.namespaced() => Interest::Name(name.into()),
                None => Interest::Key(name.into()),
            };
        }
        let label = self.labels.requirements().iter().find_map(exact);
        match (label, namespace) {
            (Some((key, value)), _) => Interest::Label {
                namespace: namespace.map(Into::into),
                key: key.into(),
                value: value.into(),
            },
            (None, Some(namespace)) => Interest::Namespace(namespace.into()),
            (None, None) => Interest::All,
        }
    }

    /// Returns the terms that an index may serve, and the value of each that is chosen.
    pub fn terms(&self) -> Vec<(Term, &str)> {
        let labels = self.labels.requirements().iter().filter_map(exact);
        let labels = labels.map(|(key, value)| (Term::Label(key.into()), value));
        let pods = core_kind("pods");
        let is_pod = self.kind.storage().is(pods);
        let fields = INDEXED_POD_FIELDS.iter().filter(|_| is_pod);
        let fields = fields.filter_map(|field| {
            let value = self.fields.exact(field)?;
            Some((Term::Field(pods, field), value))
        });
        fields.chain(labels).collect()
    }

    /// Whether it chooses the object.
    pub fn chooses(&self, view: &View, object: &Stored) -> bool {
        if self.only.as_ref().is_some_and(|only| only != object.name()) {
            return false;
        }
        if !self.labels.is_everything() && !self.labels.matches(|name| object.label(name)) {
            return false;
        }
        if self
            .only
            .as_deref()
            .is_some_and(|name| name != object.name())
        {
            return false;
        }
        if self.fields.is_everything() {
            return true;
        }
        if self.fields_in_key {
            return self.fields.matches(|field| match field {
                "metadata.name" => object.name().into(),
                _ => object.namespace().unwrap_or("").into(),
            });
        }
        let tree: Object = view.tree(object);
        self.fields.matches_object(&self.kind, &tree)
    }
}

/// Returns the label that a requirement demands, if it demands a single value.
fn exact(requirement: &LabelRequirement) -> Option<(&str, &str)> {
    use LabelOperator::{DoubleEquals, Equals, In};
    match (requirement.operator, requirement.values.as_slice()) {
        (Equals | DoubleEquals | In, [value]) => Some((&requirement.key, value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_kinds::core_kind;

    fn interest(resource: &str, query: &str, namespace: Option<&str>) -> Interest {
        let kind = Resource::from(core_kind(resource));
        let selection = Selection::read(&Query::parse(query), &kind).unwrap();
        selection.interest(namespace)
    }

    fn label(namespace: Option<&str>, key: &str, value: &str) -> Interest {
        Interest::Label {
            namespace: namespace.map(Into::into),
            key: key.into(),
            value: value.into(),
        }
    }

    #[test]
    fn narrowest_part_of_a_selection_is_the_interest_of_a_watch() {
        let here = Some("ns");
        let name = "fieldSelector=metadata.name%3Da";
        let name_and_label = format!("{name}&labelSelector=app%3Dx");
        for (query, namespace, expected) in [
            ("", None, Interest::All),
            ("", here, Interest::Namespace("ns".into())),
            (name, here, Interest::Key("ns/a".into())),
            (name, None, Interest::Name("a".into())),
            (
                "fieldSelector=metadata.name%3Da,metadata.namespace%3Dns",
                None,
                Interest::Key("ns/a".into()),
            ),
            ("fieldSelector=metadata.name!%3Da", None, Interest::All),
            ("labelSelector=app%3Dx", here, label(here, "app", "x")),
            (
                "labelSelector=z,app%20in%20(x)",
                None,
                label(None, "app", "x"),
            ),
            ("labelSelector=app%20in%20(x,y)", None, Interest::All),
            (
                "labelSelector=app!%3Dx",
                here,
                Interest::Namespace("ns".into()),
            ),
            (name_and_label.as_str(), here, Interest::Key("ns/a".into())),
        ] {
            let found = interest("configmaps", query, namespace);
            assert_eq!(found, expected, "{query}");
        }
        assert_eq!(
            interest("namespaces", name, None),
            Interest::Key("a".into())
        );
    }
}
