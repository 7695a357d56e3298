//! Label and field selectors.

use insula_kinds::Object;
use insula_kinds::core_kind;
use insula_kinds::selector::{FieldSelector, LabelOperator, LabelSelector};

use crate::codec::view::View;
use crate::registry::resource::Resource;
use crate::request::query::Query;
use crate::status::{Result, StatusError};
use insula_cache::{Stored, Term};

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

    /// Returns the terms that an index may serve, and the value of each that is chosen.
    pub fn terms(&self) -> Vec<(Term, &str)> {
        let labels = self.labels.requirements().iter().filter_map(|required| {
            let is_equality = matches!(
                required.operator,
                LabelOperator::Equals | LabelOperator::DoubleEquals | LabelOperator::In
            );
            match &required.values[..] {
                [value] if is_equality => {
                    Some((Term::Label(required.key.as_str().into()), value.as_str()))
                }
                _ => None,
            }
        });
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
