//! Which IP families a Service may request of a server with one range of cluster IPs.

use insula_kinds::{FieldError, Object, Value};

use crate::registry::service_range::ServiceRange;

/// Returns the errors of a service that requests more than the server has. Fields that are not set
/// get what it has.
pub(super) fn unavailable(service: &Object, range: ServiceRange) -> Vec<FieldError> {
    let empty = Object::new();
    let spec = service.get("spec").and_then(Value::as_object);
    let spec = spec.unwrap_or(&empty);
    if text(spec, "type") == "ExternalName" {
        return Vec::new();
    }
    let is_headless = text(spec, "clusterIP") == "None";
    let (addresses, families) = (list(spec, "clusterIPs"), list(spec, "ipFamilies"));
    let policy = text(spec, "ipFamilyPolicy");
    let mut errors = Vec::new();
    if policy == "SingleStack" {
        for (given, what) in [(addresses, "cluster IPs"), (families, "IP families")] {
            if given.len() == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are \
                     specified"
                );
                errors.push(invalid("spec.ipFamilyPolicy", &policy.into(), &why));
            }
        }
    }
    for (index, address) in addresses.iter().enumerate().skip(families.len()) {
        let Some(family) = family_of(address).filter(|_| !is_headless) else {
            continue;
        };
        if family != range.family() {
            let why = format!("{family} is not configured on this cluster");
            let field = format!("spec.clusterIPs[{index}]");
            errors.push(invalid(&field, &addresses.to_vec().into(), &why));
        }
    }
    // The endpoints of a service without IPs and without a selector may have any family.
    let is_free = is_headless && spec.get("selector").is_none_or(is_empty);
    if !errors.is_empty() || is_free {
        return errors;
    }
    if policy == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(invalid("spec.ipFamilyPolicy", &policy.into(), why));
    }
    for (index, family) in families.iter().enumerate() {
        if family
            .as_str()
            .is_some_and(|family| family != range.family())
        {
            let field = format!("spec.ipFamilies[{index}]");
            errors.push(invalid(&field, family, "not configured on this cluster"));
        }
    }
    errors
}

/// Whether an update changes what decides about the families of a service.
pub(super) fn are_changed(old: &Object, new: &Object) -> bool {
    const FIELDS: [&str; 5] = [
        "type",
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
    ];
    let of = |service: &Object, field| {
        service
            .get("spec")
            .and_then(|spec| spec.get(field))
            .cloned()
    };
    FIELDS.iter().any(|field| of(old, field) != of(new, field))
}

fn invalid(field: &str, value: &Value, why: &str) -> FieldError {
    FieldError::invalid(field, value, why)
}

fn text<'a>(spec: &'a Object, member: &str) -> &'a str {
    spec.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(spec: &'a Object, member: &str) -> &'a [Value] {
    let list = spec.get(member).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_none_or(Object::is_empty)
}

/// Returns the family of an address; `None` if it is none, which validation refuses.
fn family_of(address: &Value) -> Option<&'static str> {
    let address = address.as_str()?.parse::<std::net::IpAddr>().ok()?;
    Some(match address.is_ipv4() {
        true => "IPv4",
        false => "IPv6",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(spec: Value, range: &str) -> Vec<String> {
        let service = json!({ "spec": spec });
        let found = unavailable(service.as_object().unwrap(), range.parse().unwrap());
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn families_that_the_server_does_not_have_are_refused_in_kubernetes_words() {
        let selector = json!({"a": "b"});
        for (spec, expected) in [
            (json!({}), vec![]),
            (json!({"ipFamilyPolicy": "PreferDualStack"}), vec![]),
            (
                json!({"ipFamilies": ["IPv4"], "clusterIPs": ["10.0.0.1"]}),
                vec![],
            ),
            (
                json!({"type": "ExternalName", "ipFamilies": ["IPv6"]}),
                vec![],
            ),
            (
                json!({"clusterIP": "None", "ipFamilyPolicy": "RequireDualStack"}),
                vec![],
            ),
            (
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                vec![
                    "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is \
                     not configured for dual-stack services",
                ],
            ),
            (
                json!({"clusterIP": "None", "selector": selector, "ipFamilies": ["IPv6"]}),
                vec!["spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"],
            ),
            (
                json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
                vec!["spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster"],
            ),
            (
                json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}),
                vec![
                    "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on \
                     this cluster",
                ],
            ),
            (
                json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"}),
                vec![
                    "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be \
                     'RequireDualStack' or 'PreferDualStack' when multiple IP families are \
                     specified",
                ],
            ),
        ] {
            assert_eq!(errors(spec.clone(), "10.96.0.0/12"), expected, "{spec}");
        }
        let families = json!({"ipFamilies": ["IPv6"], "clusterIPs": ["fd00::1"]});
        assert_eq!(errors(families, "fd00::/108"), [""; 0]);
    }
}
