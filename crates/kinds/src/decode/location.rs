//! The decoder's position in a document.
//!
//! A location is a chain of steps on the stack: it costs nothing until an error or a
//! warning prints its path.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use super::DecodeError;
use crate::types::{Shape, Type, TypeId, types};
use insula_gotext::quote;

/// Warnings and the first error found so far.
#[derive(Default)]
pub(super) struct DecodeState {
    pub(super) problems: RefCell<Vec<String>>,
    /// The first error. The error that serde carries only signals that there is one.
    pub(super) error: RefCell<Option<DecodeError>>,
    /// The number that the error names, as parsed by serde.
    pub(super) number: Cell<Option<f64>>,
}

#[derive(Clone, Copy)]
pub(super) struct Location<'p> {
    state: &'p DecodeState,
    parent: Option<&'p Location<'p>>,
    step: Step<'p>,
    pub(super) depth: usize,
}

#[derive(Clone, Copy)]
pub(super) enum Step<'p> {
    /// The document itself.
    Root,
    /// A value that Go decodes separately: no warnings are reported below it, and errors
    /// do not name the path to it.
    Separate,
    /// A member of a struct.
    Field(&'static Type, &'static str),
    /// A value of a map.
    Key(&'p str),
    /// An element of a list.
    Index(usize),
}

/// Go stops collecting warnings at this number.
const MAX_PROBLEMS: usize = 100;

impl<'p> Location<'p> {
    pub(super) fn root(state: &'p DecodeState) -> Self {
        Self {
            state,
            parent: None,
            step: Step::Root,
            depth: 0,
        }
    }

    pub(super) fn child(&'p self, step: Step<'p>) -> Self {
        Self {
            state: self.state,
            parent: Some(self),
            step,
            // A separately decoded value is still the same value of the document.
            depth: self.depth + usize::from(!matches!(step, Step::Separate)),
        }
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    /// Records a warning about a field.
    pub(super) fn report(&self, problem: &str, name: &str) {
        let Some(mut path) = self.path() else { return };
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        let mut problems = self.state.problems.borrow_mut();
        let problem = format!("{problem} {}", quote(&path));
        if problems.len() < MAX_PROBLEMS && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// Records an error; the first one wins.
    pub(super) fn fail(&self, error: DecodeError) {
        self.state.error.borrow_mut().get_or_insert(error);
    }

    /// Records that the value has the wrong JSON type.
    pub(super) fn mismatch(&self, found: &str, shape: &Shape) {
        let wanted = go_type(shape);
        let (owner, path) = self.go_path();
        let target = match owner {
            None => format!("value of type {wanted}"),
            Some(owner) => format!("struct field {}.{path} of type {wanted}", owner.kind()),
        };
        let text = format!("json: cannot unmarshal {found} into Go {target}");
        self.fail(DecodeError::Type(text));
    }

    /// Records a number that its Go type cannot hold.
    pub(super) fn bad_number(&self, number: f64, printed: &str, shape: &Shape) {
        self.state.number.set(Some(number));
        self.mismatch(&format!("number {printed}"), shape);
    }

    /// Returns a path such as `spec.containers[0]`, or none where warnings are not
    /// reported.
    fn path(&self) -> Option<String> {
        let mut path = match self.parent {
            Some(parent) => parent.path()?,
            None => String::new(),
        };
        let dot = if path.is_empty() { "" } else { "." };
        // Writing to a String cannot fail.
        let _ = match self.step {
            Step::Root => Ok(()),
            Step::Separate => return None,
            Step::Field(_, name) => write!(path, "{dot}{name}"),
            Step::Key(key) => write!(path, "{dot}{key}"),
            Step::Index(index) => write!(path, "[{index}]"),
        };
        Some(path)
    }

    /// Returns the innermost struct and the field names down to this location.
    fn go_path(&self) -> (Option<&'static Type>, String) {
        let mut names = Vec::new();
        let mut innermost = None;
        let mut location = Some(self);
        while let Some(at) = location {
            match at.step {
                Step::Separate => break,
                Step::Field(owner, name) => {
                    innermost = innermost.or(Some(owner));
                    names.push(name);
                }
                Step::Root | Step::Key(_) | Step::Index(_) => {}
            }
            location = at.parent;
        }
        names.reverse();
        (innermost, names.join("."))
    }
}

/// Returns the type as Go prints it. Named string types are printed as `string`, since
/// the table does not have their names.
fn go_type(shape: &Shape) -> String {
    match shape {
        Shape::String => "string".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Float64 => "float64".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Time => "v1.Time".to_owned(),
        Shape::MicroTime => "v1.MicroTime".to_owned(),
        Shape::Quantity => "resource.Quantity".to_owned(),
        Shape::IntOrString => "intstr.IntOrString".to_owned(),
        Shape::Raw => "runtime.RawExtension".to_owned(),
        Shape::Struct(id) => struct_name(*id),
        Shape::List(of) | Shape::WrappedList(of) => format!("[]{}", go_type(of)),
        Shape::Map(of) if **of == Shape::Quantity => "v1.ResourceList".to_owned(),
        Shape::Map(of) => format!("map[string]{}", go_type(of)),
    }
}

/// Returns `v1.Deployment` for `api.apps.v1.Deployment`.
fn struct_name(id: TypeId) -> String {
    let name = types().get(id).name;
    let package = name.rsplit('.').nth(1).unwrap_or_default();
    format!("{package}.{}", types().get(id).kind())
}
