//! Evaluation of CEL rules for an object.

use std::cell::OnceCell;

use insula_cel::{
    Activation, Budget, EvalError, Evaluation, Map, Plan, Shape, Value as Cel, evaluate,
};
use insula_gotext::quote;
use insula_kinds::field::ErrorType;
use insula_kinds::{FieldError, Object};
use serde_json::Value;

use super::error::shortened;
use super::path::{Path, Step, Style};
use super::value::{MAX_ERRORS, Subject};
use super::{Change, Limits, print, ratchet};
use crate::structural::{Additional, Compiled, Node, NodeId, Rule, Rules, Schema};

/// Cost budget of all rules for one write.
pub(crate) const MAX_WRITE_COST: u64 = 10_000_000;
/// Maximum length of an evaluated message, in bytes.
const MAX_MESSAGE: usize = 5 << 10;

const BUDGET_EXCEEDED: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// Evaluates all rules for a write within the budget, and reports whether that sufficed.
pub(super) fn evaluate_rules(
    schema: &Schema,
    change: &Change<'_>,
    limits: Limits,
    errors: &mut Vec<FieldError>,
    warnings: &mut Vec<String>,
) -> bool {
    let mut evaluator = Evaluator {
        schema,
        left: limits.rules,
        call: limits.call,
        spent: false,
        errors,
        warnings,
    };
    let root = schema.root();
    let new = Subject::Object(change.new);
    let old = change.old.map(Subject::Object);
    let pair = old.map(|old| Pair::new(root, new, old));
    let before = Counterparts {
        own: pair.as_ref(),
        above: None,
    };
    // Evaluation ends here in any case, so `Stop` needs no handling.
    let _ = evaluator.subject(root, new, old, before, &Path::ROOT);
    !evaluator.spent
}

/// Evaluates the rules at a node and below for a value, without ratcheting. Reports whether
/// the budget sufficed.
pub(crate) fn evaluate_value_rules(
    schema: &Schema,
    id: NodeId,
    value: &Value,
    old: Option<&Value>,
    left: &mut u64,
    errors: &mut Vec<FieldError>,
) -> bool {
    let mut evaluator = Evaluator {
        schema,
        left: *left,
        call: Budget::CALL,
        spent: false,
        errors,
        warnings: &mut Vec::new(),
    };
    let before = Counterparts {
        own: None,
        above: None,
    };
    let (new, old) = (Subject::Value(value), old.map(Subject::Value));
    let asked = evaluator.subject(schema.node(id), new, old, before, &Path::ROOT);
    *left = evaluator.left;
    asked.is_ok()
}

struct Evaluator<'a, 'o> {
    schema: &'a Schema,
    /// The remaining budget.
    left: u64,
    /// The budget of a single evaluation.
    call: Budget,
    /// Whether the budget was exceeded.
    spent: bool,
    errors: &'o mut Vec<FieldError>,
    warnings: &'o mut Vec<String>,
}

/// Signals that no further rules are evaluated.
struct Stop;

/// A value and its old counterpart.
struct Pair<'a> {
    node: &'a Node,
    new: Subject<'a>,
    old: Subject<'a>,
    /// Whether they are equal, computed on first use because all items of a list may need it.
    same: OnceCell<bool>,
}

/// The old counterparts for ratcheting: violations of a value that is unchanged, or part of
/// an unchanged one, are tolerated.
#[derive(Clone, Copy)]
struct Counterparts<'p, 'a> {
    own: Option<&'p Pair<'a>>,
    /// The nearest enclosing value with a counterpart.
    above: Option<&'p Pair<'a>>,
}

impl<'a> Evaluator<'a, '_> {
    fn subject(
        &mut self,
        node: &'a Node,
        new: Subject<'a>,
        old: Option<Subject<'a>>,
        before: Counterparts<'_, 'a>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        if !node.ruled || matches!(new, Subject::Value(Value::Null)) {
            return Ok(());
        }
        let old = old.filter(|old| !matches!(old, Subject::Value(Value::Null)));
        if let Some(rules) = node.rules.as_deref() {
            self.rules(node, rules, new, old, before, path)?;
        }
        if let Some(members) = new.members() {
            let old = old.and_then(Subject::members);
            return self.members(node, members, old, before, path);
        }
        let (Some(items), Some(id)) = (new.items(), node.items) else {
            return Ok(());
        };
        let each = self.schema.node(id);
        if !each.ruled {
            return Ok(());
        }
        let counterparts = ratchet::Items::of(node, old.and_then(Subject::value));
        for (index, item) in items.iter().enumerate() {
            let item = Subject::Value(item);
            let old = item.value().and_then(|item| counterparts.find(item));
            let old = old.map(Subject::Value);
            let pair = before.own.and(old).map(|old| Pair::new(each, item, old));
            let place = path.child(Step::Index(index));
            self.subject(each, item, old, before.below(pair.as_ref()), &place)?;
        }
        Ok(())
    }

    fn members(
        &mut self,
        node: &'a Node,
        members: &'a Object,
        old: Option<&'a Object>,
        before: Counterparts<'_, 'a>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        let at = |name: &str| old.and_then(|old| old.get(name)).map(Subject::Value);
        if let Additional::Each(id) = node.additional {
            let each = self.schema.node(id);
            for (name, member) in members.iter().filter(|_| each.ruled) {
                let pair = before.key(self.schema, name);
                let before = before.member(name, pair.as_ref());
                let place = path.child(Step::Key(name));
                self.subject(each, Subject::Value(member), at(name), before, &place)?;
            }
        }
        for (name, member) in members {
            let Some(id) = node.property(name) else {
                continue;
            };
            let property = self.schema.node(id);
            if !property.ruled {
                continue;
            }
            let pair = before.key(self.schema, name);
            let before = before.member(name, pair.as_ref());
            let place = path.child(Step::Property(name));
            self.subject(property, Subject::Value(member), at(name), before, &place)?;
        }
        Ok(())
    }

    fn rules(
        &mut self,
        node: &'a Node,
        rules: &'a Rules,
        new: Subject<'a>,
        old: Option<Subject<'a>>,
        before: Counterparts<'_, 'a>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        if self.left == 0 {
            self.spent = true;
            self.report_rule(node, path, BUDGET_EXCEEDED);
            return Err(Stop);
        }
        let place = Place {
            node,
            rules,
            new,
            old,
            before,
        };
        for rule in &rules.list {
            self.rule(rule, &place, path)?;
        }
        Ok(())
    }

    fn rule(&mut self, rule: &'a Rule, place: &Place<'_, 'a>, path: &Path<'_>) -> Result<(), Stop> {
        let (plan, uses_old) = match &rule.compiled {
            Compiled::Empty => return Ok(()),
            Compiled::Broken(fault) => {
                self.report_rule(place.node, path, &format!("rule compile error: {fault}"));
                return Ok(());
            }
            Compiled::Ready { plan, uses_old } => (plan, *uses_old),
        };
        if uses_old && place.old.is_none() && !rule.optional_old_self {
            return Ok(());
        }
        let old = match rule.optional_old_self {
            true => Some(Old::Optional),
            false => place.old.map(|_| Old::Plain),
        };
        let asked = place.evaluate(plan, old, self.call);
        self.spend(asked.cost).map_err(|Stop| {
            self.report_rule(place.node, path, BUDGET_EXCEEDED);
            Stop
        })?;
        match asked.result {
            Ok(Cel::Bool(true)) => Ok(()),
            Ok(_) => self.failed(rule, uses_old, place, path),
            Err(error) => self.error(rule, &error, place, path),
        }
    }

    /// Reports that a rule could not be evaluated.
    fn error(
        &mut self,
        rule: &Rule,
        error: &EvalError,
        place: &Place<'_, '_>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        let (text, name) = (error.to_string(), &rule.name);
        if *error == EvalError::Cancelled {
            self.spent = true;
            let text = format!(
                "'{text}': no further validation rules will be run due to call cost exceeds \
                 limit for rule: {name}"
            );
            self.report_rule(place.node, path, &text);
            return Err(Stop);
        }
        let text = if text.starts_with("no such overload") {
            format!(
                "'{text}': call arguments did not match a supported operator, function or \
                 macro signature for rule: {name}"
            )
        } else {
            format!("{text} evaluating rule: {name}")
        };
        self.report_rule(place.node, path, &text);
        Ok(())
    }

    /// Reports that a rule evaluated to false.
    fn failed(
        &mut self,
        rule: &'a Rule,
        uses_old: bool,
        place: &Place<'_, 'a>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        let made = match &rule.message_expression {
            None => Ok(None),
            Some((plan, text)) => self.message(plan, text, place),
        };
        let tolerated = !uses_old && place.before.tolerates(self.schema);
        let field = match rule.field_path.is_empty() {
            true => path.field(Style::Field),
            false => path.print_with(Style::Field, &rule.field_path),
        };
        let (error, end) = match made {
            Ok(made) => {
                let detail = made.unwrap_or_else(|| match rule.message.is_empty() {
                    true => format!("failed rule: {}", rule.name),
                    false => rule.message.to_string(),
                });
                (refusal(rule.fault, field, place, &detail), Ok(()))
            }
            Err(fault) => {
                let printed = quote(kind(place.node));
                let error = FieldError::invalid_printed(field, &printed, &fault);
                (error, Err(Stop))
            }
        };
        if !tolerated {
            self.push(error);
        } else if self.warnings.len() < MAX_ERRORS {
            self.warnings.push(shortened(error).to_string());
        }
        end
    }

    /// Evaluates the message expression, and returns the message if it is usable. Fails if the
    /// budget is exhausted.
    fn message(
        &mut self,
        plan: &'a Plan,
        text: &str,
        place: &Place<'_, 'a>,
    ) -> Result<Option<String>, String> {
        let made = place.evaluate(plan, place.old.map(|_| Old::Plain), self.call);
        if self.spend(made.cost).is_err() {
            let fault = "messageExpression evaluation failed due to running out of cost \
                budget, no further validation rules will be run";
            return Err(fault.to_owned());
        }
        match made.result {
            Err(EvalError::Cancelled) => {
                self.spent = true;
                Err(format!(
                    "no further validation rules will be run due to call cost exceeds limit \
                     for messageExpression: {}",
                    quote(text)
                ))
            }
            Err(_) => Ok(None),
            Ok(made) => {
                let made = made.message().unwrap_or_default().trim();
                let fits = !made.is_empty() && made.len() <= MAX_MESSAGE && !made.contains('\n');
                Ok(fits.then(|| made.to_owned()))
            }
        }
    }

    fn spend(&mut self, cost: u64) -> Result<(), Stop> {
        let left = self.left.checked_sub(cost);
        self.spent |= left.is_none();
        self.left = left.ok_or(Stop)?;
        Ok(())
    }

    /// Reports a problem with the rules rather than with the value.
    fn report_rule(&mut self, node: &Node, path: &Path<'_>, text: &str) {
        let field = path.field(Style::Field);
        let printed = quote(kind(node));
        self.push(FieldError::invalid_printed(field, &printed, text));
    }

    fn push(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(shortened(error));
        }
    }
}

/// The value that a rule is evaluated for.
struct Place<'p, 'a> {
    node: &'a Node,
    rules: &'a Rules,
    new: Subject<'a>,
    old: Option<Subject<'a>>,
    before: Counterparts<'p, 'a>,
}

/// How `oldSelf` is passed to an expression.
#[derive(Clone, Copy)]
enum Old {
    Plain,
    Optional,
}

impl<'a> Place<'_, 'a> {
    fn evaluate(&self, plan: &'a Plan, old: Option<Old>, most: Budget) -> Evaluation<'a> {
        let shape = &self.rules.shape;
        let mut activation = self.new.bind("self", shape, Activation::new());
        match (old, self.old) {
            (None, _) | (Some(Old::Plain), None) => {}
            (Some(Old::Plain), Some(before)) => {
                activation = before.bind("oldSelf", shape, activation);
            }
            (Some(Old::Optional), None) => activation = activation.with("oldSelf", Cel::NONE),
            (Some(Old::Optional), Some(before)) => {
                activation = match before.read(shape) {
                    Ok(before) => activation.with("oldSelf", Cel::some(before)),
                    Err(_) => before.bind("oldSelf", shape, activation),
                };
            }
        }
        evaluate(plan, &activation, most)
    }
}

impl<'a> Pair<'a> {
    fn new(node: &'a Node, new: Subject<'a>, old: Subject<'a>) -> Self {
        Self {
            node,
            new,
            old,
            same: OnceCell::new(),
        }
    }

    fn is_same(&self, schema: &Schema) -> bool {
        *self.same.get_or_init(|| match (self.new, self.old) {
            (Subject::Object(new), Subject::Object(old)) => {
                ratchet::same_members(schema, self.node, new, old)
            }
            (Subject::Value(new), Subject::Value(old)) => {
                ratchet::same(schema, self.node, new, old)
            }
            _ => false,
        })
    }
}

impl<'p, 'a> Counterparts<'p, 'a> {
    fn tolerates(self, schema: &Schema) -> bool {
        let pair = self.own.or(self.above);
        pair.is_some_and(|pair| pair.is_same(schema))
    }

    /// A field and its old counterpart.
    fn key(self, schema: &'a Schema, name: &str) -> Option<Pair<'a>> {
        let own = self.own?;
        let (new, old) = (own.new.members()?.get(name)?, own.old.members()?.get(name)?);
        let node = schema.node(own.node.member(name)?);
        Some(Pair::new(node, Subject::Value(new), Subject::Value(old)))
    }

    /// The counterparts one level below.
    fn below<'q>(self, pair: Option<&'q Pair<'a>>) -> Counterparts<'q, 'a>
    where
        'p: 'q,
    {
        Counterparts {
            own: pair,
            above: self.own.or(self.above),
        }
    }

    /// The counterparts of a field. apiVersion and kind of the object cannot change, so they
    /// never count as unchanged.
    fn member<'q>(self, name: &str, pair: Option<&'q Pair<'a>>) -> Counterparts<'q, 'a>
    where
        'p: 'q,
    {
        let top = self.own.is_some() && self.above.is_none();
        if top && matches!(name, "apiVersion" | "kind") {
            return Counterparts {
                own: None,
                above: None,
            };
        }
        self.below(pair)
    }
}

impl<'a> Subject<'a> {
    fn value(self) -> Option<&'a Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Object(_) => None,
        }
    }

    fn members(self) -> Option<&'a Object> {
        match self {
            Self::Value(value) => value.as_object(),
            Self::Object(object) => Some(object),
        }
    }

    fn items(self) -> Option<&'a [Value]> {
        self.value()?.as_array().map(Vec::as_slice)
    }

    /// The CEL representation of the value.
    fn read(self, shape: &'a Shape) -> Result<Cel<'a>, EvalError> {
        match (self, shape) {
            (Self::Value(value), shape) => Cel::of(value, shape),
            (Self::Object(object), Shape::Object(fields)) => {
                Ok(Cel::Map(Map::Object(object, fields)))
            }
            // An accepted definition has an object at its root.
            (Self::Object(_), _) => Err(EvalError::new("invalid data, expected an object")),
        }
    }

    /// Binds the value to a variable. A value without representation is an error when used.
    fn bind(
        self,
        name: &'static str,
        shape: &'a Shape,
        activation: Activation<'a>,
    ) -> Activation<'a> {
        match self {
            Self::Value(value) => activation.with_json(name, value, shape),
            Self::Object(_) => match self.read(shape) {
                Ok(value) => activation.with(name, value),
                Err(_) => activation,
            },
        }
    }
}

/// The error for a failed rule. Objects and lists are not shown.
fn refusal(fault: ErrorType, field: String, place: &Place<'_, '_>, detail: &str) -> FieldError {
    let shown = match place.new {
        Subject::Value(value) if !value.is_object() && !value.is_array() => {
            Some(print::value(value))
        }
        _ => None,
    };
    match (fault, shown) {
        (ErrorType::Forbidden, _) => FieldError::forbidden(field, detail),
        (ErrorType::Required, _) => FieldError::required(field, detail),
        (ErrorType::Duplicate, Some(shown)) => FieldError::duplicate_printed(field, &shown),
        (ErrorType::Duplicate, None) => FieldError {
            error_type: fault,
            field,
            body: "Duplicate value".to_owned(),
        },
        (_, Some(shown)) => FieldError::invalid_printed(field, &shown, detail),
        (_, None) => FieldError::invalid_without_value(field, detail),
    }
}

fn kind(node: &Node) -> &'static str {
    node.kind.map_or("", |kind| kind.name())
}
