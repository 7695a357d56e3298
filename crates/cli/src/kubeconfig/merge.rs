//! Adding a context to a kubeconfig that has others.

use kube::config::Kubeconfig;
use serde_json::Value;

use super::ordered::Ordered;

/// The lists of a kubeconfig with the member of their entries.
const CLUSTERS: (&str, &str) = ("clusters", "cluster");
const USERS: (&str, &str) = ("users", "user");
const CONTEXTS: (&str, &str) = ("contexts", "context");

/// The fields of a cluster that a new entry decides; the others, such as a proxy, stay.
const CLUSTER_FIELDS: [&str; 4] = [
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
];

/// The fields of a context that a new entry decides; the namespace stays.
const CONTEXT_FIELDS: [&str; 2] = ["cluster", "user"];

/// What to do with a context or a cluster of the same name that is for another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherServer {
    /// Refuse.
    Refused,
    /// Replace it.
    Replaced,
}

/// What became of the file's current context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrentContext {
    /// There was none, so it is the added one.
    Added,
    /// It is this one, as before.
    Kept(String),
}

/// Why a context cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The file has content that no kubeconfig has.
    #[error("it is not a kubeconfig{0}")]
    NotAKubeconfig(&'static str),
    /// An entry of the same name is for another server.
    #[error("its {kind} {name:?} is for {server}")]
    OtherServer {
        /// `context` or `cluster`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The URL of that server.
        server: String,
    },
}

/// Adds the contexts of a kubeconfig, with their clusters and users, to a file, or renews those
/// that are there. All else stays, in its order.
pub fn merge(
    file: &mut Ordered,
    new: &Kubeconfig,
    other_server: OtherServer,
) -> Result<CurrentContext, MergeError> {
    check_file(file)?;
    let entries = |list, of: Value| match of {
        Value::Array(items) => items.into_iter().map(|item| (list, item)).collect(),
        _ => Vec::new(),
    };
    let clusters = entries(CLUSTERS, value(&new.clusters));
    if other_server == OtherServer::Refused {
        for (_, cluster) in &clusters {
            check_cluster(file, cluster)?;
        }
        for (_, context) in &entries(CONTEXTS, value(&new.contexts)) {
            check_context(file, context, &clusters)?;
        }
    }
    for (_, cluster) in clusters {
        put(file, CLUSTERS, cluster, Some(&CLUSTER_FIELDS));
    }
    for (_, user) in entries(USERS, value(&new.auth_infos)) {
        put(file, USERS, user, None);
    }
    for (_, context) in entries(CONTEXTS, value(&new.contexts)) {
        put(file, CONTEXTS, context, Some(&CONTEXT_FIELDS));
    }
    if let Some(current) = file.text("current-context") {
        return Ok(CurrentContext::Kept(current.to_owned()));
    }
    let current = new.current_context.clone().unwrap_or_default();
    file.set("current-context", Ordered::Scalar(current.into()));
    Ok(CurrentContext::Added)
}

fn value(of: &impl serde::Serialize) -> Value {
    // Names, texts and truth values only, which are all JSON.
    serde_json::to_value(of).unwrap_or_default()
}

/// Fills in what an empty file lacks, and refuses what is no kubeconfig.
fn check_file(file: &mut Ordered) -> Result<(), MergeError> {
    if file.is_null() {
        *file = Ordered::map();
    }
    let Ordered::Map(_) = file else {
        return Err(MergeError::NotAKubeconfig(""));
    };
    for (name, expected, wrong) in [
        ("apiVersion", "v1", ": its apiVersion is not v1"),
        ("kind", "Config", ": its kind is not Config"),
    ] {
        match (file.get(name), file.text(name)) {
            (None, _) => file.set(name, Ordered::Scalar(expected.into())),
            (Some(_), Some(text)) if text == expected => {}
            (Some(_), _) => return Err(MergeError::NotAKubeconfig(wrong)),
        }
    }
    for ((list, _), wrong) in [
        (CLUSTERS, ": its clusters are no list"),
        (USERS, ": its users are no list"),
        (CONTEXTS, ": its contexts are no list"),
    ] {
        match file.get(list) {
            Some(Ordered::List(_)) => {}
            None => file.set(list, Ordered::List(Vec::new())),
            Some(null) if null.is_null() => file.set(list, Ordered::List(Vec::new())),
            Some(_) => return Err(MergeError::NotAKubeconfig(wrong)),
        }
    }
    Ok(())
}

/// Returns the content of the named entry of a list.
fn find<'a>(file: &'a Ordered, (list, member): (&str, &str), name: &str) -> Option<&'a Ordered> {
    let Some(Ordered::List(items)) = file.get(list) else {
        return None;
    };
    let named = items.iter().find(|item| item.text("name") == Some(name));
    named?.get(member)
}

fn check_cluster(file: &Ordered, new: &Value) -> Result<(), MergeError> {
    let name = new["name"].as_str().unwrap_or_default();
    let server = find(file, CLUSTERS, name).and_then(|cluster| cluster.text("server"));
    match server {
        Some(server) if !is_same_server(server, &new["cluster"]["server"]) => {
            Err(MergeError::OtherServer {
                kind: "cluster",
                name: name.to_owned(),
                server: server.to_owned(),
            })
        }
        _ => Ok(()),
    }
}

/// Checks the server of the context that a new one would replace.
fn check_context(
    file: &Ordered,
    new: &Value,
    clusters: &[((&str, &str), Value)],
) -> Result<(), MergeError> {
    let name = new["name"].as_str().unwrap_or_default();
    let old = find(file, CONTEXTS, name).and_then(|context| context.text("cluster"));
    let old = old.and_then(|cluster| find(file, CLUSTERS, cluster));
    // A context without a server leads nowhere, so nothing is lost.
    let Some(server) = old.and_then(|cluster| cluster.text("server")) else {
        return Ok(());
    };
    let mut same = clusters.iter().filter(|(_, cluster)| {
        cluster["name"] == new["context"]["cluster"]
            && is_same_server(server, &cluster["cluster"]["server"])
    });
    match same.next() {
        Some(_) => Ok(()),
        None => Err(MergeError::OtherServer {
            kind: "context",
            name: name.to_owned(),
            server: server.to_owned(),
        }),
    }
}

/// Whether an old URL is that of the new one's server: equal, or without the tenant, as in
/// kubeconfigs of earlier versions.
fn is_same_server(old: &str, new: &Value) -> bool {
    let new = new.as_str().unwrap_or_default();
    let old = old.trim_end_matches('/');
    old == new
        || new
            .rsplit_once("/tenants/")
            .is_some_and(|(plain, _)| old == plain)
}

/// Puts an entry in place of that of the same name, or at the end. Of the old content only the
/// given fields are replaced, or all of it.
fn put(file: &mut Ordered, (list, member): (&str, &str), new: Value, fields: Option<&[&str]>) {
    let Ordered::Map(members) = file else {
        return;
    };
    let found = members.iter_mut().find(|(name, _)| name == list);
    let Some((_, Ordered::List(items))) = found else {
        return;
    };
    let name = new["name"].as_str().unwrap_or_default().to_owned();
    let old = items
        .iter_mut()
        .find(|item| item.text("name") == Some(&name));
    let Some(old) = old else {
        items.push(new.into());
        return;
    };
    let Ordered::Map(new) = Ordered::from(new[member].clone()) else {
        return;
    };
    let mut content = match (fields, old.get(member)) {
        (Some(_), Some(content)) => content.clone(),
        _ => Ordered::map(),
    };
    for field in fields.unwrap_or_default() {
        if !new.iter().any(|(name, _)| name == field) {
            content.remove(field);
        }
    }
    for (name, value) in new {
        content.set(&name, value);
    }
    old.set(member, content);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output;

    const URL: &str = "https://h:1/tenants/acme";

    fn new() -> Kubeconfig {
        let text = r#"
current-context: acme
clusters: [{name: h:1/tenants/acme, cluster: {server: "https://h:1/tenants/acme", certificate-authority-data: Q0E=}}]
users: [{name: admin@h:1/tenants/acme, user: {client-certificate-data: QQ==, client-key-data: Sw==}}]
contexts: [{name: acme, context: {cluster: h:1/tenants/acme, user: admin@h:1/tenants/acme}}]
"#;
        serde_saphyr::from_str(text).unwrap()
    }

    fn merged(text: &str, other: OtherServer) -> Result<(Ordered, CurrentContext), MergeError> {
        let mut file = Ordered::parse(text).unwrap();
        let current = merge(&mut file, &new(), other)?;
        Ok((file, current))
    }

    const OTHERS: &str = r#"
users:
- {name: dev, user: {token: "0123", unknown: [1, {b: 2, a: 1}]}}
kind: Config
preferences: {colors: true}
own-field: {z: 1, a: 2}
contexts:
- {name: dev, context: {user: dev, namespace: n, cluster: dev}}
clusters:
- {name: dev, cluster: {server: "https://dev", proxy-url: "http://p"}}
current-context: dev
apiVersion: v1
"#;

    #[test]
    fn other_entries_unknown_fields_and_their_order_stay() {
        let (file, current) = merged(OTHERS, OtherServer::Refused).unwrap();
        assert_eq!(current, CurrentContext::Kept("dev".to_owned()));
        let Ordered::Map(members) = &file else {
            panic!("a mapping: {file:?}");
        };
        let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
        let before = ["users", "kind", "preferences", "own-field", "contexts"];
        assert_eq!(names[..5], before);
        assert_eq!(names[5..], ["clusters", "current-context", "apiVersion"]);
        let old = Ordered::parse(OTHERS).unwrap();
        for list in ["users", "contexts", "clusters"] {
            let items = |of: &Ordered| match of.get(list) {
                Some(Ordered::List(items)) => items.clone(),
                _ => Vec::new(),
            };
            let (old, new) = (items(&old), items(&file));
            assert_eq!((old.len(), new.len()), (1, 2), "{list}");
            assert_eq!(old[0], new[0], "{list}");
        }
        let server = find(&file, CLUSTERS, "h:1/tenants/acme").unwrap();
        assert_eq!(server.text("server"), Some(URL));
        assert_eq!(output::yaml(&file).unwrap().matches("0123").count(), 1);
    }

    #[test]
    fn context_is_current_only_in_a_file_without_one() {
        for text in ["", "~", "{}", "clusters: null\ncurrent-context: \"\"\n"] {
            let (file, current) = merged(text, OtherServer::Refused).unwrap();
            assert_eq!(current, CurrentContext::Added, "{text:?}");
            assert_eq!(file.text("current-context"), Some("acme"));
            assert_eq!(
                (file.text("apiVersion"), file.text("kind")),
                (Some("v1"), Some("Config"))
            );
            let read: Kubeconfig = serde_saphyr::from_str(&output::yaml(&file).unwrap()).unwrap();
            assert_eq!(read.contexts.len(), 1);
        }
    }

    #[test]
    fn renewed_context_keeps_its_namespace_and_its_clusters_proxy() {
        let text = r#"
clusters: [{name: h:1/tenants/acme, cluster: {server: "https://h:1/tenants/acme/", certificate-authority: old, proxy-url: "http://p"}}]
users: [{name: admin@h:1/tenants/acme, user: {token: old, client-key-data: b2xk}}]
contexts: [{name: acme, context: {cluster: h:1/tenants/acme, user: eve, namespace: shop}}]
current-context: acme
"#;
        let (file, current) = merged(text, OtherServer::Refused).unwrap();
        assert_eq!(current, CurrentContext::Kept("acme".to_owned()));
        let cluster = find(&file, CLUSTERS, "h:1/tenants/acme").unwrap();
        assert_eq!(cluster.get("certificate-authority"), None);
        assert_eq!(cluster.text("certificate-authority-data"), Some("Q0E="));
        assert_eq!(cluster.text("proxy-url"), Some("http://p"));
        let user = find(&file, USERS, "admin@h:1/tenants/acme").unwrap();
        assert_eq!(
            (user.get("token"), user.text("client-key-data")),
            (None, Some("Sw=="))
        );
        let context = find(&file, CONTEXTS, "acme").unwrap();
        assert_eq!(context.text("user"), Some("admin@h:1/tenants/acme"));
        assert_eq!(context.text("namespace"), Some("shop"));
    }

    #[test]
    fn entry_of_another_server_is_replaced_only_on_request() {
        let context = |server: &str| {
            format!(
                "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
                 contexts: [{{name: acme, context: {{cluster: c, user: u}}}}]\n"
            )
        };
        // As kubeconfigs of earlier versions have it.
        merged(&context("https://h:1"), OtherServer::Refused).unwrap();
        merged(&context(""), OtherServer::Refused).unwrap();
        for other in [
            "https://other:1",
            "https://h:1/tenants/globex",
            "https://h:1/tenants",
        ] {
            let refused = merged(&context(other), OtherServer::Refused).unwrap_err();
            let expected = MergeError::OtherServer {
                kind: "context",
                name: "acme".to_owned(),
                server: other.to_owned(),
            };
            assert_eq!(refused, expected);
            let (file, _) = merged(&context(other), OtherServer::Replaced).unwrap();
            let context = find(&file, CONTEXTS, "acme").unwrap();
            assert_eq!(context.text("cluster"), Some("h:1/tenants/acme"));
            assert!(find(&file, CLUSTERS, "c").is_some(), "others may use it");
        }
        let cluster = "clusters: [{name: h:1/tenants/acme, cluster: {server: 'https://x'}}]\n";
        let refused = merged(cluster, OtherServer::Refused).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "its cluster \"h:1/tenants/acme\" is for https://x"
        );
        merged(cluster, OtherServer::Replaced).unwrap();
    }

    #[test]
    fn other_files_are_refused() {
        for (text, why) in [
            ("- a", "it is not a kubeconfig"),
            ("text", "it is not a kubeconfig"),
            (
                "kind: Pod",
                "it is not a kubeconfig: its kind is not Config",
            ),
            (
                "apiVersion: v2",
                "it is not a kubeconfig: its apiVersion is not v1",
            ),
            ("users: {}", "it is not a kubeconfig: its users are no list"),
        ] {
            let refused = merged(text, OtherServer::Refused).unwrap_err();
            assert_eq!(refused.to_string(), why);
        }
    }
}
