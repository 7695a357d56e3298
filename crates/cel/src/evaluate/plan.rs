//! Planning: names are resolved, calls are bound, constants are evaluated.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::step::{
    Attribute, By, Call, Entry, Fold, Grow, List, Map, Member, Qualifier, Root, Step, Structure,
};
use super::{Activation, evaluate};
use crate::ast::{Comprehension, Expr, Id, Literal, Node};
use crate::budget::Budget;
use crate::error::EvalError;
use crate::library;
use crate::program::Program;
use crate::stack::with_stack;
use crate::types::Type;
use crate::value::{Key, Plain, Text, Value, double_to_int, double_to_uint};

/// An expression that is ready to be evaluated any number of times.
#[derive(Debug)]
pub struct Plan {
    pub(super) root: Step,
    pub(super) slots: usize,
    /// The nesting depth of the steps.
    pub(super) depth: usize,
}

impl Plan {
    /// Returns the nesting depth, for [`with_stack`].
    pub const fn depth(&self) -> usize {
        self.depth
    }
}

/// The reason why an expression cannot be evaluated for any values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A function is unknown.
    #[error("no such overload: {0}")]
    Function(String),
    /// A constant fails to evaluate.
    #[error(transparent)]
    Constant(#[from] EvalError),
}

impl Plan {
    /// Plans a program.
    ///
    /// # Errors
    ///
    /// The text that Kubernetes prints after `program instantiation failed: `.
    pub fn new(program: &Program) -> Result<Self, PlanError> {
        with_stack(program.depth(), || {
            let mut planner = Planner {
                program,
                names: Vec::new(),
                slots: 0,
            };
            let root = planner.plan(program.expr())?;
            Ok(Self {
                root,
                slots: planner.slots,
                depth: program.depth(),
            })
        })
    }
}

struct Planner<'p> {
    program: &'p Program,
    /// The visible loop variables, innermost last.
    names: Vec<(Arc<str>, Place)>,
    slots: usize,
}

#[derive(Clone, Copy)]
enum Place {
    Slot(usize),
    Accumulator(usize),
}

impl Planner<'_> {
    fn plan(&mut self, expression: &Expr) -> Result<Step, PlanError> {
        let id = expression.id;
        match &expression.node {
            Node::Literal(literal) => Ok(Step::Constant(constant(literal))),
            Node::Ident(name) => Ok(self.named(id, name)),
            Node::Select {
                operand,
                field,
                test,
            } => self.select(operand, field, *test),
            Node::Call {
                target,
                function,
                args,
            } => self.call(id, target.as_deref(), function, args),
            Node::List { elements, optional } => self.list(elements, optional),
            Node::Map(entries) => self.map(entries),
            Node::Struct { name, entries } => self.structure(name, entries),
            Node::Comprehension(comprehension) => self.fold(comprehension),
        }
    }

    fn named(&self, id: Id, name: &Arc<str>) -> Step {
        let seen = self.names.iter().rev().find(|(known, _)| known == name);
        if let (None, Type::Meta(of)) = (seen, self.program.type_of(id)) {
            return Step::Constant(Value::text_type(of.name()));
        }
        let root = match seen {
            Some((_, Place::Slot(slot))) => Root::Slot(*slot),
            Some((_, Place::Accumulator(slot))) => Root::Accumulator {
                slot: *slot,
                take: false,
            },
            None => Root::Variable(name.clone()),
        };
        attribute(root)
    }

    fn select(&mut self, operand: &Expr, field: &Arc<str>, test: bool) -> Result<Step, PlanError> {
        let operand = self.plan(operand)?;
        let qualifier = Qualifier {
            by: By::Name(field.clone()),
            optional: false,
            test,
        };
        Ok(qualified(operand, qualifier))
    }

    fn call(
        &mut self,
        id: Id,
        target: Option<&Expr>,
        function: &Arc<str>,
        args: &[Expr],
    ) -> Result<Step, PlanError> {
        let mut steps = Vec::with_capacity(args.len() + 1);
        for argument in target.into_iter().chain(args) {
            steps.push(self.plan(argument)?);
        }
        self.operator(id, function.clone(), steps)
    }

    fn operator(
        &mut self,
        id: Id,
        function: Arc<str>,
        steps: Vec<Step>,
    ) -> Result<Step, PlanError> {
        let overload = match self.program.overloads(id) {
            [overload] => Some(*overload),
            _ => None,
        };
        match (&*function, steps.len()) {
            ("_&&_", _) => Ok(Step::And(steps.into())),
            ("_||_", _) => Ok(Step::Or(steps.into())),
            ("_?_:_", 3) => Ok(choice(steps)),
            ("_==_", 2) => Ok(Step::Equal(pair(steps))),
            ("_!=_", 2) => Ok(Step::Differ(pair(steps))),
            ("_[_]", 2) => Ok(indexed(steps, false)),
            ("_[?_]" | "_?._", 2) => Ok(indexed(steps, true)),
            ("@not_strictly_false" | "__not_strictly_false__", 1) => {
                Ok(Step::NotFalse(Box::new(first(steps))))
            }
            ("or", 2) => Ok(Step::OrElse(pair(steps))),
            ("orValue", 2) => Ok(Step::OrValue(pair(steps))),
            ("@in" | "_in_" | "in", 2) if overload == Some("in_list") => {
                membership(function, steps)
            }
            _ => bind(function, overload, steps),
        }
    }

    fn list(&mut self, elements: &[Expr], optional: &[usize]) -> Result<Step, PlanError> {
        let mut made = Vec::with_capacity(elements.len());
        for (at, element) in elements.iter().enumerate() {
            made.push((self.plan(element)?, optional.contains(&at)));
        }
        let constant = made.iter().all(|(element, _)| is_constant(element));
        let step = Step::List(Box::new(List { elements: made }));
        if constant { compute(step) } else { Ok(step) }
    }

    fn map(&mut self, entries: &[crate::ast::Entry]) -> Result<Step, PlanError> {
        let mut made = Vec::with_capacity(entries.len());
        for entry in entries {
            made.push(self.entry(entry)?);
        }
        let constant = |entry: &Entry| is_constant(&entry.key) && is_constant(&entry.value);
        let constant = made.iter().all(constant);
        let step = Step::Map(Box::new(Map { entries: made }));
        if constant { compute(step) } else { Ok(step) }
    }

    fn entry(&mut self, entry: &crate::ast::Entry) -> Result<Entry, PlanError> {
        Ok(Entry {
            key: self.plan(&entry.key)?,
            value: self.plan(&entry.value)?,
            optional: entry.optional,
        })
    }

    fn structure(
        &mut self,
        name: &Arc<str>,
        entries: &[crate::ast::Entry],
    ) -> Result<Step, PlanError> {
        let mut fields = Vec::with_capacity(entries.len());
        for entry in entries {
            let field: Arc<str> = match &entry.key.node {
                Node::Literal(Literal::String(field)) | Node::Ident(field) => field.clone(),
                _ => return Err(PlanError::Function(name.to_string())),
            };
            fields.push((field, self.entry(entry)?));
        }
        Ok(Step::Struct(Box::new(Structure {
            name: name.clone(),
            fields,
        })))
    }

    /// Plans a loop. The range and the initial value are outside its scope; the result sees only
    /// the accumulator.
    fn fold(&mut self, fold: &Comprehension) -> Result<Step, PlanError> {
        let range = self.plan(&fold.range)?;
        let init = self.plan(&fold.init)?;
        let accumulator = self.slot();
        let first = self.slot();
        let second = fold.second.as_ref().map(|_| self.slot());
        let outside = self.names.len();
        // An accumulator hides a variable of the same name.
        if let (Some(name), Some(slot)) = (&fold.second, second) {
            self.names.push((name.clone(), Place::Slot(slot)));
        }
        self.names.push((fold.variable.clone(), Place::Slot(first)));
        let place = Place::Accumulator(accumulator);
        self.names.push((fold.accumulator.clone(), place));
        let condition = self.plan(&fold.condition);
        let step = self.plan(&fold.step);
        self.names.truncate(outside);
        self.names.push((fold.accumulator.clone(), place));
        let result = self.plan(&fold.result);
        self.names.truncate(outside);
        let mut step = step?;
        // A name with `@` cannot occur in a source text, so that no other expression uses it.
        if fold.accumulator.starts_with('@') {
            let_grow(&mut step, accumulator);
        }
        Ok(Step::Fold(Box::new(Fold {
            range,
            first,
            second,
            accumulator,
            init,
            condition: condition?,
            step,
            result: result?,
        })))
    }

    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }
}

/// Marks `accumulator + [x]` as a step that appends in place, where it is the whole step.
fn let_grow(step: &mut Step, accumulator: usize) {
    match step {
        Step::Call(call) if matches!(&*call.function, "_+_" | "cel.@mapInsert") => {
            let Some(Step::Attribute(attribute)) = call.arguments.first_mut() else {
                return;
            };
            match &mut attribute.root {
                Root::Accumulator { slot, take }
                    if *slot == accumulator && attribute.qualifiers.is_empty() =>
                {
                    *take = true;
                }
                _ => return,
            }
            if let Some(element) = single(call.arguments.get_mut(1)) {
                let root = Root::Accumulator {
                    slot: accumulator,
                    take: true,
                };
                let accumulator = Attribute {
                    root,
                    qualifiers: Vec::new(),
                    test: false,
                };
                *step = Step::Grow(Box::new(Grow {
                    accumulator,
                    element,
                }));
            }
        }
        Step::Attribute(attribute) if attribute.qualifiers.is_empty() => {
            if let Root::Choice {
                then, otherwise, ..
            } = &mut attribute.root
            {
                let_grow(then, accumulator);
                let_grow(otherwise, accumulator);
            }
        }
        _ => {}
    }
}

/// Takes the element out of a list with one element.
fn single(step: Option<&mut Step>) -> Option<Step> {
    let Some(Step::List(list)) = step else {
        return None;
    };
    match &mut list.elements[..] {
        [(element, false)] => Some(std::mem::replace(element, Step::Constant(Value::Null))),
        _ => None,
    }
}

fn attribute(root: Root) -> Step {
    Step::Attribute(Box::new(Attribute {
        root,
        qualifiers: Vec::new(),
        test: false,
    }))
}

/// Extends an attribute by a qualifier, or makes an attribute of another step.
fn qualified(operand: Step, qualifier: Qualifier) -> Step {
    let mut attribute = match operand {
        Step::Attribute(attribute) if !attribute.test => attribute,
        other => Box::new(Attribute {
            root: Root::Value(other),
            qualifiers: Vec::new(),
            test: false,
        }),
    };
    attribute.test = qualifier.test;
    attribute.qualifiers.push(qualifier);
    Step::Attribute(attribute)
}

fn indexed(steps: Vec<Step>, optional: bool) -> Step {
    let [operand, key] = *pair(steps);
    let by = match key {
        Step::Constant(Value::String(name)) => By::Name((&*name).into()),
        Step::Constant(key) => By::Constant(key),
        key => By::Step(key),
    };
    qualified(
        operand,
        Qualifier {
            by,
            optional,
            test: false,
        },
    )
}

fn choice(steps: Vec<Step>) -> Step {
    let mut steps = steps.into_iter();
    let mut next = || steps.next().unwrap_or(Step::Constant(Value::Null));
    let (condition, then, otherwise) = (next(), next(), next());
    attribute(Root::Choice {
        condition,
        then,
        otherwise,
    })
}

/// Binds a call to its function, and evaluates it at once if it converts a constant.
fn bind(function: Arc<str>, overload: Option<&str>, steps: Vec<Step>) -> Result<Step, PlanError> {
    let unknown = || PlanError::Function(function.to_string());
    let mut body = library::body(&function, steps.len(), overload).ok_or_else(unknown)?;
    let mut stops_at_first_error = library::stops_at_first_error(&function, overload);
    // Constant patterns are compiled once.
    if let ("matches" | "find" | "findAll", Some(Step::Constant(Value::String(pattern)))) =
        (&*function, steps.get(1))
    {
        body = library::with_pattern(&function, pattern)?;
        stops_at_first_error = true;
    }
    let converts = library::converts(&function) && steps.len() == 1 && is_constant(&steps[0]);
    let step = Step::Call(Box::new(Call {
        price: library::price(&function, overload),
        function,
        body,
        arguments: steps.into(),
        stops_at_first_error,
    }));
    if converts { compute(step) } else { Ok(step) }
}

/// Plans `x in [...]` with constant elements.
fn membership(function: Arc<str>, steps: Vec<Step>) -> Result<Step, PlanError> {
    let Some(Step::Constant(Value::List(list))) = steps.get(1) else {
        return bind(function, Some("in_list"), steps);
    };
    if list.is_empty() {
        return Ok(Step::Constant(Value::Bool(false)));
    }
    let mut set = BTreeSet::new();
    for element in list.clone().iter() {
        let Some(key) = Key::of(&element?) else {
            return bind(function, Some("in_list"), steps);
        };
        set.extend(alike(key));
    }
    let value = first(steps);
    Ok(Step::Member(Box::new(Member { value, set })))
}

/// Returns the same number as keys of other types.
fn alike(key: Key<'static>) -> Vec<Key<'static>> {
    let plain = |key: Option<Plain>| key.map(Key::Plain);
    let others = match &key {
        Key::Plain(Plain::Int(value)) => [
            plain(Some(Plain::Double(*value as f64))),
            plain(u64::try_from(*value).ok().map(Plain::Uint)),
        ],
        Key::Plain(Plain::Uint(value)) => [
            plain(Some(Plain::Double(*value as f64))),
            plain(i64::try_from(*value).ok().map(Plain::Int)),
        ],
        Key::Plain(Plain::Double(value)) => {
            let int = double_to_int(*value).filter(|int| *int as f64 == *value);
            let uint = double_to_uint(*value).filter(|uint| *uint as f64 == *value);
            [plain(int.map(Plain::Int)), plain(uint.map(Plain::Uint))]
        }
        _ => [None, None],
    };
    others.into_iter().flatten().chain([key]).collect()
}

/// Evaluates a step that needs no variables.
fn compute(step: Step) -> Result<Step, PlanError> {
    let plan = Plan {
        root: step,
        slots: 0,
        depth: 0,
    };
    let value = evaluate(&plan, &Activation::new(), Budget::CALL).result?;
    Ok(Step::Constant(own(value)?))
}

/// Copies a constant, so that it borrows nothing.
fn own(value: Value<'_>) -> Result<Value<'static>, EvalError> {
    Ok(match value {
        Value::Null => Value::Null,
        Value::Bool(value) => Value::Bool(value),
        Value::Int(value) => Value::Int(value),
        Value::Uint(value) => Value::Uint(value),
        Value::Double(value) => Value::Double(value),
        Value::String(text) => Value::text(Arc::<str>::from(&*text)),
        Value::Type(name) => Value::Type(Text::Shared((&*name).into())),
        Value::Bytes(bytes) => Value::Bytes(bytes),
        Value::Timestamp(time) => Value::Timestamp(time),
        Value::Duration(duration) => Value::Duration(duration),
        Value::Optional(held) => match held {
            Some(value) => Value::some(own((*value).clone())?),
            None => Value::NONE,
        },
        Value::List(list) => {
            let values = list.iter().map(|value| own(value?));
            values.collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Map(map) => {
            let mut entries = crate::value::Entries::default();
            for key in map.keys() {
                let found = map.find(&key);
                let key = own(key)?;
                if let (Some(value), Some(key)) = (found, Key::of(&key)) {
                    entries.insert(key, own(value?)?);
                }
            }
            Value::Map(entries.into())
        }
        // Constants of these types cannot be written in an expression.
        Value::Struct(_) | Value::Opaque(_) => return Err(EvalError::no_such_overload()),
    })
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::text(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
    }
}

fn is_constant(step: &Step) -> bool {
    matches!(step, Step::Constant(_))
}

fn pair(steps: Vec<Step>) -> Box<[Step; 2]> {
    let mut steps = steps.into_iter();
    let mut next = || steps.next().unwrap_or(Step::Constant(Value::Null));
    Box::new([next(), next()])
}

fn first(steps: Vec<Step>) -> Step {
    let mut steps = steps.into_iter();
    steps.next().unwrap_or(Step::Constant(Value::Null))
}
