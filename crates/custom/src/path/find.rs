//! Evaluation of paths.

use std::borrow::Cow;
use std::cmp::Ordering;

use insula_kinds::{Object, Value};

use super::{End, Filter, Operator, Slice, Step};

/// Maximum number of intermediate values. Several recursive descents in one path would find
/// the same values in a deep object over and over.
const MAX_VALUES: usize = 4096;

/// Maximum nesting of an object. The JSON decoder's limit is lower.
const MAX_DEPTH: usize = 512;

/// The path does not fit the object.
struct Misfit;

type Found<'a> = Result<Vec<At<'a>>, Misfit>;

/// A value in the object, or a constant of the path.
#[derive(Clone, Copy)]
enum At<'a> {
    Root(&'a Object),
    Value(&'a Value),
}

/// Returns the first value that the steps find.
pub(super) fn first<'a>(steps: &'a [Step], object: &'a Object) -> Option<Cow<'a, Value>> {
    let found = walk(steps, vec![At::Root(object)]).ok()?;
    found.first().map(|at| match at {
        At::Root(object) => Cow::Owned(Value::Object((*object).clone())),
        At::Value(value) => Cow::Borrowed(*value),
    })
}

fn walk<'a>(steps: &'a [Step], mut found: Vec<At<'a>>) -> Found<'a> {
    for step in steps {
        found = take(step, found)?;
        if found.len() > MAX_VALUES {
            return Err(Misfit);
        }
    }
    Ok(found)
}

fn take<'a>(step: &'a Step, found: Vec<At<'a>>) -> Found<'a> {
    match step {
        Step::Member(name) => {
            let members = found.iter().filter_map(|at| at.object()?.get(name));
            Ok(members.map(At::Value).collect())
        }
        Step::Each => Ok(found.iter().flat_map(|at| at.children()).collect()),
        Step::Descend => {
            let mut all = Vec::new();
            for at in found {
                descend(at, &mut all, 0)?;
            }
            Ok(all)
        }
        Step::Slice(slice) => elements(&found, slice),
        Step::Union(paths) => {
            let mut all = Vec::new();
            for path in paths {
                all.extend(walk(path, found.clone())?);
            }
            Ok(all)
        }
        Step::Filter(filter) => filtered(&found, filter),
        Step::Scalar(value) => Ok(vec![At::Value(value); found.len()]),
        Step::Text(value) => Ok(vec![At::Value(value)]),
        Step::Unknown => Err(Misfit),
    }
}

impl<'a> At<'a> {
    fn object(self) -> Option<&'a Object> {
        match self {
            Self::Root(object) => Some(object),
            Self::Value(value) => value.as_object(),
        }
    }

    fn list(self) -> Option<&'a [Value]> {
        match self {
            Self::Root(_) => None,
            Self::Value(value) => value.as_array().map(Vec::as_slice),
        }
    }

    fn is_null(self) -> bool {
        matches!(self, Self::Value(Value::Null))
    }

    /// Its fields or elements.
    fn children(self) -> impl Iterator<Item = Self> {
        let members = self
            .object()
            .into_iter()
            .flat_map(|members| members.values());
        let elements = self.list().unwrap_or_default();
        members.chain(elements).map(Self::Value)
    }
}

/// Collects every non-empty container and string, outermost first.
fn descend<'a>(at: At<'a>, all: &mut Vec<At<'a>>, depth: usize) -> Result<(), Misfit> {
    if depth > MAX_DEPTH || all.len() > MAX_VALUES {
        return Err(Misfit);
    }
    let text = matches!(at, At::Value(Value::String(text)) if !text.is_empty());
    if text || at.children().next().is_some() {
        all.push(at);
    }
    at.children()
        .try_for_each(|child| descend(child, all, depth + 1))
}

fn elements<'a>(found: &[At<'a>], slice: &Slice) -> Found<'a> {
    let mut all = Vec::new();
    for at in found.iter().filter(|at| !at.is_null()) {
        let list = at.list().ok_or(Misfit)?;
        let length = i64::try_from(list.len()).map_err(|_| Misfit)?;
        let from_end = |index: i64| {
            if index < 0 {
                index.saturating_add(length)
            } else {
                index
            }
        };
        let from = from_end(slice.from.unwrap_or(0));
        let to = match slice.to {
            End::Open => length,
            End::At(to) => from_end(to),
            End::Next(0) => length,
            End::Next(to) => from_end(to),
        };
        // An empty slice ends the evaluation, even if its bounds are out of range.
        if from == to {
            return Ok(all);
        }
        let within = usize::try_from(from).ok().zip(usize::try_from(to).ok());
        let (from, to) = within
            .filter(|(from, _)| *from < list.len())
            .ok_or(Misfit)?;
        let part = list.get(from..to).ok_or(Misfit)?;
        let by = usize::try_from(slice.by.unwrap_or(1)).map_err(|_| Misfit)?;
        if by == 0 {
            return Err(Misfit);
        }
        all.extend(part.iter().step_by(by).map(At::Value));
    }
    Ok(all)
}

fn filtered<'a>(found: &[At<'a>], filter: &'a Filter) -> Found<'a> {
    let mut all = Vec::new();
    for at in found {
        for element in at.list().ok_or(Misfit)? {
            let element = At::Value(element);
            if holds(filter, element)? {
                all.push(element);
            }
        }
    }
    Ok(all)
}

fn holds(filter: &Filter, element: At<'_>) -> Result<bool, Misfit> {
    let left = walk(&filter.left, vec![element]);
    let Some((operator, right)) = &filter.right else {
        // An existence test that does not fit the element counts as true.
        return Ok(left.map_or(true, |left| !left.is_empty()));
    };
    let Some(left) = only(&left?)? else {
        return Ok(false);
    };
    let right = walk(right, vec![element])?;
    let Some(right) = only(&right)? else {
        return Ok(false);
    };
    compare(left, *operator, right)
}

/// The single value, if any. Several values cannot be compared.
fn only<'a>(found: &[At<'a>]) -> Result<Option<&'a Value>, Misfit> {
    match found {
        [] => Ok(None),
        [At::Value(value)] => Ok(Some(value)),
        _ => Err(Misfit),
    }
}

fn compare(left: &Value, operator: Operator, right: &Value) -> Result<bool, Misfit> {
    let whole = |value: &Value| value.as_i64();
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => match operator {
            Operator::Equal => return Ok(left == right),
            Operator::NotEqual => return Ok(left != right),
            _ => return Err(Misfit),
        },
        (Value::Number(_), Value::Number(_)) => match (whole(left), whole(right)) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
            // Go does not compare integers with floats.
            _ => return Err(Misfit),
        },
        _ => return Err(Misfit),
    };
    let order = order.ok_or(Misfit)?;
    Ok(match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
        Operator::Unknown => return Err(Misfit),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Path;
    use insula_kinds::Object;
    use serde_json::json;

    #[test]
    fn repeated_descents_into_a_deep_object_are_bounded() {
        let mut deep = json!({"a": 1});
        for _ in 0..100 {
            deep = json!({"a": deep});
        }
        let object: Object = serde_json::from_value(deep).unwrap();
        let path = Path::parse("..a..a..a..a..a..a..a..a").unwrap();
        assert_eq!(path.first(&object), None);
        assert!(Path::parse("..a").unwrap().first(&object).is_some());
    }
}
