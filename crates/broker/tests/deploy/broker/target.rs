//! The target: from the file, then the flag, then the default; then the kube context.

use insula_broker::Error;
use insula_broker::deploy::broker::{BrokerSettings, CredentialSource, Prepared};
use insula_broker::info::BrokerInfo;
use insula_broker::report::Silent;
use insula_testkit::server::TestServer;
use kube::Config;

use super::fixture::Scene;
use crate::scene::{Told, config};

fn prepared(context: Result<Config, Error>, settings: &BrokerSettings) -> Result<Prepared, Error> {
    Prepared::new(context, settings, &Silent)
}

fn no_context() -> Result<Config, Error> {
    Err(Error::invalid("there is no kubeconfig"))
}

#[tokio::test]
async fn r56_namespace_is_from_the_file_then_the_flag_then_the_default() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let plain = BrokerInfo {
        client_token: None,
        namespace: None,
        ..partial.clone()
    };
    let warning =
        "Using namespace submariner-broker-acme of the broker info file, not foo of --namespace";
    for (info, flag, namespace, warnings) in [
        (&partial, None, "submariner-broker-acme", vec![]),
        (
            &partial,
            Some("foo"),
            "submariner-broker-acme",
            vec![warning],
        ),
        (
            &partial,
            Some("submariner-broker-acme"),
            "submariner-broker-acme",
            vec![],
        ),
        (&plain, Some("foo"), "foo", vec![]),
        (&plain, None, "submariner-k8s-broker", vec![]),
    ] {
        let settings = BrokerSettings {
            namespace: flag.map(str::to_owned),
            ..scene.with_file("in.subm", info)?
        };
        let told = Told::default();
        let context = Ok(config(&scene.server, "system")?);
        let prepared = Prepared::new(context, &settings, &told)?;
        assert_eq!(prepared.target.namespace, namespace);
        assert_eq!(told.warnings(), warnings);
    }
    Ok(())
}

#[tokio::test]
async fn inconsistent_file_is_refused() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let mut info = scene.tenant("acme").await?;
    info.namespace = Some("submariner-broker-other".to_owned());
    let settings = scene.with_file("in.subm", &info)?;
    let refused = prepared(no_context(), &settings).err().unwrap();
    let said = "broker info file is inconsistent: namespace \"submariner-broker-other\" but the client token belongs to \"submariner-broker-acme\"";
    assert_eq!(refused.to_string(), said);
    Ok(())
}

#[tokio::test]
async fn r54_r57_user_and_url_are_taken_from_the_file_independently() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let both = scene.tenant("acme").await?;
    let no_url = BrokerInfo {
        url: String::new(),
        ..both.clone()
    };
    let no_user = BrokerInfo {
        client_token: None,
        ..both.clone()
    };
    let neither = BrokerInfo {
        url: String::new(),
        ..no_user.clone()
    };
    for (info, user, needs_context) in [
        (&both, CredentialSource::File, false),
        (&no_url, CredentialSource::File, true),
        (&no_user, CredentialSource::KubeContext, true),
        (&neither, CredentialSource::KubeContext, true),
    ] {
        let settings = scene.with_file("in.subm", info)?;
        let place = prepared(Ok(config(&scene.server, "system")?), &settings)?.target;
        assert_eq!(
            (place.user, place.advertised_url.as_str()),
            (user, scene.server.url().as_str())
        );
        let deployed = scene.deploy(&settings, &Silent).await?;
        assert_eq!(deployed.namespace, "submariner-broker-acme");
        // Its error is reported only if it is needed.
        let without = prepared(no_context(), &settings).map(|_| ());
        let without = without.map_err(|error| error.to_string());
        match needs_context {
            true => assert_eq!(without, Err("there is no kubeconfig".to_owned())),
            false => assert_eq!(without, Ok(())),
        }
    }
    Ok(())
}

#[tokio::test]
async fn r54_file_overrides_the_kube_context() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let elsewhere = TestServer::start_with_controllers().await?;
    let partial = scene.tenant("acme").await?;
    let settings = scene.with_file("in.subm", &partial)?;
    let context = Ok(config(&elsewhere, "system")?);
    let deployed = insula_broker::deploy::broker::deploy(context, &settings, &Silent).await?;
    assert_eq!(deployed.url, scene.server.url());
    let keys = elsewhere.keys().await?;
    assert!(
        !keys.iter().any(|key| key.contains("submariner")),
        "{keys:?}"
    );
    Ok(())
}

#[tokio::test]
async fn r57_token_of_a_file_is_not_sent_to_another_cluster() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let partial = scene.tenant("acme").await?;
    let no_url = BrokerInfo {
        url: String::new(),
        ..partial.clone()
    };
    let settings = scene.with_file("in.subm", &no_url)?;
    // The other server cannot present a certificate of the file's CA, so nothing is sent.
    let elsewhere = TestServer::start_with_controllers().await?;
    let context = Ok(config(&elsewhere, "system")?);
    let refused = insula_broker::deploy::broker::deploy(context, &settings, &Silent)
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("x509: certificate signed by unknown authority"),
        "{refused}"
    );
    let hint = "the server's certificate is not from a CA that is trusted here: is the file old, or of another cluster?";
    assert_eq!(refused.hint().as_deref(), Some(hint));
    // Without a CA nothing could be verified.
    let mut no_ca = no_url.clone();
    no_ca
        .client_token
        .as_mut()
        .unwrap()
        .data
        .as_mut()
        .unwrap()
        .remove("ca.crt");
    let settings = scene.with_file("in.subm", &no_ca)?;
    let refused = prepared(Ok(config(&elsewhere, "system")?), &settings)
        .err()
        .unwrap();
    assert_eq!(
        refused.hint().as_deref(),
        Some("pass its URL as --broker-url")
    );
    // An explicit URL is accepted.
    let settings = BrokerSettings {
        broker_url: Some(scene.server.url()),
        ..scene.with_file("in.subm", &no_url)?
    };
    let deployed = scene.deploy_without_context(&settings, &Silent).await?;
    assert_eq!(deployed.url, scene.server.url());
    Ok(())
}

#[tokio::test]
async fn r57_credential_of_the_context_is_not_sent_to_the_files_url() -> anyhow::Result<()> {
    let scene = Scene::empty().await?;
    let url = |url: &str| BrokerInfo {
        url: url.to_owned(),
        client_token: None,
        ipsec_psk: None,
        components: Default::default(),
        custom_domains: Vec::new(),
        namespace: None,
    };
    let context = || config(&scene.server, "system").unwrap();
    let public = || {
        let mut context = context();
        context.root_cert = None;
        context
    };
    let careless = || {
        let mut context = context();
        context.accept_invalid_certs = true;
        context
    };
    let own = scene.server.url();
    for (context, named, sent) in [
        // One CA may have issued certificates for many servers.
        (context(), "https://elsewhere.example", false),
        (public(), "https://elsewhere.example", false),
        (careless(), "https://elsewhere.example", false),
        (public(), own.as_str(), true),
        (careless(), own.as_str(), true),
    ] {
        let settings = scene.with_file("in.subm", &url(named))?;
        let place = prepared(Ok(context), &settings);
        match sent {
            true => assert_eq!(
                place?.target.config.cluster_url,
                named.parse::<http::Uri>()?
            ),
            false => {
                let said = format!(
                    "the broker info file names https://elsewhere.example/ and no user: the credential of the kube context, which is of {own}/, is not sent there"
                );
                assert_eq!(place.err().unwrap().to_string(), said);
            }
        }
    }
    Ok(())
}

/// A URL without a scheme is equivalent, and is written completely.
#[tokio::test]
async fn r70_url_is_written_completely() -> anyhow::Result<()> {
    let scene = Scene::axon().await?;
    let whole = scene.tenant("acme").await?;
    let bare = BrokerInfo {
        url: scene.server.address().to_string(),
        ..whole
    };
    let settings = scene.with_file("in.subm", &bare)?;
    let deployed = scene.deploy_without_context(&settings, &Silent).await?;
    assert_eq!(deployed.url, scene.server.url());
    Ok(())
}

/// The variable with the file to connect with, in a separate process.
const CHILD: &str = "INSULA_TEST_BROKER_INFO";

#[tokio::test]
async fn server_is_verified_by_the_files_or_the_machines_ca() -> anyhow::Result<()> {
    if let Some(file) = std::env::var_os(CHILD) {
        let info = BrokerInfo::read(file.as_ref())?;
        let client = kube::Client::try_from(insula_broker::connect::from_file(&info)?)?;
        client.apiserver_version().await?;
        return Ok(());
    }
    let scene = Scene::axon().await?;
    let other = TestServer::start().await?;
    let of_server = scene.server.authority().certificate_pem();
    let of_other = other.authority().certificate_pem();
    let whole = scene.tenant("acme").await?;
    let name = "broker::target::server_is_verified_by_the_files_or_the_machines_ca";
    for (in_file, of_machine, believed) in [
        (of_server, of_other, true),
        (of_other, of_server, true),
        (of_server, of_server, true),
        (of_other, of_other, false),
    ] {
        let mut info = whole.clone();
        let data = info.client_token.as_mut().and_then(|it| it.data.as_mut());
        let bundle = k8s_openapi::ByteString(in_file.as_bytes().to_vec());
        data.unwrap().insert("ca.crt".to_owned(), bundle);
        let settings = scene.with_file("in.subm", &info)?;
        std::fs::write(scene.path("machine.pem"), of_machine)?;
        // The machine's roots are loaded once per process.
        let mut child = std::process::Command::new(std::env::current_exe()?);
        child.args(["--exact", name]);
        child.env(CHILD, settings.info_from.as_ref().unwrap());
        child.env("SSL_CERT_FILE", scene.path("machine.pem"));
        child.env_remove("SSL_CERT_DIR");
        // The server runs on this thread.
        let ended = tokio::task::spawn_blocking(move || child.output()).await??;
        assert_eq!(ended.status.success(), believed, "{ended:?}");
    }
    Ok(())
}
