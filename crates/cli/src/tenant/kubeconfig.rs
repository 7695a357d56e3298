//! `insula tenant kubeconfig`.

mod signing;

use std::time::Duration;

use insula_access::{CertificateRequest, Subject, TENANT_PREFIX};
use insula_core::{RESERVED_PREFIX, Space, TenantName};
use rcgen::KeyPair;

use super::{Server, tenant_name};
use crate::duration;
use crate::failure::Failure;
use crate::kubeconfig::Entry;
use crate::output;
use crate::pki::Identity;
use crate::secret::Secret;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant
    #[arg(value_parser = tenant_name)]
    name: TenantName,

    /// Name of the user
    #[arg(long, default_value = "admin", value_parser = user)]
    user: String,

    /// Group of the user (repeatable)
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Vec<String>,

    /// Lifetime of the credential
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = expiration)]
    expires: Duration,
}

/// The user and lifetime of a kubeconfig.
pub struct KubeconfigRequest<'a> {
    tenant: &'a TenantName,
    user: &'a str,
    groups: &'a [String],
    expires: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The minimum that Kubernetes accepts.
const MIN_LIFETIME: Duration = Duration::from_secs(10 * 60);

impl<'a> KubeconfigRequest<'a> {
    /// A user `admin`, for a day.
    pub const fn admin_of(tenant: &'a TenantName) -> Self {
        Self {
            tenant,
            user: "admin",
            groups: &[],
            expires: DAY,
        }
    }
}

/// Creates and prints a kubeconfig.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let requested = KubeconfigRequest {
        tenant: &args.name,
        user: &args.user,
        groups: &args.group,
        expires: args.expires,
    };
    output::print(&create(server, &requested).await?)
}

/// Creates a kubeconfig: the key is generated here, the certificate signed by the server.
pub async fn create(server: &Server, requested: &KubeconfigRequest<'_>) -> Result<String, Failure> {
    let attempted = format!("cannot create a kubeconfig for tenant {}", requested.tenant);
    let failed = |error: &dyn std::fmt::Display| Failure::new(&attempted, error);
    let subject = Subject {
        user: requested.user.to_owned(),
        groups: requested.groups.to_vec(),
        tenant: None,
        tenant_uid: None,
    };
    let key = KeyPair::generate().map_err(|error| failed(&error))?;
    let request = CertificateRequest::create_pem(&subject, &key).map_err(|error| failed(&error))?;
    let certificate = signing::sign(server, requested, &request, &attempted).await?;
    check(&certificate, subject, requested.tenant).map_err(|why| failed(&why))?;
    let key = Secret::new(key.serialize_pem());
    let user = format!("{}-{}", requested.tenant, requested.user);
    let kubeconfig = Entry {
        server: without_space(&server.url),
        trust: &server.trust,
        identity: &Identity { certificate, key },
        user: &user,
        context: requested.tenant.as_str(),
    };
    kubeconfig.to_yaml()
}

/// Checks that the certificate opens this tenant's space and no other, also after the tenant
/// was deleted and another got its name.
fn check(certificate: &str, asked: Subject, tenant: &TenantName) -> Result<(), &'static str> {
    let signed = Subject::read(certificate).map_err(|_| "the server signed no certificate")?;
    if signed.tenant_uid.is_none() {
        return Err("the server signed a certificate that outlives the tenant");
    }
    let expected = Subject {
        tenant: Some(Space::Tenant(tenant.clone())),
        tenant_uid: signed.tenant_uid.clone(),
        ..asked
    };
    match signed == expected {
        true => Ok(()),
        false => Err("the server signed a certificate for another user"),
    }
}

/// Returns the URL without a space in its path: the certificate determines the space.
fn without_space(server: &str) -> &str {
    let server = server.trim_end_matches('/');
    let authority = server.find("://").map_or(0, |at| at + "://".len());
    let path = server[authority..].find('/').map(|at| authority + at);
    let Some(path) = path.map(|at| &server[at..]) else {
        return server;
    };
    let before = path.rsplit_once('/').map_or("", |(before, _)| before);
    match before.strip_suffix("/tenants") {
        Some(before) => &server[..server.len() - path.len() + before.len()],
        None => server,
    }
}

fn user(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("the user name is empty");
    }
    if text.starts_with(RESERVED_PREFIX) {
        return Err("names that begin with `system:` are reserved");
    }
    Ok(text.to_owned())
}

/// Rejects groups that the server would drop or refuse.
fn group(text: &str) -> Result<String, &'static str> {
    if text.is_empty() {
        return Err("the group name is empty");
    }
    if text.starts_with(RESERVED_PREFIX) {
        return Err("groups that begin with `system:` are reserved");
    }
    if text.starts_with(TENANT_PREFIX) {
        return Err("groups that begin with `tenant:` are reserved");
    }
    Ok(text.to_owned())
}

fn expiration(text: &str) -> Result<Duration, String> {
    let length = duration::parse(text)?;
    if length < MIN_LIFETIME {
        return Err("the minimum is 10m".to_owned());
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_url_has_no_space_in_its_path() {
        for (server, expected) in [
            ("https://h:1", "https://h:1"),
            ("https://h:1/", "https://h:1"),
            ("https://h:1/tenants/t1", "https://h:1"),
            ("https://h:1/tenants/t1/", "https://h:1"),
            ("https://h:1/proxy", "https://h:1/proxy"),
            ("https://h:1/proxy/tenants/t1", "https://h:1/proxy"),
            ("https://tenants/x", "https://tenants/x"),
        ] {
            assert_eq!(without_space(server), expected);
        }
    }

    #[test]
    fn certificate_must_be_bound_to_this_tenant() {
        use insula_access::{Authority, Validity};
        let asked = |user: &str, groups: &[&str]| Subject {
            user: user.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            tenant: None,
            tenant_uid: None,
        };
        let signed = |tenant: &str, uid: Option<&str>| Subject {
            tenant: Some(Space::parse(tenant).unwrap()),
            tenant_uid: uid.map(Box::from),
            ..asked("alice", &["dev"])
        };
        let validity = Validity::starting(std::time::SystemTime::now(), DAY);
        let ca = Authority::generate("ca", validity).unwrap();
        let key = KeyPair::generate().unwrap();
        let t1 = tenant_name("t1").unwrap();
        let outlives = Err("the server signed a certificate that outlives the tenant");
        let another = Err("the server signed a certificate for another user");
        for (subject, expected) in [
            (signed("t1", Some("u-1")), Ok(())),
            (signed("t1", None), outlives),
            (signed("t2", Some("u-1")), another),
            (signed("system", Some("u-1")), another),
            (
                Subject {
                    user: "bob".to_owned(),
                    ..signed("t1", Some("u-1"))
                },
                another,
            ),
            (
                Subject {
                    groups: vec!["system:masters".to_owned()],
                    ..signed("t1", Some("u-1"))
                },
                another,
            ),
        ] {
            let pem = ca.issue_client(&subject, &key, validity).unwrap();
            assert_eq!(check(&pem, asked("alice", &["dev"]), &t1), expected);
        }
        let nonsense = check("nonsense", asked("alice", &[]), &t1);
        assert_eq!(nonsense, Err("the server signed no certificate"));
    }

    #[test]
    fn reserved_user_names_are_refused() {
        for good in ["admin", "systems", "my:user"] {
            assert_eq!(user(good).as_deref(), Ok(good));
        }
        for bad in ["", "system:admin", "system:serviceaccount:a:b"] {
            user(bad).unwrap_err();
        }
    }

    #[test]
    fn reserved_groups_are_refused() {
        for good in ["dev", "systems", "my:group", "tenant"] {
            assert_eq!(group(good).as_deref(), Ok(good));
        }
        for bad in ["", "system:masters", "system:", "tenant:t2"] {
            group(bad).unwrap_err();
        }
    }
}
