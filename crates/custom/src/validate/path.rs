//! Field paths. They are built on the stack during validation, and only formatted for
//! errors.

/// The path of a value in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

/// The last element of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// The object itself.
    Root,
    /// A field that the schema specifies.
    Property(&'a str),
    /// A key of a map.
    Key(&'a str),
    /// An item of a list.
    Index(usize),
}

/// Kubernetes formats paths in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Map keys like fields, even at the top: `spec.map.key`, `.key`.
    Schema,
    /// Map keys in brackets: `spec.map[key]`.
    Field,
}

impl<'a> Path<'a> {
    /// The path of the object itself.
    pub const ROOT: Path<'static> = Path {
        parent: None,
        step: Step::Root,
    };

    /// The path of a value inside this one.
    pub fn child<'b>(&'b self, step: Step<'b>) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            step,
        }
    }

    /// The last element.
    pub fn step(&self) -> Step<'a> {
        self.step
    }

    /// Formats the path; empty for the object itself.
    pub fn print(&self, style: Style) -> String {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(path) = at {
            steps.push(path.step);
            at = path.parent;
        }
        let mut text = String::new();
        for step in steps.into_iter().rev() {
            match step {
                Step::Root => {}
                Step::Property(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Key(name) if style == Style::Schema => {
                    text.push('.');
                    text.push_str(name);
                }
                Step::Key(name) => {
                    text.push('[');
                    text.push_str(name);
                    text.push(']');
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }

    /// Formats the path with a relative path appended.
    pub fn print_with(&self, style: Style, below: &str) -> String {
        let text = self.print(style);
        if text.is_empty() {
            return below.to_owned();
        }
        format!("{text}.{below}")
    }

    /// Formats the path for errors, where the object itself is `<nil>`.
    pub fn field(&self, style: Style) -> String {
        let text = self.print(style);
        if text.is_empty() {
            return ROOT_FIELD.to_owned();
        }
        text
    }
}

/// Go's notation for the path of the object itself.
pub(crate) const ROOT_FIELD: &str = "<nil>";
