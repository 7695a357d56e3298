//! The OpenID Connect provider.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use insula_access::oidc::Settings;
use insula_apiserver::pipeline::oidc::Provider;
use insula_tls::Trust;

use crate::certificate_file::certificates;
use crate::failure::Failure;

/// The arguments of the provider.
#[derive(clap::Args)]
pub struct OidcArgs {
    /// OpenID Connect provider whose tokens are accepted
    #[arg(long = "oidc-issuer-url", value_name = "URL", requires = "client_id")]
    #[arg(value_parser = issuer_url)]
    pub issuer_url: Option<String>,

    /// Client ID that tokens must be issued for
    #[arg(long = "oidc-client-id", value_name = "ID", requires = "issuer_url")]
    #[arg(value_parser = some)]
    pub client_id: Option<String>,

    /// Claim with the user name
    #[arg(
        long = "oidc-username-claim",
        value_name = "CLAIM",
        requires = "issuer_url"
    )]
    #[arg(default_value = "sub", value_parser = some)]
    pub username_claim: String,

    /// Prefix of user names, `-` for none (default: the issuer URL and `#`, none for the claim
    /// email)
    #[arg(
        long = "oidc-username-prefix",
        value_name = "PREFIX",
        requires = "issuer_url"
    )]
    pub username_prefix: Option<String>,

    /// Claim with the user's groups
    #[arg(
        long = "oidc-groups-claim",
        value_name = "CLAIM",
        requires = "issuer_url"
    )]
    #[arg(value_parser = some)]
    pub groups_claim: Option<String>,

    /// Prefix of group names
    #[arg(
        long = "oidc-groups-prefix",
        value_name = "PREFIX",
        requires = "groups_claim"
    )]
    pub groups_prefix: Option<String>,

    /// Claim with the user's tenant (default: a group tenant:NAME)
    #[arg(
        long = "oidc-tenant-claim",
        value_name = "CLAIM",
        requires = "issuer_url"
    )]
    #[arg(value_parser = some)]
    pub tenant_claim: Option<String>,

    /// Reject tokens that name no tenant, or the system
    #[arg(long = "oidc-tenants-only", requires = "issuer_url")]
    pub tenants_only: bool,

    /// Claim and value that tokens must have (repeatable)
    #[arg(
        long = "oidc-required-claim",
        value_name = "CLAIM=VALUE",
        requires = "issuer_url"
    )]
    #[arg(value_parser = claim)]
    pub required_claim: Vec<(String, String)>,

    /// CA of the provider's certificate (default: the CAs of this machine)
    #[arg(long = "oidc-ca-file", value_name = "FILE", requires = "issuer_url")]
    pub ca_file: Option<PathBuf>,
}

/// A provider of accepted tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oidc {
    /// How its tokens are interpreted.
    settings: Settings,
    /// How its certificate is verified.
    trust: Trust,
}

impl Oidc {
    /// Returns the provider that the arguments name, if any.
    pub fn of(args: OidcArgs) -> Result<Option<Self>, Failure> {
        let (Some(issuer), Some(client_id)) = (args.issuer_url, args.client_id) else {
            return Ok(None);
        };
        Ok(Some(Self {
            settings: Settings {
                username_claim: args.username_claim,
                username_prefix: args.username_prefix,
                groups_claim: args.groups_claim,
                groups_prefix: args.groups_prefix.unwrap_or_default(),
                tenant_claim: args.tenant_claim,
                tenants_only: args.tenants_only,
                required_claims: required(args.required_claim)?,
                ..Settings::new(&issuer, &client_id)
            },
            trust: match args.ca_file.as_deref() {
                Some(path) => Trust::Authorities(authorities(path)?),
                None => Trust::System,
            },
        }))
    }

    /// Creates the token authenticator.
    pub fn provider(self) -> Result<Arc<Provider>, Failure> {
        let attempted = format!("cannot use the OIDC provider {}", self.settings.issuer_url);
        let provider = Provider::new(self.settings, &self.trust);
        provider.map_err(|error| Failure::new(&attempted, error))
    }
}

/// Parses an issuer URL, without query and fragment as OpenID Connect requires.
pub fn issuer_url(text: &str) -> Result<String, &'static str> {
    let wrong = "an issuer is https://HOST, with a port and a path perhaps, and nothing after it";
    let url: http::Uri = text.parse().map_err(|_| wrong)?;
    let plain = url.query().is_none() && !text.contains(['#', '?', '@']);
    match url.host() {
        Some(host) if !host.is_empty() && url.scheme_str() == Some("https") && plain => {
            Ok(text.to_owned())
        }
        _ => Err(wrong),
    }
}

fn authorities(path: &Path) -> Result<String, Failure> {
    let found = certificates(path)?;
    let pem = found.iter().map(|one| {
        let block = pem::Pem::new("CERTIFICATE", one.as_ref());
        pem::encode(&block)
    });
    Ok(pem.collect())
}

/// Rejects two values for one claim, of which one would be ignored.
fn required(mut claims: Vec<(String, String)>) -> Result<Vec<(String, String)>, Failure> {
    claims.sort();
    let twice = claims.windows(2).find(|pair| pair[0].0 == pair[1].0);
    if let Some([(claim, _), _]) = twice {
        let message = format!("--oidc-required-claim has two values for {claim}");
        return Err(Failure::message(message));
    }
    Ok(claims)
}

fn some(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("must not be empty"),
        _ => Ok(text.to_owned()),
    }
}

fn claim(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((claim, value)) if !claim.is_empty() => Ok((claim.to_owned(), value.to_owned())),
        _ => Err("a required claim is CLAIM=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        oidc: OidcArgs,
    }

    const LEAST: [&str; 4] = [
        "--oidc-issuer-url",
        "https://id.example",
        "--oidc-client-id",
        "insula",
    ];

    fn parse(more: &[&str]) -> Result<Option<Oidc>, String> {
        let arguments = ["insula"].into_iter().chain(more.iter().copied());
        let command = Command::try_parse_from(arguments).map_err(|error| error.to_string())?;
        Oidc::of(command.oidc).map_err(|failure| failure.to_string())
    }

    fn with(more: &[&str]) -> Oidc {
        parse(&[&LEAST, more].concat()).unwrap().unwrap()
    }

    #[test]
    fn oidc_arguments_have_the_defaults_of_kubernetes() {
        assert_eq!(parse(&[]), Ok(None));
        let least = Oidc {
            settings: Settings::new("https://id.example", "insula"),
            trust: Trust::System,
        };
        assert_eq!(with(&[]), least);
        assert_eq!(least.settings.username_claim, "sub");
        let whole = with(&[
            "--oidc-groups-claim=groups",
            "--oidc-groups-prefix=id:",
            "--oidc-tenant-claim=org",
            "--oidc-tenants-only",
            "--oidc-required-claim=hd=example.com",
            "--oidc-required-claim=a=b=c",
            "--oidc-required-claim=empty=",
        ]);
        let claims = [("a", "b=c"), ("empty", ""), ("hd", "example.com")];
        let claims = claims.map(|(claim, value)| (claim.to_owned(), value.to_owned()));
        let expected = Oidc {
            settings: Settings {
                groups_claim: Some("groups".to_owned()),
                groups_prefix: "id:".to_owned(),
                tenant_claim: Some("org".to_owned()),
                tenants_only: true,
                required_claims: claims.into(),
                ..least.settings
            },
            ..least
        };
        assert_eq!(whole, expected);
    }

    #[test]
    fn incomplete_oidc_arguments_are_refused() {
        let url = ["--oidc-issuer-url", "https://id.example"];
        for (arguments, expected) in [
            (&url[..], "--oidc-client-id"),
            (&["--oidc-client-id", "a"], "--oidc-issuer-url"),
            (&["--oidc-username-claim", "email"], "--oidc-issuer-url"),
            (&["--oidc-tenant-claim", "org"], "--oidc-issuer-url"),
            (&["--oidc-tenants-only"], "--oidc-issuer-url"),
            (&["--oidc-required-claim", "a=b"], "--oidc-issuer-url"),
            (&["--oidc-ca-file", "ca.crt"], "--oidc-issuer-url"),
        ] {
            let message = parse(arguments).unwrap_err();
            assert!(message.contains(expected), "{arguments:?}: {message}");
        }
        for (more, expected) in [
            (["--oidc-groups-prefix", "id:"], "--oidc-groups-claim"),
            (["--oidc-required-claim", "=b"], "CLAIM=VALUE"),
            (["--oidc-required-claim", "a"], "CLAIM=VALUE"),
            (["--oidc-tenant-claim", ""], "must not be empty"),
            (["--oidc-ca-file", "/missing"], "cannot read /missing"),
        ] {
            let message = parse(&[&LEAST[..], &more].concat()).unwrap_err();
            assert!(message.contains(expected), "{more:?}: {message}");
        }
        let twice = ["--oidc-required-claim=a=b", "--oidc-required-claim=a=c"];
        let message = parse(&[&LEAST[..], &twice].concat()).unwrap_err();
        assert_eq!(message, "--oidc-required-claim has two values for a");
        for bad in ["http://id.example", "https://id.example?a", "id.example"] {
            let arguments = ["--oidc-issuer-url", bad, "--oidc-client-id", "a"];
            let message = parse(&arguments).unwrap_err();
            assert!(message.contains("an issuer is https://HOST"), "{message}");
        }
    }
}
