//! XML of responses, parsed into a tree of limited depth.

use roxmltree::{Document, Node, ParsingOptions};

use super::Object;

const ENVELOPE: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
const VIM: &str = "urn:vim25";

/// The maximum depth of a response. Snapshots are nested, with at most 32 in a chain; everything
/// else is flat.
const MAX_DEPTH: usize = 100;

/// An element with its type, text and children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    name: String,
    /// `xsi:type` without its prefix.
    kind: String,
    /// The attribute `type`: the type of the object that a reference refers to.
    refers_to: String,
    text: String,
    children: Vec<Element>,
}

/// The response to a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The element that has the method's name.
    Response(Element),
    /// A SOAP fault.
    Fault(Fault),
}

/// A fault: its type, message and detail.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: String,
    pub(super) message: String,
    pub(super) detail: Element,
}

impl Answer {
    /// Parses the response to a method. `nodes` limits the number of elements, attributes and
    /// texts.
    pub(super) fn read(method: &str, text: &str, nodes: u32) -> Result<Self, String> {
        // A document type definition is never needed, and allows entity expansion attacks.
        let options = ParsingOptions {
            allow_dtd: false,
            nodes_limit: nodes,
            ..Default::default()
        };
        // Only the position is reported: the content may be secret.
        let document = Document::parse_with_options(text, options)
            .map_err(|error| format!("it is no XML (at {})", error.pos()))?;
        let envelope = document.root_element();
        if !envelope.has_tag_name((ENVELOPE, "Envelope")) {
            return Err("it is no SOAP envelope".to_owned());
        }
        let body = child(envelope, ENVELOPE, "Body").ok_or("it has no body")?;
        if let Some(fault) = child(body, ENVELOPE, "Fault") {
            return Ok(Self::Fault(Fault::from(Element::copy(fault, MAX_DEPTH)?)));
        }
        let name = format!("{method}Response");
        let response = child(body, VIM, &name).ok_or("it answers something else")?;
        Ok(Self::Response(Element::copy(response, MAX_DEPTH)?))
    }
}

impl Element {
    /// Returns the text at this path of names, if it exists.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        Some(&self.at(path)?.text)
    }

    /// Returns the text of this element.
    pub(super) fn own_text(&self) -> &str {
        &self.text
    }

    /// Returns the number at this path.
    pub(super) fn number<N: std::str::FromStr>(&self, path: &str) -> Option<N> {
        self.text(path)?.trim().parse().ok()
    }

    /// Returns whether the text at this path is true.
    pub(super) fn is_true(&self, path: &str) -> bool {
        matches!(self.text(path).map(str::trim), Some("true" | "1"))
    }

    /// Returns the element at this path of names.
    pub(super) fn at(&self, path: &str) -> Option<&Self> {
        let mut place = self;
        for name in path.split('/') {
            place = place.all(name).next()?;
        }
        Some(place)
    }

    /// Returns all children of this name.
    pub(super) fn all<'a, 'name>(
        &'a self,
        name: &'name str,
    ) -> impl Iterator<Item = &'a Self> + use<'a, 'name> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// Returns the number of elements of this subtree.
    pub(super) fn weight(&self) -> usize {
        1 + self.children.iter().map(Self::weight).sum::<usize>()
    }

    /// Returns all children.
    pub(super) fn children(&self) -> &[Self] {
        &self.children
    }

    /// Returns the `xsi:type` of this element.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the object that this element refers to.
    pub(super) fn as_object(&self) -> Option<Object> {
        let id = self.text.trim();
        let refers = !self.refers_to.is_empty() && !id.is_empty();
        refers.then(|| Object {
            kind: self.refers_to.clone(),
            id: id.to_owned(),
        })
    }

    /// Returns the object that the element at this path refers to.
    pub(super) fn object(&self, path: &str) -> Option<Object> {
        self.at(path)?.as_object()
    }

    fn copy(node: Node<'_, '_>, depth: usize) -> Result<Self, String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err("it is too deep".to_owned());
        };
        let children = node.children().filter(Node::is_element);
        let children: Result<Vec<Self>, _> = children.map(|node| Self::copy(node, depth)).collect();
        let kind = node.attribute((INSTANCE, "type")).unwrap_or_default();
        let kind = kind.rsplit(':').next().unwrap_or_default().trim();
        let text = node
            .children()
            .filter(Node::is_text)
            .filter_map(|text| text.text());
        Ok(Self {
            name: node.tag_name().name().to_owned(),
            kind: kind.to_owned(),
            refers_to: node.attribute("type").unwrap_or_default().to_owned(),
            text: text.collect(),
            children: children?,
        })
    }
}

impl Fault {
    fn from(fault: Element) -> Self {
        let message = fault
            .text("faultstring")
            .unwrap_or_default()
            .trim()
            .to_owned();
        let code = fault.text("faultcode").unwrap_or_default();
        let code = code
            .rsplit(':')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        let detail = fault
            .at("detail")
            .and_then(|detail| detail.children.first())
            .cloned();
        let detail = detail.unwrap_or_default();
        let kind = match (detail.kind.as_str(), detail.name.as_str()) {
            ("", "") => code,
            ("", name) => name.strip_suffix("Fault").unwrap_or(name).to_owned(),
            (kind, _) => kind.to_owned(),
        };
        Self {
            kind,
            message,
            detail,
        }
    }
}

fn child<'a, 'input>(
    of: Node<'a, 'input>,
    namespace: &'static str,
    name: &str,
) -> Option<Node<'a, 'input>> {
    of.children().find(|node| {
        node.tag_name().namespace() == Some(namespace) && node.tag_name().name() == name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: u32 = 1_000_000;

    fn envelope(body: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\">\
             <e:Body>{body}</e:Body></e:Envelope>"
        )
    }

    fn response(inside: &str) -> Element {
        let text = envelope(&format!(
            "<XResponse xmlns=\"urn:vim25\">{inside}</XResponse>"
        ));
        match Answer::read("X", &text, NODES) {
            Ok(Answer::Response(response)) => response,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn element_type_is_found_by_namespace_and_not_by_prefix() {
        let spellings = [
            "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"UserSession\"",
            "xmlns:_XMLSchema-instance=\"http://www.w3.org/2001/XMLSchema-instance\" \
             _XMLSchema-instance:type=\"UserSession\"",
            "xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\" xmlns:v=\"urn:vim25\" \
             i:type=\"v:UserSession\"",
        ];
        for spelling in spellings {
            let read = response(&format!("<returnval {spelling}><key>k</key></returnval>"));
            assert_eq!(
                read.at("returnval").expect("returnval").kind(),
                "UserSession"
            );
            assert_eq!(read.text("returnval/key"), Some("k"));
        }
        let other = response("<returnval xmlns:xsi=\"urn:other\" xsi:type=\"UserSession\"/>");
        assert_eq!(other.at("returnval").expect("returnval").kind(), "");
    }

    #[test]
    fn reference_has_type_and_id() {
        let read =
            response("<returnval type=\"Task\"> task-1 </returnval><b>1</b><c type=\"\">1</c>");
        let task = Object {
            kind: "Task".to_owned(),
            id: "task-1".to_owned(),
        };
        assert_eq!(read.object("returnval"), Some(task));
        assert_eq!(read.object("b"), None);
        assert_eq!(read.object("c"), None);
        assert_eq!(read.object("d"), None);
    }

    #[test]
    fn split_texts_are_joined() {
        let read = response("<a>1 &lt; 2 <!-- no -->&amp; <![CDATA[<b>]]>&#10;</a>");
        assert_eq!(read.text("a"), Some("1 < 2 & <b>\n"));
    }

    #[test]
    fn invalid_numbers_are_missing() {
        let read = response("<a> 12 </a><b>1x</b><c/><d>99999999999999999999</d><e>true</e>");
        assert_eq!(read.number::<i32>("a"), Some(12));
        for path in ["b", "c", "d", "none", "a/b"] {
            assert_eq!(read.number::<i64>(path), None, "{path}");
        }
        assert!(read.is_true("e"));
        assert!(!read.is_true("a"));
    }

    #[test]
    fn fault_kind_is_taken_from_type_then_name_then_code() {
        let i = "xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"";
        let table = [
            (
                format!("<detail><InvalidLoginFault {i} i:type=\"InvalidLogin\"/></detail>"),
                "InvalidLogin",
            ),
            (
                "<detail><InvalidLoginFault/></detail>".to_owned(),
                "InvalidLogin",
            ),
            ("<detail><Odd/></detail>".to_owned(), "Odd"),
            ("<detail/>".to_owned(), "ServerFaultCode"),
            (String::new(), "ServerFaultCode"),
        ];
        for (detail, expected) in table {
            let text = envelope(&format!(
                "<e:Fault><faultcode>ServerFaultCode</faultcode>\
                 <faultstring> no </faultstring>{detail}</e:Fault>"
            ));
            let Ok(Answer::Fault(fault)) = Answer::read("Login", &text, NODES) else {
                panic!("{text}");
            };
            assert_eq!(
                (fault.kind.as_str(), fault.message.as_str()),
                (expected, "no")
            );
        }
    }

    #[test]
    fn invalid_responses_have_distinct_errors() {
        let deep = format!("{}{}", "<a>".repeat(200), "</a>".repeat(200));
        let very_deep = format!("{}{}", "<a>".repeat(200_000), "</a>".repeat(200_000));
        let vim = |inside: &str| {
            envelope(&format!(
                "<XResponse xmlns=\"urn:vim25\">{inside}</XResponse>"
            ))
        };
        let table = [
            (vim(&deep), "it is too deep"),
            (vim(&very_deep), "it is too deep"),
            (
                envelope("<XResponse xmlns=\"urn:vim26\"/>"),
                "it answers something else",
            ),
            (envelope("<XResponse/>"), "it answers something else"),
            (
                envelope("<YResponse xmlns=\"urn:vim25\"/>"),
                "it answers something else",
            ),
            (envelope(""), "it answers something else"),
            ("<html/>".to_owned(), "it is no SOAP envelope"),
            (
                "<Envelope xmlns=\"urn:x\"/>".to_owned(),
                "it is no SOAP envelope",
            ),
            (
                "<Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\"/>".to_owned(),
                "it has no body",
            ),
        ];
        for (text, why) in table {
            assert_eq!(Answer::read("X", &text, NODES), Err(why.to_owned()));
        }
    }

    #[test]
    fn invalid_xml_and_entity_definitions_are_refused() {
        let laughs = "<!DOCTYPE a [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;\">]>";
        let outside = "<!DOCTYPE a SYSTEM \"file:///etc/passwd\">";
        let table = [
            String::new(),
            "no".to_owned(),
            "<a".to_owned(),
            "<a></b>".to_owned(),
            format!("{laughs}<a>&b;</a>"),
            format!("{outside}<a/>"),
            envelope("&unknown;"),
            envelope("<XResponse xmlns=\"urn:vim25\">"),
            envelope("<x:XResponse/>"),
        ];
        for text in table {
            let read = Answer::read("X", &text, NODES);
            assert!(
                matches!(&read, Err(why) if why.starts_with("it is no XML (at ")),
                "{read:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn no_response_makes_the_parser_panic(
            text in "(<|>|/|&|;|\"|=|a|e:|Body|<e:Fault>|<XResponse xmlns=\"urn:vim25\">| |\\PC){0,60}"
        ) {
            let _ = Answer::read("X", &text, NODES);
            let _ = Answer::read("X", &envelope(&text), NODES);
        }
    }
}
