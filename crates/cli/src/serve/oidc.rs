//! Tokens from an OpenID Connect provider: what is said about it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustls::pki_types::CertificateDer;

use super::args::issuer_url;
use super::tls::certificates;
use crate::failure::Failure;

/// What can be said about a provider.
#[derive(clap::Args)]
pub struct OidcArgs {
    /// An OpenID Connect provider whose tokens are trusted
    #[arg(long = "oidc-issuer-url", value_name = "URL", requires = "client_id")]
    #[arg(value_parser = issuer_url)]
    pub issuer_url: Option<String>,

    /// Whom its tokens must be for
    #[arg(long = "oidc-client-id", value_name = "ID", requires = "issuer_url")]
    #[arg(value_parser = some)]
    pub client_id: Option<String>,

    /// The claim that is the user's name
    #[arg(
        long = "oidc-username-claim",
        value_name = "CLAIM",
        requires = "issuer_url"
    )]
    #[arg(default_value = "sub", value_parser = some)]
    pub username_claim: String,

    /// What users' names are to begin with, `-` for nothing; default: the issuer's URL and `#`,
    /// and nothing for the claim email
    #[arg(
        long = "oidc-username-prefix",
        value_name = "PREFIX",
        requires = "issuer_url"
    )]
    pub username_prefix: Option<String>,

    /// The claim that is the user's groups
    #[arg(
        long = "oidc-groups-claim",
        value_name = "CLAIM",
        requires = "issuer_url"
    )]
    #[arg(value_parser = some)]
    pub groups_claim: Option<String>,

    /// What groups' names are to begin with
    #[arg(
        long = "oidc-groups-prefix",
        value_name = "PREFIX",
        requires = "groups_claim"
    )]
    pub groups_prefix: Option<String>,

    /// The claim that is the user's tenant
    #[arg(
        long = "oidc-tenant-claim",
        value_name = "CLAIM",
        requires = "issuer_url"
    )]
    #[arg(value_parser = some)]
    pub tenant_claim: Option<String>,

    /// A claim that tokens must have, with its value; may be repeated
    #[arg(
        long = "oidc-required-claim",
        value_name = "CLAIM=VALUE",
        requires = "issuer_url"
    )]
    #[arg(value_parser = claim)]
    pub required_claim: Vec<(String, String)>,

    /// The CA that the provider's certificate is from; default: those of this machine
    #[arg(long = "oidc-ca-file", value_name = "FILE", requires = "issuer_url")]
    pub ca_file: Option<PathBuf>,
}

/// A provider whose tokens are to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oidc {
    /// Its URL: what its tokens name as their issuer.
    pub issuer: String,
    /// Whom its tokens must be for.
    pub client_id: String,
    /// The claim that is the user's name.
    pub username_claim: String,
    /// What users' names are to begin with.
    pub username_prefix: String,
    /// The claim that is the user's groups.
    pub groups_claim: Option<String>,
    /// What groups' names are to begin with.
    pub groups_prefix: String,
    /// The claim that is the user's tenant.
    pub tenant_claim: Option<String>,
    /// What tokens must claim.
    pub required_claims: BTreeMap<String, String>,
    /// The CAs that the provider's certificate may be from, if not those of the machine.
    pub cas: Option<Vec<CertificateDer<'static>>>,
}

impl Oidc {
    /// The provider that the arguments name, if they name one.
    pub fn of(args: OidcArgs) -> Result<Option<Self>, Failure> {
        let (Some(issuer), Some(client_id)) = (args.issuer_url, args.client_id) else {
            return Ok(None);
        };
        let username_prefix = match args.username_prefix.as_deref() {
            Some("-") => String::new(),
            Some(prefix) => prefix.to_owned(),
            // The provider vouches for addresses, which are everybody's. Other names are
            // its own, and must not meet those of others.
            None if args.username_claim == "email" => String::new(),
            None => format!("{issuer}#"),
        };
        Ok(Some(Self {
            client_id,
            username_claim: args.username_claim,
            username_prefix,
            groups_claim: args.groups_claim,
            groups_prefix: args.groups_prefix.unwrap_or_default(),
            tenant_claim: args.tenant_claim,
            required_claims: required(args.required_claim)?,
            cas: args.ca_file.as_deref().map(certificates).transpose()?,
            issuer,
        }))
    }
}

/// Of two values for one claim, one would be forgotten.
fn required(claims: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut required = BTreeMap::new();
    for (claim, value) in claims {
        if required.contains_key(&claim) {
            let said = format!("--oidc-required-claim has two values for {claim}");
            return Err(Failure::message(said));
        }
        required.insert(claim, value);
    }
    Ok(required)
}

fn some(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("it is empty"),
        _ => Ok(text.to_owned()),
    }
}

fn claim(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((claim, value)) if !claim.is_empty() => Ok((claim.to_owned(), value.to_owned())),
        _ => Err("a claim is required as CLAIM=VALUE"),
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
    fn a_provider_is_described_in_full_and_defaults_are_those_of_kubernetes() {
        assert_eq!(parse(&[]), Ok(None));
        let least = Oidc {
            issuer: "https://id.example".to_owned(),
            client_id: "insula".to_owned(),
            username_claim: "sub".to_owned(),
            username_prefix: "https://id.example#".to_owned(),
            groups_claim: None,
            groups_prefix: String::new(),
            tenant_claim: None,
            required_claims: BTreeMap::new(),
            cas: None,
        };
        assert_eq!(with(&[]), least);
        for (claim, prefix, expected) in [
            ("sub", None, "https://id.example#"),
            ("email", None, ""),
            ("email", Some("mail:"), "mail:"),
            ("sub", Some("-"), ""),
            ("sub", Some("id:"), "id:"),
        ] {
            let prefix = prefix.map(|prefix| ["--oidc-username-prefix", prefix]);
            let prefix = prefix.iter().flatten().copied();
            let more: Vec<_> = ["--oidc-username-claim", claim]
                .into_iter()
                .chain(prefix)
                .collect();
            assert_eq!(with(&more).username_prefix, expected, "{more:?}");
        }
        let whole = with(&[
            "--oidc-groups-claim=groups",
            "--oidc-groups-prefix=id:",
            "--oidc-tenant-claim=org",
            "--oidc-required-claim=hd=example.com",
            "--oidc-required-claim=a=b=c",
            "--oidc-required-claim=empty=",
        ]);
        let claims = [("a", "b=c"), ("empty", ""), ("hd", "example.com")];
        let claims = claims.map(|(claim, value)| (claim.to_owned(), value.to_owned()));
        let expected = Oidc {
            groups_claim: Some("groups".to_owned()),
            groups_prefix: "id:".to_owned(),
            tenant_claim: Some("org".to_owned()),
            required_claims: claims.into(),
            ..least
        };
        assert_eq!(whole, expected);
    }

    #[test]
    fn half_a_provider_is_none_and_is_refused() {
        let url = ["--oidc-issuer-url", "https://id.example"];
        for (arguments, expected) in [
            (&url[..], "--oidc-client-id"),
            (&["--oidc-client-id", "a"], "--oidc-issuer-url"),
            (&["--oidc-username-claim", "email"], "--oidc-issuer-url"),
            (&["--oidc-tenant-claim", "org"], "--oidc-issuer-url"),
            (&["--oidc-required-claim", "a=b"], "--oidc-issuer-url"),
            (&["--oidc-ca-file", "ca.crt"], "--oidc-issuer-url"),
        ] {
            let said = parse(arguments).unwrap_err();
            assert!(said.contains(expected), "{arguments:?}: {said}");
        }
        for (more, expected) in [
            (["--oidc-groups-prefix", "id:"], "--oidc-groups-claim"),
            (["--oidc-required-claim", "=b"], "CLAIM=VALUE"),
            (["--oidc-required-claim", "a"], "CLAIM=VALUE"),
            (["--oidc-tenant-claim", ""], "it is empty"),
            (["--oidc-ca-file", "/missing"], "cannot read /missing"),
        ] {
            let said = parse(&[&LEAST[..], &more].concat()).unwrap_err();
            assert!(said.contains(expected), "{more:?}: {said}");
        }
        let twice = ["--oidc-required-claim=a=b", "--oidc-required-claim=a=c"];
        let said = parse(&[&LEAST[..], &twice].concat()).unwrap_err();
        assert_eq!(said, "--oidc-required-claim has two values for a");
        for bad in ["http://id.example", "https://id.example?a", "id.example"] {
            let arguments = ["--oidc-issuer-url", bad, "--oidc-client-id", "a"];
            let said = parse(&arguments).unwrap_err();
            assert!(said.contains("an issuer is https://HOST"), "{said}");
        }
    }
}
