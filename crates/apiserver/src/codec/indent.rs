//! JSON on many lines, for people.

/// Indents JSON by two spaces per level, and keeps the order of members.
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let mut bytes = json.iter().copied().peekable();
    let mut in_string = false;
    let mut escaped = false;
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                let close = if byte == b'{' { b'}' } else { b']' };
                if bytes.peek() == Some(&close) {
                    out.push(close);
                    bytes.next();
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'\n' | b' ' => {}
            other => out.push(other),
        }
    }
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth * 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_json_keeps_order_and_strings() {
        let text = br#"{"b":[1,{"a":"x{,\"}"}],"c":{},"d":[]}"#;
        let wanted = "{\n  \"b\": [\n    1,\n    {\n      \"a\": \"x{,\\\"}\"\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
        assert_eq!(String::from_utf8(indent(text)).unwrap(), wanted);
    }
}
