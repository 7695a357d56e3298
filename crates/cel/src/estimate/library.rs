//! The estimated cost of the functions of Kubernetes' libraries.

use std::sync::Arc;

use super::Estimator;
use super::call::{Argument, Call, search};
use super::cost::{Cost, REGEX, Size, TRAVERSAL};
use crate::types::Type;

/// The cost of an authorization check, so high that an expression can afford two.
const CHECK: Cost = Cost::fixed(350_000);

/// The size of an IP address: 4 or 16 bytes.
const ADDRESS: Size = Size { min: 4, max: 16 };

/// The length of the longest format name.
const FORMAT: u64 = 64;

/// The length of the longest regular expression of a format.
const FORMAT_REGEX: f64 = 128.0;

/// Returns the cost of a function of these libraries.
pub(super) fn estimate(
    estimator: &Estimator<'_>,
    function: &str,
    overload: &str,
    target: Option<&Argument<'_>>,
    args: &[Argument<'_>],
) -> Option<Call> {
    let first = args.first().map(Argument::measure);
    Some(match function {
        "check" => Call::costs(CHECK),
        "serviceAccount"
        | "path"
        | "group"
        | "resource"
        | "subresource"
        | "namespace"
        | "name"
        | "allowed"
        | "reason"
        | "error"
        | "errored"
        | "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => Call::costs(Cost::fixed(1)),
        "fieldSelector" | "labelSelector" if args.len() == 1 => Call::costs(selector(first?)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            Call::costs(traversal(estimator, target?))
        }
        "url" | "jsonpatch.escapeKey" if args.len() == 1 => same_size(first?, 1.0),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => same_size(target?.measure(), 1.0),
        "replace" => replace(target?.measure(), first?, args.get(1)?.measure()),
        "split" => split(target?.measure(), args.get(1)),
        "join" => join(estimator, target?, first),
        "find" | "findAll" => {
            let text = target?.measure();
            let size = Some(Size {
                min: 0,
                max: text.max,
            });
            Call {
                cost: search(text, first?),
                size,
            }
        }
        "ip" if overload == "cidr_ip" => Call::costs(Cost::fixed(1)),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            Call::costs(first?.by(TRAVERSAL))
        }
        "ip.isCanonical" => Call::costs(first?.by(2.0 * TRAVERSAL)),
        "containsIP" => {
            let parsed = overload == "cidr_contains_ip_string";
            Call::costs(contains(Cost::default(), first?, parsed))
        }
        "containsCIDR" => {
            let parsed = overload == "cidr_contains_cidr_string";
            let masked = ADDRESS.by(TRAVERSAL).plus(Cost::fixed(1));
            Call::costs(contains(masked, first?, parsed))
        }
        "validate" => Call::costs(first?.by(TRAVERSAL).by(FORMAT_REGEX * REGEX)),
        "_==_" => equality(args)?,
        _ => return None,
    })
}

/// The cost of parsing a selector: a list of requirements of at least two characters, each a struct
/// with a list.
fn selector(length: Size) -> Cost {
    let requirements = length.by(0.5).by(50.0);
    super::LIST.plus(length.by(TRAVERSAL)).plus(requirements)
}

/// The cost of visiting every element, and every character of strings.
fn traversal(estimator: &Estimator<'_>, target: &Argument<'_>) -> Cost {
    let Some((of, size)) = element(estimator, target) else {
        return target.measure().by(TRAVERSAL);
    };
    let each = match of {
        Type::String | Type::Bytes => Cost::fixed(1).plus(size.by(TRAVERSAL)),
        _ => Cost::fixed(1),
    };
    target.measure().times(each)
}

/// Returns the type and the size of the elements of a list. Of a map it returns the type of the
/// keys, and looks for their size where items would be.
fn element<'a>(estimator: &Estimator<'_>, list: &Argument<'a>) -> Option<(&'a Type, Size)> {
    let of: &Arc<Type> = match list.of {
        Type::List(of) | Type::Optional(of) | Type::Meta(of) | Type::Map(of, _) => of,
        _ => return None,
    };
    if list.path.is_empty() {
        return Some((of, Size::UNKNOWN));
    }
    let mut names = list.path.names();
    names.push("@items".into());
    Some((of, estimator.extent_at(&names).unwrap_or(Size::UNKNOWN)))
}

fn same_size(size: Size, factor: f64) -> Call {
    Call {
        cost: size.by(factor * TRAVERSAL),
        size: Some(size),
    }
}

fn replace(text: Size, from: Size, to: Size) -> Call {
    let (mut count, mut kept) = (Size::default(), Size::default());
    if from.min == 0 {
        // Replacing the empty string inserts text around every character.
        count.max = text.max.saturating_add(1);
        kept.max = text.max;
    } else if to.max <= from.min {
        kept.max = text.max;
    } else {
        count.max = ratio(text.max, from.min);
    }
    if from.max == 0 {
        count.min = text.min.saturating_add(1);
        kept.min = text.min;
    } else if from.max <= to.min {
        kept.min = text.min;
    } else {
        count.min = ratio(text.min, from.max);
    }
    let size = count.times(to).plus(kept);
    Call {
        cost: text.by(2.0 * TRAVERSAL),
        size: Some(size),
    }
}

fn ratio(of: u64, to: u64) -> u64 {
    (of as f64 / to as f64).ceil() as u64
}

fn split(text: Size, limit: Option<&Argument<'_>>) -> Call {
    let limit = limit.and_then(Argument::number).map(i64::cast_unsigned);
    let size = Size {
        min: 0,
        max: limit.unwrap_or(text.max),
    };
    Call {
        cost: text.by(2.0 * TRAVERSAL),
        size: Some(size),
    }
}

fn join(estimator: &Estimator<'_>, list: &Argument<'_>, separator: Option<Size>) -> Call {
    let count = list.measure();
    let mut size = match element(estimator, list) {
        Some((_, element)) => count.times(element),
        None => Size::default(),
    };
    if let Some(separator) = separator {
        let between = Size {
            min: count.min.saturating_sub(1),
            max: count.max.saturating_sub(1),
        };
        size = size.plus(separator.times(between));
    }
    Call {
        cost: size.by(TRAVERSAL),
        size: Some(size),
    }
}

/// The cost of comparing addresses, and of parsing one that is given as a string.
fn contains(more: Cost, argument: Size, parsed: bool) -> Cost {
    let compared = ADDRESS.plus(ADDRESS).by(TRAVERSAL).plus(more);
    if parsed {
        compared.plus(argument.by(TRAVERSAL))
    } else {
        compared
    }
}

fn equality(args: &[Argument<'_>]) -> Option<Call> {
    let [left, right] = args else { return None };
    let Type::Opaque(name) = left.of else {
        return None;
    };
    if left.of != right.of {
        return None;
    }
    let cost = match &**name {
        "net.IP"
        | "net.CIDR"
        | "kubernetes.Quantity"
        | "kubernetes.Semver"
        | "kubernetes.authorization.Authorizer"
        | "kubernetes.authorization.PathCheck"
        | "kubernetes.authorization.GroupCheck"
        | "kubernetes.authorization.ResourceCheck"
        | "kubernetes.authorization.Decision" => Cost::fixed(1),
        "kubernetes.NamedFormat" => Cost {
            min: 1,
            max: FORMAT,
        }
        .by(TRAVERSAL),
        "kubernetes.URL" => {
            let max = right.size.map_or(1, |size| size.max);
            Cost { min: 1, max }.by(TRAVERSAL)
        }
        _ => return None,
    };
    Some(Call::costs(cost))
}
