//! The stored form of numbers.

use insula_kinds::Object;
use serde_json::Value;

/// Converts floats with an integral value to integers. Go writes them without a decimal point
/// and therefore reads them back as integers. To be applied just before storing, because
/// Kubernetes distinguishes `2.0` from `2` until then.
pub fn normalize_numbers(object: &mut Object) {
    object.values_mut().for_each(normalize);
}

fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            // Go reads numbers beyond 64 bits as floats.
            const END: f64 = 9_223_372_036_854_775_808.0;
            if float.fract() == 0.0 && (-END..END).contains(&float) {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        Value::Object(members) => normalize_numbers(members),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_floats_become_integers() {
        let object =
            json!({"a": 2.0, "b": [{"c": -3.0, "d": 2.5}], "e": 1e20, "f": "2.0", "g": -0.0});
        let mut object = object.as_object().expect("an object").clone();
        normalize_numbers(&mut object);
        let normalized = json!({"a": 2, "b": [{"c": -3, "d": 2.5}], "e": 1e20, "f": "2.0", "g": 0});
        assert_eq!(Value::Object(object), normalized);
    }
}
