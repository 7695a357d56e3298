//! Deletion propagation: the fate of the dependents of a deleted object.
//!
//! The garbage collector carries it out. The finalizers of the object tell it how, and keep the
//! object until it is done.

use insula_kinds::finalizer::{FOREGROUND, ORPHAN};
use insula_kinds::{Kind, Object, Propagation, Value};

use super::metadata;

/// A deletion propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents stay, without the owner reference.
    Orphan,
}

impl Policy {
    /// Parses a `propagationPolicy`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "Background" => Self::Background,
            "Foreground" => Self::Foreground,
            "Orphan" => Self::Orphan,
            _ => return None,
        })
    }

    /// Returns the policy that a finalizer stands for.
    fn of_finalizer(name: &str) -> Option<Self> {
        Some(match name {
            FOREGROUND => Self::Foreground,
            ORPHAN => Self::Orphan,
            _ => return None,
        })
    }

    const fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Background => None,
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
        }
    }
}

/// Sets the finalizers for the requested policy, else for that of the object's finalizers, else
/// for the default of its kind. Returns whether that changed the object.
pub fn set_propagation_finalizers(kind: &Kind, object: &mut Object, asked: Option<Policy>) -> bool {
    let wanted = match kind.default_propagation {
        Propagation::Unsupported => Policy::Background,
        usual => {
            let own = || metadata::finalizers(object).find_map(Policy::of_finalizer);
            asked.or_else(own).unwrap_or(match usual {
                Propagation::Orphan => Policy::Orphan,
                _ => Policy::Background,
            })
        }
    };
    let (mut others, mut had) = (Vec::new(), Vec::new());
    for name in metadata::finalizers(object) {
        match Policy::of_finalizer(name) {
            Some(policy) => had.push(policy),
            None => others.push(Value::from(name)),
        }
    }
    let has: &[Policy] = match wanted {
        Policy::Background => &[],
        Policy::Foreground => &[Policy::Foreground],
        Policy::Orphan => &[Policy::Orphan],
    };
    if had == has {
        return false;
    }
    others.extend(wanted.finalizer().map(Value::from));
    let of = metadata::of(object);
    match others.is_empty() {
        true => of.remove("finalizers"),
        false => of.insert("finalizers".to_owned(), others.into()),
    };
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use insula_kinds::kinds;
    use serde_json::json;

    #[test]
    fn finalizers_follow_from_what_was_asked_then_from_the_object_then_from_the_kind() {
        let (foreground, orphan) = (Some(Policy::Foreground), Some(Policy::Orphan));
        let background = Some(Policy::Background);
        let map = ("", "v1", "ConfigMap");
        let job = ("batch", "v1", "Job");
        let event = ("", "v1", "Event");
        for (kind, has, asked, becomes) in [
            (map, json!([]), None, None),
            (map, json!([]), background, None),
            (map, json!([]), foreground, Some(json!([FOREGROUND]))),
            (map, json!([]), orphan, Some(json!([ORPHAN]))),
            (
                map,
                json!(["x.io/y"]),
                orphan,
                Some(json!(["x.io/y", ORPHAN])),
            ),
            (map, json!([ORPHAN]), None, None),
            (map, json!([FOREGROUND]), None, None),
            (
                map,
                json!([FOREGROUND, "x.io/y"]),
                orphan,
                Some(json!(["x.io/y", ORPHAN])),
            ),
            (map, json!([ORPHAN]), foreground, Some(json!([FOREGROUND]))),
            (map, json!([FOREGROUND]), background, Some(json!(null))),
            (map, json!([FOREGROUND, "x.io/y"]), foreground, None),
            (job, json!([]), None, Some(json!([ORPHAN]))),
            (job, json!([]), background, None),
            (job, json!([FOREGROUND]), None, None),
            (event, json!([]), foreground, None),
            (event, json!([]), orphan, None),
        ] {
            let (group, version, name) = kind;
            let kind = kinds().get(kinds().find_by_kind(group, version, name).unwrap());
            let object = json!({"metadata": {"finalizers": has}});
            let mut object = object.as_object().unwrap().clone();
            let changed = set_propagation_finalizers(kind, &mut object, asked);
            assert_eq!(changed, becomes.is_some(), "{name} {has} {asked:?}");
            let is = object["metadata"].get("finalizers");
            let is = is.cloned().unwrap_or_default();
            assert_eq!(is, becomes.unwrap_or(has), "{name} {asked:?}");
        }
    }
}
