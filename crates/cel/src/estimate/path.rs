//! Paths from a variable to a value.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The names on a path: `self`, `spec`, `@items`.
///
/// Paths that extend the same path may share its storage, so that extending it again changes the
/// ends of the others. The reference implementation behaves so; its cost estimates depend on it,
/// and they decide whether a rule is accepted.
#[derive(Clone, Default)]
pub(crate) struct Path {
    shared: Rc<RefCell<Vec<Option<Arc<str>>>>>,
    length: usize,
}

impl Path {
    /// The path to a variable.
    pub(crate) fn of(name: Arc<str>) -> Self {
        Self {
            shared: Rc::new(RefCell::new(vec![Some(name)])),
            length: 1,
        }
    }

    /// Returns whether the path is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the path extended by a name.
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

    /// Returns the names on the path.
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
    fn paths_that_extend_the_same_path_share_spare_capacity() {
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
