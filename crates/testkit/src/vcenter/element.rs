//! Requests of clients, as a tree.

use roxmltree::{Document, Node};

/// An element of a request, without its namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    pub name: String,
    /// Its `xsi:type`, without prefix.
    pub of: Option<String>,
    /// Its attribute `type`: the kind of object that a reference names.
    pub kind: Option<String>,
    pub text: String,
    pub children: Vec<Element>,
}

const ENVELOPE: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
const VIM: &str = "urn:vim25";

/// The deepest nesting in any request.
const MAX_DEPTH: usize = 32;

impl Element {
    /// Parses the method in an envelope, with its parameters.
    pub fn read(text: &str) -> Result<Self, String> {
        let document = Document::parse(text).map_err(|error| error.to_string())?;
        let envelope = document.root_element();
        if !envelope.has_tag_name((ENVELOPE, "Envelope")) {
            return Err("no envelope".to_owned());
        }
        let mut inside = envelope.children();
        let body = inside.find(|node| node.has_tag_name((ENVELOPE, "Body")));
        let method = body.and_then(|body| body.first_element_child());
        let method = method.ok_or("no method")?;
        if method.tag_name().namespace() != Some(VIM) {
            return Err(format!("{:?} is no method", method.tag_name().name()));
        }
        Self::of_node(method, MAX_DEPTH)
    }

    pub fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Self> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of a child, if it exists.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }

    /// Whether a child is `true`.
    pub fn is_true(&self, name: &str) -> bool {
        matches!(self.text_of(name), Some("true" | "1"))
    }

    pub fn number_of<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text_of(name)?.parse().ok()
    }

    /// The reference as text, as in `VirtualMachine:vm-1`.
    pub fn reference(&self) -> String {
        format!("{}:{}", self.kind.as_deref().unwrap_or_default(), self.text)
    }

    fn of_node(node: Node<'_, '_>, left: usize) -> Result<Self, String> {
        let left = left.checked_sub(1).ok_or("too deep")?;
        let of = node.attribute((INSTANCE, "type"));
        let of = of.map(|of| of.rsplit(':').next().unwrap_or(of).to_owned());
        let children = node.children().filter(Node::is_element);
        let children: Result<Vec<_>, _> =
            children.map(|child| Self::of_node(child, left)).collect();
        let children = children?;
        let text = if children.is_empty() {
            node.text().unwrap_or_default()
        } else {
            ""
        };
        Ok(Self {
            name: node.tag_name().name().to_owned(),
            of,
            kind: node.attribute("type").map(str::to_owned),
            text: text.to_owned(),
            children,
        })
    }
}
