//! JSON text as Go writes it: `<`, `>`, `&` and the two line separators of Unicode are
//! escaped, all other non-ASCII characters are not.

use std::io::Write;

use serde_json::Value;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// How each byte of a string is written: verbatim, escaped, or after a look at the bytes
/// that follow.
static CLASS: [u8; 256] = {
    let mut class = [PLAIN; 256];
    let mut byte = 0;
    while byte < 0x20 {
        class[byte] = ESCAPE;
        byte += 1;
    }
    class[b'"' as usize] = ESCAPE;
    class[b'\\' as usize] = ESCAPE;
    class[b'<' as usize] = ESCAPE;
    class[b'>' as usize] = ESCAPE;
    class[b'&' as usize] = ESCAPE;
    class[SEPARATOR[0] as usize] = LOOK;
    class
};
const PLAIN: u8 = 0;
const ESCAPE: u8 = 1;
const LOOK: u8 = 2;

/// The leading bytes of U+2028 and U+2029.
const SEPARATOR: [u8; 2] = [0xe2, 0x80];

/// Writes a string.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut written = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let length = match CLASS[usize::from(byte)] {
            PLAIN => 0,
            ESCAPE => 1,
            _ => match bytes.get(at..at + 3) {
                Some(&[_, second, 0xa8 | 0xa9]) if second == SEPARATOR[1] => 3,
                _ => 0,
            },
        };
        if length == 0 {
            at += 1;
            continue;
        }
        out.extend_from_slice(&bytes[written..at]);
        match length {
            1 => escape(byte, out),
            _ => out.extend_from_slice(match bytes[at + 2] {
                0xa8 => b"\\u2028",
                _ => b"\\u2029",
            }),
        }
        at += length;
        written = at;
    }
    out.extend_from_slice(&bytes[written..]);
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b"\\\"",
        b'\\' => b"\\\\",
        b'\n' => b"\\n",
        b'\r' => b"\\r",
        b'\t' => b"\\t",
        0x08 => b"\\b",
        0x0c => b"\\f",
        _ => {
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[high], HEX[low]]);
            return;
        }
    };
    out.extend_from_slice(short);
}

/// Writes any value without a type.
pub(crate) fn raw(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // `2.0` is read as a double and written as Go writes it: `2`.
            Some(value) => float(value, out),
            None => print(number, out),
        },
        Value::String(text) => string(text, out),
        Value::Array(list) => {
            out.push(b'[');
            for (index, element) in list.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                raw(element, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                string(key, out);
                out.push(b':');
                raw(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Writes a double in Go's shortest form, with an exponent only for very large or small
/// values.
pub(crate) fn float(value: f64, out: &mut Vec<u8>) {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        // Rust writes the exponent as Go does, except for the sign.
        let text = format!("{value:e}");
        let text = match text.split_once("e-") {
            Some(_) => text,
            None => text.replace('e', "e+"),
        };
        out.extend_from_slice(text.as_bytes());
    } else {
        print(value, out);
    }
}

fn print(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_in_go() {
        let cases = [
            ("", r#""""#),
            ("a<b>&c", r#""a\u003cb\u003e\u0026c""#),
            ("\u{2028}x\u{2029}", r#""\u2028x\u2029""#),
            ("é\u{2027}€😀\u{7f}", "\"é\u{2027}€😀\u{7f}\""),
            (
                "\"\\/\n\r\t\u{8}\u{c}\u{1}\u{1f}",
                r#""\"\\/\n\r\t\b\f\u0001\u001f""#,
            ),
            ("â", "\"â\""),
        ];
        for (text, wanted) in cases {
            assert_eq!(written(|out| string(text, out)), wanted);
        }
    }

    #[test]
    fn doubles_are_written_as_in_go() {
        let cases = [
            (0.0, "0"),
            (10.0, "10"),
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-7"),
            (0.000001, "0.000001"),
            (1e300, "1e+300"),
        ];
        for (value, wanted) in cases {
            assert_eq!(written(|out| float(value, out)), wanted);
        }
    }
}
