//! Field paths, such as `.spec.replicas` and `.data['a.b']`, resolved in a schema.

use super::props::{Props, SchemaOrBool};

/// The target of a path.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    /// The path as shown in errors.
    pub path: String,
    /// The first name of the path.
    pub root: String,
    /// The schema of the target, if it has one.
    pub schema: Option<Props<'a>>,
}

/// Resolves a path in a schema. `indexed` allows the notation `['name']`.
pub(super) fn follow<'a>(
    path: &str,
    schema: Props<'a>,
    indexed: bool,
) -> Result<Target<'a>, String> {
    let mut target = Target {
        path: String::new(),
        root: String::new(),
        schema: Some(schema),
    };
    let mut tokens = Tokens(path);
    while let Some(token) = tokens.next() {
        match token {
            "[" if !indexed => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let name = quoted(tokens.next().ok_or_else(ended)?)?;
                target.enter(&name)?;
                match tokens.next() {
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err(ended()),
                }
            }
            "." => target.enter(tokens.next().ok_or_else(ended)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(target)
}

impl Target<'_> {
    fn enter(&mut self, name: &str) -> Result<(), String> {
        let refuse = || "does not refer to a valid field".to_owned();
        let schema = self.schema.ok_or_else(refuse)?;
        if schema.has_properties() {
            self.schema = Some(schema.property(name).ok_or_else(refuse)?);
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(name);
        } else {
            self.schema = match schema.schema_or_bool("additionalProperties") {
                SchemaOrBool::None => return Err(refuse()),
                SchemaOrBool::Bool(_) => None,
                SchemaOrBool::Schema(values) => Some(values),
            };
            self.path.push_str(&format!("[{name}]"));
        }
        if self.root.is_empty() {
            name.clone_into(&mut self.root);
        }
        Ok(())
    }
}

/// Splits a path into `.`, `[`, `]`, quoted strings and names.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        let end = if self.0.starts_with('\'') {
            let bytes = self.0.as_bytes();
            let closed = (1..bytes.len()).find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\');
            closed.map_or(self.0.len(), |at| at + 1)
        } else {
            self.0
                .find(['.', '[', ']'])
                .map_or(self.0.len(), |at| at.max(1))
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

fn ended() -> String {
    "unexpected end of JSON path".to_owned()
}

fn quoted(token: &str) -> Result<String, String> {
    let inner = token
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''));
    let Some(inner) = inner else {
        return Err(format!("expected single quoted string but got {token}"));
    };
    let mut name = String::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(escaped @ ('\'' | '\\')) => name.push(escaped),
                Some('a') => name.push('\x07'),
                Some('b') => name.push('\x08'),
                Some('f') => name.push('\x0c'),
                Some('n') => name.push('\n'),
                Some('r') => name.push('\r'),
                Some('t') => name.push('\t'),
                Some('v') => name.push('\x0b'),
                Some(other) => {
                    return Err(format!(
                        "invalid string literal: invalid escape char \\{other}"
                    ));
                }
                None => name.push('\\'),
            },
            other => name.push(other),
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn path_resolves_to_a_field_or_an_error() {
        let schema = json!({"properties": {
            "spec": {"properties": {"a": {"type": "string"}, "x.y": {"type": "string"}}},
            "map": {"additionalProperties": {"properties": {"b": {"type": "integer"}}}},
            "any": {"additionalProperties": true},
            "list": {"items": {"type": "string"}},
        }});
        let schema = Props::of(Some(&schema));
        let invalid = "does not refer to a valid field";
        let cases = [
            (".spec.a", Ok("spec.a")),
            (".spec['a']", Ok("spec.a")),
            (".spec['x.y']", Ok("spec.x.y")),
            (".map.k.b", Ok("map[k].b")),
            (".map['k\\'1'].b", Ok("map[k'1].b")),
            (".any.x", Ok("any[x]")),
            (".any.x.y", Err(invalid)),
            (".spec.z", Err(invalid)),
            (".list.a", Err(invalid)),
            (".list[0]", Err("expected single quoted string but got 0")),
            ("spec", Err("expected [ or . but got: spec")),
            (".", Err("unexpected end of JSON path")),
            (".spec[", Err("unexpected end of JSON path")),
            (".spec['a'", Err("unexpected end of JSON path")),
            (".spec['a'x]", Err("expected ] but got x")),
            (
                ".spec['\\x']",
                Err("invalid string literal: invalid escape char \\x"),
            ),
            ("..spec", Err(invalid)),
            ("']", Err("expected [ or . but got: ']")),
        ];
        for (path, wanted) in cases {
            let got = follow(path, schema, true).map(|target| target.path);
            let wanted = wanted.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(got, wanted, "{path}");
        }
        let refused = follow(".spec['a']", schema, false).map(|target| target.path);
        assert_eq!(refused, Err("array notation is not allowed".to_owned()));
    }
}
