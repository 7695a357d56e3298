//! Acceptance of names: within a group, no two definitions may share names.

use std::collections::HashSet;

use insula_gotext::quote;
use insula_kinds::{Object, Value};

use crate::condition::{Condition, NAMES_ACCEPTED};

/// The requested or accepted names of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The plural name, used in paths.
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// Abbreviations.
    pub short_names: Vec<String>,
    /// The kind of an object.
    pub kind: String,
    /// The kind of a list.
    pub list_kind: String,
    /// The categories that it belongs to, such as `all`.
    pub categories: Vec<String>,
}

/// The result of accepting names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The accepted names.
    pub names: Names,
    /// The `NamesAccepted` condition.
    pub condition: Condition,
}

impl Names {
    /// The requested names: `spec.names`.
    pub fn requested(definition: &Object) -> Self {
        Self::at(definition, "spec", "names")
    }

    /// The accepted names: `status.acceptedNames`.
    pub fn accepted(definition: &Object) -> Self {
        Self::at(definition, "status", "acceptedNames")
    }

    /// The JSON form.
    pub fn to_value(&self) -> Value {
        let mut names = Object::new();
        let mut put = |field: &str, value: Value| names.insert(field.to_owned(), value);
        put("plural", self.plural.clone().into());
        if !self.singular.is_empty() {
            put("singular", self.singular.clone().into());
        }
        if !self.short_names.is_empty() {
            put("shortNames", self.short_names.clone().into());
        }
        put("kind", self.kind.clone().into());
        if !self.list_kind.is_empty() {
            put("listKind", self.list_kind.clone().into());
        }
        if !self.categories.is_empty() {
            put("categories", self.categories.clone().into());
        }
        Value::Object(names)
    }

    fn at(definition: &Object, part: &str, field: &str) -> Self {
        let names = definition.get(part).and_then(|part| part.get(field));
        let get = |field: &str| names.and_then(|names| names.get(field));
        let text = |field| get(field).and_then(Value::as_str).unwrap_or_default();
        let texts = |field| {
            let list = get(field).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            plural: text("plural").to_owned(),
            singular: text("singular").to_owned(),
            short_names: texts("shortNames"),
            kind: text("kind").to_owned(),
            list_kind: text("listKind").to_owned(),
            categories: texts("categories"),
        }
    }
}

/// Decides which requested names are accepted. `others` are the accepted names of the other
/// definitions of the group.
///
/// A free name is reserved even if another one conflicts. Short names are accepted all
/// together or not at all. Of several conflicts the last one is reported, as in Kubernetes.
pub fn accept<'a>(
    own: &Names,
    accepted_before: &'a Names,
    others: impl Iterator<Item = &'a Names>,
) -> Accepted {
    let used = Used::by(others, accepted_before);
    let mut accepted = Accepted {
        names: accepted_before.clone(),
        condition: Condition::no_conflicts(),
    };
    let Accepted { names, condition } = &mut accepted;
    let accept_name = |reason, wish: &str, mine: &mut String, used: &HashSet<&str>| {
        if wish == mine || !used.contains(wish) {
            wish.clone_into(mine);
            None
        } else {
            Some(conflict(reason, &in_use(wish)))
        }
    };
    let resources = &used.resources;
    let conflicts = [
        accept_name("PluralConflict", &own.plural, &mut names.plural, resources),
        accept_name(
            "SingularConflict",
            &own.singular,
            &mut names.singular,
            resources,
        ),
        accept_short_names(own, names, resources),
        accept_name("KindConflict", &own.kind, &mut names.kind, &used.kinds),
        accept_name(
            "ListKindConflict",
            &own.list_kind,
            &mut names.list_kind,
            &used.kinds,
        ),
    ];
    if let Some(last) = conflicts.into_iter().flatten().last() {
        *condition = last;
    }
    names.categories.clone_from(&own.categories);
    accepted
}

/// The names in use, including those accepted earlier for the definition itself.
struct Used<'a> {
    resources: HashSet<&'a str>,
    kinds: HashSet<&'a str>,
}

impl<'a> Used<'a> {
    fn by(others: impl Iterator<Item = &'a Names>, own: &'a Names) -> Self {
        let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
        for names in others.chain([own]) {
            resources.extend([names.plural.as_str(), names.singular.as_str()]);
            resources.extend(names.short_names.iter().map(String::as_str));
            kinds.extend([names.kind.as_str(), names.list_kind.as_str()]);
        }
        Self { resources, kinds }
    }
}

fn accept_short_names(own: &Names, mine: &mut Names, used: &HashSet<&str>) -> Option<Condition> {
    let before: HashSet<_> = mine.short_names.iter().map(String::as_str).collect();
    let (mut problems, mut reported) = (Vec::new(), HashSet::new());
    for name in own.short_names.iter().map(String::as_str) {
        if !before.contains(name) && used.contains(name) && reported.insert(name) {
            problems.push(in_use(name));
        }
    }
    let message = match problems.as_slice() {
        [] => {
            mine.short_names.clone_from(&own.short_names);
            return None;
        }
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Some(conflict("ShortNamesConflict", &message))
}

fn conflict(reason: &'static str, message: &str) -> Condition {
    Condition::new(NAMES_ACCEPTED, false, reason, message)
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", quote(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(value: Value) -> Names {
        let Value::Object(definition) = json!({"spec": {"names": value}}) else {
            unreachable!("it is an object");
        };
        Names::requested(&definition)
    }

    fn foo() -> Value {
        json!({"plural": "foos", "singular": "foo", "shortNames": ["f", "fo"], "kind": "Foo",
               "listKind": "FooList", "categories": ["all"]})
    }

    #[test]
    fn free_names_are_accepted() {
        let own = names(foo());
        let bar = names(json!({"plural": "bars", "kind": "Bar"}));
        let accepted = accept(&own, &Names::default(), [&bar].into_iter());
        assert_eq!(accepted.names, own);
        assert_eq!(accepted.condition, Condition::no_conflicts());
        assert_eq!(accepted.names.to_value(), foo());
    }

    #[test]
    fn last_conflict_is_reported_and_free_names_are_reserved() {
        let cases = [
            (
                json!({"plural": "foos"}),
                "PluralConflict",
                r#""foos" is already in use"#,
            ),
            (
                json!({"plural": "foo"}),
                "SingularConflict",
                r#""foo" is already in use"#,
            ),
            (
                json!({"shortNames": ["foo"]}),
                "SingularConflict",
                r#""foo" is already in use"#,
            ),
            (
                json!({"shortNames": ["f"]}),
                "ShortNamesConflict",
                r#""f" is already in use"#,
            ),
            (
                json!({"plural": "f", "singular": "fo"}),
                "ShortNamesConflict",
                r#"["f" is already in use, "fo" is already in use]"#,
            ),
            (
                json!({"kind": "Foo"}),
                "KindConflict",
                r#""Foo" is already in use"#,
            ),
            (
                json!({"listKind": "Foo"}),
                "KindConflict",
                r#""Foo" is already in use"#,
            ),
            (
                json!({"plural": "foos", "kind": "FooList"}),
                "ListKindConflict",
                r#""FooList" is already in use"#,
            ),
        ];
        for (other, reason, message) in cases {
            let other = names(other);
            let accepted = accept(&names(foo()), &Names::default(), [&other].into_iter());
            let condition = &accepted.condition;
            assert_eq!(
                (
                    condition.holds,
                    condition.reason,
                    condition.message.as_str()
                ),
                (false, reason, message)
            );
            assert_eq!(accepted.names.categories, ["all"]);
        }
        let other = names(json!({"plural": "x", "shortNames": ["fo"], "kind": "FooList"}));
        let accepted = accept(&names(foo()), &Names::default(), [&other].into_iter());
        let wanted =
            json!({"plural": "foos", "singular": "foo", "kind": "Foo", "categories": ["all"]});
        assert_eq!(accepted.names.to_value(), wanted);
    }

    #[test]
    fn accepted_names_stay_accepted() {
        let own = names(foo());
        let other = own.clone();
        let accepted = accept(&own, &own, [&other].into_iter());
        assert_eq!(accepted.names, own);
        assert!(accepted.condition.holds);
        // Earlier short names are not checked again.
        let mut more = own.clone();
        more.short_names.push("fooo".to_owned());
        let accepted = accept(&more, &own, [&other].into_iter());
        assert_eq!(accepted.names, more);
        // The new short name conflicts with the definition's own singular name.
        more.short_names.push("foo".to_owned());
        let accepted = accept(&more, &own, std::iter::empty());
        assert_eq!(accepted.condition.message, r#""foo" is already in use"#);
        assert_eq!(accepted.names, own);
    }
}
