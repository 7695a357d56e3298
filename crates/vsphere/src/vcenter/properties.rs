//! Properties of objects, and of what they point to.

use std::collections::BTreeMap;

use super::call::fault_error;
use super::element::{Element, Fault};
use super::text::Text;
use super::{Error, Object, Session};

/// How many objects are asked for at once.
const AT_ONCE: usize = 500;
/// How many pages an answer may have.
const PAGES: usize = 1000;

const RETRIEVE: &str = "RetrievePropertiesEx";
const CONTINUE: &str = "ContinueRetrievePropertiesEx";

/// Properties that are wanted of one kind of objects.
pub(super) struct Wanted<'a> {
    pub(super) kind: &'a str,
    pub(super) paths: &'a [&'a str],
}

/// A property whose value is an object: properties of that are wanted too.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) kind: &'a str,
    pub(super) path: &'a str,
}

/// What there was of an object. A property that is not set, or not to be seen, is missing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) object: Object,
    properties: BTreeMap<String, Element>,
}

impl Found {
    pub(super) fn get(&self, path: &str) -> Option<&Element> {
        self.properties.get(path)
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        Some(self.get(path)?.own_text())
    }

    pub(super) fn object(&self, path: &str) -> Option<Object> {
        self.get(path)?.as_object()
    }

    /// What is in a property that is a list.
    pub(super) fn list(&self, path: &str) -> &[Element] {
        self.get(path).map_or(&[], Element::children)
    }
}

impl Session {
    /// Properties of one object; nothing if there is nothing to be seen of it.
    pub(super) async fn retrieve_one(
        &self,
        object: &Object,
        paths: &[&str],
    ) -> Result<Option<Found>, Error> {
        let wanted = [Wanted {
            kind: &object.kind,
            paths,
        }];
        let found = self
            .retrieve(std::slice::from_ref(object), &wanted, None)
            .await?;
        Ok(found.into_iter().find(|found| found.object == *object))
    }

    /// Properties of objects, and of those that a step leads to.
    pub(super) async fn retrieve(
        &self,
        objects: &[Object],
        wanted: &[Wanted<'_>],
        step: Option<Step<'_>>,
    ) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        for objects in objects.chunks(AT_ONCE) {
            self.retrieve_chunk(objects, wanted, step, &mut found)
                .await?;
        }
        Ok(found)
    }

    async fn retrieve_chunk(
        &self,
        objects: &[Object],
        wanted: &[Wanted<'_>],
        step: Option<Step<'_>>,
        found: &mut Vec<Found>,
    ) -> Result<(), Error> {
        let collector = &self.services().property_collector;
        let ask = |text: &mut Text| ask(text, objects, wanted, step);
        let mut answer = self.caller().call(RETRIEVE, collector, ask).await?;
        for _ in 0..PAGES {
            let Some(token) = read(&answer, found)? else {
                return Ok(());
            };
            let ask = |text: &mut Text| {
                text.leaf("token", &token);
            };
            answer = self.caller().call(CONTINUE, collector, ask).await?;
        }
        Err(Error::Unexpected {
            method: CONTINUE,
            why: "it does not end".to_owned(),
        })
    }
}

fn ask(text: &mut Text, objects: &[Object], wanted: &[Wanted<'_>], step: Option<Step<'_>>) {
    text.element("specSet", |spec| {
        for Wanted { kind, paths } in wanted {
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
                if let Some(Step { kind, path }) = step {
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

/// Reads a page, and says how the next one is asked for.
fn read(answer: &Element, found: &mut Vec<Found>) -> Result<Option<String>, Error> {
    let Some(page) = answer.at("returnval") else {
        return Ok(None);
    };
    for content in page.all("objects") {
        let Some(object) = content.object("obj") else {
            continue;
        };
        for missing in content.all("missingSet") {
            tell(missing, &object)?;
        }
        let properties = content.all("propSet").filter_map(|property| {
            let name = property.text("name")?.to_owned();
            Some((name, property.at("val")?.clone()))
        });
        found.push(Found {
            object,
            properties: properties.collect(),
        });
    }
    Ok(page
        .text("token")
        .filter(|token| !token.is_empty())
        .map(str::to_owned))
}

/// A property that is missing because the session is over is not just missing.
fn tell(missing: &Element, object: &Object) -> Result<(), Error> {
    let kind = missing
        .at("fault/fault")
        .map(Element::kind)
        .unwrap_or_default();
    if kind != "NotAuthenticated" {
        return Ok(());
    }
    let fault = Fault {
        kind: kind.to_owned(),
        ..Fault::default()
    };
    Err(fault_error(RETRIEVE, object, &fault))
}
