//! A chart as Helm renders it, applied as Helm 3 and Helm 4 do: without Helm.
//!
//! `rendered/` is what `helm template` makes of `chart/`, with two sets of values.

/// The chart's first version, for a tenant and a namespace, of the kinds that are wanted.
pub fn first(tenant: &str, namespace: &str, wanted: impl Fn(&str) -> bool) -> String {
    let kind = |document: &&str| {
        let kind = document
            .lines()
            .find_map(|line| line.strip_prefix("kind: "));
        kind.is_some_and(&wanted)
    };
    let text = include_str!("rendered/first.yaml");
    let documents: Vec<_> = text.split("\n---\n").filter(kind).collect();
    documents.join("\n---\n").replace("OWNER", tenant).replace(
        "namespace: \"default\"",
        &format!("namespace: \"{namespace}\""),
    )
}
