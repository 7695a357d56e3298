//! Label selectors as text.

use super::row::At;

/// Returns the selector in the syntax of kubectl; empty if it selects nothing or
/// everything.
pub(super) fn to_text(selector: At<'_>) -> Option<String> {
    let labels = selector.get("matchLabels").members();
    let mut requirements: Vec<(&str, String)> = labels
        .map(|(key, value)| (key, format!("{key}={}", value.text())))
        .collect();
    for expression in selector.get("matchExpressions").items() {
        requirements.push((expression.get("key").text(), requirement(expression)?));
    }
    requirements.sort_by_key(|(key, _)| *key);
    let texts: Vec<_> = requirements.into_iter().map(|(_, text)| text).collect();
    Some(texts.join(","))
}

/// Returns the selector as text, or `<none>` if it has no requirements.
pub(super) fn or_none(selector: At<'_>) -> String {
    match to_text(selector) {
        None => "<error>".to_owned(),
        Some(text) if text.is_empty() => "<none>".to_owned(),
        Some(text) => text,
    }
}

fn requirement(expression: At<'_>) -> Option<String> {
    let key = expression.get("key").text();
    let mut values: Vec<_> = expression.get("values").items().map(At::text).collect();
    values.sort_unstable();
    let values = values.join(",");
    Some(match expression.get("operator").text() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => return None,
    })
}

/// Returns the selector as Go prints the struct.
pub(super) fn as_go(selector: At<'_>) -> String {
    let labels = selector.get("matchLabels").members();
    let labels: String = labels
        .map(|(key, value)| format!("{key}: {},", value.text()))
        .collect();
    let expressions = selector.get("matchExpressions").items();
    let expressions: String = expressions.map(expression_as_go).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn expression_as_go(expression: At<'_>) -> String {
    let values: Vec<_> = expression.get("values").items().map(At::text).collect();
    format!(
        "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
        expression.get("key").text(),
        expression.get("operator").text(),
        values.join(" ")
    )
}
