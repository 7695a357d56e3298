mod props;
mod saved;

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use k8s_openapi::ByteString;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use crate::token;

const FULL: &str = include_str!("../../tests/data/full.subm");
const FULL_JSON: &str = include_str!("../../tests/data/full.json");
const PARTIAL: &str = include_str!("../../tests/data/partial.subm");
/// Recorded from a Go program with Submariner's own structure, malformed tags included.
const GO: &str = include_str!("../../tests/data/go.subm");
/// The same, with the metadata that a server adds to a Secret.
const GO_RAW: &str = include_str!("../../tests/data/go-raw.subm");
const PARTIAL_JSON: &str = include_str!("../../tests/data/partial.json");

fn data(entries: &[(&str, &[u8])]) -> Option<BTreeMap<String, ByteString>> {
    let owned = |&(key, value): &(&str, &[u8])| (key.to_owned(), ByteString(value.to_vec()));
    Some(entries.iter().map(owned).collect())
}

fn admin_token() -> Secret {
    let annotation = (
        token::ACCOUNT.to_owned(),
        "submariner-k8s-broker-admin".to_owned(),
    );
    Secret {
        metadata: ObjectMeta {
            name: Some("submariner-k8s-broker-admin-token-x7k2p".to_owned()),
            namespace: Some("submariner-broker-acme".to_owned()),
            annotations: Some(BTreeMap::from([annotation])),
            ..ObjectMeta::default()
        },
        data: data(&[
            ("ca.crt", b"FAKE-CA\n"),
            ("namespace", b"submariner-broker-acme"),
            ("token", b"tok.en.sig"),
        ]),
        type_: Some(token::TYPE.to_owned()),
        ..Secret::default()
    }
}

fn full() -> BrokerInfo {
    BrokerInfo {
        url: "https://broker.example.com:6443".to_owned(),
        client_token: Some(admin_token()),
        ipsec_psk: Some(crate::psk::secret((0..48).collect())),
        components: ["connectivity", "service-discovery"]
            .map(str::to_owned)
            .into(),
        custom_domains: Vec::new(),
        namespace: None,
    }
}

fn partial() -> BrokerInfo {
    BrokerInfo {
        url: "https://broker.example.com:6443".to_owned(),
        client_token: Some(admin_token()),
        namespace: Some("submariner-broker-acme".to_owned()),
        ..BrokerInfo::default()
    }
}

fn of_json(json: &str) -> Result<BrokerInfo, String> {
    BrokerInfo::decode(&URL_SAFE.encode(json)).map_err(|error| error.to_string())
}

#[test]
fn r77_files_match_submariners_byte_for_byte() {
    for (info, text, json) in [
        (full(), FULL, FULL_JSON),
        (partial(), PARTIAL, PARTIAL_JSON),
    ] {
        assert_eq!(info.encode(), text);
        let decoded = URL_SAFE.decode(info.encode()).unwrap();
        assert_eq!(String::from_utf8(decoded).unwrap(), json);
        assert_eq!(BrokerInfo::decode(text).unwrap(), info);
    }
}

#[test]
fn r77_go_files_round_trip_byte_for_byte() {
    let info = BrokerInfo::decode(GO).unwrap();
    assert_eq!(
        info.url,
        "https://broker.example.com:6443/a?b=c&d=<e>~~??\u{2028}"
    );
    assert_eq!(info.custom_domains, ["a.example", "b&c<d>.example"]);
    assert_eq!(
        non_empty_value(info.client_token.as_ref(), "ca.crt"),
        Some(&b"FAKE-CA\n\xff\xfe"[..])
    );
    let key: Vec<u8> = (0..48).map(|byte| 255 - byte).collect();
    assert_eq!(
        non_empty_value(info.ipsec_psk.as_ref(), "psk"),
        Some(&key[..])
    );
    assert_eq!(info.encode(), GO);
    assert_eq!(BrokerInfo::decode(GO_RAW).unwrap(), info);
}

#[test]
fn empty_info_has_the_mandatory_keys() {
    let written = URL_SAFE.decode(BrokerInfo::default().encode()).unwrap();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        r#"{"brokerURL":"","ClientToken":null,"IPSecPSK":null,"ServiceDiscovery":false,"CustomDomains":null}"#
    );
    for empty in ["{}", r#"{"namespace":"","Components":[],"x":[{}]}"#] {
        assert_eq!(of_json(empty), Ok(BrokerInfo::default()));
    }
}

#[test]
fn r7_files_are_read_in_every_base64_variant() {
    let lines = |text: String| {
        let lines: Vec<_> = text.as_bytes().chunks(76).collect();
        String::from_utf8(lines.join(&b"\r\n"[..])).unwrap() + "\n"
    };
    for json in [FULL_JSON, PARTIAL_JSON] {
        let expected = of_json(json).unwrap();
        for text in [
            STANDARD.encode(json),
            STANDARD_NO_PAD.encode(json),
            lines(STANDARD.encode(json)),
            lines(URL_SAFE.encode(json)),
            format!(" \t{}\n\n", URL_SAFE.encode(format!("{json}\n"))),
        ] {
            assert_eq!(BrokerInfo::decode(&text).unwrap(), expected);
        }
    }
    // Characters that differ between the two alphabets.
    let odd = r#"{"brokerURL":"https://b/??>~~>>??"}"#;
    assert!(STANDARD.encode(odd).contains('/') || STANDARD.encode(odd).contains('+'));
    let read = BrokerInfo::decode(&STANDARD.encode(odd)).unwrap();
    assert_eq!(read.url, "https://b/??>~~>>??");
}

#[test]
fn r7_keys_are_case_insensitive() {
    let made_by_hand = FULL_JSON
        .replace("\"ClientToken\"", "\"clientToken\"")
        .replace("\"IPSecPSK\"", "\"ipsecPSK\"")
        .replace("\"Components\"", "\"components\"")
        .replace("\"brokerURL\"", "\"BrokerURL\"")
        .replace("\"data\"", "\"Data\"");
    assert_ne!(made_by_hand, FULL_JSON);
    assert_eq!(of_json(&made_by_hand), Ok(full()));
}

#[test]
fn r7_old_files_have_service_discovery_as_a_flag_only() {
    let old = of_json(r#"{"ServiceDiscovery":true,"Components":null}"#).unwrap();
    assert_eq!(
        old.components,
        BTreeSet::from(["service-discovery".to_owned()])
    );
    let older = of_json(r#"{"Components":["globalnet","connectivity"]}"#).unwrap();
    let expected = ["connectivity", "globalnet"].map(str::to_owned);
    assert_eq!(older.components, expected.into());
}

#[test]
fn html_characters_are_escaped_as_in_go() {
    let mut info = partial();
    info.url = "https://b/?a=1&b=<\u{2028}>\u{8}\u{c}\u{1}\u{7f}ä\"\\".to_owned();
    let written = URL_SAFE.decode(info.encode()).unwrap();
    let written = String::from_utf8(written).unwrap();
    let expected = "{\"brokerURL\":\"https://b/?a=1\\u0026b=\\u003c\\u2028\\u003e\\b\\f\\u0001\u{7f}ä\\\"\\\\\",";
    assert!(written.starts_with(expected), "{written}");
    assert_eq!(BrokerInfo::decode(&info.encode()).unwrap(), info);
}

#[test]
fn malformed_file_is_reported_without_its_content() {
    let field = |field: &str, expected: &str| {
        format!("error decoding data: error unmarshalling data: {field} is not {expected}")
    };
    let object = "error decoding data: error unmarshalling data: not a JSON object".to_owned();
    for (json, expected) in [
        ("", object.clone()),
        ("geheim", object.clone()),
        ("[]", object.clone()),
        ("{\"a\":geheim}", object.clone()),
        ("{} {}", object),
        (
            r#"{"brokerURL":["geheim"]}"#,
            field("brokerURL", "a string"),
        ),
        (
            r#"{"ClientToken":"geheim"}"#,
            field("ClientToken", "an object"),
        ),
        (r#"{"IPSecPSK":"geheim"}"#, field("IPSecPSK", "an object")),
        (
            r#"{"IPSecPSK":{"data":{"psk":"geheim!"}}}"#,
            field("data", "base64"),
        ),
        (
            r#"{"IPSecPSK":{"data":{"psk":["geheim"]}}}"#,
            field("data", "an object of strings"),
        ),
        (
            r#"{"IPSecPSK":{"metadata":{"creationTimestamp":"geheim"}}}"#,
            field("metadata.creationTimestamp", "a time"),
        ),
        (
            r#"{"ServiceDiscovery":"geheim"}"#,
            field("ServiceDiscovery", "true or false"),
        ),
        (
            r#"{"Components":["a",{"geheim":1}]}"#,
            field("Components", "a list of strings"),
        ),
    ] {
        let refused = of_json(json).unwrap_err();
        assert_eq!(refused, expected);
        assert!(!refused.contains("geheim"));
    }
    for text in ["geheim!", "a", "YQ==YQ==", "\u{e4}"] {
        let refused = BrokerInfo::decode(text).unwrap_err();
        assert_eq!(refused.to_string(), "error decoding data: it is not base64");
    }
}

#[test]
fn duplicate_field_is_refused() {
    for json in [
        r#"{"ClientToken":{},"ClientToken":{"data":{}}}"#,
        r#"{"ClientToken":{},"clientToken":{}}"#,
    ] {
        let refused = of_json(json).unwrap_err();
        let expected = "error decoding data: error unmarshalling data: duplicate field ClientToken";
        assert_eq!(refused, expected);
    }
    let null = of_json(r#"{"ClientToken":{},"clientToken":null}"#).unwrap();
    assert_eq!(null.client_token, Some(Secret::default()));
}

fn namespaces(named: Option<&str>, of_token: Option<&[u8]>) -> Result<Option<String>, String> {
    let mut info = BrokerInfo {
        namespace: named.map(str::to_owned),
        ..BrokerInfo::default()
    };
    if let Some(of_token) = of_token {
        let data = data(&[("namespace", of_token)]);
        info.client_token = Some(Secret {
            data,
            ..Secret::default()
        });
    }
    info.namespace().map_err(|error| error.to_string())
}

#[test]
fn r56_namespace_is_the_files_else_the_tokens() {
    for (named, of_token, expected) in [
        (None, None, None),
        (Some(""), Some(&b""[..]), None),
        (Some("a"), None, Some("a")),
        (None, Some(b"b"), Some("b")),
        (Some(""), Some(b"b"), Some("b")),
        (Some("a"), Some(b"a"), Some("a")),
    ] {
        let found = namespaces(named, of_token);
        assert_eq!(found, Ok(expected.map(str::to_owned)));
    }
    assert_eq!(
        namespaces(Some("a"), Some(b"b")).unwrap_err(),
        "broker info file is inconsistent: namespace \"a\" but the client token belongs to \"b\""
    );
}

#[test]
fn invalid_namespace_name_is_refused() {
    let long = "a".repeat(64);
    for bad in [
        "../../secrets",
        "A",
        "a/b",
        "a b",
        "a?b",
        "-",
        long.as_str(),
    ] {
        for found in [
            namespaces(Some(bad), None),
            namespaces(None, Some(bad.as_bytes())),
            namespaces(Some("good"), Some(bad.as_bytes())),
        ] {
            let expected = "broker info file is invalid: its namespace is not a valid name";
            assert_eq!(found.unwrap_err(), expected);
        }
    }
    assert!(namespaces(None, Some(b"\xff")).is_err());
}

#[test]
fn r78_partial_file_is_refused_with_a_hint() {
    let refused = partial().for_join(Path::new("p.subm")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "\"p.subm\" is not complete: it has no components"
    );
    assert_eq!(
        refused.hint().unwrap(),
        "run `subctl deploy broker` first, with --broker-info-from"
    );
    let nothing = BrokerInfo::default().for_join(Path::new("p.subm"));
    assert_eq!(
        nothing.unwrap_err().to_string(),
        "\"p.subm\" is not complete: it has no broker URL, no client token, no namespace, no components"
    );
    let mut without_key = full();
    without_key.ipsec_psk = Some(crate::psk::secret(Vec::new()));
    assert_eq!(
        without_key
            .for_join(Path::new("p"))
            .unwrap_err()
            .to_string(),
        "\"p\" is not complete: it has no IPsec PSK"
    );
    without_key.components.remove("connectivity");
    let discovery = without_key.for_join(Path::new("p")).unwrap();
    assert_eq!((discovery.psk(), &discovery.ipsec_psk), (None, &None));
}

#[test]
fn r77_complete_file_has_what_join_needs() {
    let complete = full().for_join(Path::new("p")).unwrap();
    assert_eq!(complete.url, "https://broker.example.com:6443");
    assert_eq!(complete.token, "tok.en.sig");
    assert_eq!(complete.ca.as_deref(), Some(&b"FAKE-CA\n"[..]));
    assert_eq!(complete.namespace, "submariner-broker-acme");
    assert_eq!(complete.psk().unwrap().len(), 48);
    let mut inconsistent = full();
    inconsistent.namespace = Some("other".to_owned());
    let refused = inconsistent.for_join(Path::new("p")).unwrap_err();
    assert!(matches!(refused, Error::Inconsistent { .. }));
}

#[test]
fn r81_debug_output_has_no_secrets() {
    let info = full();
    let shown = format!("{info:?} {:#?}", info.for_join(Path::new("p")).unwrap());
    let json: Value = serde_json::from_str(FULL_JSON).unwrap();
    let psk = json["IPSecPSK"]["data"]["psk"].as_str().unwrap();
    for secret in ["tok.en.sig", "dG9rLmVuLnNpZw", "FAKE-CA", psk, "0, 1, 2, 3"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    for name in ["submariner-ipsec-psk", "broker.example.com", "acme"] {
        assert!(shown.contains(name), "{shown}");
    }
}

#[test]
fn server_metadata_of_secrets_is_dropped() {
    let mut info = full();
    let told = json!({
        "metadata": {
            "name": "t", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "creationTimestamp": "2024-10-14T08:04:36Z",
            "labels": {"l": "1"}, "annotations": {"a": "1"},
            "managedFields": [{"manager": "m"}],
        },
        "data": {"token": "dA=="}, "type": "x",
    });
    info.client_token = serde_json::from_value(told).unwrap();
    let written = URL_SAFE.decode(info.encode()).unwrap();
    let written = String::from_utf8(written).unwrap();
    let expected = r#""ClientToken":{"metadata":{"name":"t","namespace":"n","uid":"u","creationTimestamp":"2024-10-14T08:04:36Z","labels":{"l":"1"},"annotations":{"a":"1"}},"data":{"token":"dA=="},"type":"x"},"#;
    assert!(written.contains(expected), "{written}");
}
