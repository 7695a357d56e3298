//! Prebuilt responses with the same lengths as those of a server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::api::objects;

/// The responses, each built at its first request.
pub struct Answers {
    object: Bytes,
    lists: Mutex<HashMap<List, Bytes>>,
}

/// A list of a number of objects, and the number of the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct List {
    objects: usize,
    next: Option<usize>,
}

impl Answers {
    pub fn new() -> Self {
        let object = format!(
            "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",{}}}\n",
            objects::stored(0)
        );
        Self {
            object: Bytes::from(object),
            lists: Mutex::default(),
        }
    }

    pub fn object(&self) -> Bytes {
        self.object.clone()
    }

    /// Returns the list of a collection with this number of objects.
    pub fn list(&self, query: &str, objects: usize) -> Bytes {
        let list = List::asked(query, objects);
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.entry(list).or_insert_with(|| list.body()).clone()
    }
}

impl List {
    fn asked(query: &str, objects: usize) -> Self {
        let value = |name: &str| {
            let mut words = query.split('&').filter_map(|word| word.split_once('='));
            words.find_map(|(key, value)| (key == name).then_some(value))
        };
        if value("labelSelector").is_some() {
            let objects = objects / 10;
            return Self {
                objects,
                next: None,
            };
        }
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<usize>().ok());
        let limit = number(value("limit")).unwrap_or(objects);
        let page = number(value("continue")).unwrap_or(0);
        let before = limit * page;
        let here = limit.min(objects.saturating_sub(before));
        Self {
            objects: here,
            next: (before + here < objects).then_some(page + 1),
        }
    }

    fn body(self) -> Bytes {
        let next = self
            .next
            .map_or_else(String::new, |page| format!(",\"continue\":\"{page}\""));
        let items = (0..self.objects).map(|n| format!("{{{}}}", objects::stored(n)));
        let items: Vec<String> = items.collect();
        Bytes::from(format!(
            "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\
             \"metadata\":{{\"resourceVersion\":\"1000\"{next}}},\"items\":[{}]}}\n",
            items.join(",")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_end_after_the_last_object() {
        for (query, objects, next) in [
            ("", 5000, None),
            ("labelSelector=bench%3Dtenth", 500, None),
            ("limit=500", 500, Some(1)),
            ("limit=500&continue=8", 500, Some(9)),
            ("limit=500&continue=9", 500, None),
            ("limit=3000&continue=1", 2000, None),
        ] {
            assert_eq!(List::asked(query, 5000), List { objects, next }, "{query}");
        }
    }

    #[test]
    fn a_list_of_five_thousand_has_seven_megabytes() {
        let length = Answers::new().list("", 5000).len();
        assert!((6_700_000..7_500_000).contains(&length), "{length}");
    }
}
