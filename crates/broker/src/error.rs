//! Why something was not done, and what to do about it.

use std::time::Duration;

use crate::info;
use crate::join::ClusterId;
use crate::names::{AXON, TenantId};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not do what it was asked.
    #[error("cannot {attempted}: {}", told(source))]
    Server {
        /// What was to be done, as it follows "cannot".
        attempted: String,
        /// What became of it.
        #[source]
        source: Box<kube::Error>,
    },
    /// The tenant is there already.
    #[error("tenant {0} exists already")]
    TenantExists(TenantId),
    /// There is no such tenant.
    #[error("there is no tenant {0}")]
    NoTenant(TenantId),
    /// The operator could not make the tenant.
    #[error("tenant {id} could not be provisioned: {message}")]
    TenantFailed {
        /// Which.
        id: TenantId,
        /// What the operator says.
        message: String,
    },
    /// Somebody deleted the tenant.
    #[error("tenant {0} was deleted while it was waited for")]
    TenantGone(TenantId),
    /// The tenant is not as far as it must be.
    #[error("tenant {id} is {phase}, not Provisioned")]
    NotProvisioned {
        /// Which.
        id: TenantId,
        /// How far it is.
        phase: String,
    },
    /// The API of tenants is not there.
    #[error("this cluster has no tenants.submariner.io")]
    NoAxon,
    /// Kinds are not there that a broker needs.
    #[error("the cluster does not serve {}", .0.join(", "))]
    NoKinds(Vec<String>),
    /// It takes too long.
    #[error("{what} takes longer than {}{}", seconds(*after), follows(why))]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        after: Duration,
        /// What holds it, if whoever does it says so.
        why: Option<String>,
    },
    /// Whoever asks may not do what has to be done. Nothing was written.
    #[error("rights are missing:{}", in_lines(.0))]
    MissingRights(Vec<String>),
    /// A role does not give what it should, and cannot be made to.
    #[error("role {role} lacks {}, and cannot be mended: {told}", missing.join(", "))]
    RoleLacks {
        /// Which.
        role: String,
        /// What it does not give.
        missing: Vec<String>,
        /// What the server says.
        told: String,
    },
    /// Nobody runs the operator.
    #[error("nobody runs the Axon operator after {}: {says}", seconds(*after))]
    NoOperator {
        /// How long it was waited for.
        after: Duration,
        /// What the cluster says about running it.
        says: String,
    },
    /// No token was made for an account.
    #[error("the token was not generated for secret {secret:?}")]
    NoToken {
        /// The Secret that asks for it.
        secret: String,
    },
    /// The token in a Secret says that it is another's.
    #[error(
        "secret {secret:?} has a token that is not of the account that it names: it is not used"
    )]
    WrongToken {
        /// Which Secret.
        secret: String,
    },
    /// A tenant's token is where whoever asks may not look.
    #[error(
        "the token of tenant {id} is in its space {}, which this user may not enter: no file is written",
        id.namespace()
    )]
    InItsSpace {
        /// Which tenant.
        id: TenantId,
    },
    /// What `deploy broker` makes is not there.
    #[error("the broker in namespace {namespace} is not deployed: it has no {missing}")]
    NoBroker {
        /// Where it should be.
        namespace: String,
        /// What is not there.
        missing: String,
    },
    /// Another cluster has this ID.
    #[error("cluster ID not unique: another cluster of this ClusterSet is called {0}")]
    ClusterIdTaken(ClusterId),
    /// A cluster is in one ClusterSet, under one name.
    #[error("this cluster has joined as {cluster_id} already, through namespace {namespace}")]
    JoinedAlready {
        /// As whom.
        cluster_id: String,
        /// The namespace of the broker.
        namespace: String,
    },
    /// A cluster is in one ClusterSet, of one broker.
    #[error("this cluster has joined as {cluster_id} already, through the broker at {server}")]
    JoinedElsewhere {
        /// As whom.
        cluster_id: String,
        /// Where the broker is.
        server: String,
    },
    /// A server does not accept something that has secrets in it.
    #[error("cannot {attempted}: the server does not accept {}", listed(.fields))]
    NotAccepted {
        /// What was to be done, as it follows "cannot".
        attempted: String,
        /// Which fields are not as they should be.
        fields: Vec<String>,
    },
    /// What is in all namespaces is not for everybody to see.
    #[error("cannot list the brokers in all namespaces: {message}")]
    NotEverywhere {
        /// What the server says.
        message: String,
    },
    /// Kinds were defined and are not served.
    #[error("the cluster does not serve {}, though it was told to", .0.join(", "))]
    NotServed(Vec<String>),
    /// Something is wrong with a broker info file.
    #[error(transparent)]
    Info(#[from] info::Error),
    /// What was asked for cannot be.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

impl Error {
    /// What was to be done, for `map_err`.
    pub fn when(attempted: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let attempted = attempted.into();
        move |source| Self::Server {
            attempted,
            source: Box::new(source),
        }
    }

    /// The same, with where it was attempted if nobody has answered there.
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

    /// What was asked for cannot be.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: None,
        }
    }

    /// What was asked for cannot be, and what to do about it.
    pub fn invalid_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// Whether the server refused because whoever asked may not.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Server { source, .. }
            if matches!(source.as_ref(), kube::Error::Api(status) if status.code == 403))
    }

    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Server { source, .. } => return hint_at(source),
            Self::TenantExists(_) => "choose another ID, or none to have one made up".to_owned(),
            Self::NoTenant(_) => "`subctl list tenants` shows those that there are".to_owned(),
            Self::TenantFailed { id, .. } => format!(
                "mend what it says and it goes on by itself: `subctl get tenant {id}`; or `subctl delete tenant {id}`"
            ),
            Self::TenantGone(_) => {
                "ask whoever else manages tenants; or create it again".to_owned()
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
                "mend what it says and it goes on by itself; --timeout waits longer".to_owned()
            }
            Self::TimedOut { why: None, .. } => {
                format!(
                    "is the operator running? `kubectl -n {AXON} get leases {AXON}` says who is; --timeout waits longer"
                )
            }
            Self::MissingRights(_) => {
                "use a context of an administrator of the cluster: nobody can grant rights that they do not have"
                    .to_owned()
            }
            Self::RoleLacks { .. } => {
                "nobody can grant rights that they do not have: ask the offering admin to mend it"
                    .to_owned()
            }
            Self::NoOperator { .. } => {
                format!(
                    "`kubectl -n {AXON} describe deployment {AXON}` says more; on Insula, `insula serve --operators broker` or `insula operator broker` runs it"
                )
            }
            Self::NoToken { .. } => {
                "the cluster's controller of service-account tokens makes it; is it running?"
                    .to_owned()
            }
            Self::WrongToken { secret } => format!(
                "somebody wrote it: find out who, and delete it (`kubectl delete secret {secret}` in the broker's namespace); it is made anew"
            ),
            Self::InItsSpace { id } => format!(
                "an administrator of the system writes the file: `subctl get tenant {id} --generate_subm`"
            ),
            Self::NoBroker { .. } => "run `subctl deploy broker` first".to_owned(),
            Self::ClusterIdTaken(id) => format!(
                "choose another with --clusterid; if that cluster is gone, delete service account {} in the broker's namespace, and there `kubectl delete clusters.submariner.io,endpoints.submariner.io` what is left of it",
                id.account()
            ),
            Self::JoinedElsewhere { cluster_id, .. } => format!(
                "a cluster does not move from one ClusterSet to another: take it out of the first with `kubectl delete namespace submariner-operator` on this cluster, delete service account cluster-{cluster_id} and Cluster {cluster_id} at its broker, and join then"
            ),
            Self::JoinedAlready { .. } => {
                "join with the same --clusterid and file, or take the cluster out of its ClusterSet first"
                    .to_owned()
            }
            Self::NotAccepted { .. } => {
                "what is installed there is of another version of Submariner".to_owned()
            }
            Self::NotEverywhere { .. } => {
                "--namespace shows those of one namespace, such as your own".to_owned()
            }
            Self::NotServed(_) => {
                "`kubectl describe customresourcedefinitions` says why".to_owned()
            }
            Self::Info(error) => return error.hint(),
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

/// The server's own sentence, if it has one.
fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => innermost(other).to_string(),
    }
}

/// The error that caused an error, which says more than the others.
fn innermost<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> &'a (dyn std::error::Error + 'static) {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner
}

fn hint_at(error: &kube::Error) -> Option<String> {
    let hint = match error {
        kube::Error::Api(status) if status.code == 401 => {
            "the credential is not known to this server, or has expired"
        }
        kube::Error::Api(status) if status.code == 403 && is_escalation(&status.message) => {
            "nobody can grant rights that they do not have: use a context of an administrator"
        }
        kube::Error::Api(status) if status.code == 403 => {
            "the message names the right that is missing: use a context that has it, or ask for it"
        }
        kube::Error::Api(_) => return None,
        other if innermost(other).to_string().contains("certificate") => {
            "the server's certificate is not from a CA that is trusted here: is the file old, or of another cluster?"
        }
        _ => "is the server running, and is this its address?",
    };
    Some(hint.to_owned())
}

/// A few on the same line, many on lines of their own.
fn in_lines(items: &[String]) -> String {
    match items.len() {
        0..=3 => format!(" {}", items.join(", ")),
        _ => items.iter().map(|item| format!("\n  {item}")).collect(),
    }
}

/// Whether somebody was refused because of what they grant, not because of what they write.
fn is_escalation(message: &str) -> bool {
    message.contains("not currently held")
}

/// What comes after a colon, if there is something.
fn follows(why: &Option<String>) -> String {
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
    fn whoever_grants_what_they_do_not_have_is_told_so() {
        let refused = |message: &str| {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
            Error::when("grant")(kube::Error::Api(Box::new(status))).hint()
        };
        let granted =
            "user \"u\" is attempting to grant RBAC permissions not currently held:\n{...}";
        let hint =
            "nobody can grant rights that they do not have: use a context of an administrator";
        assert_eq!(refused(granted).as_deref(), Some(hint));
        let hint =
            "the message names the right that is missing: use a context that has it, or ask for it";
        assert_eq!(refused("u cannot create resource").as_deref(), Some(hint));
    }

    #[test]
    fn many_missing_rights_are_on_lines_of_their_own() {
        let missing = |count: usize| {
            let names = (1..=count).map(|number| format!("r{number}"));
            Error::MissingRights(names.collect()).to_string()
        };
        assert_eq!(missing(2), "rights are missing: r1, r2");
        assert_eq!(missing(4), "rights are missing:\n  r1\n  r2\n  r3\n  r4");
    }
}
