//! The subjects of role bindings on the command line.

pub use k8s_openapi::api::rbac::v1::Subject;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Parses `user:NAME`, `group:NAME` and `serviceaccount:NAMESPACE/NAME`.
pub fn parse(text: &str) -> Result<Subject, &'static str> {
    let wrong = "expected user:NAME, group:NAME or serviceaccount:NAMESPACE/NAME";
    let (kind, name) = text.split_once(':').ok_or(wrong)?;
    let named = |kind: &str, name: &str| Subject {
        api_group: Some(GROUP.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
    };
    match (kind, name.split_once('/')) {
        (_, _) if name.is_empty() => Err(wrong),
        ("user", _) => Ok(named("User", name)),
        ("group", _) => Ok(named("Group", name)),
        ("serviceaccount", Some((namespace, name))) if is_label(namespace) && is_label(name) => {
            Ok(Subject {
                api_group: None,
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(namespace.to_owned()),
            })
        }
        _ => Err(wrong),
    }
}

/// An approximation, since the name is looked up anyway.
fn is_label(text: &str) -> bool {
    let inner = |sign: u8| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-';
    !text.is_empty() && text.bytes().all(|sign| inner(sign) || sign == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_parse_by_kind() {
        let read = |text: &str| {
            let subject = parse(text)?;
            let group = subject.api_group.unwrap_or_default();
            let namespace = subject.namespace.unwrap_or_default();
            Ok(format!(
                "{} {namespace}/{} {group}",
                subject.kind, subject.name
            ))
        };
        for (text, expected) in [
            ("user:eve", "User /eve rbac.authorization.k8s.io"),
            (
                "user:oidc:eve/x",
                "User /oidc:eve/x rbac.authorization.k8s.io",
            ),
            ("group:dev", "Group /dev rbac.authorization.k8s.io"),
            ("serviceaccount:ci/bot", "ServiceAccount ci/bot "),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "eve",
            "user:",
            "User:eve",
            "serviceaccount:bot",
            "serviceaccount:ci/",
            "serviceaccount:/bot",
            "serviceaccount:a/b/c",
            "node:a",
        ] {
            let wrong: Result<String, &str> = read(bad);
            wrong.unwrap_err();
        }
    }
}
