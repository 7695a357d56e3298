//! The functions of lists.

use std::cmp::Ordering;

use super::{Body, Scope, no_overload, strings};
use crate::error::EvalError;
use crate::value::{Duration, List, Outcome, Value};

/// The maximum length of a list that a function creates.
const MAX_LIST_LENGTH: usize = 1_000_000;

pub(super) fn body(function: &str, arguments: usize) -> Option<Body> {
    Some(match (function, arguments) {
        ("isSorted", 1) => Body::One(is_sorted),
        ("min", 1) => Body::One(|_, list| extreme("min", list, Ordering::Greater)),
        ("max", 1) => Body::One(|_, list| extreme("max", list, Ordering::Less)),
        ("indexOf", 2) => Body::Two(|_, one, two| index_of("indexOf", vec![one, two])),
        ("indexOf", 3) => Body::Many(|_, arguments| index_of("indexOf", arguments)),
        ("lastIndexOf", 2) => Body::Two(|_, one, two| index_of("lastIndexOf", vec![one, two])),
        ("lastIndexOf", 3) => Body::Many(|_, arguments| index_of("lastIndexOf", arguments)),
        ("slice", 3) => Body::Many(slice),
        ("flatten", 1) => Body::One(|scope, list| flatten(scope, list, None)),
        ("flatten", 2) => Body::Two(|scope, list, depth| flatten(scope, list, Some(depth))),
        ("sort", 1) => Body::One(|_, list| sort(list.clone(), list)),
        ("@sortByAssociatedKeys", 2) => Body::Two(|_, list, keys| sort(list, keys)),
        ("lists.range", 1) => Body::One(range),
        ("reverse", 1) => Body::One(reverse),
        ("distinct", 1) => Body::One(distinct),
        _ => return None,
    })
}

/// Returns the elements of a list, if the first is of a type that the function accepts.
fn elements<'a>(
    function: &str,
    value: &Value<'a>,
    takes: fn(&Value<'a>) -> bool,
) -> Result<Vec<Value<'a>>, EvalError> {
    let Value::List(list) = value else {
        return Err(no_overload(function, &[value]));
    };
    match list.get(0) {
        Some(Ok(first)) if !takes(&first) => Err(no_overload(function, &[value])),
        _ => list.iter().collect(),
    }
}

fn is_sorted<'a>(_: &mut Scope, list: Value<'a>) -> Outcome<'a> {
    let values = elements("isSorted", &list, Value::is_ordered)?;
    if !values.iter().all(Value::is_ordered) {
        return Err(EvalError::no_such_overload());
    }
    // Values that cannot be compared are not in the wrong order.
    let wrong = |pair: &[Value<'_>]| pair[0].order(&pair[1]) == Ok(Ordering::Greater);
    Ok(Value::Bool(!values.windows(2).any(wrong)))
}

/// Returns `sum` with the zero of the overload's type for empty lists.
pub(super) fn sum_of(overload: Option<&str>) -> Body {
    Body::One(match overload {
        Some("list_uint_sum_uint") => |scope, list| sum(scope, list, Value::Uint(0)),
        Some("list_double_sum_double") => |scope, list| sum(scope, list, Value::Double(0.0)),
        Some("list_duration_sum_duration") => {
            |scope, list| sum(scope, list, Value::Duration(Duration { nanos: 0 }))
        }
        _ => |scope, list| sum(scope, list, Value::Int(0)),
    })
}

fn sum<'a>(scope: &mut Scope, list: Value<'a>, nothing: Value<'a>) -> Outcome<'a> {
    let mut values = elements("sum", &list, is_summable)?.into_iter();
    let Some(first) = values.next() else {
        return Ok(nothing);
    };
    values.try_fold(first, |sum, value| super::operators::add(scope, sum, value))
}

fn is_summable(value: &Value<'_>) -> bool {
    matches!(
        value,
        Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_)
    )
}

fn extreme<'a>(function: &str, list: Value<'a>, worse: Ordering) -> Outcome<'a> {
    let mut best: Option<Value<'a>> = None;
    for value in elements(function, &list, Value::is_ordered)? {
        if !value.is_ordered() {
            return Err(EvalError::no_such_overload());
        }
        best = match best {
            Some(best) if best.order(&value) != Ok(worse) => Some(best),
            _ => Some(value),
        };
    }
    best.ok_or_else(|| EvalError::new(format!("{function} called on empty list")))
}

fn index_of<'a>(function: &str, arguments: Vec<Value<'a>>) -> Outcome<'a> {
    let forwards = function == "indexOf";
    let text = if forwards {
        strings::index_of
    } else {
        strings::last_index_of
    };
    if let Some(found) = text(&arguments) {
        return found;
    }
    let [Value::List(list), value] = &arguments[..] else {
        return Err(no_overload(function, &arguments.iter().collect::<Vec<_>>()));
    };
    let same = |at: &usize| matches!(list.get(*at), Some(Ok(element)) if element.equals(value) == Ok(true));
    let mut places = 0..list.len();
    let found = if forwards {
        places.find(same)
    } else {
        places.rfind(same)
    };
    Ok(Value::Int(found.map_or(-1, |at| at as i64)))
}

fn slice<'a>(_: &mut Scope, arguments: Vec<Value<'a>>) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = &arguments[..] else {
        return Err(no_overload("slice", &arguments.iter().collect::<Vec<_>>()));
    };
    let cannot = |why: String| EvalError::new(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(cannot("negative indexes not supported".to_owned()));
    };
    if from > to {
        let why = "start index must be less than or equal to end index";
        return Err(cannot(why.to_owned()));
    }
    if list.len() < to {
        return Err(cannot(format!("list is length {}", list.len())));
    }
    let values = (from..to).filter_map(|at| list.get(at));
    Ok(values.collect::<Result<Vec<_>, _>>()?.into())
}

fn flatten<'a>(scope: &mut Scope, list: Value<'a>, depth: Option<Value<'a>>) -> Outcome<'a> {
    let depth = match (&list, &depth) {
        (Value::List(_), None) => 1,
        (Value::List(_), Some(Value::Int(depth))) => *depth,
        (_, None) => {
            let text = format!("no such overload: {}.flatten()", list.type_name());
            return Err(EvalError::new(text));
        }
        (_, Some(depth)) => {
            let (list, depth) = (list.type_name(), depth.type_name());
            let text = format!("no such overload: {list}.flatten({depth})");
            return Err(EvalError::new(text));
        }
    };
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    if let Value::List(list) = &list {
        spread(scope, list, depth, &mut flat)?;
    }
    Ok(flat.into())
}

/// Flattens a list. The recursion is bounded by the nesting of expressions and objects.
fn spread<'a>(
    scope: &mut Scope,
    list: &List<'a>,
    depth: i64,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    scope.meter.count_elements(list.len() as u64)?;
    for value in list.iter() {
        match value? {
            Value::List(inner) if depth > 0 => spread(scope, &inner, depth - 1, flat)?,
            value => flat.push(value),
        }
        if flat.len() > MAX_LIST_LENGTH {
            return Err(EvalError::Cancelled);
        }
    }
    Ok(())
}

/// Sorts the elements by their keys.
fn sort<'a>(list: Value<'a>, keys: Value<'a>) -> Outcome<'a> {
    let (Value::List(values), Value::List(keys)) = (&list, &keys) else {
        return Err(EvalError::new("no such overload: sort"));
    };
    let (one, two) = (values.len(), keys.len());
    if one != two {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {one} and {two} elements respectively"
        )));
    }
    let keys = keys.iter().collect::<Result<Vec<_>, _>>()?;
    let Some(first) = keys.first() else {
        return Ok(list);
    };
    if !first.is_ordered() {
        return Err(EvalError::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    let mut places: Vec<_> = (0..keys.len()).collect();
    // Values that cannot be compared keep their order.
    places.sort_by(|one, two| match (&keys[*one], &keys[*two]) {
        (Value::Double(one), Value::Double(two)) => one.total_cmp(two),
        (one, two) => one.order(two).unwrap_or(Ordering::Equal),
    });
    let sorted = places.into_iter().filter_map(|at| values.get(at));
    Ok(sorted.collect::<Result<Vec<_>, _>>()?.into())
}

fn range<'a>(scope: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    let Value::Int(end) = value else {
        return Err(no_overload("lists.range", &[&value]));
    };
    let end = end.max(0);
    // The list is charged when it exists; one that exceeds the budget is not created.
    scope.meter.afford((end as u64).saturating_add(11))?;
    if end as usize > MAX_LIST_LENGTH {
        return Err(EvalError::Cancelled);
    }
    Ok((0..end).map(Value::Int).collect::<Vec<_>>().into())
}

fn reverse<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    let Value::List(list) = &value else {
        return Err(no_overload("reverse", &[&value]));
    };
    Ok(list.iter().rev().collect::<Result<Vec<_>, _>>()?.into())
}

fn distinct<'a>(_: &mut Scope, value: Value<'a>) -> Outcome<'a> {
    let Value::List(list) = &value else {
        return Err(no_overload("distinct", &[&value]));
    };
    let mut unique: Vec<Value<'a>> = Vec::new();
    for value in list.iter() {
        let value = value?;
        if !unique.iter().any(|known| value.equals(known) == Ok(true)) {
            unique.push(value);
        }
    }
    Ok(unique.into())
}
