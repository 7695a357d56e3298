//! One rule of a role, and what it allows.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::act::{Act, ResourceAct};

/// One rule of a role. It allows each of its verbs on each of its resources in each of its
/// groups, or on each of its paths.
///
/// As JSON it is Kubernetes' `PolicyRule`. A list that is absent, empty or null says the
/// same, and is left out when written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    /// What may be done; `*` is everything.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// In which API groups; the core group is empty, `*` is every group.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// With what: `pods`, `pods/log`, `*/scale`; `*` is everything and every part of it.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// With which objects; none is all of them.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// On which paths; a `*` at the end stands for anything.
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// The rules of a role. Roles that are made of it share them.
pub(super) type RuleList = Arc<[Arc<Rule>]>;

impl Rule {
    /// Whether the act is one of those that the rule allows.
    pub fn allows(&self, act: &Act<'_>) -> bool {
        #[cfg(test)]
        CHECKS.with(|checks| checks.set(checks.get() + 1));
        match act {
            // Groups and resources first: they tell most rules apart.
            Act::Resource(act) => {
                has_or_star(&self.api_groups, act.group)
                    && self.names_resource(act)
                    && has_or_star(&self.verbs, act.verb)
                    && self.names_object(act.name)
            }
            Act::Path { verb, path } => {
                let mut urls = self.non_resource_urls.iter();
                urls.any(|url| url_covers(url, path)) && has_or_star(&self.verbs, verb)
            }
        }
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        let lists = [
            &self.verbs,
            &self.api_groups,
            &self.resources,
            &self.resource_names,
            &self.non_resource_urls,
        ];
        let texts = lists.into_iter().flatten();
        let texts: usize = texts.map(|text| size_of::<String>() + text.len()).sum();
        size_of::<Self>() + texts
    }

    fn names_resource(&self, act: &ResourceAct<'_>) -> bool {
        let part = act.subresource.filter(|part| !part.is_empty());
        self.resources.iter().any(|resource| {
            resource == "*"
                || match part {
                    None => resource == act.resource,
                    Some(part) => resource
                        .strip_suffix(part)
                        .and_then(|whole| whole.strip_suffix('/'))
                        .is_some_and(|whole| whole == "*" || whole == act.resource),
                }
        })
    }

    /// A request without a name is about every name, and no list has them all.
    fn names_object(&self, name: Option<&str>) -> bool {
        self.resource_names.is_empty() || has(&self.resource_names, name.unwrap_or_default())
    }
}

/// Whether a path, or a pattern of paths, is within a pattern.
pub(super) fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

/// Whether the list has the text.
pub(super) fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|of| of == text)
}

/// Whether the list has the text or `*`.
pub(super) fn has_or_star(list: &[String], text: &str) -> bool {
    list.iter().any(|of| of == "*" || of == text)
}

#[cfg(test)]
thread_local! {
    /// How many rules were held against an act, in this thread.
    pub(super) static CHECKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A list, where null is an empty one.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
