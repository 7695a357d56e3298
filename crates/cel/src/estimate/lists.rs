//! The estimated cost of list and set functions that is quadratic or includes a new list.

use super::call::{Argument, Call};
use super::cost::{Cost, Size, TRAVERSAL};

/// Returns the cost of one of these overloads.
pub(super) fn estimate(
    overload: &str,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<Call> {
    Some(match (overload, target, args) {
        ("list_sets_contains_list" | "list_sets_intersects_list", _, [one, other]) => {
            sets(one, other, 1.0)
        }
        ("list_sets_equivalent_list", _, [one, other]) => sets(one, other, 2.0),
        ("list_slice", Some(list), [from, to]) => {
            let end = to.number().map_or(list.measure().max, at_least_zero);
            let start = from.number().map_or(0, at_least_zero);
            making(1.0, Size::fixed(end.wrapping_sub(start)))
        }
        ("lists_range", None, [count]) => making(
            1.0,
            Size::fixed(count.number().map_or(u64::MAX, at_least_zero)),
        ),
        ("list_reverse", Some(list), []) => making(1.0, list.measure()),
        ("list_flatten", Some(list), []) => making(1.0, list.measure()),
        ("list_flatten_int", Some(list), [depth]) => {
            let depth = depth.number().map_or(u64::MAX, at_least_zero);
            making(depth as f64, list.measure())
        }
        ("list_distinct", Some(list), []) => making(2.0, squared(list)),
        (sort, Some(list), []) => {
            let of = sort.strip_prefix("list_")?.strip_suffix("_sort")?;
            making(comparing(of), squared(list))
        }
        (sort, Some(_), [keys]) => {
            let of = sort
                .strip_prefix("list_")?
                .strip_suffix("_sortByAssociatedKeys")?;
            making(comparing(of), squared(keys))
        }
        _ => return None,
    })
}

fn sets(one: &Argument<'_>, other: &Argument<'_>, factor: f64) -> Call {
    Call::costs(
        one.measure()
            .times(other.measure())
            .by(factor)
            .plus(Cost::fixed(1)),
    )
}

/// The cost of a call that creates a list of this size.
fn making(factor: f64, size: Size) -> Call {
    Call {
        cost: size.by(factor).plus(Cost::fixed(1)).plus(super::LIST),
        size: Some(size),
    }
}

fn squared(list: &Argument<'_>) -> Size {
    list.measure().times(list.measure())
}

fn comparing(of: &str) -> f64 {
    match of {
        "string" | "bytes" => 2.0 + TRAVERSAL,
        _ => 2.0,
    }
}

fn at_least_zero(number: i64) -> u64 {
    number.max(0).unsigned_abs()
}
