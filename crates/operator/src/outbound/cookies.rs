//! The cookies that a server sets to recognize a session.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::{HeaderMap, HeaderValue, SET_COOKIE};

/// The maximum number of cookies that a server may set, and the maximum length of each.
const MAX_COOKIES: usize = 8;
const MAX_COOKIE_LENGTH: usize = 4096;

/// The cookies of one session. They authenticate it, so they are never shown. Their attributes
/// are ignored: all requests go to one server.
#[derive(Default)]
pub struct Cookies(Mutex<BTreeMap<String, String>>);

impl Cookies {
    /// Returns whether the server has set none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns the value of the header `Cookie`, if there are any.
    pub fn header(&self) -> Option<HeaderValue> {
        let cookies = self.lock();
        let pairs = cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let pairs: Vec<_> = pairs.collect();
        let mut value = HeaderValue::from_str(&pairs.join("; ")).ok()?;
        value.set_sensitive(true);
        (!pairs.is_empty()).then_some(value)
    }

    /// Takes over the cookies of a response.
    pub fn store(&self, headers: &HeaderMap) {
        let mut cookies = self.lock();
        for set in headers.get_all(SET_COOKIE) {
            let Some((name, value)) = set.to_str().ok().and_then(cookie_pair) else {
                continue;
            };
            let has_room =
                cookies.len() < MAX_COOKIES && name.len() + value.len() < MAX_COOKIE_LENGTH;
            if has_room || cookies.contains_key(name) {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns name and value of a cookie, without its attributes.
fn cookie_pair(set: &str) -> Option<(&str, &str)> {
    let (name, value) = set.split(';').next()?.split_once('=')?;
    let name = name.trim();
    (!name.is_empty()).then_some((name, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_is_parsed_without_attributes() {
        let table = [
            ("a=b", Some(("a", "b"))),
            ("a=\"b=c\"; Path=/; HttpOnly", Some(("a", "\"b=c\""))),
            (" a = b ;", Some(("a", "b"))),
            ("=b", None),
            ("a", None),
            ("", None),
            (";a=b", None),
        ];
        for (set, expected) in table {
            assert_eq!(cookie_pair(set), expected, "{set:?}");
        }
    }

    #[test]
    fn cookies_are_replaced_and_bounded() {
        let cookies = Cookies::default();
        assert_eq!(cookies.header(), None);
        let set = |text: &str| {
            let value = HeaderValue::from_str(text).unwrap();
            cookies.store(&HeaderMap::from_iter([(SET_COOKIE, value)]));
        };
        set("a=1; Path=/");
        set("b=2");
        set("a=3");
        set(&format!("long={}", "x".repeat(5000)));
        let header = cookies.header().unwrap();
        assert_eq!(header.to_str().unwrap(), "a=3; b=2");
        assert!(header.is_sensitive());
        for number in 0..20 {
            set(&format!("n{number}=1"));
        }
        assert_eq!(cookies.lock().len(), 8);
    }
}
