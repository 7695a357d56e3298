//! The PropertyCollector: properties of objects and of objects that they reference.

use std::collections::BTreeMap;

use super::call::ResponseSize;
use super::element::Element;
use super::xml_writer::XmlWriter;
use super::{Error, Object, Session};

/// The maximum number of objects in one request.
const MAX_OBJECTS_PER_REQUEST: usize = 500;
/// The maximum number of pages of a response, and of elements in all of them.
const MAX_PAGES: usize = 1000;
const MAX_ELEMENTS: usize = 300_000;

pub(super) const RETRIEVE: &str = "RetrievePropertiesEx";
const CONTINUE: &str = "ContinueRetrievePropertiesEx";

/// The properties to retrieve of one type of object.
pub(super) struct PropertySpec<'a> {
    pub(super) kind: &'a str,
    pub(super) paths: &'a [&'a str],
}

impl<'a> PropertySpec<'a> {
    pub(super) const fn new(kind: &'a str, paths: &'a [&'a str]) -> Self {
        Self { kind, paths }
    }
}

/// A property that references an object, of which properties are retrieved too.
#[derive(Clone, Copy)]
pub(super) struct Traversal<'a> {
    pub(super) kind: &'a str,
    pub(super) path: &'a str,
}

/// The properties of an object. Unset or invisible properties are missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ObjectContent {
    pub(super) object: Object,
    properties: BTreeMap<String, Element>,
}

impl ObjectContent {
    pub(super) fn get(&self, path: &str) -> Option<&Element> {
        self.properties.get(path)
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        Some(self.get(path)?.own_text())
    }

    pub(super) fn object(&self, path: &str) -> Option<Object> {
        self.get(path)?.as_object()
    }

    /// Returns the elements of a property that is a list.
    pub(super) fn list(&self, path: &str) -> &[Element] {
        self.get(path).map_or(&[], Element::children)
    }
}

impl Session {
    /// Retrieves small properties of one object; none if it is invisible.
    pub(super) async fn retrieve_one(
        &self,
        object: &Object,
        paths: &[&str],
    ) -> Result<Option<ObjectContent>, Error> {
        let wanted = [PropertySpec::new(&object.kind, paths)];
        let (object_only, small) = (std::slice::from_ref(object), (None, ResponseSize::Small));
        let mut found = Vec::new();
        self.retrieve_chunk(object_only, &wanted, small, &mut found)
            .await?;
        Ok(found.into_iter().find(|found| found.object == *object))
    }

    /// Retrieves properties of objects, and of the objects that a step leads to.
    pub(super) async fn retrieve(
        &self,
        objects: &[Object],
        wanted: &[PropertySpec<'_>],
        step: Option<Traversal<'_>>,
    ) -> Result<Vec<ObjectContent>, Error> {
        let mut found = Vec::new();
        for objects in objects.chunks(MAX_OBJECTS_PER_REQUEST) {
            self.retrieve_chunk(objects, wanted, (step, ResponseSize::Large), &mut found)
                .await?;
        }
        Ok(found)
    }

    async fn retrieve_chunk(
        &self,
        objects: &[Object],
        wanted: &[PropertySpec<'_>],
        (step, size): (Option<Traversal<'_>>, ResponseSize),
        found: &mut Vec<ObjectContent>,
    ) -> Result<(), Error> {
        let collector = &self.services().property_collector;
        let ask = |text: &mut XmlWriter| ask(text, objects, wanted, step);
        let caller = self.caller();
        let mut answer = caller.call_for(size, RETRIEVE, collector, ask).await?;
        let mut weight = 0;
        for _ in 0..MAX_PAGES {
            weight += answer.weight();
            if weight > MAX_ELEMENTS {
                break;
            }
            let Some(token) = read(&answer, found)? else {
                return Ok(());
            };
            let ask = |text: &mut XmlWriter| {
                text.leaf("token", &token);
            };
            answer = caller.call_for(size, CONTINUE, collector, ask).await?;
        }
        Err(Error::unexpected(CONTINUE, "it does not end"))
    }
}

fn ask(
    text: &mut XmlWriter,
    objects: &[Object],
    wanted: &[PropertySpec<'_>],
    step: Option<Traversal<'_>>,
) {
    text.element("specSet", |spec| {
        for PropertySpec { kind, paths } in wanted {
            spec.element("propSet", |properties| {
                properties.leaf("type", kind);
                for path in *paths {
                    properties.leaf("pathSet", path);
                }
            });
        }
        for object in objects {
            spec.element("objectSet", |set| {
                set.object("obj", object);
                set.plain("skip", false);
                if let Some(Traversal { kind, path }) = step {
                    set.typed("selectSet", "TraversalSpec", |select| {
                        select
                            .leaf("type", kind)
                            .leaf("path", path)
                            .plain("skip", false);
                    });
                }
            });
        }
    });
    text.element("options", |_| ());
}

/// Reads a page, and returns the token for the next one.
fn read(answer: &Element, found: &mut Vec<ObjectContent>) -> Result<Option<String>, Error> {
    let Some(page) = answer.at("returnval") else {
        return Ok(None);
    };
    for content in page.all("objects") {
        let Some(object) = content.object("obj") else {
            continue;
        };
        for missing in content.all("missingSet") {
            check_session(missing)?;
        }
        let properties = content.all("propSet").filter_map(|property| {
            let name = property.text("name")?.to_owned();
            Some((name, property.at("val")?.clone()))
        });
        found.push(ObjectContent {
            object,
            properties: properties.collect(),
        });
    }
    Ok(page
        .text("token")
        .filter(|token| !token.is_empty())
        .map(str::to_owned))
}

/// Fails if a property is missing because the session has expired.
fn check_session(missing: &Element) -> Result<(), Error> {
    match missing.at("fault/fault").map(Element::kind) {
        Some("NotAuthenticated") => Err(Error::NotAuthenticated),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::element::Answer;
    use super::*;

    /// Parses these objects.
    pub(in super::super) fn found(objects: &str) -> Result<Vec<ObjectContent>, Error> {
        let mut found = Vec::new();
        assert_eq!(read(&page(objects), &mut found)?, None);
        Ok(found)
    }

    fn page(inside: &str) -> Element {
        let text = format!(
            "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\" \
             xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><e:Body>\
             <XResponse xmlns=\"urn:vim25\"><returnval>{inside}</returnval></XResponse>\
             </e:Body></e:Envelope>"
        );
        match Answer::read("X", &text, 1_000) {
            Ok(Answer::Response(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn property_request_is_written_in_schema_order() {
        let vm = Object::new("VirtualMachine", "vm-1");
        let wanted = [
            PropertySpec {
                kind: "VirtualMachine",
                paths: &["name", "runtime.host"],
            },
            PropertySpec {
                kind: "HostSystem",
                paths: &["name"],
            },
        ];
        let step = Traversal {
            kind: "VirtualMachine",
            path: "runtime.host",
        };
        let collector = Object::new("PropertyCollector", "pc");
        let asked = XmlWriter::call("X", &collector, |text| {
            ask(text, std::slice::from_ref(&vm), &wanted, Some(step));
        });
        let expected = "<specSet><propSet><type>VirtualMachine</type><pathSet>name</pathSet>\
            <pathSet>runtime.host</pathSet></propSet><propSet><type>HostSystem</type>\
            <pathSet>name</pathSet></propSet><objectSet><obj type=\"VirtualMachine\">vm-1</obj>\
            <skip>false</skip><selectSet xsi:type=\"TraversalSpec\"><type>VirtualMachine</type>\
            <path>runtime.host</path><skip>false</skip></selectSet></objectSet></specSet>\
            <options></options>";
        assert!(asked.expect("sayable").contains(expected));
    }

    #[test]
    fn invisible_property_is_missing_unless_the_session_expired() {
        let missing = |kind: &str| {
            format!(
                "<objects><obj type=\"A\">1</obj><missingSet><path>p</path>\
                 <fault><fault i:type=\"{kind}\"/></fault></missingSet></objects>"
            )
        };
        let seen = found(&missing("NoPermission")).expect("read");
        assert_eq!((seen.len(), seen[0].get("p")), (1, None));
        assert_eq!(
            found(&missing("NotAuthenticated")),
            Err(Error::NotAuthenticated)
        );
    }

    #[test]
    fn incomplete_properties_are_skipped() {
        let objects = "<objects><propSet><name>a</name><val>1</val></propSet></objects>\
            <objects><obj type=\"A\">1</obj><propSet><val>1</val></propSet>\
            <propSet><name>b</name></propSet><propSet><name>c</name><val>2</val></propSet></objects>";
        let seen = found(objects).expect("read");
        let texts = ["b", "c"].map(|path| seen[0].text(path));
        assert_eq!((seen.len(), texts), (1, [None, Some("2")]));
    }

    #[test]
    fn page_has_the_token_for_the_next() {
        let mut seen = Vec::new();
        let more = read(&page("<token>t&amp;1</token>"), &mut seen);
        assert_eq!(more, Ok(Some("t&1".to_owned())));
        assert_eq!(read(&page("<token></token>"), &mut seen), Ok(None));
    }
}
