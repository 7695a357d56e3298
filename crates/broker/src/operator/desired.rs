//! The desired objects of a tenant.

use k8s_openapi::api::core::v1::{
    Namespace, ResourceQuota, ResourceQuotaSpec, Secret, ServiceAccount,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use kube::ResourceExt;
use kube::api::{DynamicObject, ObjectMeta};

use super::object::space_kind;
use super::problem::Problem;
use crate::names::{
    ADMIN, ADMIN_TOKEN, AXON_ADMIN, CLUSTER, MANAGED_BY, QUOTA, TENANT_LABEL, TENANT_UID, TenantId,
};
use crate::quota::{self, Amounts};
use crate::tenant::Tenant;
use crate::{roles, token};

const RBAC: &str = "rbac.authorization.k8s.io";

/// The desired state of a tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Desired<'a> {
    pub tenant: &'a Tenant,
    pub id: &'a TenantId,
}

impl Desired<'_> {
    /// The space of a tenant that has one.
    pub fn space(&self) -> DynamicObject {
        let mut space = DynamicObject::new(&self.id.namespace(), &space_kind());
        space.metadata.labels = self.labelled_metadata(None).labels;
        space.metadata.annotations = self.uid_annotation();
        space
    }

    pub fn namespace(&self) -> Namespace {
        let name = self.id.namespace();
        Namespace {
            metadata: ObjectMeta {
                annotations: self.uid_annotation(),
                ..self.labelled_metadata(Some(&name))
            },
            ..Namespace::default()
        }
    }

    pub fn account(&self) -> ServiceAccount {
        ServiceAccount {
            metadata: self.namespaced_metadata(ADMIN),
            ..ServiceAccount::default()
        }
    }

    pub fn admin_role(&self) -> Role {
        self.role(ADMIN, roles::tenant_admin(&self.id.namespace()))
    }

    pub fn cluster_role(&self) -> Role {
        self.role(CLUSTER, roles::cluster())
    }

    /// The role of tenant managers, to read this tenant's token.
    pub fn offering_role(&self) -> Role {
        self.role(AXON_ADMIN, roles::axon_admin_in_tenant(ADMIN_TOKEN))
    }

    /// The binding of the account and of the valid subjects that the Tenant names.
    pub fn admin_binding(&self) -> RoleBinding {
        let account = Subject {
            kind: "ServiceAccount".to_owned(),
            name: ADMIN.to_owned(),
            namespace: Some(self.id.namespace()),
            ..Subject::default()
        };
        let named = self.tenant.spec.admins.iter().flatten();
        let named = named.filter(|subject| self.check(subject).is_ok()).cloned();
        let mut subjects = vec![account];
        for subject in named.map(with_group) {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        self.binding(ADMIN, subjects)
    }

    pub fn offering_binding(&self, subjects: &[Subject]) -> RoleBinding {
        self.binding(AXON_ADMIN, subjects.to_vec())
    }

    pub fn token(&self) -> Secret {
        token::request(ADMIN, self.namespaced_metadata(ADMIN_TOKEN))
    }

    /// The number of objects that the namespace may have.
    pub fn amounts(&self) -> Amounts {
        quota::effective(self.tenant.spec.quota.as_ref())
    }

    pub fn quota(&self) -> ResourceQuota {
        ResourceQuota {
            metadata: self.namespaced_metadata(QUOTA),
            spec: Some(ResourceQuotaSpec {
                hard: Some(quota::quantities(&self.amounts())),
                ..ResourceQuotaSpec::default()
            }),
            ..ResourceQuota::default()
        }
    }

    fn role(&self, name: &str, rules: Vec<PolicyRule>) -> Role {
        Role {
            metadata: self.namespaced_metadata(name),
            rules: Some(rules),
        }
    }

    fn binding(&self, role: &str, subjects: Vec<Subject>) -> RoleBinding {
        RoleBinding {
            metadata: self.namespaced_metadata(role),
            role_ref: RoleRef {
                api_group: Some(RBAC.to_owned()),
                kind: "Role".to_owned(),
                name: role.to_owned(),
            },
            subjects: Some(subjects),
        }
    }

    fn namespaced_metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.id.namespace()),
            ..self.labelled_metadata(Some(name))
        }
    }

    fn labelled_metadata(&self, name: Option<&str>) -> ObjectMeta {
        let labels = [MANAGED_BY, (TENANT_LABEL, self.id.as_str())];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        ObjectMeta {
            name: name.map(str::to_owned),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        }
    }

    /// The annotation with the UID of the Tenant.
    fn uid_annotation(&self) -> Option<std::collections::BTreeMap<String, String>> {
        let uid = self.tenant.uid()?;
        Some([(TENANT_UID.to_owned(), uid)].into())
    }

    /// Returns whether an object was created for this Tenant, by UID.
    pub fn owns(&self, metadata: &ObjectMeta) -> bool {
        let uid = self.tenant.metadata.uid.as_ref();
        let uid_annotation = metadata.annotations.as_ref();
        let uid_annotation = uid_annotation.and_then(|annotations| annotations.get(TENANT_UID));
        uid.is_some() && uid == uid_annotation
    }

    /// Validates the administrators that the Tenant names.
    ///
    /// Groups and users that begin with `system:` are refused, because some of them contain
    /// every user. A service account of another tenant is refused, because tenants are
    /// isolated.
    pub fn check_admins(&self) -> Result<(), Problem> {
        let named = self.tenant.spec.admins.iter().flatten();
        for (at, subject) in named.enumerate() {
            self.check(subject)
                .map_err(|why| Problem::InvalidAdmins { at, why })?;
        }
        Ok(())
    }

    fn check(&self, subject: &Subject) -> Result<(), String> {
        let Subject {
            api_group,
            kind,
            name,
            namespace,
        } = subject;
        if name.trim().is_empty() {
            return Err("the name is empty".to_owned());
        }
        let group = match kind.as_str() {
            "User" | "Group" => RBAC,
            "ServiceAccount" => "",
            _ => return Err(format!("{kind:?} is not User, Group or ServiceAccount")),
        };
        let named = api_group.as_deref().unwrap_or_default();
        if !named.is_empty() && named != group {
            return Err(format!("{kind} is not of the API group {named:?}"));
        }
        if kind != "ServiceAccount" {
            return match name.starts_with("system:") {
                true => Err(format!("{kind} {name:?} is one of the system's own")),
                false => Ok(()),
            };
        }
        let namespace = namespace.as_deref().unwrap_or_default();
        match TenantId::of_namespace(namespace) {
            _ if namespace.is_empty() => Err("a ServiceAccount needs a namespace".to_owned()),
            Some(other) if other != *self.id => {
                Err("a ServiceAccount of another tenant is not allowed".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Sets the API group that the server would default, so that comparisons are stable.
fn with_group(subject: Subject) -> Subject {
    let group = match subject.kind.as_str() {
        "ServiceAccount" => None,
        _ => Some(RBAC.to_owned()),
    };
    let namespace = subject.namespace.filter(|_| group.is_none());
    Subject {
        api_group: group,
        namespace,
        ..subject
    }
}
