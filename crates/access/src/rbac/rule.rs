//! One rule of a role.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::attributes::{Attributes, ResourceAttributes};

/// One rule of a role. It allows each of its verbs on each of its resources in each of its
/// groups, or on each of its paths.
///
/// The JSON form is Kubernetes' `PolicyRule`. Absent, empty and null lists are equivalent,
/// and omitted on output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rule {
    /// The allowed verbs; `*` is every verb.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// The API groups; the core group is empty, `*` is every group.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources: `pods`, `pods/log`, `*/scale`; `*` is every resource and subresource.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The names of objects; an empty list allows all.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// The non-resource paths; a trailing `*` matches any suffix.
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// The rules of a role, shared with the roles that aggregate it.
pub(super) type RuleList = Arc<[Arc<Rule>]>;

impl Rule {
    /// Reports whether the rule allows the request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        #[cfg(test)]
        CHECKS.with(|checks| checks.set(checks.get() + 1));
        match attributes {
            // Groups and resources first: they rule out most candidates.
            Attributes::Resource(attributes) => {
                has_or_star(&self.api_groups, attributes.group)
                    && self.names_resource(attributes)
                    && has_or_star(&self.verbs, attributes.verb)
                    && self.names_object(attributes.name)
            }
            Attributes::NonResource { verb, path } => {
                let mut urls = self.non_resource_urls.iter();
                urls.any(|url| url_covers(url, path)) && has_or_star(&self.verbs, verb)
            }
        }
    }

    /// Estimated memory use in bytes.
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

    fn names_resource(&self, attributes: &ResourceAttributes<'_>) -> bool {
        let part = attributes.subresource.filter(|part| !part.is_empty());
        self.resources.iter().any(|resource| {
            resource == "*"
                || match part {
                    None => resource == attributes.resource,
                    Some(part) => resource
                        .strip_suffix(part)
                        .and_then(|whole| whole.strip_suffix('/'))
                        .is_some_and(|whole| whole == "*" || whole == attributes.resource),
                }
        })
    }

    /// A request without a name concerns every name, which no list includes.
    fn names_object(&self, name: Option<&str>) -> bool {
        self.resource_names.is_empty() || has(&self.resource_names, name.unwrap_or_default())
    }
}

/// Reports whether a pattern includes a path, or another pattern.
pub(super) fn url_covers(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

/// Reports whether the list contains the text.
pub(super) fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|of| of == text)
}

/// Reports whether the list contains the text or `*`.
pub(super) fn has_or_star(list: &[String], text: &str) -> bool {
    list.iter().any(|of| of == "*" || of == text)
}

#[cfg(test)]
thread_local! {
    /// The number of rules evaluated in this thread.
    pub(super) static CHECKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Deserializes a list, treating null as empty.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(json: Value) -> Rule {
        serde_json::from_value(json).unwrap()
    }

    /// Parses `verb group/resource/subresource name`, with `-` for an absent part.
    fn attributes(text: &str) -> Attributes<'_> {
        let words: Vec<&str> = text.split(' ').collect();
        let of: Vec<&str> = words[1].split('/').collect();
        let given = |text: &'static str| (text != "-").then_some(text);
        let leak = |text: &str| given(String::from(text).leak());
        Attributes::Resource(ResourceAttributes {
            verb: words[0],
            group: of[0],
            resource: of[1],
            subresource: of.get(2).and_then(|text| leak(text)),
            namespace: None,
            name: words.get(2).and_then(|text| leak(text)),
        })
    }

    #[test]
    fn rule_requires_a_match_in_each_of_its_lists() {
        let pods = |more: Value| {
            let mut pods = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
            pods.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            rule(pods)
        };
        let resources = |list: &[&str]| pods(json!({"resources": list}));
        let names = |list: &[&str]| pods(json!({"verbs": ["*"], "resourceNames": list}));
        let cases = [
            // Every list has to match, and an empty list matches nothing.
            (pods(json!({})), "get /pods x", true),
            (pods(json!({})), "get /pods", true),
            (pods(json!({})), "list /pods", false),
            (pods(json!({})), "GET /pods x", false),
            (pods(json!({})), "get apps/pods x", false),
            (pods(json!({})), "get /pod x", false),
            (pods(json!({})), "get /pods/log x", false),
            (pods(json!({"verbs": []})), "get /pods", false),
            (pods(json!({"apiGroups": []})), "get /pods", false),
            (pods(json!({"resources": []})), "get /pods", false),
            (Rule::default(), "get /pods", false),
            // Stars.
            (pods(json!({"verbs": ["*"]})), "frobnicate /pods x", true),
            (pods(json!({"verbs": ["g*"]})), "get /pods x", false),
            (pods(json!({"apiGroups": ["*"]})), "get any.io/pods x", true),
            (
                pods(json!({"apiGroups": ["*.io"]})),
                "get any.io/pods x",
                false,
            ),
            (resources(&["*"]), "get /nodes x", true),
            (resources(&["*"]), "get /nodes/status x", true),
            // A request for `*` is only allowed by a star.
            (resources(&["pods"]), "get /*", false),
            (resources(&["*"]), "get /*", true),
            (pods(json!({})), "* /pods", false),
            // Subresources.
            (resources(&["pods/log"]), "get /pods/log x", true),
            (resources(&["pods/log"]), "get /pods x", false),
            (resources(&["pods/log"]), "get /pods/exec x", false),
            (resources(&["pods/log"]), "get /xpods/log x", false),
            (resources(&["pods/log"]), "get /pods/og x", false),
            (resources(&["*/scale"]), "get /deployments/scale x", true),
            (resources(&["*/scale"]), "get /deployments/status x", false),
            (resources(&["*/scale"]), "get /deployments x", false),
            (resources(&["*/scale"]), "get /scale x", false),
            (resources(&["*/scale"]), "get /deployments/upscale x", false),
            (resources(&["*/upscale"]), "get /deployments/scale x", false),
            (resources(&["pods/*"]), "get /pods/log x", false),
            (resources(&["pods/*"]), "get /pods x", false),
            (resources(&["*/*"]), "get /pods/log x", false),
            (resources(&["*/"]), "get /pods x", false),
            // Names.
            (names(&["a", "b"]), "get /pods a", true),
            (names(&["a", "b"]), "get /pods b", true),
            (names(&["a", "b"]), "get /pods c", false),
            (names(&["a"]), "get /pods", false),
            (names(&["a"]), "list /pods", false),
            (names(&["a"]), "list /pods a", true),
            (names(&["a"]), "create /pods", false),
            (names(&["a"]), "deletecollection /pods", false),
            (names(&["*"]), "get /pods a", false),
            (names(&["*"]), "list /pods", false),
        ];
        for (rule, asked, allowed) in cases {
            assert_eq!(rule.allows(&attributes(asked)), allowed, "{rule:?} {asked}");
        }
    }

    #[test]
    fn empty_name_and_subresource_count_as_absent() {
        let named = json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"],
        });
        let asked = |subresource, name| {
            Attributes::Resource(ResourceAttributes {
                verb: "get",
                resource: "pods",
                subresource,
                name,
                ..ResourceAttributes::default()
            })
        };
        for (subresource, name, allowed) in [
            (None, Some("a"), true),
            (Some(""), Some("a"), true),
            (None, Some(""), false),
            (None, None, false),
        ] {
            let found = rule(named.clone()).allows(&asked(subresource, name));
            assert_eq!(found, allowed, "{subresource:?} {name:?}");
        }
    }

    #[test]
    fn paths_match_exactly_or_by_a_trailing_star() {
        let of = |urls: &[&str]| rule(json!({"verbs": ["get"], "nonResourceURLs": urls}));
        for (urls, path, allowed) in [
            (&["/healthz"][..], "/healthz", true),
            (&["/healthz"], "/healthz/", false),
            (&["/healthz"], "/healthz/etcd", false),
            (&["/healthz/*"], "/healthz/etcd", true),
            (&["/healthz/*"], "/healthz/", true),
            (&["/healthz/*"], "/healthz", false),
            (&["/healthz*"], "/healthz", true),
            (&["/healthz**"], "/healthz/x", true),
            (&["*"], "/anything", true),
            (&["/*"], "/anything", true),
            (&["/a/*/c"], "/a/b/c", false),
            (&["/version", "/api"], "/api", true),
            (&[], "/api", false),
        ] {
            for (verb, holds) in [("get", allowed), ("post", false)] {
                let found = of(urls).allows(&Attributes::NonResource { verb, path });
                assert_eq!(found, holds, "{urls:?} {verb} {path}");
            }
        }
        let all = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        let path = Attributes::NonResource {
            verb: "get",
            path: "/healthz",
        };
        assert!(!all.allows(&path), "resource rules allow no paths");
        assert!(
            !of(&["*"]).allows(&attributes("get /pods")),
            "path rules allow no resources"
        );
    }

    #[test]
    fn rule_round_trips_without_empty_lists() {
        for (read, written) in [
            (json!({}), json!({})),
            (
                json!({"verbs": ["get"], "apiGroups": null, "resources": [], "other": 1}),
                json!({"verbs": ["get"]}),
            ),
            (
                json!({"verbs": ["*"], "nonResourceURLs": ["/x"]}),
                json!({"verbs": ["*"], "nonResourceURLs": ["/x"]}),
            ),
            (
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["a"],
                    "resourceNames": ["n"]}),
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["a"],
                    "resourceNames": ["n"]}),
            ),
        ] {
            assert_eq!(serde_json::to_value(rule(read)).unwrap(), written);
        }
    }
}
