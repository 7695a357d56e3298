//! Impersonation: a caller acts as another principal, with that principal's rights only.
//!
//! The RBAC policy of the caller's home space decides, and the impersonated principal belongs
//! to that space too. Names and groups with the prefix `system:` have a meaning to the server:
//! a tenant cannot impersonate them, except those of its own service accounts. A system
//! principal can impersonate a principal of a tenant, by the group `tenant:{t}`: with the right
//! to impersonate that group, or the tenant. The latter gives no right to any other group.

mod constrained;

use std::sync::Arc;

use http::HeaderMap;
use http::header::HeaderName;
use insula_access::rbac::{Attributes, ResourceAttributes};
use insula_access::{Credential, TENANT_PREFIX, resolve_principal};
use insula_core::{
    AUTHENTICATED, CredentialRef, Extra, Principal, Proof, RESERVED_PREFIX, Space, Spaces,
    TenantBinding,
};
use percent_encoding::percent_decode_str;

pub use self::constrained::ImpersonatedRequest;
use crate::pipeline::authorize::decide;
use crate::pipeline::service_account::AccountName;
use crate::registry::Registry;
use crate::status::{Result, StatusError};

/// The impersonated principal of a request.
#[derive(Debug)]
pub struct Acting {
    /// The principal.
    pub principal: Arc<Principal>,
    /// The verb of constrained impersonation that allowed it; `None` for `impersonate`.
    pub constraint: Option<&'static str>,
}

/// The requested identity, from the `Impersonate-*` headers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    user: String,
    uid: Option<String>,
    groups: Vec<String>,
    extra: Extra,
}

/// A part of an identity.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    /// The attributes that must be allowed.
    attributes: ResourceAttributes<'a>,
    /// Attributes that suffice as well.
    alternative: Option<ResourceAttributes<'a>>,
    /// Whether only system principals may impersonate it.
    reserved: bool,
}

const EXTRA: &str = "impersonate-extra-";

const AUTHENTICATION: &str = "authentication.k8s.io";

const ANONYMOUS: &str = "system:anonymous";

const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Returns the principal that the caller impersonates, if the request asks for that.
pub async fn impersonate(
    registry: &Registry,
    caller: &Principal,
    request: ImpersonatedRequest<'_>,
) -> Result<Option<Acting>> {
    match Wanted::read(&request.parts.headers)? {
        None => Ok(None),
        Some(wanted) => Box::pin(wanted.act(registry, caller, request))
            .await
            .map(Some),
    }
}

impl Wanted {
    /// Returns the principal, if the caller may impersonate it.
    async fn act(
        &self,
        registry: &Registry,
        caller: &Principal,
        request: ImpersonatedRequest<'_>,
    ) -> Result<Acting> {
        let refused = self.check(registry, caller).await.err();
        let principal = self.of(caller);
        let Some(error) = refused else {
            return Ok(Acting {
                principal: Arc::new(principal?),
                constraint: None,
            });
        };
        // The error is that of plain impersonation: a caller without constrained rights did not
        // ask for them.
        let Ok(principal) = principal else {
            return Err(error);
        };
        let permitted = constrained::permits(registry, caller, self, &principal, request).await?;
        let constraint = Some(permitted.ok_or(error)?);
        Ok(Acting {
            principal: Arc::new(principal),
            constraint,
        })
    }

    fn read(headers: &HeaderMap) -> Result<Option<Self>> {
        let impersonates = |name: &HeaderName| name.as_str().starts_with("impersonate-");
        if !headers.keys().any(impersonates) {
            return Ok(None);
        }
        let mut wanted = Self::default();
        let mut user = None;
        for (name, value) in headers {
            let Some(what) = name.as_str().strip_prefix("impersonate-") else {
                continue;
            };
            let value = value.to_str().map_err(|_| unreadable(name))?.to_owned();
            match what {
                "user" if user.is_none() => user = Some(value),
                "uid" if wanted.uid.is_none() => wanted.uid = Some(value),
                "group" => wanted.groups.push(value),
                // Ignoring a second user could impersonate the wrong one.
                "user" | "uid" => return Err(unreadable(name)),
                _ => {
                    let key = name.as_str().strip_prefix(EXTRA);
                    let key = key.ok_or_else(|| unreadable(name))?;
                    let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                    wanted.extra.entry(key).or_default().push(value);
                }
            }
        }
        wanted.user = user.unwrap_or_default();
        if wanted.user.is_empty() {
            return Err(StatusError::bad_request(
                "requested groups, uid or extra without impersonating a user name",
            ));
        }
        Ok(Some(wanted))
    }

    /// Authorizes each part in the caller's home space.
    async fn check(&self, registry: &Registry, caller: &Principal) -> Result<()> {
        for part in self.parts() {
            ask(registry, caller, part).await?;
        }
        Ok(())
    }

    /// Returns the parts that need a right, in the order of Kubernetes.
    fn parts(&self) -> Vec<Part<'_>> {
        let free = |attributes| Part {
            attributes,
            alternative: None,
            reserved: false,
        };
        let account = AccountName::parse(&self.user);
        let mut parts = vec![match account {
            Some(account) => free(ResourceAttributes {
                namespace: Some(account.namespace),
                ..impersonating("", "serviceaccounts", None, account.name)
            }),
            None => Part {
                attributes: impersonating("", "users", None, &self.user),
                alternative: None,
                reserved: self.user.starts_with(RESERVED_PREFIX),
            },
        }];
        let uid = self.uid.iter();
        parts.extend(uid.map(|uid| free(impersonating(AUTHENTICATION, "uids", None, uid))));
        parts.extend(self.groups.iter().map(|group| {
            let tenant = group.strip_prefix(TENANT_PREFIX);
            Part {
                attributes: impersonating("", "groups", None, group),
                alternative: tenant.map(|tenant| impersonating("", "tenants", None, tenant)),
                reserved: group.starts_with(RESERVED_PREFIX) || tenant.is_some(),
            }
        }));
        for (key, values) in &self.extra {
            let of_key = |value| impersonating(AUTHENTICATION, "userextras", Some(key), value);
            parts.extend(values.iter().map(|value| free(of_key(value))));
        }
        parts
    }

    /// Returns the principal, of the caller's space or of the named tenant.
    fn of(&self, caller: &Principal) -> Result<Principal> {
        let tenants = self.groups.iter();
        let mut tenants = tenants.filter_map(|group| group.strip_prefix(TENANT_PREFIX));
        let named = tenants.next().map(Space::parse).transpose();
        let named = named.map_err(|error| StatusError::bad_request(error.to_string()))?;
        if tenants.next().is_some() {
            return Err(StatusError::bad_request("more than one tenant is named"));
        }
        let home = named.unwrap_or_else(|| caller.home.clone());
        let tenant_binding = match home == caller.home {
            true => caller.tenant_binding.clone(),
            false => TenantBinding::Name,
        };
        let given = self.given();
        let anonymous =
            self.user == ANONYMOUS || self.groups.iter().any(|one| one == UNAUTHENTICATED);
        let credential = Credential {
            user: self.user.clone(),
            uid: self.uid.clone(),
            groups: self.groups.clone(),
            extra: self.extra.clone(),
            tenant: Some(home),
            tenant_binding,
            proof: Proof::Impersonation,
            reference: CredentialRef::default(),
        };
        let mut principal = resolve_principal(credential, None).map_err(StatusError::internal)?;
        principal.impersonator = Some(Arc::new(caller.clone()));
        principal.groups.retain(|group| !given.contains(group));
        principal.groups.splice(0..0, given);
        if anonymous {
            principal.groups.retain(|group| group != AUTHENTICATED);
            if !principal.is_in(UNAUTHENTICATED) {
                principal.groups.push(UNAUTHENTICATED.to_owned());
            }
        }
        Ok(principal)
    }

    /// Returns the implicit groups of a service account: all of them, or the requested ones.
    /// The group that names a tenant does not count as requested.
    fn given(&self) -> Vec<String> {
        let Some(account) = AccountName::parse(&self.user) else {
            return Vec::new();
        };
        let requested = self.groups.iter();
        let requested = requested.filter(|group| !group.starts_with(TENANT_PREFIX));
        let requested: Vec<_> = requested.collect();
        let mut given = account.groups().to_vec();
        given.retain(|group| requested.is_empty() || requested.contains(&group));
        given
    }
}

const fn impersonating<'a>(
    group: &'a str,
    resource: &'a str,
    subresource: Option<&'a str>,
    name: &'a str,
) -> ResourceAttributes<'a> {
    ResourceAttributes {
        verb: "impersonate",
        group,
        resource,
        subresource,
        namespace: None,
        name: Some(name),
    }
}

async fn ask(registry: &Registry, caller: &Principal, part: Part<'_>) -> Result<()> {
    let Part {
        attributes,
        alternative,
        reserved,
    } = part;
    let home = Spaces::One(caller.home.clone());
    let decision = decide(registry, caller, &home, &Attributes::Resource(attributes)).await?;
    let may_impersonate = !reserved || caller.is_system();
    if decision.allowed && may_impersonate {
        return Ok(());
    }
    if let Some(alternative) = alternative.filter(|_| may_impersonate) {
        let attributes = Attributes::Resource(alternative);
        if decide(registry, caller, &home, &attributes).await?.allowed {
            return Ok(());
        }
    }
    let scope = match attributes.namespace {
        Some(namespace) => format!("in the namespace \"{namespace}\""),
        None => "at the cluster scope".to_owned(),
    };
    let why = match decision.allowed {
        true => "names that begin with \"system:\" or \"tenant:\" are the server's to give",
        false => &decision.reason,
    };
    Err(StatusError::forbidden(caller, &attributes, &scope, why))
}

fn unreadable(name: &HeaderName) -> StatusError {
    StatusError::bad_request(format!("the header {name} cannot be understood"))
}
