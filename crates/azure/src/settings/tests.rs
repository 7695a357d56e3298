use proptest::prelude::*;

use super::namespaces::is_dns_label;
use super::*;

fn parse(values: &[(&str, &str)]) -> Result<Parsed, InvalidSettings> {
    let own = [("POD_NAMESPACE", "acme-system")];
    let values = own.iter().chain(values);
    let values = values.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::parse(&values.collect())
}

fn settings(values: &[(&str, &str)]) -> Settings {
    parse(values).unwrap().settings
}

fn problems(values: &[(&str, &str)]) -> Vec<String> {
    let InvalidSettings(problems) = parse(values).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn settings_have_the_defaults_of_the_original_but_for_workload_identity() {
    let settings = settings(&[]);
    assert_eq!(settings.mode, Mode::WatchersAndWebhooks);
    assert_eq!(settings.target_namespaces, TargetNamespaces::All);
    assert_eq!(settings.credential, None);
    assert_eq!(settings.credential_mode, CredentialMode::Fallback);
    assert_eq!(
        settings.workload_identity_mode,
        WorkloadIdentityMode::Strict
    );
    assert_eq!(settings.sync_period, Some(Duration::from_secs(3600)));
    assert_eq!(settings.concurrent_reconciles, 4);
    assert_eq!(settings.rate_limit, None);
    assert_eq!(settings.default_policy, ReconcilePolicy::Manage);
    assert_eq!(settings.min_tls_version, TlsVersion::Tls12);
    assert_eq!(settings.metadata_endpoint, "http://169.254.169.254");
    assert_eq!(settings.cloud, Cloud::named("AzurePublicCloud").unwrap());
    assert_eq!(
        settings.cloud.resource_manager_audience,
        "https://management.core.windows.net/"
    );
}

#[test]
fn webhook_only_needs_nothing_else_and_is_the_mode_webhooks() {
    for values in [
        [("AZURE_WEBHOOK_ONLY", "1")],
        [("AZURE_OPERATOR_MODE", "Webhooks")],
    ] {
        assert_eq!(settings(&values).mode, Mode::Webhooks);
    }
    let agreed = [
        ("AZURE_WEBHOOK_ONLY", "true"),
        ("AZURE_OPERATOR_MODE", "webhooks"),
        ("AZURE_SUBSCRIPTION_ID", "none"),
    ];
    assert_eq!(settings(&agreed).credential, None);
    let unset = [
        ("AZURE_WEBHOOK_ONLY", "0"),
        ("AZURE_OPERATOR_MODE", "watchers"),
    ];
    assert_eq!(settings(&unset).mode, Mode::Watchers);
}

#[test]
fn contradicting_modes_are_refused() {
    for (webhook_only, mode) in [
        ("1", "watchers"),
        ("1", "watchers-and-webhooks"),
        ("0", "webhooks"),
    ] {
        let values = [
            ("AZURE_WEBHOOK_ONLY", webhook_only),
            ("AZURE_OPERATOR_MODE", mode),
        ];
        assert_eq!(
            problems(&values),
            [format!(
                "AZURE_WEBHOOK_ONLY={webhook_only:?}: AZURE_OPERATOR_MODE={mode:?} contradicts \
                 it: set one of both"
            )]
        );
    }
    let values = [
        ("AZURE_WEBHOOK_ONLY", "1"),
        ("AZURE_TARGET_NAMESPACES", "a"),
    ];
    assert_eq!(
        problems(&values),
        ["AZURE_TARGET_NAMESPACES=\"a\": target namespaces need an operator mode with watchers"]
    );
}

#[test]
fn all_problems_are_reported_at_once_with_the_legal_values() {
    let values = [
        ("POD_NAMESPACE", ""),
        ("AZURE_OPERATOR_MODE", "both"),
        ("AZURE_SYNC_PERIOD", "soon"),
        ("AZURE_CLOUD_ENV", "Moon"),
        ("AZURE_AUTHORITY_HOST", "http://login.example.com"),
        ("RATE_LIMIT_MODE", "on"),
        ("RATE_LIMIT_QPS", "0"),
        ("MAX_CONCURRENT_RECONCILES", "0"),
        ("DEFAULT_RECONCILE_POLICY", "keep"),
        ("TLS_MIN_VERSION", "1.2"),
        ("AZURE_OPERATOR_AUTH_SOURCE_MODE", "admin-namespace"),
        ("AZURE_SUBSCRIPTION_ID", "s"),
        ("AZURE_CLIENT_SECRET", "tell-no-one"),
    ];
    let text = parse(&values).unwrap_err().to_string();
    assert_eq!(
        text,
        "invalid settings: \
         AZURE_OPERATOR_MODE=\"both\": expected one of watchers, webhooks, watchers-and-webhooks; \
         POD_NAMESPACE: missing: the namespace of the operator; \
         AZURE_TENANT_ID: required for the credential type client-secret; \
         AZURE_CLIENT_ID: required for the credential type client-secret; \
         AZURE_OPERATOR_AUTH_SOURCE_MODE=\"admin-namespace\": expected one of fallback, \
         namespace, resource, global; \
         AZURE_CLOUD_ENV=\"Moon\": expected one of AzurePublicCloud, AzureUSGovernmentCloud, \
         AzureChinaCloud, AzureGermanCloud; \
         AZURE_AUTHORITY_HOST=\"http://login.example.com\": expected an https URL; http is for \
         this host only; \
         AZURE_SYNC_PERIOD=\"soon\": expected a duration such as 1h30m or 60s, or never; \
         MAX_CONCURRENT_RECONCILES=\"0\": expected a number of at least 1; \
         RATE_LIMIT_MODE=\"on\": expected one of disabled, bucket; \
         RATE_LIMIT_QPS=\"0\": expected a number above 0; \
         DEFAULT_RECONCILE_POLICY=\"keep\": expected one of manage, skip, detach-on-delete; \
         TLS_MIN_VERSION=\"1.2\": expected one of VersionTLS12, VersionTLS13"
    );
}

#[test]
fn own_credential_is_chosen_in_the_order_of_the_original() {
    let base = [
        ("AZURE_SUBSCRIPTION_ID", "s"),
        ("AZURE_TENANT_ID", "t"),
        ("AZURE_CLIENT_ID", "c"),
    ];
    let secret = ("AZURE_CLIENT_SECRET", "x");
    let certificate = ("AZURE_CLIENT_CERTIFICATE", "y");
    for (more, name) in [
        (vec![], "managed-identity"),
        (vec![secret], "client-secret"),
        (vec![secret, ("AZURE_USE_MI", "1")], "managed-identity"),
        (vec![secret, ("AZURE_USE_MI", "yes")], "client-secret"),
        (vec![secret, certificate], "client-certificate"),
        (
            vec![secret, certificate, ("USE_WORKLOAD_IDENTITY_AUTH", "True")],
            "workload-identity",
        ),
    ] {
        let values: Vec<_> = base.iter().copied().chain(more).collect();
        let credential = settings(&values).credential.unwrap();
        assert_eq!(credential.proof.name(), name);
    }
    let without_subscription = parse(&base[1..]).unwrap();
    assert_eq!(without_subscription.settings.credential, None);
    assert_eq!(without_subscription.warnings.len(), 1);
}

#[test]
fn endpoints_replace_those_of_the_cloud_one_by_one() {
    let settings = settings(&[
        ("AZURE_CLOUD_ENV", "AzureChinaCloud"),
        ("AZURE_RESOURCE_MANAGER_ENDPOINT", "http://127.0.0.1:8080"),
    ]);
    assert_eq!(
        settings.cloud,
        Cloud {
            authority_host: "https://login.chinacloudapi.cn/".to_owned(),
            resource_manager_endpoint: "http://127.0.0.1:8080".to_owned(),
            resource_manager_audience: "https://management.core.chinacloudapi.cn/".to_owned(),
        }
    );
    for bad in [
        "management.azure.com",
        "https://user@host",
        "ftp://host",
        "http://127.example.com",
        "https://host?x=1",
    ] {
        assert!(cloud::check_url(bad).is_err(), "{bad}");
    }
}

#[test]
fn secret_wins_over_the_environment_except_for_the_namespace() {
    let environment = [
        ("POD_NAMESPACE".to_owned(), "acme-system".to_owned()),
        ("AZURE_CLIENT_ID".to_owned(), "old".to_owned()),
    ];
    let secret = BTreeMap::from([
        ("POD_NAMESPACE".to_owned(), Hidden::new("other")),
        ("AZURE_CLIENT_ID".to_owned(), Hidden::new("new")),
    ]);
    let merged = merge(environment.clone(), &secret).unwrap();
    assert_eq!(merged["POD_NAMESPACE"], "acme-system");
    assert_eq!(merged["AZURE_CLIENT_ID"], "new");
    let secret = BTreeMap::from([("AZURE_CLIENT_SECRET".to_owned(), Hidden::new([0xff]))]);
    assert_eq!(
        merge(environment, &secret).unwrap_err().to_string(),
        "invalid settings: AZURE_CLIENT_SECRET: expected a text in UTF-8"
    );
}

#[test]
fn summary_and_debug_have_all_values_but_secrets() {
    let settings = settings(&[
        ("AZURE_SUBSCRIPTION_ID", "sub"),
        ("AZURE_TENANT_ID", "ten"),
        ("AZURE_CLIENT_ID", "cli"),
        ("AZURE_CLIENT_SECRET", "tell-no-one"),
        ("AZURE_TARGET_NAMESPACES", "b,a"),
        ("RATE_LIMIT_MODE", "bucket"),
        ("AZURE_SYNC_PERIOD", "never"),
    ]);
    assert_eq!(
        settings.to_string(),
        "namespace=acme-system mode=watchers-and-webhooks target-namespaces=b,a \
         credential=client-secret subscription=sub tenant=ten client=cli \
         credential-mode=fallback workload-identity-mode=strict \
         authority=https://login.microsoftonline.com/ \
         resource-manager=https://management.azure.com \
         audience=https://management.core.windows.net/ multiple-clouds=false sync-period=never \
         concurrent-reconciles=4 rate-limit=5/s,100 default-policy=manage min-tls=VersionTLS12"
    );
    assert!(!format!("{settings:?}").contains("tell-no-one"));
}

#[test]
fn empty_items_never_mean_all_namespaces() {
    for (text, expected) in [
        ("", TargetNamespaces::All),
        ("  ", TargetNamespaces::All),
        ("a", TargetNamespaces::Only(vec!["a".to_owned()])),
        ("a,,", TargetNamespaces::Only(vec!["a".to_owned()])),
        (
            " a , b,a",
            TargetNamespaces::Only(vec!["a".to_owned(), "b".to_owned()]),
        ),
    ] {
        let parsed = parse(&[("AZURE_TARGET_NAMESPACES", text)]).unwrap();
        assert_eq!(parsed.settings.target_namespaces, expected, "{text:?}");
        assert_eq!(parsed.warnings.len(), usize::from(text == "a,,"));
    }
    for text in [",", " , ,", "A", "a b", "-a", "a-", "a.b", "a,*"] {
        let problems = problems(&[("AZURE_TARGET_NAMESPACES", text)]);
        assert_eq!(problems.len(), 1, "{text:?}");
    }
}

proptest! {
    #[test]
    fn namespaces_of_a_list_are_its_distinct_items_whatever_surrounds_them(
        names in prop::collection::vec("[a-z]([a-z0-9-]{0,20}[a-z0-9])?", 1..6),
        fill in prop::collection::vec("[ ,]{0,3}", 7),
    ) {
        let mut text = fill[0].clone();
        for (name, fill) in names.iter().zip(&fill[1..]) {
            text += &format!("{name},{fill}");
        }
        let mut expected = Vec::new();
        for name in names {
            if !expected.contains(&name) {
                expected.push(name);
            }
        }
        let parsed = parse(&[("AZURE_TARGET_NAMESPACES", &text)]).unwrap();
        prop_assert_eq!(parsed.settings.target_namespaces, TargetNamespaces::Only(expected));
    }

    #[test]
    fn any_value_is_all_or_legal_names_or_a_problem(text in "[ -~]{0,30}") {
        match parse(&[("AZURE_TARGET_NAMESPACES", &text)]) {
            Ok(parsed) => match parsed.settings.target_namespaces {
                TargetNamespaces::All => prop_assert_eq!(text.trim(), ""),
                TargetNamespaces::Only(names) => {
                    prop_assert!(!names.is_empty());
                    prop_assert!(names.iter().all(|name| is_dns_label(name)));
                }
            },
            Err(InvalidSettings(problems)) => {
                prop_assert!(problems.iter().all(|it| it.variable == "AZURE_TARGET_NAMESPACES"));
            }
        }
    }
}
