//! Kubeconfigs that are refused, and what the messages say.

use insula_identity::shape::{InvalidContent, Shape};
use proptest::prelude::*;

use super::*;

/// Asserts the message of a refusal, and that neither it nor its debug text has a secret.
fn assert_refused(data: &BTreeMap<String, Hidden>, context: Option<&str>, expected: &str) {
    let refused = Kubeconfig::VERIFIED.access(data, context).unwrap_err();
    assert_eq!(refused.to_string(), expected);
    assert!(
        !format!("{refused:?} {refused}").contains(SECRET),
        "{refused}"
    );
    let content = Kubeconfig::VERIFIED.read(data, context).unwrap_err();
    assert_eq!(content.to_string(), expected);
    assert_eq!(content, InvalidContent::from(refused));
}

fn assert_whole_refused(whole: &Value, context: Option<&str>, expected: &str) {
    assert_refused(&data("kubeconfig", whole.to_string()), context, expected);
}

#[test]
fn r43_secret_without_a_kubeconfig_is_refused() {
    assert_refused(&BTreeMap::new(), None, "lacks kubeconfig");
    assert_refused(&data("token", SECRET), None, "lacks kubeconfig");
    let account = [data("username", "admin"), data("password", SECRET)];
    let account = account.into_iter().flatten().collect();
    assert_refused(&account, None, "lacks kubeconfig");
    // A bare token is no kubeconfig, under whichever key.
    for key in KEYS {
        assert_refused(
            &data(key, SECRET),
            None,
            "has a kubeconfig that is not valid",
        );
    }
}

#[test]
fn r05_text_that_is_no_kubeconfig_is_refused() {
    let invalid = "has a kubeconfig that is not valid";
    let secret_key = format!("token: {SECRET}\ntoken: {SECRET}");
    let repeated = format!("users: []\nusers: [{SECRET}]");
    for (text, expected) in [
        (&b"\xff\xfe"[..], "has a kubeconfig that is not UTF-8 text"),
        (b"- s3same", invalid),
        (b"{", invalid),
        (b"s3same: [", invalid),
        (b"current-context: [s3same]", invalid),
        (b"users: s3same", invalid),
        (b"users: [{name: a, user: s3same}]", invalid),
        (b"users: [{name: a, user: {as-groups: s3same}}]", invalid),
        (b"clusters: [{cluster: {server: https://s3same}}]", invalid),
        (b"a: &a s3same\nb: *c", invalid),
        (repeated.as_bytes(), invalid),
        (secret_key.as_bytes(), invalid),
        (
            b"current-context: s3same\n---\ncurrent-context: s3same\n",
            "has a kubeconfig of several YAML documents",
        ),
        (
            b"",
            "has a kubeconfig without current-context, and identityRef names no context",
        ),
    ] {
        assert_refused(&data("kubeconfig", text), None, expected);
    }
}

#[test]
fn r05_size_and_expansion_are_bounded() {
    let mut text = kubeconfig().to_string();
    text.push_str(&" ".repeat(MAX_BYTES - text.len()));
    let largest = data("kubeconfig", text.clone());
    assert!(Kubeconfig::VERIFIED.access(&largest, None).is_ok());
    text.push(' ');
    let larger = data("kubeconfig", text);
    assert_refused(&larger, None, "has a kubeconfig of more than 1 MiB");
    // Nine lines that stand for a billion texts.
    let mut bomb = "a0: &a0 [s3same, s3same, s3same, s3same, s3same, s3same]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    bomb.push_str("users: [{name: a, user: {exec: *a8}}]\n");
    let deep = format!("users: {}{}", "[".repeat(5_000), "]".repeat(5_000));
    for text in [bomb, deep] {
        let invalid = "has a kubeconfig that is not valid";
        assert_refused(&data("kubeconfig", text), None, invalid);
    }
}

#[test]
fn x09_references_to_anything_outside_are_refused_in_every_entry() {
    let runs = "it would run a program in the operator";
    let reads = "it names a file of the operator; put the content into the kubeconfig";
    let redirects = "it would send requests to another server";
    let program = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": SECRET,
        "args": ["-c", SECRET], "interactiveMode": "Never",
    });
    let gcp = json!({"name": "gcp", "config": {"cmd-path": SECRET}});
    for (list, entry, field, value, why) in [
        ("users", "user", "exec", program, runs),
        ("users", "user", "exec", json!({}), runs),
        ("users", "user", "auth-provider", gcp, runs),
        ("users", "user", "tokenFile", json!(SECRET), reads),
        ("users", "user", "client-certificate", json!(SECRET), reads),
        ("users", "user", "client-key", json!(SECRET), reads),
        (
            "clusters",
            "cluster",
            "certificate-authority",
            json!(SECRET),
            reads,
        ),
        ("clusters", "cluster", "proxy-url", json!(SECRET), redirects),
    ] {
        for (at, place) in [
            (0, format!("the {entry} of context \"east\"")),
            (1, format!("the {entry} of context \"west\"")),
            (2, format!("a {entry} that no context names")),
        ] {
            let mut whole = kubeconfig();
            whole[list][at][entry][field] = value.clone();
            let expected = format!("uses {field} in {place}, which is not allowed: {why}");
            for context in [None, Some("east"), Some("west"), Some("missing")] {
                assert_whole_refused(&whole, context, &expected);
            }
        }
    }
}

#[test]
fn r06_r07_missing_context_is_refused() {
    let none = "has a kubeconfig without current-context, and identityRef names no context";
    let mut whole = kubeconfig();
    assert_whole_refused(&whole, Some("north"), "has no context \"north\"");
    assert_whole_refused(&whole, Some("c-east"), "has no context \"c-east\"");
    whole["current-context"] = json!("");
    assert_whole_refused(&whole, None, none);
    assert_whole_refused(&whole, Some(""), none);
    whole["current-context"] = json!("north");
    assert_whole_refused(&whole, None, "has no context \"north\"");
    whole["contexts"] = Value::Null;
    assert_whole_refused(&whole, Some("east"), "has no context \"east\"");
}

#[test]
fn incomplete_context_is_refused() {
    let set = |path: &str, value: Value| {
        let mut whole = kubeconfig();
        *whole.pointer_mut(path).unwrap() = value;
        whole
    };
    let context = "/contexts/0/context";
    for (whole, expected) in [
        (
            set(context, Value::Null),
            "names no cluster in context \"east\"",
        ),
        (
            set(&format!("{context}/cluster"), json!("")),
            "names no cluster in context \"east\"",
        ),
        (
            set(&format!("{context}/cluster"), json!(SECRET)),
            "names an unknown cluster in context \"east\"",
        ),
        (
            set(&format!("{context}/user"), Value::Null),
            "names no user in context \"east\"",
        ),
        (
            set(&format!("{context}/user"), json!(SECRET)),
            "names an unknown user in context \"east\"",
        ),
        (
            set(&format!("{context}/namespace"), json!("../s3same")),
            "has an invalid namespace in context \"east\"",
        ),
        (
            set("/clusters/0/cluster", Value::Null),
            "has no server in the cluster of context \"east\"",
        ),
        (
            set("/users/0/user", Value::Null),
            "has no token, client-certificate-data or username in the user of context \"east\"",
        ),
        (
            set("/contexts/1/name", json!("east")),
            "has a kubeconfig with two entries of one name in contexts",
        ),
        (
            set("/clusters/2/name", json!("c-west")),
            "has a kubeconfig with two entries of one name in clusters",
        ),
        (
            set("/users/2/name", json!("u-east")),
            "has a kubeconfig with two entries of one name in users",
        ),
    ] {
        assert_whole_refused(&whole, None, expected);
    }
}

#[test]
fn server_without_tls_or_with_more_than_a_path_is_refused() {
    let missing = "has no server in the cluster of context \"east\"";
    let plain = "has a server without TLS in the cluster of context \"east\": only https:// is \
                 allowed";
    let invalid = "has an invalid server in the cluster of context \"east\": it must be \
                   https://, a host, and optionally a port and a path";
    for (server, expected) in [
        (Value::Null, missing),
        (json!(""), missing),
        (json!("http://s3same.example"), plain),
        (json!("HTTP://s3same.example"), plain),
        (json!("s3same.example"), invalid),
        (json!("unix:///s3same"), invalid),
        (json!("ftp://s3same.example"), invalid),
        (json!("https://"), invalid),
        (json!("https:///s3same"), invalid),
        (json!("https://admin:s3same@east.example"), invalid),
        (json!("https://east.example?token=s3same"), invalid),
        (json!("https://east.example/?token=s3same"), invalid),
        (json!("https://east.example/#s3same"), invalid),
        (json!("https://east.example/a/../s3same"), invalid),
        (json!("https://east.example/a//s3same"), invalid),
        (json!("https://east.example/%2e%2e/s3same"), invalid),
        (json!("https://east.example/s3same\r\nHost: a"), invalid),
        (json!("https://east.example:s3same"), invalid),
        (json!("https://2001:db8::1"), invalid),
        (json!("https://0x7f000001"), invalid),
    ] {
        assert_whole_refused(&with(json!({"server": server}), json!({})), None, expected);
    }
    // Allowing any certificate does not allow a server without TLS.
    let plain_url = with(json!({"server": "http://east.example"}), json!({}));
    let refused = Kubeconfig::ANY_IF_ASKED.access(&data("value", plain_url.to_string()), None);
    assert_eq!(
        refused,
        Err(InvalidKubeconfig::PlainServer("east".to_owned()))
    );
}

#[test]
fn invalid_fields_are_refused() {
    let certificate = || json!(pem_data("CERTIFICATE", SECRET));
    let key = || json!(pem_data("PRIVATE KEY", SECRET));
    let not_pem = || json!(STANDARD.encode(SECRET));
    let (cluster, user) = (
        "the cluster of context \"east\"",
        "the user of context \"east\"",
    );
    for (of_cluster, of_user, expected) in [
        (
            json!({"certificate-authority-data": "s3same!"}),
            json!({}),
            format!("has a certificate-authority-data that is not base64, in {cluster}"),
        ),
        (
            json!({"certificate-authority-data": not_pem()}),
            json!({}),
            format!("has a certificate-authority-data without a certificate in PEM, in {cluster}"),
        ),
        (
            json!({"certificate-authority-data": key()}),
            json!({}),
            format!("has a certificate-authority-data without a certificate in PEM, in {cluster}"),
        ),
        (
            json!({"certificate-authority-data": certificate(), "insecure-skip-tls-verify": true}),
            json!({}),
            format!(
                "has certificate-authority-data and insecure-skip-tls-verify in {cluster}: only \
                 one can be meant"
            ),
        ),
        (
            json!({"insecure-skip-tls-verify": true}),
            json!({}),
            format!(
                "uses insecure-skip-tls-verify in {cluster}, which this operator does not allow"
            ),
        ),
        (
            json!({"tls-server-name": "s3same example"}),
            json!({}),
            format!("has an invalid tls-server-name in {cluster}"),
        ),
        (
            json!({"tls-server-name": "s3same.example:443"}),
            json!({}),
            format!("has an invalid tls-server-name in {cluster}"),
        ),
        (
            json!({}),
            json!({"token": "s3same\n"}),
            format!("has an invalid token in {user}"),
        ),
        (
            json!({}),
            json!({"username": "admin", "password": SECRET}),
            format!("has token and username in {user}: only one can be used"),
        ),
        (
            json!({}),
            json!({"token": "", "password": SECRET}),
            format!("has password without username in {user}"),
        ),
        (
            json!({}),
            json!({"token": "", "username": "s3same:a"}),
            format!("has an invalid username in {user}"),
        ),
        (
            json!({}),
            json!({"token": "", "username": "a", "password": "s3same\r\n"}),
            format!("has an invalid password in {user}"),
        ),
        (
            json!({}),
            json!({"token": ""}),
            format!("has no token, client-certificate-data or username in {user}"),
        ),
        (
            json!({}),
            json!({"client-certificate-data": certificate()}),
            format!("has client-certificate-data without client-key-data in {user}"),
        ),
        (
            json!({}),
            json!({"client-key-data": key()}),
            format!("has client-key-data without client-certificate-data in {user}"),
        ),
        (
            json!({}),
            json!({"client-certificate-data": "s3same", "client-key-data": key()}),
            format!("has a client-certificate-data that is not base64, in {user}"),
        ),
        (
            json!({}),
            json!({"client-certificate-data": certificate(), "client-key-data": "s3same"}),
            format!("has a client-key-data that is not base64, in {user}"),
        ),
        (
            json!({}),
            json!({"client-certificate-data": key(), "client-key-data": key()}),
            format!("has a client-certificate-data without a certificate in PEM, in {user}"),
        ),
        (
            json!({}),
            json!({"client-certificate-data": certificate(), "client-key-data": not_pem()}),
            format!("has a client-key-data without a private key in PEM, in {user}"),
        ),
        (
            json!({}),
            json!({"as-uid": SECRET}),
            format!("has as-uid without as in {user}"),
        ),
        (
            json!({}),
            json!({"as-groups": [SECRET]}),
            format!("has as-groups without as in {user}"),
        ),
        (
            json!({}),
            json!({"as-user-extra": {SECRET: []}}),
            format!("has as-user-extra without as in {user}"),
        ),
        (
            json!({}),
            json!({"as": "s3same\n"}),
            format!("has an invalid as in {user}"),
        ),
        (
            json!({}),
            json!({"as": "a", "as-groups": ["s3same\r\nAuthorization: x"]}),
            format!("has an invalid as-groups in {user}"),
        ),
        (
            json!({}),
            json!({"as": "a", "as-user-extra": {"s3same\n": ["x"]}}),
            format!("has an invalid as-user-extra in {user}"),
        ),
    ] {
        assert_whole_refused(&with(of_cluster, of_user), None, &expected);
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic_and_refused_without_a_secret(text in ".{0,200}") {
        let text = format!("{text}{SECRET}");
        if let Err(refused) = Kubeconfig::VERIFIED.access(&data("kubeconfig", text), None) {
            prop_assert!(!refused.to_string().contains(SECRET));
        }
    }
}
