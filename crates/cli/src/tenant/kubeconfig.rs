//! `insula tenant kubeconfig`.

mod signing;

use std::path::{Path, PathBuf};
use std::time::Duration;

use insula_access::{CertificateRequest, Subject, TENANT_PREFIX};
use insula_broker::connect::without_space;
use insula_core::{RESERVED_PREFIX, Space, TenantName};
use jiff::Timestamp;
use kube::config::Kubeconfig;
use rcgen::KeyPair;

use super::{Server, tenant_name};
use crate::duration;
use crate::failure::Failure;
use crate::kubeconfig::merge::{CurrentContext, OtherServer};
use crate::kubeconfig::{self, Entry, Trust, user_file};
use crate::output;
use crate::pki::Identity;
use crate::secret::Secret;
use crate::terminal::sanitize;

/// The arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the tenant
    #[arg(value_parser = tenant_name)]
    name: TenantName,

    /// Name of the user
    #[arg(long, default_value = ADMIN, value_parser = user)]
    user: String,

    /// Group of the user (repeatable)
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Vec<String>,

    /// Lifetime of the credential
    #[arg(long, value_name = "DURATION", default_value = DEFAULT_LIFETIME, value_parser = expiration)]
    expires: Duration,

    /// Name of the context (default: the tenant's name; for other users than `admin` USER@NAME)
    #[arg(long, value_name = "NAME")]
    context_name: Option<String>,

    /// Add the context to a kubeconfig, or renew it there (default: the file that `kubectl config` changes)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    merge: Option<Option<PathBuf>>,

    /// With --merge: replace a context of the same name that is for another server
    #[arg(long, requires = "merge")]
    overwrite: bool,
}

/// The user and lifetime of a kubeconfig.
pub struct KubeconfigRequest<'a> {
    tenant: &'a TenantName,
    user: &'a str,
    groups: &'a [String],
    expires: Duration,
}

/// The administrator of a tenant.
const ADMIN: &str = "admin";

/// The lifetime of credentials for which none is given.
pub const DEFAULT_LIFETIME: &str = "24h";

/// The minimum that Kubernetes accepts.
const MIN_LIFETIME: Duration = Duration::from_secs(10 * 60);

impl<'a> KubeconfigRequest<'a> {
    /// A user `admin`.
    pub const fn admin_of(tenant: &'a TenantName, expires: Duration) -> Self {
        Self {
            tenant,
            user: ADMIN,
            groups: &[],
            expires,
        }
    }
}

/// A new kubeconfig of a tenant's user.
pub struct TenantKubeconfig<'a> {
    requested: &'a KubeconfigRequest<'a>,
    /// The server's URL, which ends with the tenant.
    server: String,
    trust: &'a Trust,
    identity: Identity,
    expires: Timestamp,
}

impl TenantKubeconfig<'_> {
    /// Encodes the kubeconfig.
    pub fn to_yaml(&self, context: Option<&str>) -> Result<String, Failure> {
        kubeconfig::to_yaml(&self.kubeconfig(context))
    }

    /// Tells on stderr when the credential expires.
    #[expect(clippy::print_stderr, reason = "the kubeconfig is the data")]
    pub fn print_expiration(&self) {
        let left = self.expires.duration_since(Timestamp::now());
        // Rounded to minutes, since signing took some seconds.
        let minutes = (left.as_secs() + 30) / 60;
        let left = Duration::from_secs(u64::try_from(minutes * 60).unwrap_or_default());
        let (user, expires) = (self.requested.user, self.expires);
        eprintln!(
            "the credential of user {user} expires {expires}, in {}",
            duration::short(left)
        );
    }

    /// Adds the context to a file, or renews it there, and tells how to use it.
    async fn merge_into(
        &self,
        path: &Path,
        context: Option<&str>,
        other_server: OtherServer,
    ) -> Result<(), Failure> {
        let new = self.kubeconfig(context);
        let added = user_file::add(path, &new, other_server).await?;
        let context = new.current_context.unwrap_or_default();
        print_merged(&context, path, &added);
        output::print(&format!("{context}\n"))
    }

    /// Returns the kubeconfig. The names of the cluster and the user contain the server, so that files of
    /// several tenants and servers can be used together.
    fn kubeconfig(&self, context: Option<&str>) -> Kubeconfig {
        let (tenant, user) = (self.requested.tenant.as_str(), self.requested.user);
        let place = without_space(&self.server);
        let place = place.split_once("://").map_or(place, |(_, place)| place);
        let cluster = format!("{tenant}@{place}");
        let default = match user {
            ADMIN => tenant.to_owned(),
            user => format!("{user}@{tenant}"),
        };
        let entry = Entry {
            server: &self.server,
            trust: self.trust,
            identity: &self.identity,
            cluster: &cluster,
            user: &format!("{user}@{cluster}"),
            context: context.unwrap_or(&default),
            expires: Some(self.expires),
        };
        entry.kubeconfig()
    }
}

#[expect(clippy::print_stderr, reason = "the name of the context is the data")]
fn print_merged(context: &str, path: &Path, current: &CurrentContext) {
    let path = sanitize(&path.display().to_string());
    match current {
        CurrentContext::Added => {
            eprintln!("{context} is now the current context of {path}: kubectl get namespaces");
        }
        CurrentContext::Kept(current) if current == context => {
            eprintln!(
                "{context}, the current context of {path}, is renewed: kubectl get namespaces"
            );
        }
        CurrentContext::Kept(current) => {
            let current = sanitize(current);
            eprintln!(
                "{context} is a context of {path}, whose current context is still {current}: \
                 kubectl --context {context} get namespaces"
            );
        }
    }
}

/// Creates a kubeconfig, and prints it or adds it to a file.
pub async fn run(server: &Server, args: Args) -> Result<(), Failure> {
    let requested = KubeconfigRequest {
        tenant: &args.name,
        user: &args.user,
        groups: &args.group,
        expires: args.expires,
    };
    let context = args.context_name.as_deref();
    let Some(file) = args.merge else {
        let created = create(server, &requested).await?;
        output::print(&created.to_yaml(context)?)?;
        created.print_expiration();
        return Ok(());
    };
    let path = file.map_or_else(user_file::default_path, Ok)?;
    let other_server = match args.overwrite {
        true => OtherServer::Replaced,
        false => OtherServer::Refused,
    };
    let created = create(server, &requested).await?;
    created.merge_into(&path, context, other_server).await?;
    created.print_expiration();
    Ok(())
}

/// Creates a kubeconfig: the key is generated here, the certificate signed by the server.
pub async fn create<'a>(
    server: &'a Server,
    requested: &'a KubeconfigRequest<'a>,
) -> Result<TenantKubeconfig<'a>, Failure> {
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
    let expires = expiration_of(&certificate).ok_or_else(|| failed(&UNREADABLE))?;
    let key = Secret::new(key.serialize_pem());
    Ok(TenantKubeconfig {
        requested,
        server: server_of(&server.url, requested.tenant),
        trust: &server.trust,
        identity: Identity { certificate, key },
        expires,
    })
}

const UNREADABLE: &str = "the server signed a certificate without an expiration";

/// Returns when a certificate in PEM expires.
fn expiration_of(certificate: &str) -> Option<Timestamp> {
    let der = pem::parse(certificate).ok()?;
    let validity = insula_access::certificate::validity(der.contents()).ok()?;
    Timestamp::try_from(validity.until).ok()
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

/// Returns the URL of a tenant. The certificate determines the space anyway, but clients tell
/// servers apart by their URLs, and kubectl caches what a server has by its URL.
fn server_of(server: &str, tenant: &TenantName) -> String {
    format!("{}/tenants/{tenant}", without_space(server))
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

/// Parses the lifetime of a credential.
pub fn expiration(text: &str) -> Result<Duration, String> {
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
    fn server_url_ends_with_the_tenant() {
        let tenant = tenant_name("acme").unwrap();
        assert_eq!(
            server_of("https://h:1/", &tenant),
            "https://h:1/tenants/acme"
        );
        let renewed = server_of("https://h:1/tenants/acme", &tenant);
        assert_eq!(renewed, "https://h:1/tenants/acme");
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
        let day = Duration::from_secs(24 * 60 * 60);
        let validity = Validity::starting(std::time::SystemTime::now(), day);
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
