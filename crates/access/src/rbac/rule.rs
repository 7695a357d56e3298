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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rule(json: Value) -> Rule {
        serde_json::from_value(json).unwrap()
    }

    /// `verb group/resource/subresource name`, with `-` for what is absent.
    fn act(text: &str) -> Act<'_> {
        let words: Vec<&str> = text.split(' ').collect();
        let of: Vec<&str> = words[1].split('/').collect();
        let given = |text: &'static str| (text != "-").then_some(text);
        let leak = |text: &str| given(String::from(text).leak());
        Act::Resource(ResourceAct {
            verb: words[0],
            group: of[0],
            resource: of[1],
            subresource: of.get(2).and_then(|text| leak(text)),
            namespace: None,
            name: words.get(2).and_then(|text| leak(text)),
        })
    }

    #[test]
    fn a_rule_allows_what_each_of_its_lists_has() {
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
            // Nothing is left out that is not there.
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
            // A star may be asked for, too, and then only a star has it.
            (resources(&["pods"]), "get /*", false),
            (resources(&["*"]), "get /*", true),
            (pods(json!({})), "* /pods", false),
            // Parts of objects.
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
            assert_eq!(rule.allows(&act(asked)), allowed, "{rule:?} {asked}");
        }
    }

    #[test]
    fn an_empty_name_is_no_name_and_an_empty_part_no_part() {
        let named = json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"],
        });
        let asked = |subresource, name| {
            Act::Resource(ResourceAct {
                verb: "get",
                resource: "pods",
                subresource,
                name,
                ..ResourceAct::default()
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
    fn paths_are_allowed_as_they_stand_or_by_how_they_begin() {
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
                let found = of(urls).allows(&Act::Path { verb, path });
                assert_eq!(found, holds, "{urls:?} {verb} {path}");
            }
        }
        let all = rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        let path = Act::Path {
            verb: "get",
            path: "/healthz",
        };
        assert!(!all.allows(&path), "all objects are no path");
        assert!(
            !of(&["*"]).allows(&act("get /pods")),
            "all paths are no object"
        );
    }

    #[test]
    fn a_rule_is_written_as_it_was_read_without_empty_lists() {
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
