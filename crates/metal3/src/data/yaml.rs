//! YAML text. Equal values have equal texts, in the style of Kubernetes' programs: sorted keys,
//! and quotes only where a reader of YAML 1.1 or 1.2 would see something else than a text.

use serde_json::{Map, Value};

/// Returns the text of a value.
pub(super) fn text(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut out, map, 0, false),
        Value::Array(list) if !list.is_empty() => write_list(&mut out, list, 0, false),
        _ => {
            out.push_str(&scalar(value));
            out.push('\n');
        }
    }
    out
}

/// Writes the entries of a map. The first one may continue a line.
fn write_map(out: &mut String, map: &Map<String, Value>, indent: usize, mut continues: bool) {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    for (key, value) in entries {
        if !std::mem::take(&mut continues) {
            out.push_str(&" ".repeat(indent));
        }
        out.push_str(&quoted(key));
        out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                write_map(out, map, indent + 2, false);
            }
            Value::Array(list) if !list.is_empty() => {
                out.push('\n');
                write_list(out, list, indent, false);
            }
            value => {
                out.push(' ');
                out.push_str(&scalar(value));
                out.push('\n');
            }
        }
    }
}

/// Writes the items of a list. The first one may continue a line.
fn write_list(out: &mut String, list: &[Value], indent: usize, mut continues: bool) {
    for value in list {
        if !std::mem::take(&mut continues) {
            out.push_str(&" ".repeat(indent));
        }
        out.push_str("- ");
        match value {
            Value::Object(map) if !map.is_empty() => write_map(out, map, indent + 2, true),
            Value::Array(list) if !list.is_empty() => write_list(out, list, indent + 2, true),
            value => {
                out.push_str(&scalar(value));
                out.push('\n');
            }
        }
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Returns a text with the quotes that it needs.
fn quoted(text: &str) -> String {
    let is_plain =
        |one: char| !one.is_control() && !matches!(one, '\u{feff}' | '\u{2028}' | '\u{2029}');
    if means_something_else(text) || !text.chars().all(is_plain) {
        // The escapes of JSON are also those of YAML. It leaves some characters as they are.
        let json = Value::String(text.to_owned()).to_string();
        let mut out = String::new();
        for one in json.chars() {
            match is_plain(one) {
                true => out.push(one),
                false => out.push_str(&format!("\\u{:04x}", u32::from(one))),
            }
        }
        return out;
    }
    match has_indicator(text) {
        true => format!("'{}'", text.replace('\'', "''")),
        false => text.to_owned(),
    }
}

/// Returns whether a plain text would be more than a text because of one of its characters.
fn has_indicator(text: &str) -> bool {
    let is_space = |one: Option<char>| one.is_none_or(|one| one == ' ');
    let begins = text.starts_with([
        '#', ',', '[', ']', '{', '}', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', ' ',
    ]);
    let begins_entry = text.starts_with(['-', '?', ':']) && is_space(text.chars().nth(1));
    let is_mark = text.starts_with("---") || text.starts_with("...");
    let inside = text.contains(": ") || text.contains(" #");
    begins || begins_entry || is_mark || inside || text.ends_with([':', ' '])
}

/// Returns whether a plain text would be a null, a boolean, a number or a time.
fn means_something_else(text: &str) -> bool {
    const WORDS: [&str; 14] = [
        "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "<<", "=", "nan",
    ];
    let lower = text.to_ascii_lowercase();
    let lower = lower.as_str();
    let unsigned = lower.strip_prefix(['-', '+']).unwrap_or(lower);
    WORDS.contains(&lower)
        || matches!(unsigned, ".inf" | ".nan" | "inf" | "infinity")
        || is_number(unsigned)
        || is_sexagesimal(unsigned)
        || is_date(lower)
}

fn is_number(text: &str) -> bool {
    let digits = text.replace('_', "");
    let with_base = |prefix: &str, base: u32| {
        let rest = digits.strip_prefix(prefix);
        rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|one| one.is_digit(base)))
    };
    let begins = digits.starts_with(|one: char| one.is_ascii_digit() || one == '.');
    let is_decimal = begins && digits.parse::<f64>().is_ok();
    is_decimal || with_base("0x", 16) || with_base("0o", 8) || with_base("0b", 2)
}

/// Returns whether a text is a number to the base of sixty, as some MAC addresses are.
fn is_sexagesimal(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|one| one.is_ascii_digit() || b"_.".contains(&one))
    };
    text.contains(':') && text.split(':').all(is_part)
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_letter = |one: &u8| one.is_ascii_digit() || b"-:.tz+ ".contains(one);
    bytes.len() >= 8
        && bytes.iter().take(4).all(u8::is_ascii_digit)
        && bytes.get(4) == Some(&b'-')
        && bytes.iter().all(is_letter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_quoted_only_if_they_need_it() {
        for (value, expected) in [
            ("plain", "plain"),
            ("two words", "two words"),
            ("10.0.0.1", "10.0.0.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::1", "::1"),
            ("::", "'::'"),
            ("ffff:ffff::", "'ffff:ffff::'"),
            ("52:54:00:ab:cd:ef", "52:54:00:ab:cd:ef"),
            ("52:54:00:12:34:56", "\"52:54:00:12:34:56\""),
            ("00-11-22-33-44-55", "00-11-22-33-44-55"),
            ("team-a/h-1/m-1", "team-a/h-1/m-1"),
            ("", "\"\""),
            ("24", "\"24\""),
            ("-1", "\"-1\""),
            ("1.5", "\"1.5\""),
            ("1e3", "\"1e3\""),
            ("0x1f", "\"0x1f\""),
            ("true", "\"true\""),
            ("Yes", "\"Yes\""),
            ("null", "\"null\""),
            ("~", "\"~\""),
            ("2026-01-01", "\"2026-01-01\""),
            ("node-1", "node-1"),
            ("802.3ad", "802.3ad"),
            ("layer3+4", "layer3+4"),
            ("# no comment", "'# no comment'"),
            ("a # b", "'a # b'"),
            ("a: b", "'a: b'"),
            ("it's", "it's"),
            ("'a'", "'''a'''"),
            ("{{ ds }}", "'{{ ds }}'"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("---", "'---'"),
            (" a", "' a'"),
            ("a\nb", "\"a\\nb\""),
            ("a\tb\u{7f}", "\"a\\tb\\u007f\""),
        ] {
            assert_eq!(quoted(value), expected);
        }
    }

    #[test]
    fn lists_are_not_indented() {
        let value = json!({
            "b": [{"y": 1, "x": [1, "a"]}, [[]], {}, [[1, 2], null]],
            "a": {"c": {"d": true}, "e": {}}, "f": [],
        });
        let expected = "\
a:
  c:
    d: true
  e: {}
b:
- x:
  - 1
  - a
  \"y\": 1
- - []
- {}
- - - 1
    - 2
  - null
f: []
";
        assert_eq!(text(&value), expected);
        assert_eq!(text(&json!({})), "{}\n");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let texts = prop_oneof![
            ".{0,12}",
            "[-:#?'\" a0.{}\\[\\]&*!|>%@`,~]{0,6}",
            "[0-9a-fx:._+-]{0,8}",
            "[\u{0}-\u{ff}\u{2028}\u{feff}\u{85}\n]{0,4}",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            texts.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(texts.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_is_read_back_as_the_same_value(value in any_value()) {
            let text = text(&value);
            let read: Value = serde_saphyr::from_str(&text).map_err(|error| {
                TestCaseError::fail(format!("{text:?}: {error}"))
            })?;
            prop_assert_eq!(read, value, "{}", text);
        }
    }
}
