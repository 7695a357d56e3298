//! Tolerations of pods, merged with those of a runtime class.

use serde_json::Value;

/// Leaves out each toleration that another one includes; of equal ones, the first stays.
pub fn merge(all: Vec<Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::with_capacity(all.len());
    for (index, one) in all.iter().enumerate() {
        let mut later = all[index + 1..].iter();
        let is_included = merged.iter().any(|kept| includes(kept, one))
            || later.any(|other| other != one && includes(other, one));
        if !is_included {
            merged.push(one.clone());
        }
    }
    merged
}

/// Whether `wide` tolerates everything that `narrow` does.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let every_key = text(wide, "key").is_empty() && text(wide, "operator") == "Exists";
    if text(wide, "key") != text(narrow, "key") && !every_key {
        return false;
    }
    let effect = text(wide, "effect");
    if !effect.is_empty() && effect != text(narrow, "effect") {
        return false;
    }
    if effect == "NoExecute"
        && let Some(longest) = seconds(wide)
        && seconds(narrow).is_none_or(|seconds| seconds > longest)
    {
        return false;
    }
    match text(wide, "operator") {
        "Exists" => true,
        "" | "Equal" => {
            text(narrow, "operator") == "Equal" && text(wide, "value") == text(narrow, "value")
        }
        _ => false,
    }
}

fn text<'a>(toleration: &'a Value, member: &str) -> &'a str {
    toleration[member].as_str().unwrap_or_default()
}

fn seconds(toleration: &Value) -> Option<i64> {
    toleration["tolerationSeconds"].as_i64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tolerations_that_others_include_are_left_out() {
        let key = json!({"key": "a", "operator": "Exists"});
        let value = json!({"key": "a", "operator": "Equal", "value": "b"});
        let other = json!({"key": "a", "operator": "Equal", "value": "c"});
        let greater = json!({"key": "a", "operator": "Gt", "value": "b"});
        let everything = json!({"operator": "Exists"});
        let short = json!({
            "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5,
        });
        let long = json!({
            "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9,
        });
        for (all, expected) in [
            (vec![], vec![]),
            (vec![&value, &value], vec![&value]),
            (vec![&greater, &value], vec![&greater, &value]),
            (vec![&value, &other], vec![&value, &other]),
            (vec![&value, &key], vec![&key]),
            (vec![&key, &value], vec![&key]),
            (vec![&value, &short, &everything], vec![&everything]),
            (vec![&short, &long], vec![&long]),
            (vec![&long, &short], vec![&long]),
            (vec![&short, &value], vec![&short, &value]),
        ] {
            let all: Vec<Value> = all.into_iter().cloned().collect();
            let expected: Vec<Value> = expected.into_iter().cloned().collect();
            assert_eq!(merge(all.clone()), expected, "{all:?}");
        }
    }
}
