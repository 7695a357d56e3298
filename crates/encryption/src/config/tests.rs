use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n";
const ONE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
const TWO: &str = "AQEBAQEBAQEBAQEBAQEBAQ==";

fn parse(resources: &str) -> Result<Config> {
    Config::parse(&format!("{HEAD}resources:\n{resources}"))
}

fn names(config: &Config) -> Vec<String> {
    let names = config.providers.iter().map(|key| format!("{key:?}"));
    names.collect()
}

#[test]
fn first_matching_entry_decides_and_its_first_provider_seals() {
    let config = parse(&format!(
        "- resources: [configmaps]\n  providers:\n  - identity: {{}}\n  - aesgcm: {{keys: [{{name: old, secret: {TWO}}}]}}\n\
         - resources: [secrets, '*.apps']\n  providers:\n  - aesgcm: {{keys: [{{name: new, secret: {ONE}}}, {{name: old, secret: {TWO}}}]}}\n  - identity: {{}}\n\
         - resources: ['*.']\n  providers:\n  - aesgcm: {{keys: [{{name: new, secret: {ONE}}}]}}\n"
    ))
    .unwrap();
    assert_eq!(names(&config), ["aesgcm:new", "aesgcm:old"]);
    let seals = [
        ("", "configmaps"),
        ("", "secrets"),
        ("apps", "deployments"),
        ("", "pods"),
        ("batch", "jobs"),
    ]
    .map(|(group, resource)| config.rules.seal(group, resource));
    assert_eq!(seals, [false, true, true, true, false]);
    assert!(config.rules.seal_any());
}

#[test]
fn kms_plugin_is_read_with_its_default_timeout() {
    let config = parse(
        "- resources: [secrets]\n  providers:\n  - kms: {apiVersion: v2, name: vault, endpoint: 'unix:///run/kms.sock'}\n",
    )
    .unwrap();
    let [
        ProviderConfig::Kms {
            name,
            endpoint,
            timeout,
        },
    ] = &config.providers[..]
    else {
        panic!("{config:?}")
    };
    assert_eq!((&**name, &**endpoint), ("vault", "unix:///run/kms.sock"));
    assert_eq!(*timeout, Duration::from_secs(3));
}

#[test]
fn unusable_configurations_are_refused_with_the_reason() {
    let aesgcm = |secret: &str| format!("aesgcm: {{keys: [{{name: k, secret: {secret}}}]}}");
    let entry = |provider: &str| format!("- resources: [secrets]\n  providers:\n  - {provider}\n");
    let different = format!(
        "{}- resources: [pods]\n  providers:\n  - aesgcm: {{keys: [{{name: j, secret: {TWO}}}]}}\n",
        entry(&aesgcm(ONE))
    );
    let conflicting = format!(
        "{}- resources: [pods]\n  providers:\n  - {}\n",
        entry(&aesgcm(ONE)),
        aesgcm(TWO)
    );
    for (resources, reason) in [
        ("  []\n".to_owned(), "`resources` is empty"),
        (
            "- resources: []\n  providers:\n  - identity: {}\n".into(),
            "resources[0]: `resources` is empty",
        ),
        (
            "- resources: [secrets]\n  providers: []\n".into(),
            "resources[0]: `providers` is empty",
        ),
        (
            entry(&aesgcm("AAAA")),
            "resources[0]: aesgcm: keys[0]: the secret has 3 bytes; 16, 24 or 32 are allowed",
        ),
        (
            entry(&aesgcm("'*'")),
            "resources[0]: aesgcm: keys[0]: the secret is not base64",
        ),
        (
            entry("aescbc: {keys: []}"),
            "resources[0]: the provider `aescbc` is not supported; use `aesgcm` or `kms`",
        ),
        (
            entry("secretbox: {keys: []}"),
            "resources[0]: the provider `secretbox` is not supported; use `aesgcm` or `kms`",
        ),
        (
            entry("kms: {name: a, endpoint: 'unix:///a'}"),
            "resources[0]: kms: only `apiVersion: v2` is supported",
        ),
        (
            entry("kms: {apiVersion: v2, name: a, endpoint: 'unix:///a', timeout: 0s}"),
            "resources[0]: kms: `timeout` is a duration above zero, such as 3s",
        ),
        (
            entry("kms: {apiVersion: v2, name: a, endpoint: 'tcp://a'}"),
            "resources[0]: kms: `endpoint` is unix:///PATH",
        ),
        (
            entry(
                "kms: {apiVersion: v2, name: a, endpoint: 'unix:///a'}\n  - kms: {apiVersion: v2, name: a, endpoint: 'unix:///b'}",
            ),
            "resources[0]: there are two different kms plugins of one name",
        ),
        (
            different,
            "resources[1]: the first provider that is not `identity` must be the same for all resources",
        ),
        (
            conflicting,
            "resources[1]: there are two different aesgcm keys of one name",
        ),
    ] {
        assert_eq!(
            parse(&resources).unwrap_err(),
            Error::Config(reason.to_owned()),
            "{resources}"
        );
    }
    let other = Config::parse("apiVersion: v1\nkind: Secret\nresources: []\n").unwrap_err();
    assert!(
        other
            .to_string()
            .contains("not `apiserver.config.k8s.io/v1 EncryptionConfiguration`")
    );
}

#[test]
fn errors_do_not_reveal_secrets() {
    let marker = "c2VjcmV0LW1hcmtlci1zZWNyZXQtbWFya2Vy";
    let entry = |keys: &str| {
        format!(
            "{HEAD}resources:\n- resources: [secrets]\n  providers:\n  - aesgcm: {{keys: {keys}\n"
        )
    };
    for text in [
        entry(&format!("[{{name: k, secret: {marker}, x: 1}}]}}")),
        entry(&format!("[{{name: k, secret: [{marker}]}}]}}")),
        entry(&format!("[{{name: k, secret: {marker}")),
        entry(&format!("[{marker}]}}")),
        entry(&format!("[{{name: k, {marker}: x}}]}}")),
        entry(&format!("{marker}}}")),
        // The name and the secret are exchanged.
        entry(&format!("[{{name: {marker}, secret: key1}}]}}")),
        entry(&format!(
            "[{{name: {marker}, secret: {ONE}}}, {{name: {marker}, secret: {ONE}}}]}}"
        )),
    ] {
        let error = Config::parse(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(marker), "{error}");
    }
    let unknown = entry("[{name: k, secret: s, x: 1}]}");
    let error = Config::parse(&unknown).unwrap_err().to_string();
    assert!(error.starts_with("line 6 column "), "{error}");
}
