//! Compilation and cost estimation of `x-kubernetes-validations` expressions.

mod budget;

pub(super) use budget::Budget;

use insula_cel::declare::{self, Declaration};
use insula_cel::{
    Environment, Extent, Issues, OldSelf, Program, Type, Within, estimate, identifier,
};
use insula_kinds::FieldError;

use super::place::{Place, Report};
use super::print;
use super::props::{Props, SchemaOrBool};

const RULES: &str = "x-kubernetes-validations";
const UNDECLARED: &str = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";

/// The context that the rules of a schema inherit from the schemas above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cel<'a> {
    /// The cost of all rules of the whole schema.
    budget: &'a Budget,
    /// How often values of the schema can occur in an object; `None` if unbounded.
    cardinality: Option<u64>,
    types: Types<'a>,
}

/// The CEL types of the schema's values.
#[derive(Clone, Copy, Debug)]
enum Types<'a> {
    /// Not needed so far: no rule here or above.
    NotNeeded { root: bool },
    /// Needed by rules above, but not determined by the schema above.
    Undeclared,
    /// Known.
    Known(&'a Type, &'a Extent),
    /// Cannot be determined.
    Unknown,
}

impl<'a> Cel<'a> {
    /// The context of a whole schema.
    pub fn root(budget: &'a Budget) -> Self {
        Self {
            budget,
            cardinality: Some(1),
            types: Types::NotNeeded { root: true },
        }
    }

    /// Declares the types of this schema, if they are needed and not yet known.
    pub fn declare(&self, schema: Props<'_>) -> Option<Declaration> {
        let root = match self.types {
            Types::NotNeeded { root } if !schema.list(RULES).is_empty() => root,
            Types::Undeclared => false,
            _ => return None,
        };
        if !self.budget.reserve_types(schema) {
            None
        } else if root {
            declare::root(schema.value(), "selfType")
        } else {
            declare::of(schema.value(), "selfType")
        }
    }

    /// The context with these declarations.
    pub fn with<'b>(&'b self, schema: Props<'_>, declared: Option<&'b Declaration>) -> Cel<'b> {
        let asked = !schema.list(RULES).is_empty();
        let types = match (self.types, declared) {
            (_, Some(declared)) => Types::Known(&declared.of, &declared.extent),
            (Types::Undeclared, None) => Types::Unknown,
            (Types::NotNeeded { .. }, None) if asked => Types::Unknown,
            (types, None) => types,
        };
        Cel { types, ..*self }
    }

    /// The context of a property.
    pub fn property<'b>(&'b self, of: Props<'_>, name: &str) -> Cel<'b> {
        self.below(of, |of, extent| {
            let (Type::Object(object), Within::Fields(extents)) = (of, &extent.within) else {
                return None;
            };
            let name = identifier::escape(name)?;
            Some((&object.fields.get(&name)?.of, extents.get(&name)?))
        })
    }

    /// The context of a map's values.
    pub fn value<'b>(&'b self, of: Props<'_>) -> Cel<'b> {
        self.below(of, |of, extent| match (of, &extent.within) {
            (Type::Map(_, of), Within::Properties(extent)) => Some((of, extent)),
            _ => None,
        })
    }

    /// The context of a list's items.
    pub fn item<'b>(&'b self, of: Props<'_>) -> Cel<'b> {
        self.below(of, |of, extent| match (of, &extent.within) {
            (Type::List(of), Within::Items(extent)) => Some((of, extent)),
            _ => None,
        })
    }

    fn below<'b>(
        &'b self,
        of: Props<'_>,
        find: impl FnOnce(&'b Type, &'b Extent) -> Option<(&'b Type, &'b Extent)>,
    ) -> Cel<'b> {
        let most = most_elements(of);
        let cardinality = self.cardinality.zip(most);
        Cel {
            budget: self.budget,
            cardinality: cardinality.map(|(times, most)| times.saturating_mul(most)),
            types: match self.types {
                Types::Known(of, extent) => find(of, extent)
                    .map_or(Types::Undeclared, |(of, extent)| Types::Known(of, extent)),
                Types::NotNeeded { .. } => Types::NotNeeded { root: false },
                Types::Undeclared | Types::Unknown => Types::Unknown,
            },
        }
    }

    /// Validates the expressions of a schema's rules. `uncorrelatable` is the outermost enclosing
    /// node with values that cannot be correlated between the old and the new object.
    pub fn validate(
        &self,
        schema: Props<'_>,
        place: Place<'_>,
        uncorrelatable: Option<Place<'_>>,
        report: &mut Report,
    ) {
        if schema.list(RULES).is_empty() {
            return;
        }
        let at = place.field(RULES);
        let Types::Known(of, extent) = self.types else {
            return report.add(at, |field| FieldError::internal(field, UNDECLARED));
        };
        for (index, rule) in schema.children(RULES).enumerate() {
            let rule = Rule {
                of,
                extent,
                rule,
                place: at.index(index),
            };
            rule.validate(self, uncorrelatable, report);
        }
    }
}

/// A rule and the values it applies to.
struct Rule<'a> {
    of: &'a Type,
    extent: &'a Extent,
    rule: Props<'a>,
    place: Place<'a>,
}

impl Rule<'_> {
    fn validate(&self, cel: &Cel<'_>, uncorrelatable: Option<Place<'_>>, report: &mut Report) {
        let environment = Environment::rule(self.of, self.old_self());
        let compiled = Program::compile(&environment, self.rule.text("rule"));
        let fault = fault(&compiled, &Type::Bool);
        let (place, mut cost) = (self.place.field("rule"), 0);
        if let (Ok(program), None) = (&compiled, &fault) {
            let times = cel.cardinality.unwrap_or_else(|| self.extent.cardinality());
            cost = estimate(program, Some(self.extent))
                .max
                .saturating_mul(times);
        }
        cel.budget.charge("rule", cost, place, report);
        if let Some(fault) = &fault {
            let detail = match fault {
                Fault::Compile(why) => format!("compilation failed: {why}"),
                Fault::Type => "cel expression must evaluate to a bool".to_owned(),
                Fault::Program(why) => format!("program instantiation failed: {why}"),
            };
            report.invalid_as(place, || print::rule(self.rule), &detail);
        } else {
            self.validate_message(&environment, cel, report);
        }
        let typed = !matches!(fault, Some(Fault::Compile(_) | Fault::Type));
        let uses_old = typed && compiled.is_ok_and(|program| program.uses("oldSelf"));
        self.validate_old_self(uses_old, uncorrelatable, report);
    }

    fn old_self(&self) -> OldSelf {
        if self.rule.flag("optionalOldSelf") {
            OldSelf::Optional
        } else {
            OldSelf::Required
        }
    }

    fn validate_message(&self, environment: &Environment, cel: &Cel<'_>, report: &mut Report) {
        let expression = self.rule.text("messageExpression");
        if expression.is_empty() {
            return;
        }
        let place = self.place.field("messageExpression");
        let compiled = Program::compile(environment, expression);
        let detail = match (fault(&compiled, &Type::String), compiled) {
            (None, Ok(program)) => {
                let cost = estimate(&program, Some(self.extent)).max;
                return cel.budget.charge("messageExpression", cost, place, report);
            }
            (Some(Fault::Compile(why)), _) => {
                format!("messageExpression compilation failed: {why}")
            }
            (Some(Fault::Program(why)), _) => {
                format!("messageExpression instantiation failed: {why}")
            }
            _ => "messageExpression must evaluate to a string".to_owned(),
        };
        report.invalid_as(place, || print::rule(self.rule), &detail);
    }

    /// `oldSelf` can only be used where old values can be correlated with new ones.
    fn validate_old_self(
        &self,
        used: bool,
        uncorrelatable: Option<Place<'_>>,
        report: &mut Report,
    ) {
        if let Some(above) = uncorrelatable.filter(|_| used) {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {above}"
            );
            let rule = self.rule.text("rule");
            report.invalid_text(self.place.field("rule"), rule, &detail);
        } else if let Some(optional) = self.rule.get("optionalOldSelf").filter(|_| !used) {
            let detail = "may not be set if oldSelf is not used in rule";
            report.invalid(self.place.field("optionalOldSelf"), optional, detail);
        }
    }
}

/// Why an expression cannot be used.
enum Fault {
    Compile(String),
    Type,
    Program(String),
}

fn fault(compiled: &Result<Program, Issues>, wanted: &Type) -> Option<Fault> {
    match compiled {
        Err(issues) => Some(Fault::Compile(issues.to_string())),
        Ok(program) if program.output() != wanted => Some(Fault::Type),
        Ok(program) => program.defect().map(|why| Fault::Program(why.to_owned())),
    }
}

/// The maximum number of values per child schema in an object, map or list; `None` if
/// unbounded.
fn most_elements(schema: Props<'_>) -> Option<u64> {
    let bound = |name| schema.int(name).map(|most| most.max(0).unsigned_abs());
    match (
        schema.text("type"),
        schema.schema_or_bool("additionalProperties"),
    ) {
        ("object", SchemaOrBool::None) => Some(1),
        ("object", _) => bound("maxProperties"),
        ("array", _) => bound("maxItems"),
        _ => Some(1),
    }
}
