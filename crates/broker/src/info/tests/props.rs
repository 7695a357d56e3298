use proptest::prelude::*;

use super::*;

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[ -~]{0,12}", any::<String>(), 1..3)
}

fn secrets() -> impl Strategy<Value = Secret> {
    let bytes = prop::collection::vec(any::<u8>(), 0..60).prop_map(ByteString);
    let data = prop::collection::btree_map(any::<String>(), bytes, 1..4);
    let name = || prop::option::of("[^\0]{1,20}");
    let seconds = prop::option::of(0_i64..4_000_000_000);
    let metadata = (
        name(),
        name(),
        seconds,
        prop::option::of(texts()),
        prop::option::of(texts()),
    );
    (metadata, prop::option::of(data), name()).prop_map(|(metadata, data, type_)| {
        let (name, namespace, created, labels, annotations) = metadata;
        let created = created.map(|seconds| jiff::Timestamp::from_second(seconds).unwrap());
        Secret {
            metadata: ObjectMeta {
                name,
                namespace,
                creation_timestamp: created
                    .map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time),
                labels,
                annotations,
                ..ObjectMeta::default()
            },
            data,
            type_,
            ..Secret::default()
        }
    })
}

fn infos() -> impl Strategy<Value = BrokerInfo> {
    let texts = || prop::collection::vec(any::<String>(), 0..3);
    let parts = (
        any::<String>(),
        prop::option::of(secrets()),
        prop::option::of(secrets()),
        texts(),
        texts(),
        prop::option::of(".{1,20}"),
    );
    parts.prop_map(
        |(url, client_token, ipsec_psk, words, domains, namespace)| BrokerInfo {
            url,
            client_token,
            ipsec_psk,
            components: words.into_iter().collect(),
            custom_domains: domains,
            namespace,
        },
    )
}

/// Encodes as `base64` without options: the other alphabet, in lines.
fn wrapped(text: &str) -> String {
    let json = URL_SAFE.decode(text).unwrap();
    let standard = STANDARD.encode(json);
    let lines: Vec<_> = standard.as_bytes().chunks(76).collect();
    String::from_utf8(lines.join(&b'\n')).unwrap() + "\n"
}

proptest! {
    #[test]
    fn encoded_info_round_trips(info in infos()) {
        let text = info.encode();
        prop_assert!(BrokerInfo::decode(&text).unwrap() == info);
        prop_assert!(BrokerInfo::decode(&wrapped(&text)).unwrap() == info);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        // Only panics matter here.
        decode::decode(&bytes).ok();
        decode::decode(URL_SAFE.encode(&bytes).as_bytes()).ok();
    }

    #[test]
    fn damaged_files_do_not_panic(at in 0_usize..680, byte in any::<u8>(), cut in 0_usize..680) {
        let mut json = FULL_JSON.as_bytes().to_vec();
        json[at] = byte;
        for damaged in [&json[..], &json[..cut], &json[cut..]] {
            if let Ok(info) = decode::decode(URL_SAFE.encode(damaged).as_bytes()) {
                info.for_join(Path::new("p")).ok();
                info.encode();
            }
        }
    }
}

#[test]
fn deep_or_large_files_do_not_panic() {
    let depth = 300_000;
    let deep = [
        "[".repeat(depth),
        format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth)),
        format!(
            "{}1{}",
            "{\"ClientToken\":".repeat(depth),
            "}".repeat(depth)
        ),
        format!(
            "{{\"Components\":{}{}}}",
            "[".repeat(depth),
            "]".repeat(depth)
        ),
    ];
    for text in deep {
        let refused = of_json(&text).unwrap_err();
        assert_eq!(
            refused,
            "error decoding data: error unmarshalling data: not a JSON object"
        );
    }
    let large = format!("{{\"brokerURL\":\"{}\"}}", "x".repeat(3 << 20));
    assert_eq!(of_json(&large).unwrap().url.len(), 3 << 20);
}
