//! The broker's namespace and its RBAC objects.

use insula_operator::managed::{self, Drift};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};

use super::Mode;
use crate::deploy::has_namespace;
use crate::deploy::permissions::{self, Permission};
use crate::error::Error;
use crate::names::{ADMIN, CLIENT, CLUSTER};
use crate::report::Report;
use crate::{manifests, roles};

/// Ensures that the namespace exists. It is created only if the caller may do so.
pub(super) async fn ensure_namespace(
    client: &Client,
    name: &str,
    report: &dyn Report,
) -> Result<(), Error> {
    if has_namespace(client, name).await? {
        return Ok(());
    }
    if !permissions::is_allowed(client, &Permission::new("create", "", "namespaces", None)).await? {
        return Err(Error::invalid_with_hint(
            format!("namespace {name} does not exist, and this user may not create it"),
            "ask the offering admin to create one with `subctl create tenant`",
        ));
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let wanted = manifests::namespace(manifests::metadata(name, None));
    match namespaces.create(&PostParams::default(), &wanted).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => {
            made.map_err(Error::when(format!("create namespace {name}")))?;
            report.done(&format!("Created namespace {name}"));
            Ok(())
        }
    }
}

/// Ensures the administrator, its role and binding, and the clusters' role; in classic mode
/// also the legacy account that clusters shared.
pub(super) async fn ensure(
    client: &Client,
    namespace: &str,
    mode: Mode,
    report: &dyn Report,
) -> Result<(), Error> {
    let rules = match mode {
        Mode::Axon => roles::tenant_admin(namespace),
        Mode::Classic => roles::admin(),
    };
    let rbac = NamespaceRbac {
        client,
        namespace,
        report,
    };
    rbac.account(ADMIN).await?;
    rbac.role(ADMIN, rules).await?;
    rbac.binding(ADMIN, ADMIN, ADMIN).await?;
    if mode == Mode::Classic {
        rbac.account(CLIENT).await?;
    }
    // Joining clusters are bound to this Role of the namespace in either mode.
    rbac.role(CLUSTER, roles::cluster()).await?;
    if mode == Mode::Classic {
        let legacy = format!("{CLIENT}-{CLUSTER}");
        rbac.binding(&legacy, CLUSTER, CLIENT).await?;
    }
    Ok(())
}

struct NamespaceRbac<'a> {
    client: &'a Client,
    namespace: &'a str,
    report: &'a dyn Report,
}

impl NamespaceRbac<'_> {
    async fn account(&self, name: &str) -> Result<(), Error> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), self.namespace);
        let wanted = manifests::account(manifests::metadata(name, Some(self.namespace)));
        let ensured = managed::ensure(&api, &wanted).await;
        let attempted = format!("ensure service account {name}");
        ensured.map_err(Error::when(attempted)).map(drop)
    }

    /// Ensures a role that grants at least these rules. Additional rules are kept: they may
    /// come from a newer version or from an administrator.
    async fn role(&self, name: &str, rules: Vec<PolicyRule>) -> Result<(), Error> {
        let api: Api<Role> = Api::namespaced(self.client.clone(), self.namespace);
        let wanted = manifests::role(manifests::metadata(name, Some(self.namespace)), rules);
        let ensured = managed::ensure_by(&api, &wanted, |wanted, found: &Role| {
            if missing_permissions(found, wanted).is_empty() {
                return Drift::InSync;
            }
            let mut updated = found.clone();
            updated.rules.clone_from(&wanted.rules);
            Drift::Replace(Box::new(updated))
        });
        match ensured.await {
            Ok(managed::Ensured::Replaced) => {
                self.report.done(&format!("Updated role {name}"));
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let found = api.get_opt(name).await;
                let found = found.ok().flatten().unwrap_or_default();
                Err(Error::RoleLacks {
                    role: name.to_owned(),
                    missing: permissions::describe(&missing_permissions(&found, &wanted)),
                    message: status.message.clone(),
                })
            }
            Err(error) => Err(Error::when(format!("ensure role {name}"))(error)),
        }
    }

    /// Ensures a binding that includes the account. Other subjects are kept: a tenant may have
    /// further administrators.
    async fn binding(&self, name: &str, role: &str, account: &str) -> Result<(), Error> {
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), self.namespace);
        let subject = manifests::account_subject(account, self.namespace);
        let meta = manifests::metadata(name, Some(self.namespace));
        let wanted = manifests::binding(meta, role, vec![subject.clone()]);
        let ensured = managed::ensure_by(&api, &wanted, |wanted, found: &RoleBinding| {
            if found.role_ref != wanted.role_ref {
                return Drift::Recreate;
            }
            let mut bound = found.subjects.iter().flatten();
            let is_bound = bound.any(|found| {
                (&found.kind, &found.name, &found.namespace)
                    == (&subject.kind, &subject.name, &subject.namespace)
            });
            if is_bound {
                return Drift::InSync;
            }
            let mut updated = found.clone();
            updated
                .subjects
                .get_or_insert_default()
                .push(subject.clone());
            Drift::Replace(Box::new(updated))
        });
        let attempted = format!("bind service account {account} to role {role}");
        ensured.await.map_err(Error::when(attempted)).map(drop)
    }
}

/// Returns the permissions that a role should grant and does not.
fn missing_permissions(found: &Role, wanted: &Role) -> Vec<Permission> {
    let given = found.rules.as_deref().unwrap_or_default();
    let wanted = Permission::granted_by(wanted.rules.as_deref().unwrap_or_default(), None);
    let wanted = wanted.into_iter();
    wanted.filter(|right| !right.is_granted_by(given)).collect()
}
