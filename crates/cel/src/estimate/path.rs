//! The way from a variable to a value.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Names from a variable on: `self`, `spec`, `@items`.
///
/// Ways that were made by going on from the same one may share what they are stored in, so that
/// going on once more from there changes where the others end. The reference implementation is
/// written so, the costs that it estimates depend on it, and whether a rule is accepted depends on
/// those.
#[derive(Clone, Default)]
pub(crate) struct Path {
    shared: Rc<RefCell<Vec<Option<Arc<str>>>>>,
    length: usize,
}

impl Path {
    /// The way to a variable.
    pub(crate) fn of(name: Arc<str>) -> Self {
        Self {
            shared: Rc::new(RefCell::new(vec![Some(name)])),
            length: 1,
        }
    }

    /// Whether it leads nowhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// One step further.
    pub(crate) fn then(&self, name: &str) -> Self {
        let capacity = self.shared.borrow().len();
        if self.length < capacity {
            self.shared.borrow_mut()[self.length] = Some(name.into());
            return Self {
                shared: self.shared.clone(),
                length: self.length + 1,
            };
        }
        let mut longer = self.shared.borrow().clone();
        longer.push(Some(name.into()));
        longer.resize((capacity * 2).max(1), None);
        Self {
            shared: Rc::new(RefCell::new(longer)),
            length: self.length + 1,
        }
    }

    /// The names.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        self.shared.borrow()[..self.length]
            .iter()
            .flatten()
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        path.names().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ways_on_from_the_same_one_share_their_end_where_there_was_room_for_it() {
        let base = Path::of("self".into()).then("list").then("@items");
        let first = base.then("a");
        let second = base.then("b");
        assert_eq!(names(&first), ["self", "list", "@items", "b"]);
        assert_eq!(names(&second), ["self", "list", "@items", "b"]);
        let (third, fourth) = (second.then("c"), second.then("d"));
        assert_eq!(names(&third), ["self", "list", "@items", "b", "c"]);
        assert_eq!(names(&fourth), ["self", "list", "@items", "b", "d"]);
    }
}
