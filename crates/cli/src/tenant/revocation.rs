//! What `insula tenant revoke` and `restore` name: a credential, a user or a time.

use clap::ArgGroup;
use insula_core::{NotATenantName, Space};
use jiff::{SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::client::{Client, ClientError};

/// The credentials to revoke or to restore.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("target").required(true).multiple(true))]
pub struct Target {
    /// Client certificate with this SHA-256 fingerprint
    #[arg(long, group = "target", value_name = "FINGERPRINT", value_parser = fingerprint)]
    #[arg(conflicts_with_all = ["token", "user", "service_account", "issued_before"])]
    certificate: Option<String>,

    /// Token with this ID
    #[arg(long, group = "target", value_name = "ID", value_parser = some)]
    #[arg(conflicts_with_all = ["user", "service_account", "issued_before"])]
    token: Option<String>,

    /// All credentials of a user, also later ones
    #[arg(long, group = "target", value_parser = some, conflicts_with = "service_account")]
    user: Option<String>,

    /// All tokens of a service account, also later ones
    #[arg(long, group = "target", value_name = "NAMESPACE/NAME", value_parser = account)]
    service_account: Option<String>,

    /// Credentials issued before this time, or before `now`; of all users, or of the one named
    #[arg(long, group = "target", value_name = "TIME", value_parser = time)]
    issued_before: Option<Time>,
}

/// A time on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// The time of the server, which also dates credentials.
    Now,
    At(Timestamp),
}

/// The fields of a revocation that say which credentials it concerns.
#[derive(Clone, Debug)]
pub struct Selector {
    certificate: Option<String>,
    token: Option<String>,
    user: Option<String>,
    issued_before: Option<Timestamp>,
}

/// The group and version of revocations.
const API: &str = "/apis/access.insula.dev/v1";

/// The fields of a revocation that say which credentials it concerns.
const FIELDS: [&str; 4] = ["certificate", "token", "user", "issuedBefore"];

/// Hexadecimal digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 64;

/// Bytes of the digest in a name.
const NAME_BYTES: usize = 6;

impl Target {
    /// Returns the fields of the revocation, with the server's time for `now`.
    pub async fn resolve(self, client: &Client) -> Result<Selector, ClientError> {
        let now = match self.issued_before {
            // Seconds are compared, so everything of the current one is included.
            Some(Time::Now) => client.time().await? + SignedDuration::from_secs(1),
            _ => Timestamp::UNIX_EPOCH,
        };
        Ok(self.at(now))
    }

    fn at(self, now: Timestamp) -> Selector {
        Selector {
            certificate: self.certificate,
            token: self.token,
            user: self.user.or(self.service_account),
            issued_before: self.issued_before.map(|time| match time {
                Time::Now => now,
                Time::At(time) => time,
            }),
        }
    }
}

impl Selector {
    /// Returns the spec of the revocation.
    pub fn spec(&self) -> Value {
        let mut spec = json!({});
        let before = self.issued_before.map(|time| time.to_string());
        let values = [
            self.certificate.as_ref(),
            self.token.as_ref(),
            self.user.as_ref(),
            before.as_ref(),
        ];
        for (field, value) in FIELDS.into_iter().zip(values) {
            if let Some(value) = value {
                spec[field] = value.as_str().into();
            }
        }
        spec
    }

    /// Returns the name of the revocation, the same for the same target.
    pub fn name(&self) -> String {
        let spec = self.spec();
        let kind = FIELDS.iter().find(|field| !spec[**field].is_null());
        let kind = kind.map_or("", |kind| *kind).to_ascii_lowercase();
        let digest = digest(&SHA256, spec.to_string().as_bytes());
        let short = digest.as_ref().iter().take(NAME_BYTES);
        let short: String = short.map(|byte| format!("{byte:02x}")).collect();
        format!("{kind}-{short}")
    }

    /// Whether a revocation is about the same credentials.
    pub fn is_of(&self, revocation: &Value) -> bool {
        let spec = self.spec();
        FIELDS
            .iter()
            .all(|field| spec[*field] == revocation["spec"][*field])
    }

    /// The user, if all credentials of one are meant.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Describes the credentials.
    pub fn describe(&self) -> String {
        let before = self.issued_before;
        let before = before.map(|time| format!("issued before {time}"));
        let named = [
            ("certificate", &self.certificate),
            ("token", &self.token),
            ("user", &self.user),
        ];
        let named = named.into_iter().find_map(|(kind, name)| {
            let name = name.as_ref()?;
            Some(format!("{kind} {name}"))
        });
        match (named, before) {
            (Some(named), Some(before)) => format!("credentials of {named} {before}"),
            (Some(named), None) => named,
            (None, before) => format!("credentials {}", before.unwrap_or_default()),
        }
    }
}

/// Returns the path of the revocations of a space.
pub fn path(space: &Space) -> String {
    format!("{API}/tenants/{space}/credentialrevocations")
}

/// Returns the path of the record of a space's credentials.
pub fn access_path(space: &Space) -> String {
    format!("{API}/tenantaccesses/{space}")
}

/// Parses the name of a tenant, or `system`.
pub fn space(text: &str) -> Result<Space, NotATenantName> {
    Space::parse(text)
}

fn some(text: &str) -> Result<String, &'static str> {
    match text.is_empty() {
        true => Err("it is empty"),
        false => Ok(text.to_owned()),
    }
}

/// Accepts the spellings of other programs: upper case, colons, Kubernetes' prefix.
fn fingerprint(text: &str) -> Result<String, &'static str> {
    let text = text.strip_prefix("X509SHA256=").unwrap_or(text);
    let digits: String = text.chars().filter(|one| *one != ':').collect();
    let digits = digits.to_ascii_lowercase();
    let valid =
        digits.len() == FINGERPRINT_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match valid {
        true => Ok(digits),
        false => Err("a fingerprint has 64 hexadecimal digits"),
    }
}

fn account(text: &str) -> Result<String, &'static str> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(format!("system:serviceaccount:{namespace}:{name}"))
        }
        _ => Err("a service account is NAMESPACE/NAME"),
    }
}

/// Parses a time. Fractions are rounded up, because tokens know full seconds only.
fn time(text: &str) -> Result<Time, String> {
    if text == "now" {
        return Ok(Time::Now);
    }
    let time: Timestamp = text
        .parse()
        .map_err(|_| "a time is `now`, or in the form of RFC 3339, such as 2026-01-31T12:00:00Z")?;
    let seconds = time.as_second() + i64::from(time.subsec_nanosecond() > 0);
    let rounded = Timestamp::from_second(seconds).map_err(|error| error.to_string())?;
    Ok(Time::At(rounded))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        target: Target,
    }

    fn parse(arguments: &[&str]) -> Result<Selector, clap::Error> {
        let arguments = std::iter::once("x").chain(arguments.iter().copied());
        let command = Command::try_parse_from(arguments);
        command.map(|command| command.target.at(Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn target_is_a_credential_a_user_or_a_time() {
        let digits = "ab".repeat(32);
        let colons = vec!["AB"; 32].join(":");
        let prefixed = format!("X509SHA256={digits}");
        let time = "2026-01-31T12:00:00Z";
        for (arguments, spec) in [
            (
                &["--certificate", &digits][..],
                json!({"certificate": digits}),
            ),
            (&["--certificate", &colons], json!({"certificate": digits})),
            (
                &["--certificate", &prefixed],
                json!({"certificate": digits}),
            ),
            (&["--token", "t"], json!({"token": "t"})),
            (&["--user", "dora"], json!({"user": "dora"})),
            (
                &["--service-account", "shop/robot"],
                json!({"user": "system:serviceaccount:shop:robot"}),
            ),
            (&["--issued-before", time], json!({"issuedBefore": time})),
            (
                &["--issued-before", "2026-01-31T11:59:59.001Z"],
                json!({"issuedBefore": time}),
            ),
            (
                &["--issued-before", "now"],
                json!({"issuedBefore": "1970-01-01T00:00:00Z"}),
            ),
            (
                &["--user", "dora", "--issued-before", time],
                json!({"user": "dora", "issuedBefore": time}),
            ),
        ] {
            let target = parse(arguments).unwrap();
            assert_eq!(target.spec(), spec, "{arguments:?}");
            assert!(target.is_of(&json!({"spec": spec})), "{arguments:?}");
        }
        for wrong in [
            &[][..],
            &["--certificate", "ab"],
            &["--certificate", &digits, "--token", "t"],
            &["--token", "t", "--user", "u"],
            &["--token", "t", "--issued-before", time],
            &["--user", "u", "--service-account", "a/b"],
            &["--service-account", "robot"],
            &["--issued-before", "yesterday"],
            &["--user", ""],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn same_target_has_the_same_name_and_others_have_another() {
        let name = |arguments: &[&str]| parse(arguments).unwrap().name();
        let dora = name(&["--user", "dora"]);
        assert_eq!(dora, name(&["--user", "dora"]));
        assert!(dora.starts_with("user-") && dora.len() == 17, "{dora}");
        assert_ne!(dora, name(&["--user", "mona"]));
        let time = "2026-01-31T12:00:00Z";
        assert_ne!(dora, name(&["--user", "dora", "--issued-before", time]));
        let before = name(&["--issued-before", time]);
        assert!(before.starts_with("issuedbefore-"), "{before}");
    }
}
