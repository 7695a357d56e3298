//! The steps of a plan: expressions with all decisions made that need no values.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::EvalError;
use crate::library::{Body, Price};
use crate::value::{Key, Value};

pub(super) const LIST_COST: u64 = 10;
pub(super) const MAP_COST: u64 = 30;
pub(super) const STRUCT_COST: u64 = 40;

#[derive(Debug)]
pub(super) enum Step {
    Constant(Value<'static>),
    /// A variable or a value, with selections.
    Attribute(Box<Attribute>),
    And(Box<[Step]>),
    Or(Box<[Step]>),
    Equal(Box<[Step; 2]>),
    Differ(Box<[Step; 2]>),
    NotFalse(Box<Step>),
    Call(Box<Call>),
    /// `x in ['a', 'b']`, which is free.
    Member(Box<Member>),
    OrElse(Box<[Step; 2]>),
    OrValue(Box<[Step; 2]>),
    List(Box<List>),
    Map(Box<Map>),
    Struct(Box<Structure>),
    Fold(Box<Fold>),
    /// `accumulator + [element]`, in a loop that uses the accumulator nowhere else.
    Grow(Box<Grow>),
}

#[derive(Debug)]
pub(super) struct Attribute {
    pub(super) root: Root,
    pub(super) qualifiers: Vec<Qualifier>,
    /// Whether only the presence of the last qualifier is tested.
    pub(super) test: bool,
}

/// The start of an attribute.
#[derive(Debug)]
pub(super) enum Root {
    Variable(Arc<str>),
    Slot(usize),
    /// The accumulator of a loop. `take` is set if it is not used afterwards and can grow in place.
    Accumulator {
        slot: usize,
        take: bool,
    },
    Value(Step),
    Choice {
        condition: Step,
        then: Step,
        otherwise: Step,
    },
}

#[derive(Debug)]
pub(super) struct Qualifier {
    pub(super) by: By,
    pub(super) optional: bool,
    pub(super) test: bool,
}

#[derive(Debug)]
pub(super) enum By {
    Name(Arc<str>),
    Constant(Value<'static>),
    Step(Step),
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: Arc<str>,
    pub(super) body: Body,
    pub(super) arguments: Box<[Step]>,
    pub(super) price: Price,
    /// Whether an error in one argument prevents the evaluation of the next.
    pub(super) stops_at_first_error: bool,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) value: Step,
    pub(super) set: BTreeSet<Key<'static>>,
}

impl Member {
    pub(super) fn holds(&self, value: &Value<'_>) -> bool {
        Key::of(value).is_some_and(|key| self.set.contains(&key))
    }
}

#[derive(Debug)]
pub(super) struct List {
    /// The elements, and whether each is left out if it is an empty optional.
    pub(super) elements: Vec<(Step, bool)>,
}

#[derive(Debug)]
pub(super) struct Map {
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(super) struct Structure {
    pub(super) name: Arc<str>,
    pub(super) fields: Vec<(Arc<str>, Entry)>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Step,
    pub(super) value: Step,
    pub(super) optional: bool,
}

impl Entry {
    /// Returns the value to set, or none for an empty optional.
    pub(super) fn value_of<'a>(
        &self,
        value: Value<'a>,
        key: &Value<'_>,
    ) -> Result<Option<Value<'a>>, EvalError> {
        match (self.optional, value) {
            (false, value) => Ok(Some(value)),
            (true, Value::Optional(held)) => Ok(held.map(|value| (*value).clone())),
            (true, value) => Err(EvalError::new(format!(
                "cannot initialize optional entry '{key}' from non-optional value {value}"
            ))),
        }
    }
}

#[derive(Debug)]
pub(super) struct Grow {
    pub(super) accumulator: Attribute,
    pub(super) element: Step,
}

#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Step,
    pub(super) first: usize,
    pub(super) second: Option<usize>,
    pub(super) accumulator: usize,
    pub(super) init: Step,
    pub(super) condition: Step,
    pub(super) step: Step,
    pub(super) result: Step,
}
