//! The errors of this crate, each with a hint where a remedy is known.

use std::time::Duration;

use crate::cluster_id::ClusterId;
use crate::component::InvalidComponents;
use crate::info;
use crate::names::{AXON, TenantId};

/// An error of a broker operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server failed.
    #[error("cannot {attempted}: {}", server_message(source))]
    Server {
        /// The attempted operation, as it follows "cannot".
        attempted: String,
        /// The client's error.
        #[source]
        source: Box<kube::Error>,
    },
    /// The tenant already exists.
    #[error("tenant {0} exists already")]
    TenantExists(TenantId),
    /// The tenant does not exist.
    #[error("there is no tenant {0}")]
    NoTenant(TenantId),
    /// The operator failed to provision the tenant.
    #[error("tenant {id} could not be provisioned: {message}")]
    TenantFailed {
        /// The tenant.
        id: TenantId,
        /// The message in the Tenant's status.
        message: String,
    },
    /// The tenant was deleted during the wait.
    #[error("tenant {0} was deleted while it was waited for")]
    TenantGone(TenantId),
    /// The tenant has not reached phase Provisioned.
    #[error("tenant {id} is {phase}, not Provisioned")]
    NotProvisioned {
        /// The tenant.
        id: TenantId,
        /// Its current phase.
        phase: String,
    },
    /// The API `tenants.submariner.io` is not served.
    #[error("this cluster has no tenants.submariner.io")]
    NoAxon,
    /// The cluster does not serve kinds that a broker needs.
    #[error("the cluster does not serve {}", .0.join(", "))]
    NoKinds(Vec<String>),
    /// A deadline passed.
    #[error("{what} takes longer than {}{}", seconds(*after), after_colon(why))]
    TimedOut {
        /// The awaited operation.
        what: String,
        /// The timeout.
        after: Duration,
        /// What the operation is blocked on, if reported.
        why: Option<String>,
    },
    /// The caller lacks permissions. Nothing was written.
    #[error("missing permissions:{}", in_lines(.0))]
    MissingPermissions(Vec<String>),
    /// A role lacks rules and the caller may not add them.
    #[error("role {role} lacks {}, and cannot be updated: {message}", missing.join(", "))]
    RoleLacks {
        /// The role.
        role: String,
        /// The permissions that it does not grant.
        missing: Vec<String>,
        /// The server's message.
        message: String,
    },
    /// No operator instance holds the lease.
    #[error("no Axon operator is running after {}: {detail}", seconds(*after))]
    NoOperator {
        /// How long the lease was waited for.
        after: Duration,
        /// The state of the operator's Deployment.
        detail: String,
    },
    /// The server did not issue a token for a service account.
    #[error("the token was not generated for secret {secret:?}")]
    NoToken {
        /// The Secret that requests the token.
        secret: String,
    },
    /// The token in a Secret belongs to another service account.
    #[error(
        "secret {secret:?} holds a token of another service account than it names: it is not used"
    )]
    WrongToken {
        /// The Secret.
        secret: String,
    },
    /// The tenant's token is in a space that the caller may not enter.
    #[error(
        "the token of tenant {id} is in its space {}, which this user may not enter: no file is written",
        id.namespace()
    )]
    InItsSpace {
        /// The tenant.
        id: TenantId,
    },
    /// The tenant would need a space of its own, which it cannot get.
    #[error("{}", match is_served {
        true => "the operator may not create spaces: the tenant is not created",
        false => "this server has no spaces: the tenant is not created",
    })]
    NoSpaces {
        /// Whether the server has spaces at all.
        is_served: bool,
    },
    /// Objects that `deploy broker` creates are missing.
    #[error("the broker in namespace {namespace} is not deployed: it has no {missing}")]
    NoBroker {
        /// The broker's namespace.
        namespace: String,
        /// The missing object.
        missing: String,
    },
    /// Another cluster of the ClusterSet has this ID.
    #[error("cluster ID not unique: another cluster of this ClusterSet is called {0}")]
    ClusterIdTaken(ClusterId),
    /// The cluster is already a member under another ID or in another namespace.
    #[error("this cluster has joined as {cluster_id} already, through namespace {namespace}")]
    JoinedAlready {
        /// The ID under which it joined.
        cluster_id: String,
        /// The namespace of its broker.
        namespace: String,
    },
    /// The cluster is already a member of a ClusterSet at another broker.
    #[error("this cluster has joined as {cluster_id} already, through the broker at {server}")]
    JoinedElsewhere {
        /// The ID under which it joined.
        cluster_id: String,
        /// The address of its broker.
        server: String,
    },
    /// The cluster is a member of another ClusterSet than that of the file.
    #[error(
        "this cluster is a member of another ClusterSet: as {cluster_id}, through namespace {namespace}"
    )]
    NotThisClusterSet {
        /// The ID under which it joined.
        cluster_id: String,
        /// The namespace of its broker.
        namespace: String,
    },
    /// The server rejected an object that contains secrets; its message is withheld.
    #[error("cannot {attempted}: the server does not accept {}", listed(.fields))]
    NotAccepted {
        /// The attempted operation, as it follows "cannot".
        attempted: String,
        /// The invalid fields.
        fields: Vec<String>,
    },
    /// The caller may not list brokers in all namespaces.
    #[error("cannot list the brokers in all namespaces: {message}")]
    NotEverywhere {
        /// The server's message.
        message: String,
    },
    /// Installed kinds are not served.
    #[error("the cluster does not serve {}, although they are installed", .0.join(", "))]
    NotServed(Vec<String>),
    /// A broker info file is invalid or inaccessible.
    #[error(transparent)]
    Info(#[from] info::Error),
    /// The requested components are invalid.
    #[error(transparent)]
    Components(#[from] InvalidComponents),
    /// The request is invalid.
    #[error("{message}")]
    Invalid {
        /// The problem.
        message: String,
        /// The remedy, if known.
        hint: Option<String>,
    },
}

impl Error {
    /// Returns a `map_err` closure that adds the attempted operation.
    pub fn when(attempted: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let attempted = attempted.into();
        move |source| Self::Server {
            attempted,
            source: Box::new(source),
        }
    }

    /// Adds the server's URL, unless the server answered.
    #[must_use]
    pub fn at(self, url: &http::Uri) -> Self {
        match self {
            Self::Server { attempted, source } if !matches!(*source, kube::Error::Api(_)) => {
                let url = url.to_string();
                let attempted = format!("{attempted} at {}", url.trim_end_matches('/'));
                Self::Server { attempted, source }
            }
            other => other,
        }
    }

    /// Creates an [`Error::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: None,
        }
    }

    /// Creates an [`Error::Invalid`] with a hint.
    pub(crate) fn invalid_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// Returns whether the server answered 403.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Server { source, .. }
            if matches!(source.as_ref(), kube::Error::Api(status) if status.code == 403))
    }

    /// Returns the remedy, if known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Server { source, .. } => return server_hint(source),
            Self::TenantExists(_) => "choose another ID, or omit it to have one generated".to_owned(),
            Self::NoTenant(_) => "`subctl list tenants` lists the existing tenants".to_owned(),
            Self::TenantFailed { id, .. } => format!(
                "fix the reported problem and provisioning continues by itself: `subctl get tenant {id}`; or `subctl delete tenant {id}`"
            ),
            Self::TenantGone(_) => {
                "ask the other tenant administrators; or create it again".to_owned()
            }
            Self::NotProvisioned { id, .. } => {
                format!("wait until `subctl get tenant {id}` says Provisioned")
            }
            Self::NoAxon => {
                "an administrator of the cluster runs `subctl deploy axon-cp` first".to_owned()
            }
            Self::NoKinds(_) => {
                "ask the offering admin, who installs them with `subctl deploy axon-cp`".to_owned()
            }
            Self::TimedOut { why: Some(_), .. } => {
                "fix the reported problem and it continues by itself; --timeout waits longer".to_owned()
            }
            Self::TimedOut { why: None, .. } => {
                format!(
                    "is the operator running? `kubectl -n {AXON} get leases {AXON}` shows its holder; --timeout waits longer"
                )
            }
            Self::MissingPermissions(_) => {
                "use a context of an administrator of the cluster: Kubernetes lets no user grant permissions that they do not have"
                    .to_owned()
            }
            Self::RoleLacks { .. } => {
                "Kubernetes lets no user grant permissions that they do not have: ask the offering admin to update the role"
                    .to_owned()
            }
            Self::NoOperator { .. } => {
                format!(
                    "`kubectl -n {AXON} describe deployment {AXON}` says more; on Insula, `insula serve --operators broker` or `insula operator broker` runs it"
                )
            }
            Self::NoToken { .. } => {
                "is the cluster's service account token controller running?"
                    .to_owned()
            }
            Self::WrongToken { secret } => format!(
                "it was not written by the token controller: find out who wrote it, and delete it (`kubectl delete secret {secret}` in the broker's namespace); it is created again"
            ),
            Self::InItsSpace { id } => format!(
                "an administrator of the system writes the file: `subctl get tenant {id} --generate_subm`"
            ),
            Self::NoSpaces { is_served: true } => {
                "an administrator of the system runs `subctl deploy axon-cp --spaces` first; --isolation namespace needs no space"
                    .to_owned()
            }
            Self::NoSpaces { is_served: false } => {
                "only Insula has spaces, in its system space: use --isolation namespace".to_owned()
            }
            Self::NoBroker { .. } => "run `subctl deploy broker` first".to_owned(),
            Self::ClusterIdTaken(id) => format!(
                "choose another with --clusterid; if that cluster is gone, `subctl unjoin FILE --broker-only --clusterid {id}` removes it from the broker"
            ),
            Self::JoinedElsewhere { .. } => {
                "a cluster does not move from one ClusterSet to another: `subctl unjoin` with the file of the first, then join again"
                    .to_owned()
            }
            Self::JoinedAlready { .. } => {
                "join with the same --clusterid and file, or remove the cluster from its ClusterSet first with `subctl unjoin`"
                    .to_owned()
            }
            Self::NotThisClusterSet { .. } => {
                "use the broker-info file of that ClusterSet, and its --clusterid or none".to_owned()
            }
            Self::NotAccepted { .. } => {
                "another version of Submariner is installed there".to_owned()
            }
            Self::NotEverywhere { .. } => {
                "--namespace limits the list to one namespace, such as your own".to_owned()
            }
            Self::NotServed(_) => {
                "`kubectl describe customresourcedefinitions` says why".to_owned()
            }
            Self::Info(error) => return error.hint(),
            Self::Components(error) => error.hint(),
            Self::Invalid { hint, .. } => return hint.clone(),
        })
    }
}

fn listed(fields: &[String]) -> String {
    match fields {
        [] => "it".to_owned(),
        fields => fields.join(", "),
    }
}

/// Returns the server's message, or else the innermost error.
fn server_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => {
            let cause = innermost(other);
            insula_tls::message_of(cause).unwrap_or_else(|| cause.to_string())
        }
    }
}

/// Returns the root cause of an error, which is its most specific message.
fn innermost<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner
}

fn server_hint(error: &kube::Error) -> Option<String> {
    let hint = match error {
        kube::Error::Api(status) if status.code == 401 => {
            "the credential is not known to this server, or has expired"
        }
        kube::Error::Api(status) if status.code == 403 && is_escalation(&status.message) => {
            "Kubernetes lets no user grant permissions that they do not have: use a context of an administrator"
        }
        kube::Error::Api(status) if status.code == 403 => {
            "the message names the missing permission: use a context that has it, or ask for it"
        }
        kube::Error::Api(_) => return None,
        other if innermost(other).to_string().contains("certificate") => {
            "the server's certificate is not from a CA that is trusted here: is the file old, or of another cluster?"
        }
        _ => "is the server running, and is this its address?",
    };
    Some(hint.to_owned())
}

/// Joins up to three items on one line, more on one line each.
fn in_lines(items: &[String]) -> String {
    match items.len() {
        0..=3 => format!(" {}", items.join(", ")),
        _ => items.iter().map(|item| format!("\n  {item}")).collect(),
    }
}

/// Returns whether a 403 is about escalation: the caller grants permissions they do not hold.
fn is_escalation(message: &str) -> bool {
    message.contains("not currently held")
}

/// Returns `: why`, or nothing.
fn after_colon(why: &Option<String>) -> String {
    why.as_ref().map_or(String::new(), |why| format!(": {why}"))
}

fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 60 && seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escalation_errors_have_their_own_hint() {
        let refused = |message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
            Error::when("grant")(kube::Error::Api(Box::new(status))).hint()
        };
        let granted =
            "user \"u\" is attempting to grant RBAC permissions not currently held:\n{...}";
        let hint = "Kubernetes lets no user grant permissions that they do not have: use a context of an administrator";
        assert_eq!(refused(granted).as_deref(), Some(hint));
        let hint =
            "the message names the missing permission: use a context that has it, or ask for it";
        assert_eq!(refused("u cannot create resource").as_deref(), Some(hint));
    }

    #[test]
    fn many_missing_permissions_are_on_separate_lines() {
        let missing = |count: usize| {
            let names = (1..=count).map(|number| format!("r{number}"));
            Error::MissingPermissions(names.collect()).to_string()
        };
        assert_eq!(missing(2), "missing permissions: r1, r2");
        assert_eq!(missing(4), "missing permissions:\n  r1\n  r2\n  r3\n  r4");
    }
}
