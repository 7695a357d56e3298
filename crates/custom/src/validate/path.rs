//! Where in an object something is. Paths are made on the stack while values are judged, and
//! printed only if something is wrong.

/// A place in an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

/// How to get there from the place above.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// It is the top.
    Root,
    /// A field that the schema names.
    Property(&'a str),
    /// A key of a map.
    Key(&'a str),
    /// An item of a list.
    Index(usize),
}

/// Kubernetes prints paths in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Keys of maps as if they were fields, even at the top: `spec.map.key`, `.key`.
    Schema,
    /// Keys of maps in brackets: `spec.map[key]`.
    Field,
}

impl<'a> Path<'a> {
    /// The top.
    pub const ROOT: Path<'static> = Path {
        parent: None,
        step: Step::Root,
    };

    /// A place below.
    pub fn child<'b>(&'b self, step: Step<'b>) -> Path<'b>
    where
        'a: 'b,
    {
        Path {
            parent: Some(self),
            step,
        }
    }

    /// The last step.
    pub fn step(&self) -> Step<'a> {
        self.step
    }

    /// The path as text; nothing for the top.
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

    /// The path of what is further below, at a path of its own.
    pub fn print_with(&self, style: Style, below: &str) -> String {
        let text = self.print(style);
        if text.is_empty() {
            return below.to_owned();
        }
        format!("{text}.{below}")
    }

    /// The path as errors name it: the top has no name.
    pub fn field(&self, style: Style) -> String {
        let text = self.print(style);
        if text.is_empty() {
            return NOWHERE.to_owned();
        }
        text
    }
}

/// How Go prints the path of the top.
pub(crate) const NOWHERE: &str = "<nil>";
