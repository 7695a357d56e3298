//! Checks of numbers: range, bounds and factors.

use insula_kinds::FieldError;
use serde_json::Number;

use super::path::{Path, Style};
use super::print;
use super::value::Validator;
use crate::structural::{Checks, Node, Type};

/// A number as Go's decoder reads it: a float if it has a decimal point or an exponent, or
/// exceeds 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    /// Converts a JSON number.
    pub fn of(number: &Number) -> Self {
        match number.as_i64() {
            Some(int) => Self::Int(int),
            None => Self::Float(number.as_f64().unwrap_or_default()),
        }
    }

    /// The value as a float.
    pub fn float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }

    fn print(self) -> String {
        match self {
            Self::Int(int) => int.to_string(),
            Self::Float(float) => print::float(float),
        }
    }
}

/// The range of a numeric format.
#[derive(Clone, Copy, PartialEq)]
enum Range {
    All,
    Int64,
    Int32,
    Float32,
}

impl Range {
    fn of(node: &Node) -> Self {
        let format = node.checks.as_deref().and_then(|it| it.format.as_ref());
        let format = format.map_or("", |format| format.name());
        match (node.kind.filter(|_| !node.int_or_string), format) {
            (Some(Type::Integer), "int32") => Self::Int32,
            (Some(Type::Integer), _) => Self::Int64,
            (Some(Type::Number), "float") => Self::Float32,
            _ => Self::All,
        }
    }

    fn has(self, number: Num) -> bool {
        let whole = |float: f64| float.fract() == 0.0;
        match (self, number) {
            (Self::All, _) | (Self::Int64, Num::Int(_)) => true,
            (Self::Int64, Num::Float(float)) => whole(float) && is_int64(float),
            (Self::Int32, Num::Int(int)) => i32::try_from(int).is_ok(),
            (Self::Int32, Num::Float(float)) => {
                whole(float) && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float)
            }
            (Self::Float32, number) => (number.float() as f32).is_finite(),
        }
    }
}

impl Validator<'_> {
    /// Validates a number, and returns the number of passed checks.
    pub(super) fn number(
        &mut self,
        node: &Node,
        number: Num,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> u64 {
        let range = Range::of(node);
        if !range.has(number) {
            self.push(errors, || self.out_of_range(node, "Checked", path));
        }
        if let Some(checks) = node.checks.as_deref() {
            let bounds = Bounds {
                node,
                range,
                checks,
            };
            self.factor(&bounds, number, path, errors);
            self.bound(&bounds, Side::Minimum, number, path, errors);
            self.bound(&bounds, Side::Maximum, number, path, errors);
        }
        2
    }

    fn factor(
        &mut self,
        bounds: &Bounds<'_>,
        number: Num,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let Some(factor) = bounds.checks.multiple_of else {
            return;
        };
        let native = self.in_range(bounds, factor, "MultipleOf", path, errors);
        let (factor, multiple) = match number {
            Num::Int(int) if native => {
                let factor = truncate(factor);
                let multiple = factor > 0 && int.wrapping_rem(factor) == 0;
                (Num::Int(factor), multiple)
            }
            number => (Num::Float(factor), is_multiple(number.float(), factor)),
        };
        let shown = factor.print();
        if factor.float() <= 0.0 {
            let name = path.print(Style::Schema);
            let text = format!("factor MultipleOf declared for {name} must be positive: {shown}");
            self.push(errors, || {
                FieldError::invalid_printed(self.field(path), &shown, &text)
            });
        } else if !multiple {
            let number = if native {
                number
            } else {
                Num::Float(number.float())
            };
            self.out_of_bound(number, &format!("a multiple of {shown}"), path, errors);
        }
    }

    fn bound(
        &mut self,
        bounds: &Bounds<'_>,
        side: Side,
        number: Num,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let (Some(bound), exclusive) = bounds.at(side) else {
            return;
        };
        let native = self.in_range(bounds, bound, side.name(), path, errors);
        let (order, shown) = match number {
            Num::Int(int) if native => {
                let bound = truncate(bound);
                (int.partial_cmp(&bound), bound.to_string())
            }
            number => (number.float().partial_cmp(&bound), print::float(bound)),
        };
        let Some(order) = order else { return };
        if order == side.beyond() || (exclusive && order.is_eq()) {
            let number = if native {
                number
            } else {
                Num::Float(number.float())
            };
            let wanted = match (side, exclusive) {
                (Side::Maximum, true) => format!("less than {shown}"),
                (Side::Maximum, false) => format!("less than or equal to {shown}"),
                (Side::Minimum, true) => format!("greater than {shown}"),
                (Side::Minimum, false) => format!("greater than or equal to {shown}"),
            };
            self.out_of_bound(number, &wanted, path, errors);
        }
    }

    /// Checks that the bound itself is in the range of the type. If not, that is an error
    /// regardless of the value.
    fn in_range(
        &mut self,
        bounds: &Bounds<'_>,
        bound: f64,
        what: &str,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) -> bool {
        let fits = bounds.range.has(Num::Float(bound));
        if !fits {
            self.push(errors, || self.out_of_range(bounds.node, what, path));
        }
        fits
    }

    fn out_of_range(&self, node: &Node, what: &str, path: &Path<'_>) -> FieldError {
        let kind = node.types();
        let format = node.checks.as_deref().and_then(|it| it.format.as_ref());
        let format = match format {
            Some(format) => format!("with format {}", format.name()),
            None => "(default format)".to_owned(),
        };
        let name = path.print(Style::Schema);
        self.general(&format!(
            "{what} value must be of type {kind} {format} in {name}"
        ))
    }

    fn out_of_bound(
        &mut self,
        number: Num,
        wanted: &str,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        self.push(errors, || {
            let name = path.print(Style::Schema);
            let detail = format!("{name} in body should be {wanted}");
            FieldError::invalid_printed(self.field(path), &number.print(), &detail)
        });
    }
}

struct Bounds<'a> {
    node: &'a Node,
    range: Range,
    checks: &'a Checks,
}

#[derive(Clone, Copy)]
enum Side {
    Minimum,
    Maximum,
}

impl Bounds<'_> {
    fn at(&self, side: Side) -> (Option<f64>, bool) {
        match side {
            Side::Minimum => (self.checks.minimum, self.checks.exclusive_minimum),
            Side::Maximum => (self.checks.maximum, self.checks.exclusive_maximum),
        }
    }
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Minimum => "Minimum boundary",
            Self::Maximum => "Maximum boundary",
        }
    }

    fn beyond(self) -> std::cmp::Ordering {
        match self {
            Self::Minimum => std::cmp::Ordering::Less,
            Self::Maximum => std::cmp::Ordering::Greater,
        }
    }
}

fn is_int64(float: f64) -> bool {
    const END: f64 = 9_223_372_036_854_775_808.0;
    (-END..END).contains(&float)
}

/// Converts a float to an integer as Go does: out-of-range values become the minimum.
pub(super) fn truncate(float: f64) -> i64 {
    if is_int64(float) {
        float as i64
    } else {
        i64::MIN
    }
}

fn is_multiple(number: f64, factor: f64) -> bool {
    let times = if factor < 1.0 {
        1.0 / factor * number
    } else {
        number / factor
    };
    is_whole(times)
}

/// Reports whether a float is integral, within Kubernetes' tolerance.
pub(super) fn is_whole(float: f64) -> bool {
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    const NEAR: f64 = 1e-9;
    if !(-LARGEST - 1.0..=LARGEST).contains(&float) {
        return false;
    }
    // Go converts to an unsigned number, via a signed one if negative.
    let whole = if float < 0.0 {
        (float as i64 as u64) as f64
    } else {
        float as u64 as f64
    };
    if float == whole || float == float.trunc() {
        return true;
    }
    let apart = (float - whole).abs();
    if whole == 0.0 {
        return false;
    }
    apart / (float.abs() + whole.abs()).min(f64::MAX) < NEAR
}
