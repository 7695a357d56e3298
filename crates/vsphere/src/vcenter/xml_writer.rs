//! XML of requests, written in the order of the schema, with all texts escaped.

use super::Object;

/// A writer for a request.
#[derive(Default)]
pub(super) struct XmlWriter {
    written: String,
    /// Whether a text has a character that XML cannot represent.
    unrepresentable: bool,
}

/// A text has a character that XML cannot represent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unrepresentable;

impl XmlWriter {
    /// Writes an element with the content that `inside` writes.
    pub(super) fn element(&mut self, name: &str, inside: impl FnOnce(&mut Self)) -> &mut Self {
        self.open(name, &[], inside)
    }

    /// Writes an element with an `xsi:type`.
    pub(super) fn typed(
        &mut self,
        name: &str,
        kind: &str,
        inside: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.open(name, &[("xsi:type", kind)], inside)
    }

    /// Writes an element with a text.
    pub(super) fn leaf(&mut self, name: &str, text: impl AsRef<str>) -> &mut Self {
        self.open(name, &[], |out| out.escape(text.as_ref()))
    }

    /// Writes an element with a number or a boolean.
    pub(super) fn plain(&mut self, name: &str, value: impl ToString) -> &mut Self {
        self.leaf(name, value.to_string())
    }

    /// Writes a managed object reference.
    pub(super) fn object(&mut self, name: &str, object: &Object) -> &mut Self {
        self.open(name, &[("type", &object.kind)], |out| {
            out.escape(&object.id)
        })
    }

    /// Writes a managed object reference, if there is one.
    pub(super) fn maybe(&mut self, name: &str, object: Option<&Object>) -> &mut Self {
        match object {
            Some(object) => self.object(name, object),
            None => self,
        }
    }

    /// Writes a key and a value as an `OptionValue`.
    pub(super) fn option(&mut self, name: &str, key: &str, value: &str) -> &mut Self {
        self.typed(name, "OptionValue", |option| {
            option.leaf("key", key);
            option.open("value", &[("xsi:type", "xsd:string")], |out| {
                out.escape(value)
            });
        })
    }

    /// Returns the request that calls `method` of `this`.
    pub(super) fn call(
        method: &str,
        this: &Object,
        inside: impl FnOnce(&mut Self),
    ) -> Result<String, Unrepresentable> {
        let mut out = Self::default();
        out.written.push_str(HEAD);
        out.open(method, &[("xmlns", "urn:vim25")], |out| {
            out.object("_this", this);
            inside(out);
        });
        out.written.push_str(TAIL);
        if out.unrepresentable {
            Err(Unrepresentable)
        } else {
            Ok(out.written)
        }
    }

    fn open(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        inside: impl FnOnce(&mut Self),
    ) -> &mut Self {
        self.written.push('<');
        self.written.push_str(name);
        for (attribute, value) in attributes {
            self.written.push(' ');
            self.written.push_str(attribute);
            self.written.push_str("=\"");
            self.escape(value);
            self.written.push('"');
        }
        self.written.push('>');
        inside(self);
        self.written.push_str("</");
        self.written.push_str(name);
        self.written.push('>');
        self
    }

    /// Escapes a text. White space other than blanks is written as character references: a parser
    /// would normalize it in attributes, and would turn CR LF into one line break.
    fn escape(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.written.push_str("&amp;"),
                '<' => self.written.push_str("&lt;"),
                '>' => self.written.push_str("&gt;"),
                '"' => self.written.push_str("&#34;"),
                '\'' => self.written.push_str("&#39;"),
                '\t' => self.written.push_str("&#9;"),
                '\n' => self.written.push_str("&#10;"),
                '\r' => self.written.push_str("&#13;"),
                '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => self.unrepresentable = true,
                other => self.written.push(other),
            }
        }
    }
}

const HEAD: &str = concat!(
    r#"<?xml version="1.0" encoding="UTF-8"?>"#,
    r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/""#,
    r#" xmlns:xsd="http://www.w3.org/2001/XMLSchema""#,
    r#" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>"#,
);
const TAIL: &str = "</soapenv:Body></soapenv:Envelope>";

#[cfg(test)]
mod tests {
    use super::*;

    fn this() -> Object {
        Object {
            kind: "VirtualMachine".to_owned(),
            id: "vm-1".to_owned(),
        }
    }

    fn body(written: &str) -> &str {
        written
            .strip_prefix(HEAD)
            .expect("head")
            .strip_suffix(TAIL)
            .expect("tail")
    }

    #[test]
    fn call_is_an_element_of_the_vim_namespace_with_its_object_first() {
        let written = XmlWriter::call("Do_Task", &this(), |out| {
            out.leaf("name", "a").plain("on", true).maybe("none", None);
            out.element("spec", |spec| {
                spec.option("extraConfig", "k", "v");
            });
        });
        assert_eq!(
            body(&written.expect("sayable")),
            "<Do_Task xmlns=\"urn:vim25\"><_this type=\"VirtualMachine\">vm-1</_this>\
             <name>a</name><on>true</on><spec><extraConfig xsi:type=\"OptionValue\"><key>k</key>\
             <value xsi:type=\"xsd:string\">v</value></extraConfig></spec></Do_Task>"
        );
    }

    #[test]
    fn every_text_is_escaped() {
        let table = [
            ("a&b", "a&amp;b"),
            (
                "</password><x a=\"1\">",
                "&lt;/password&gt;&lt;x a=&#34;1&#34;&gt;",
            ),
            ("]]>", "]]&gt;"),
            ("it's", "it&#39;s"),
            ("&amp;", "&amp;amp;"),
            ("a\r\n\tb", "a&#13;&#10;&#9;b"),
            ("größe 🦀", "größe 🦀"),
            ("", ""),
        ];
        for (text, expected) in table {
            let written = XmlWriter::call("X", &this(), |out| {
                out.leaf("t", text);
            });
            let written = written.expect("sayable");
            assert!(
                written.contains(&format!("<t>{expected}</t>")),
                "{text:?}: {written}"
            );
            let document = roxmltree::Document::parse(&written).expect("XML");
            let read = document
                .descendants()
                .find(|node| node.has_tag_name(("urn:vim25", "t")));
            assert_eq!(read.expect("t").text().unwrap_or_default(), text);
        }
    }

    #[test]
    fn attributes_are_escaped_too() {
        let odd = Object {
            kind: "A\" b=\"\n".to_owned(),
            id: "<1>".to_owned(),
        };
        let written = XmlWriter::call("X", &odd, |_| ()).expect("sayable");
        assert_eq!(
            body(&written),
            "<X xmlns=\"urn:vim25\"><_this type=\"A&#34; b=&#34;&#10;\">&lt;1&gt;</_this></X>"
        );
    }

    #[test]
    fn unrepresentable_characters_are_an_error() {
        for text in ["a\0b", "\u{1b}[0m", "\u{ffff}", "\u{fffe}"] {
            let written = XmlWriter::call("X", &this(), |out| {
                out.leaf("t", text);
            });
            assert_eq!(written, Err(Unrepresentable), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn written_text_round_trips_through_the_parser(text in "\\PC*[\t\r\n]?\\PC*", kind in "[^\\p{Cc}]*") {
            let odd = Object { kind: kind.clone(), id: text.clone() };
            if let Ok(written) = XmlWriter::call("X", &odd, |_| ()) {
                let document = roxmltree::Document::parse(&written).expect("XML");
                let this = document.descendants().find(|node| node.tag_name().name() == "_this");
                let this = this.expect("an object");
                proptest::prop_assert_eq!(this.text().unwrap_or_default(), text);
                proptest::prop_assert_eq!(this.attribute("type").unwrap_or_default(), kind);
            }
        }
    }
}
